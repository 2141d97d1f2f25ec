//! The configuration file that gets the account of a link.

use crate::config::{self, Entry};
use crate::saved::{self, addition};
use net::tls::Trust;
use serde::Deserialize;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The file that a server gives. Other keys are refused: a server must not choose commands and
/// files of this machine.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    account: Vec<GivenAccount>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenAccount {
    uri: String,
    password: String,
    proxy: Option<String>,
    transport: Option<String>,
}

/// The account in the file `text` of a server.
///
/// # Errors
/// A description of the fault.
pub(super) fn read(text: &str) -> Result<Entry, String> {
    let given: Given = toml::from_str(text).map_err(|error| error.message().replace('\n', ", "))?;
    let [account] = <[_; 1]>::try_from(given.account).map_err(|accounts: Vec<_>| {
        format!("it has {} accounts in place of one", accounts.len())
    })?;
    let GivenAccount { uri, password, proxy, transport } = account;
    if password.is_empty() {
        return Err("the password is empty".to_owned());
    }
    // The values are those that the configuration takes.
    config::of_command_line(&uri, proxy.as_deref(), transport.as_deref(), None)?;
    Ok(Entry::new(config::with_scheme(&uri), Some(password), proxy).by(transport.as_deref()))
}

/// The configuration file as it is before.
pub(super) struct Settings {
    path: PathBuf,
    /// The content, if there is a file.
    text: Option<String>,
    table: Table,
}

impl Settings {
    /// Reads the file at `path`, if there is one, and makes its folder.
    ///
    /// # Errors
    /// A message: the file is no TOML, or cannot be written.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| format!("cannot write {}: {error}", path.display());
        // A symbolic link is kept: its target is replaced.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        };
        let table = text.as_deref().unwrap_or_default().parse::<Table>();
        let table = table.map_err(|error| format!("{}: {}", path.display(), error.message()))?;
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        // Renaming a file over it needs the folder.
        let trial = beside(&path, &format!(".{}.new", std::process::id()));
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&trial);
        made.and_then(|_| std::fs::remove_file(&trial)).map_err(failed)?;
        Ok(Self { path, text, table })
    }

    /// The trust that the file names.
    pub(super) fn trust(&self) -> Option<Trust> {
        self.table.get("tls")?.get("trust")?.as_str()?.parse().ok()
    }

    /// Adds `account` to the file, in place of one with the same URI, and `trust`, if the file
    /// names none. The rest stays. Returns the file with the former content, if it could not be
    /// kept beside the account.
    ///
    /// # Errors
    /// A message. The file is unchanged then.
    pub(super) fn add(
        &self,
        account: &Entry,
        trust: Option<&str>,
    ) -> Result<Option<PathBuf>, String> {
        let failed = |error: io::Error| format!("cannot write {}: {error}", self.path.display());
        let own = addition(account).map_err(|error| error.to_string())?;
        let trust = trust.filter(|_| self.trust().is_none());
        let trust = trust.map(|trust| format!("[tls]\ntrust = {}\n", Value::from(trust)));
        let before = self.text.as_deref().unwrap_or_default();
        let kept = without(before, &account.uri);
        let parts =
            [kept.trim_end(), trust.as_deref().unwrap_or_default().trim_end(), own.trim_end()];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let text = format!("{}\n", parts.join("\n\n"));
        if self.is_expected(&text, &account.uri) {
            saved::replace(&self.path, text.as_bytes()).map_err(failed)?;
            return Ok(None);
        }
        let former = beside(&self.path, ".before");
        saved::replace(&former, before.as_bytes()).map_err(failed)?;
        let text = format!("{}\n{own}", trust.unwrap_or_default());
        saved::replace(&self.path, text.trim_start().as_bytes()).map_err(failed)?;
        Ok(Some(former))
    }

    /// Returns true if `text` has what the file has now, with one account `uri` at the end.
    fn is_expected(&self, text: &str, uri: &str) -> bool {
        let Ok(mut now) = text.parse::<Table>() else { return false };
        let mut before = self.table.clone();
        let accounts = |table: &mut Table| match table.remove("account") {
            Some(Value::Array(accounts)) => accounts,
            _ => Vec::new(),
        };
        let (mut kept, mut all) = (accounts(&mut before), accounts(&mut now));
        kept.retain(|account| !is_of(account, uri));
        let is_last = all.pop().is_some_and(|account| is_of(&account, uri));
        if !before.contains_key("tls") {
            now.remove("tls");
        }
        is_last && kept == all && before == now
    }
}

/// Returns true if `account` has this URI.
fn is_of(account: &Value, uri: &str) -> bool {
    let found = account.get("uri").and_then(Value::as_str);
    found.is_some_and(|found| config::with_scheme(found) == uri)
}

/// `text` without the table of the account `uri`. Comments above the next table stay.
fn without(text: &str, uri: &str) -> String {
    let mut sections = vec![String::new()];
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            sections.push(String::new());
        }
        sections.last_mut().expect("there is one at least").push_str(line);
    }
    let kept = sections.iter().map(|section| {
        let table = section.parse::<Table>().unwrap_or_default();
        let accounts = table.get("account").and_then(Value::as_array);
        let is_own = |accounts: &Vec<Value>| accounts.iter().any(|account| is_of(account, uri));
        if accounts.is_some_and(is_own) { comments_at_end(section) } else { section }
    });
    kept.collect()
}

