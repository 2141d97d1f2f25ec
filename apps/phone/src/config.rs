//! The configuration file: accounts, quick dial and TLS trust anchors, in TOML.

use crate::secret;
use net::tls::Trust;
use serde::{Deserialize, Serialize};
use sip_ua::{Account, Password};
use std::path::{Path, PathBuf};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    account: Vec<Entry>,
    #[serde(default)]
    dial: Vec<Dial>,
    #[serde(default)]
    tls: Tls,
}

/// The `tls` table of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tls {
    trust: Option<String>,
}

/// A quick-dial entry.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dial {
    pub(crate) name: String,
    pub(crate) uri: String,
}

/// The parsed configuration.
#[derive(Debug, Default)]
pub(crate) struct Config {
    pub(crate) accounts: Vec<Account>,
    pub(crate) dials: Vec<Dial>,
    /// The trust anchors of TLS, if the file names them.
    pub(crate) trust: Option<Trust>,
}

/// An account as written in the file.
#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) uri: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    display_name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    username: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    password: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    realm: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy: Option<String>,
    /// The transport, if the proxy does not name one.
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    register: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
}

impl Entry {
    /// An account that registers; `proxy` is its outbound proxy.
    pub(crate) fn new(uri: String, password: Option<String>, proxy: Option<String>) -> Self {
        Self { uri, password, proxy, ..Self::default() }
    }

    /// Sets the transport.
    pub(crate) fn by(self, transport: Option<&str>) -> Self {
        Self { transport: transport.map(str::to_owned), ..self }
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("uri", &self.uri).finish_non_exhaustive()
    }
}

/// Prefixes a URI with `sip:` if it has no scheme.
pub(crate) fn with_scheme(uri: &str) -> String {
    let has_scheme = uri.starts_with("sip:") || uri.starts_with("sips:");
    if has_scheme { uri.to_owned() } else { format!("sip:{uri}") }
}

/// The URI for `text` typed by a user of `account`: a name or number alone, or a `tel:` URI, is
/// completed with the domain of the account.
pub(crate) fn dialled(text: &str, account: Option<&str>) -> String {
    let scheme = |name: &str| {
        let (found, rest) = text.split_at_checked(name.len())?;
        found.eq_ignore_ascii_case(name).then_some(rest)
    };
    if scheme("sip:").or(scheme("sips:")).is_some() {
        return text.to_owned();
    }
    let domain = account.and_then(|account| account.split_once('@'));
    let domain = domain.map(|(_, domain)| domain.split([';', '?']).next().unwrap_or(domain));
    let secure = account.is_some_and(|account| account.starts_with("sips:"));
    let at = |user: &str, domain: &str| {
        let user = sip::uri::escape_user(user.as_bytes()).into_owned();
        // Many servers accept a bare `#`, but the grammar does not allow it (RFC 3261 section
        // 25.1).
        let user = String::from_utf8_lossy(&user).replace('#', "%23");
        let scheme = if secure { "sips" } else { "sip" };
        format!("{scheme}:{user}@{domain}")
    };
    match (scheme("tel:"), domain) {
        (Some(number), Some(domain)) => {
            let number = number.split(';').next().unwrap_or(number);
            // Visual separators are removed (RFC 3966 section 5.1.1).
            at(&number.replace(['-', '.', '(', ')', ' '], ""), domain)
        }
        (Some(_), None) => text.to_owned(),
        (None, Some(domain))
            if !text.contains(['@', ':']) && text.parse::<std::net::IpAddr>().is_err() =>
        {
            at(text, domain)
        }
        _ => format!("sip:{text}"),
    }
}

/// The default path of the file: `barebell/phone.toml` in the configuration folder.
pub(crate) fn default_path() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(folder.join("barebell").join("phone.toml"))
}

