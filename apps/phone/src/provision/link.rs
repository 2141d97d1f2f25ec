//! The link of a server to the settings of a phone.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A link. Its path is a secret.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// True for `https`.
    pub(super) is_secure: bool,
    /// The host, without the brackets of an address of IPv6.
    pub(super) host: String,
    pub(super) port: u16,
    /// Host and port, as the link has them.
    pub(super) authority: String,
    /// The path, with the query.
    pub(super) path: String,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("authority", &self.authority).finish_non_exhaustive()
    }
}

impl FromStr for Link {
    type Err = String;

    /// Parses `https://HOST[:PORT]/PATH`. Without TLS the host is a loopback address.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            || "expected a link such as https://pbx.example.com:8443/panel/phone/...".to_owned();
        let (is_secure, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://"))
        {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            (None, None) => return Err(expected()),
        };
        let (authority, path) = rest
            .split_at_checked(rest.find('/').unwrap_or(rest.len()))
            .filter(|(_, path)| !path.is_empty())
            .ok_or_else(expected)?;
        let is_of_host = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
        let is_of_path = |c: char| c.is_ascii_graphic() && c != '#';
        if !authority.chars().all(is_of_host) || !path.chars().all(is_of_path) {
            return Err(expected());
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(expected)?,
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| expected())?,
            None if port.is_empty() && is_secure => 443,
            None if port.is_empty() => 80,
            None => return Err(expected()),
        };
        if host.is_empty() {
            return Err(expected());
        }
        if !is_secure && !host.parse::<IpAddr>().is_ok_and(|host| host.is_loopback()) {
            return Err(
                "the password would cross the network in clear: http:// is for a loopback \
                        address; expected https://"
                    .to_owned(),
            );
        }
        let [host, authority, path] = [host, authority, path].map(str::to_owned);
        Ok(Self { is_secure, host, port, authority, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_a_host_a_port_and_a_path() {
        for (text, host, port, path) in [
            ("https://pbx.example.com/a/b?c", "pbx.example.com", 443, "/a/b?c"),
            ("https://192.0.2.1:8443/", "192.0.2.1", 8443, "/"),
            ("https://[2001:db8::1]:8443/x", "2001:db8::1", 8443, "/x"),
            ("https://[2001:db8::1]/x", "2001:db8::1", 443, "/x"),
            ("http://127.0.0.1:8080/x", "127.0.0.1", 8080, "/x"),
            ("http://[::1]/x", "::1", 80, "/x"),
        ] {
            let link: Link = text.parse().unwrap();
            assert_eq!((&*link.host, link.port, &*link.path), (host, port, path), "{text}");
            assert_eq!(link.is_secure, text.starts_with("https"));
        }
        let link: Link = "https://a.example/secret".parse().unwrap();
        assert!(!format!("{link:?}").contains("secret"));
    }

    #[test]
    fn other_texts_are_no_links() {
        for text in [
            "",
            "pbx.example.com/x",
            "ftp://a/x",
            "https://a",
            "https:///x",
            "https://a@b/x",
            "https://a:x/x",
            "https://a:/x",
            "https://a:1:2/x",
            "https://[::1/x",
            "https://[::1]x/x",
            "https://a/x y",
            "https://a/x\r\nHost: b",
            "https://a\r\n/x",
            "https://ü/x",
            "https://a/x#y",
            "http://192.0.2.1/x",
            "http://localhost/x",
        ] {
            assert!(text.parse::<Link>().is_err(), "{text}");
        }
    }
}