fn comments_at_end(section: &str) -> &str {
    let (mut read, mut end) = (0, 0);
    for line in section.split_inclusive('\n') {
        read += line.len();
        if !line.trim().is_empty() && !line.trim_start().starts_with('#') {
            end = read;
        }
    }
    &section[end..]
}

/// The file `path` with `suffix` behind its name.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const GIVEN: &str = "# by a server\n[[account]]\nuri = \"sip:alice@example.org\"\n\
                         password = \"new\"\nproxy = \"192.0.2.1:5061\"\ntransport = \"tls\"\n";

    /// Adds the account of `GIVEN` to a file with `before`. Returns the folder, the new content,
    /// and the file with the former one.
    fn added(before: &str, trust: Option<&str>) -> (tempfile::TempDir, String, Option<PathBuf>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("phone.toml");
        if !before.is_empty() {
            std::fs::write(&path, before).unwrap();
        }
        let settings = Settings::open(&path).unwrap();
        let former = settings.add(&read(GIVEN).unwrap(), trust).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        let accounts = config::parse(&text, &path).unwrap().accounts;
        let account = accounts.iter().find(|it| it.uri == "sip:alice@example.org").unwrap();
        assert_eq!(account.password, Some(sip_ua::Password::new("new")));
        assert_eq!(account.proxy.as_deref(), Some("sip:192.0.2.1:5061;transport=tls;lr"));
        (folder, text, former)
    }

    #[test]
    fn an_account_is_new_or_replaces_that_of_its_uri() {
        let (_, text, former) = added("", Some("/etc/ca.pem"));
        assert!(text.starts_with("[tls]\ntrust = \"/etc/ca.pem\"\n\n[[account]]"), "{text}");
        assert_eq!(former, None);
        let others = "# mine\n[tls]\ntrust = \"/x.pem\"\n\n[[dial]]\nname = \"b\"\nuri = \"sip:b@x\"\n\n\
                      [[account]]\nuri = \"bob@example.org\" # his\npassword = \"secret\"\n";
        let own = "\n[[account]]\n# an old one\nuri = \"alice@example.org\"\npassword = \"old\"\n";
        let last = "\n[[account]]\nuri = \"carol@example.org\"\n";
        let lines = "[[account]]\nuri = \"bob@example.org\"\nusername = '''\n[[account]]\n\
                     uri = \"alice@example.org\"\n'''\n";
        let (_, text, former) = added(lines, None);
        assert!(text.starts_with(lines.trim_end()) && former.is_none(), "{text}");
        for before in [others.to_owned(), format!("{others}{own}{last}"), format!("{own}{others}")]
        {
            let (_, text, former) = added(&before, Some("/etc/ca.pem"));
            assert!(text.contains(others.trim_end()), "{text}");
            assert!(!text.contains("old") && !text.contains("ca.pem"), "{text}");
            assert_eq!(text.contains("carol"), before.contains("carol"), "{text}");
            assert_eq!(former, None, "{before}");
        }
    }

    #[test]
    fn former_settings_that_cannot_be_extended_are_kept_in_a_file() {
        let array = "account = [{ uri = \"bob@example.org\" }]\n";
        let both = "account = [{ uri = \"bob@example.org\" }, { uri = \"alice@example.org\" }]\n";
        for before in [array, both] {
            let (_folder, _, former) = added(before, None);
            let former = former.expect("a file with the former settings");
            assert_eq!(std::fs::read_to_string(&former).unwrap(), before);
            let mode = std::fs::metadata(&former).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn files_of_servers_choose_no_commands_and_no_files() {
        assert_eq!(read(GIVEN).unwrap().uri, "sip:alice@example.org");
        for more in [
            "password_command = \"touch /tmp/x\"\n",
            "password_file = \"/etc/passwd\"\n",
            "expires = \"1s\"\n",
            "[tls]\ntrust = \"/tmp/evil.pem\"\n",
            "[[account]]\nuri = \"sip:b@x\"\npassword = \"x\"\n",
            "[[dial]]\nname = \"b\"\nuri = \"sip:b@x\"\n",
        ] {
            assert!(read(&format!("{GIVEN}{more}")).is_err(), "{more}");
        }
        for text in [
            "",
            "<html>",
            "[[account]]\nuri = \"sip:a@x\"\n",
            "[[account]]\nuri = \"x\"\npassword = \"x\"\n",
            "[[account]]\nuri = \"sip:a@x\"\npassword = \"\"\n",
            "[[account]]\nuri = \"sip:a@x\"\npassword = 5\n",
            "[[account]]\nuri = \"sip:a@x\"\npassword = \"x\"\ntransport = \"smoke\"\n",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_found_before_the_fetch() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("phone.toml");
        std::fs::write(&path, "nonsense").unwrap();
        assert!(Settings::open(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "nonsense");
        assert!(Settings::open(&folder.path().join("phone.toml/x")).is_err());
        assert!(Settings::open(&folder.path().join("new/folder/phone.toml")).is_ok());
        let files = std::fs::read_dir(folder.path().join("new/folder")).unwrap().count();
        assert_eq!(files, 0);
    }
}
