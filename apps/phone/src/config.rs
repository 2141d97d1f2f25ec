//! The configuration file: accounts, in TOML.

use serde::Deserialize;
use sip_ua::{Account, Password};
use std::path::Path;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    account: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    uri: String,
    #[serde(default)]
    display_name: String,
    #[serde(default)]
    username: String,
    password: Option<String>,
    realm: Option<String>,
    proxy: Option<String>,
    #[serde(default = "registers")]
    register: bool,
    expires: Option<String>,
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
    let accounts = parse(&text).map_err(|problem| format!("{}:{problem}", path.display()))?;
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

fn parse(text: &str) -> Result<Vec<Account>, String> {
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let before = &text[..at.min(text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("{line}:{column}: {}", error.message())
    })?;
    file.account.into_iter().map(account).collect()
}

fn account(entry: Entry) -> Result<Account, String> {
    let uri = with_scheme(&entry.uri);
    let as_uri = sip::Uri::parse(uri.as_bytes());
    let is_address = matches!(as_uri, Ok(sip::Uri::Sip(uri)) if uri.user.is_some());
    if !is_address {
        return Err(format!(" account {uri}: expected a URI such as sip:alice@example.org"));
    }
    let proxy = entry
        .proxy
        .map(|proxy| with_scheme(&proxy))
        .map(|proxy| if proxy.contains(";lr") { proxy } else { format!("{proxy};lr") });
    let mut base = Account::new(&uri);
    if let Some(text) = &entry.expires {
        base.expires = expires(text).ok_or(format!(
            " account {uri}: expires = \"{text}\": expected a time of at least a second, such as \"10m\""
        ))?;
    }
    Ok(Account {
        display_name: entry.display_name,
        username: entry.username,
        password: entry.password.map(|password| Password::new(&password)),
        realm: entry.realm,
        proxy,
        registers: entry.register,
        ..base
    })
}

/// How long a registration is to last.
fn expires(text: &str) -> Option<sip::Duration> {
    let time = humantime::parse_duration(text).ok()?;
    (time.as_secs() > 0).then(|| sip::Duration::from_secs(time.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_and_nothing_is_shown_of_passwords() {
        let text = "[[account]]\nuri = \"alice@example.org\"\npassword = \"secret\"\nproxy = \"192.0.2.1\"\n";
        let accounts = parse(text).unwrap();
        assert_eq!(accounts[0].uri, "sip:alice@example.org");
        assert_eq!(accounts[0].proxy.as_deref(), Some("sip:192.0.2.1;lr"));
        assert!(accounts[0].registers && !format!("{accounts:?}").contains("secret"));
    }

    #[test]
    fn a_registration_lasts_as_long_as_wanted() {
        let of = |time: &str| parse(&format!("[[account]]\nuri = \"a@b\"\nexpires = \"{time}\""));
        assert_eq!(of("2m").unwrap()[0].expires, sip::Duration::from_secs(120));
        for wrong in ["0s", "soon"] {
            assert!(of(wrong).unwrap_err().contains(wrong));
        }
    }

    #[test]
    fn mistakes_are_told_with_line_and_column() {
        let error = parse("[[account]]\nuri = \"a@b\"\npasword = \"x\"\n").unwrap_err();
        assert!(error.starts_with("3:1: unknown field `pasword`"), "{error}");
        assert!(parse("[[account]]\nuri = \"b\"\n").unwrap_err().contains("sip:alice@example.org"));
    }
}