/// Reads the file at `path`. If `wanted` names an account, only that account is kept.
///
/// # Errors
/// A description of the fault with line, column and expectation.
pub(crate) fn read(path: &Path, wanted: Option<&str>) -> Result<Config, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read the configuration {}: {error}", path.display()))?;
    let problem = |problem| format!("{}:{problem}", path.display());
    let mut config = parse(&text, path).map_err(problem)?;
    if let Some(wanted) = wanted.map(with_scheme) {
        let names: Vec<String> =
            config.accounts.iter().map(|account| account.uri.clone()).collect();
        config.accounts.retain(|account| account.uri == wanted);
        if config.accounts.is_empty() {
            return Err(format!(
                "{}: there is no account {wanted}; there are {}",
                path.display(),
                names.join(", ")
            ));
        }
    }
    Ok(config)
}

pub(crate) fn parse(text: &str, path: &Path) -> Result<Config, String> {
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let (line, column) = crate::position::place(text, at);
        format!("{line}:{column}: {}", error.message().replace('\n', ", "))
    })?;
    let trust = file.tls.trust.as_deref().map(str::parse).transpose();
    let trust = trust.map_err(|problem| format!(" tls.trust: {problem}"))?;
    Ok(Config { accounts: resolve(file.account, path)?, dials: file.dial, trust })
}

/// The accounts for `entries` of the file at `path`.
pub(crate) fn resolve(entries: Vec<Entry>, path: &Path) -> Result<Vec<Account>, String> {
    if entries.iter().any(|entry| entry.password.is_some()) {
        secret::warn_of_readers(path);
    }
    entries.into_iter().map(account).collect()
}

/// The account `uri` without a file, with `proxy` as its outbound proxy.
///
/// # Errors
/// A description of the fault.
pub(crate) fn of_command_line(
    uri: &str,
    proxy: Option<&str>,
    transport: Option<&str>,
    password: Option<Password>,
) -> Result<Account, String> {
    let entry = Entry::new(uri.to_owned(), None, proxy.map(str::to_owned)).by(transport);
    Ok(Account { password, ..account(entry)? })
}

/// The account for an entry.
///
/// # Errors
/// A description of the fault.
pub(crate) fn account(entry: Entry) -> Result<Account, String> {
    let uri = with_scheme(&entry.uri);
    let as_uri = sip::Uri::parse(uri.as_bytes());
    let is_address = matches!(as_uri, Ok(sip::Uri::Sip(uri)) if uri.user.is_some());
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
    let proxy = proxy_of(&uri, entry.proxy, entry.transport)
        .map_err(|problem| format!(" account {uri}: {problem}"))?;
    let mut base = Account::new(&uri);
    if let Some(text) = &entry.expires {
        base.expires = expires(text).ok_or(format!(
            " account {uri}: expires = \"{text}\": expected a time of at least a second, such as \"10m\""
        ))?;
    }
    Ok(Account {
        display_name: entry.display_name,
        username: entry.username,
        password: entry.password.map(|password| Password::new(&password)).or(elsewhere),
        realm: entry.realm,
        proxy,
        registers: entry.register.unwrap_or(true),
        ..base
    })
}

/// The outbound proxy of the account `uri`: the proxy named, or its domain if a transport is given.
fn proxy_of(
    uri: &str,
    proxy: Option<String>,
    transport: Option<String>,
) -> Result<Option<String>, String> {
    let transport = match transport {
        None => String::new(),
        Some(name) if sip::Transport::ALL.iter().any(|known| known.uri_name() == name) => {
            format!(";transport={name}")
        }
        Some(name) => {
            return Err(format!("transport = \"{name}\": expected udp, tcp, tls, ws or wss"));
        }
    };
    let domain = || uri.rsplit_once('@').map_or(uri, |(_, domain)| domain).to_owned();
    let Some(proxy) = proxy.or_else(|| (!transport.is_empty()).then(domain)) else {
        return Ok(None);
    };
    let mut proxy = with_scheme(&proxy);
    if !proxy.contains(";transport=") {
        proxy.push_str(&transport);
    }
    if !proxy.contains(";lr") {
        proxy.push_str(";lr");
    }
    Ok(Some(proxy))
}

