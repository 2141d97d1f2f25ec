//! Adds an account to the configuration file.

use crate::config::{self, Entry};
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

#[derive(Serialize)]
struct Addition<'a> {
    account: [&'a Entry; 1],
}

/// `entry` as a table of the file.
///
/// # Errors
/// An error if the values cannot be written.
pub(crate) fn addition(entry: &Entry) -> Result<String, toml::ser::Error> {
    toml::to_string(&Addition { account: [entry] })
}

/// Adds `entry` to the file at `path`, which is created if necessary. Its content stays, and from
/// then on only the owner can read it, since it contains a password.
///
/// # Errors
/// A description of the failure; the file is unchanged then.
pub(crate) fn add(path: &Path, entry: &Entry) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot save to {}: {error}", path.display());
    // A symbolic link is kept: its target is replaced.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let before = match std::fs::read_to_string(path) {
        Ok(before) => before,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    let has_it = config::parse(&before, path)
        .map_err(|problem| format!("{}:{problem}", path.display()))?
        .accounts
        .iter()
        .any(|account| account.uri == entry.uri);
    if has_it {
        return Err(format!("{} has an account {} already", path.display(), entry.uri));
    }
    let addition = addition(entry).map_err(|error| error.to_string())?;
    let gap = match before.as_str() {
        "" => "",
        before if before.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let text = format!("{before}{gap}{addition}");
    // An array written in brackets cannot be extended by tables.
    config::parse(&text, path)
        .map_err(|problem| format!("cannot save to {}:{problem}", path.display()))?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    replace(path, text.as_bytes()).map_err(failed)
}

/// Replaces the file atomically by `text`.
pub(crate) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = Path::new(&name);
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new).and_then(
        |mut file| {
            file.write_all(text)?;
            file.sync_all()?;
            std::fs::rename(new, path)
        },
    );
    if written.is_err() {
        let _ = std::fs::remove_file(new);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn entry(uri: &str) -> Entry {
        Entry::new(uri.into(), Some("a \"b\"\\ \n".into()), None)
    }

    #[test]
    fn an_account_is_added_for_its_owner_alone_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join("phone.toml");
        add(&path, &entry("sip:alice@example.org")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let first = std::fs::read_to_string(&path).unwrap();
        let first = format!("# mine\n{}", first.trim_end());
        std::fs::write(&path, &first).unwrap();
        add(&path, &entry("sip:bob@example.org")).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(&first), "{text}");
        let accounts = config::parse(&text, &path).unwrap().accounts;
        assert_eq!(accounts.len(), 2);
        assert_eq!(accounts[1].password, Some(sip_ua::Password::new("a \"b\"\\ \n")));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let error = add(&path, &entry("sip:bob@example.org")).unwrap_err();
        assert!(error.contains("already"), "{error}");
        let files = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(files, 1);
    }

    #[test]
    fn a_file_that_is_not_understood_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("phone.toml");
        for text in ["account = []\n", "nonsense"] {
            std::fs::write(&path, text).unwrap();
            assert!(add(&path, &entry("sip:bob@example.org")).is_err(), "{text}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
