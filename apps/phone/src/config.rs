//! The configuration file: accounts, in TOML.

use crate::secret;
use serde::Deserialize;
use sip_ua::{Account, Password};
use std::path::{Path, PathBuf};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    account: Vec<Entry>,
}

/// An account as it stands in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    uri: String,
    #[serde(default)]
    display_name: String,
    #[serde(default)]
    username: String,
    password: Option<String>,
    password_command: Option<String>,
    password_file: Option<PathBuf>,
    realm: Option<String>,
    proxy: Option<String>,
    #[serde(default = "registers")]
    register: bool,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("uri", &self.uri).finish_non_exhaustive()
    }
}

const fn registers() -> bool {
    true
}

/// A URI as an account has it: `sip:` may be left out.
pub(crate) fn with_scheme(uri: &str) -> String {
    let has_scheme = uri.starts_with("sip:") || uri.starts_with("sips:");
    if has_scheme { uri.to_owned() } else { format!("sip:{uri}") }
}

/// The accounts in the file at `path`; where `wanted` names one, that alone.
///
/// # Errors
/// What is wrong, with line and column, and what was expected.
pub(crate) fn accounts(path: &Path, wanted: Option<&str>) -> Result<Vec<Account>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read the configuration {}: {error}", path.display()))?;
    let accounts = parse(&text, path).map_err(|problem| format!("{}:{problem}", path.display()))?;
    let Some(wanted) = wanted.map(with_scheme) else { return Ok(accounts) };
    let names: Vec<String> = accounts.iter().map(|account| account.uri.clone()).collect();
    let found: Vec<Account> =
        accounts.into_iter().filter(|account| account.uri == wanted).collect();
    match found.is_empty() {
        false => Ok(found),
        true => Err(format!(
            "{}: there is no account {wanted}; there are {}",
            path.display(),
            names.join(", ")
        )),
    }
}

fn parse(text: &str, path: &Path) -> Result<Vec<Account>, String> {
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let (line, column) = crate::script::place(text, at);
        format!("{line}:{column}: {}", error.message())
    })?;
    resolve(file.account, path)
}

/// The accounts that stand in the file at `path` as `entries`.
pub(crate) fn resolve(entries: Vec<Entry>, path: &Path) -> Result<Vec<Account>, String> {
    if entries.iter().any(|entry| entry.password.is_some()) {
        secret::warn_of_readers(path);
    }
    entries.into_iter().map(account).collect()
}

/// The account `uri` without a file, whose requests go to `proxy` first.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn of_command_line(
    uri: &str,
    proxy: Option<&str>,
    password: Option<Password>,
) -> Result<Account, String> {
    let entry = Entry {
        uri: uri.to_owned(),
        display_name: String::new(),
        username: String::new(),
        password: None,
        password_command: None,
        password_file: None,
        realm: None,
        proxy: proxy.map(str::to_owned),
        register: true,
    };
    Ok(Account { password, ..account(entry)? })
}

fn account(entry: Entry) -> Result<Account, String> {
    let uri = with_scheme(&entry.uri);
    let parsed = sip::Uri::parse(uri.as_bytes());
    let is_address = matches!(parsed, Ok(sip::Uri::Sip(uri)) if uri.user.is_some());
    if !is_address {
        return Err(format!(" account {uri}: expected a URI such as sip:alice@example.org"));
    }
    let (command, file) = (entry.password_command, entry.password_file);
    let has_another = command.is_some() || file.is_some();
    if entry.password.is_some() && has_another {
        return Err(format!(" account {uri}: expected one password, not several"));
    }
    let elsewhere = secret::Places { command, file };
    let elsewhere = elsewhere.password().map_err(|problem| format!(" account {uri}: {problem}"))?;
    let proxy = entry
        .proxy
        .map(|proxy| with_scheme(&proxy))
        .map(|proxy| if proxy.contains(";lr") { proxy } else { format!("{proxy};lr") });
    Ok(Account {
        display_name: entry.display_name,
        username: entry.username,
        password: entry.password.map(|password| Password::new(&password)).or(elsewhere),
        realm: entry.realm,
        proxy,
        registers: entry.register,
        ..Account::new(&uri)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_and_nothing_is_shown_of_passwords() {
        let text = "[[account]]\nuri = \"alice@example.org\"\npassword = \"secret\"\nproxy = \"192.0.2.1\"\n";
        let accounts = parse(text, Path::new("/no/such")).unwrap();
        assert_eq!(accounts[0].uri, "sip:alice@example.org");
        assert_eq!(accounts[0].proxy.as_deref(), Some("sip:192.0.2.1;lr"));
        assert!(accounts[0].registers && !format!("{accounts:?}").contains("secret"));
    }

    #[test]
    fn mistakes_are_told_with_line_and_column() {
        let error = parse("[[account]]\nuri = \"a@b\"\npasword = \"x\"\n", Path::new("/no/such"))
            .unwrap_err();
        assert!(error.starts_with("3:1: unknown field `pasword`"), "{error}");
        assert!(
            parse("[[account]]\nuri = \"b\"\n", Path::new("/no/such"))
                .unwrap_err()
                .contains("sip:alice@example.org")
        );
    }
}