/// Parses the expiry of a registration. `None` if it is invalid or less than a second.
fn expires(text: &str) -> Option<sip::Duration> {
    let time = humantime::parse_duration(text).ok()?;
    (time.as_secs() > 0).then(|| sip::Duration::from_secs(time.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_read_and_passwords_are_not_shown() {
        let text = "[[account]]\nuri = \"alice@example.org\"\npassword = \"secret\"\nproxy = \"192.0.2.1\"\n";
        let accounts = parse(text, Path::new("/no/such")).unwrap().accounts;
        assert_eq!(accounts[0].uri, "sip:alice@example.org");
        assert_eq!(accounts[0].proxy.as_deref(), Some("sip:192.0.2.1;lr"));
        for (text, proxy) in [
            ("", None),
            ("transport = \"tls\"", Some("sip:example.org;transport=tls;lr")),
            ("transport = \"tcp\"\nproxy = \"p:5070\"", Some("sip:p:5070;transport=tcp;lr")),
            (
                "transport = \"tls\"\nproxy = \"sip:p;transport=udp;lr\"",
                Some("sip:p;transport=udp;lr"),
            ),
        ] {
            let text = format!("[[account]]\nuri = \"alice@example.org\"\n{text}\n");
            let accounts = parse(&text, Path::new("phone.toml")).unwrap().accounts;
            assert_eq!(accounts[0].proxy.as_deref(), proxy, "{text}");
        }
        assert!(accounts[0].registers && !format!("{accounts:?}").contains("secret"));
    }

    #[test]
    fn a_name_or_number_alone_is_at_the_domain_of_the_account() {
        let account = Some("sip:alice@pbx.example;transport=tcp");
        for (text, with, without) in [
            ("bob", "sip:bob@pbx.example", "sip:bob"),
            ("1234", "sip:1234@pbx.example", "sip:1234"),
            ("*97", "sip:*97@pbx.example", "sip:*97"),
            ("#31#", "sip:%2331%23@pbx.example", "sip:#31#"),
            ("+49301234", "sip:+49301234@pbx.example", "sip:+49301234"),
            ("tel:+49-30-12.34;x=y", "sip:+49301234@pbx.example", "tel:+49-30-12.34;x=y"),
            ("TEL:112", "sip:112@pbx.example", "TEL:112"),
            ("bob@b", "sip:bob@b", "sip:bob@b"),
            ("sip:b", "sip:b", "sip:b"),
            ("SIPS:bob@b", "SIPS:bob@b", "SIPS:bob@b"),
            ("192.0.2.7:5070", "sip:192.0.2.7:5070", "sip:192.0.2.7:5070"),
            ("192.0.2.7", "sip:192.0.2.7", "sip:192.0.2.7"),
        ] {
            assert_eq!((&*dialled(text, account), &*dialled(text, None)), (with, without));
        }
        assert_eq!(dialled("bob", Some("sips:a@b:5071")), "sips:bob@b:5071");
    }

    #[test]
    fn quick_dial_has_its_order() {
        let text =
            "[[dial]]\nname = \"Bob\"\nuri = \"sip:bob@b\"\n[[dial]]\nname = \"A\"\nuri = \"1\"\n";
        let dials = parse(text, Path::new("/no/such")).unwrap().dials;
        let dial = |name: &str, uri: &str| Dial { name: name.into(), uri: uri.into() };
        assert_eq!(dials, [dial("Bob", "sip:bob@b"), dial("A", "1")]);
    }

    #[test]
    fn a_registration_lasts_as_long_as_wanted() {
        let text = |time: &str| format!("[[account]]\nuri = \"a@b\"\nexpires = \"{time}\"");
        let of = |time: &str| parse(&text(time), Path::new("/no/such"));
        assert_eq!(of("2m").unwrap().accounts[0].expires, sip::Duration::from_secs(120));
        for wrong in ["0s", "soon"] {
            assert!(of(wrong).unwrap_err().contains(wrong));
        }
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
