//! The upgrade of an HTTP connection to WebSocket (RFC 6455 section 4, RFC 7118 section 4).

use super::{ClientField, PROTOCOL};
use crate::lex;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};

/// The GUID that is hashed with the key of the client (RFC 6455 section 1.3).
const MAGIC: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The maximum length of a client key in bytes.
const MAX_KEY: usize = 64;
/// The maximum number of header fields of an HTTP request.
const MAX_FIELDS: usize = 64;

/// The text of the only page.
const HERE: &str =
    "This is a SIP server. It speaks SIP over WebSocket here (RFC 7118), and nothing else.";

/// A request to upgrade to WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// The origin of the page that sends the request, if a browser does: scheme, host and port.
    pub origin: Option<String>,
    /// The requested host and port.
    pub host: String,
    /// The lines of X-Forwarded-For joined by commas, or empty.
    x_forwarded_for: String,
    /// The lines of Forwarded, likewise.
    forwarded: String,
    key: String,
}

/// The reason to reject an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// It is not an HTTP request.
    Malformed,
    /// It is a request for another protocol than WebSocket.
    Other,
    /// It is a request for a page, from a browser or a health check.
    Page {
        /// True for a HEAD request.
        is_head: bool,
    },
    /// It names another version of WebSocket.
    Version,
    /// It does not name the subprotocol SIP.
    Protocol,
    /// It comes from a page with a forbidden origin.
    Origin,
    /// It comes from a proxy that does not name the client.
    Forwarded,
}

impl Upgrade {
    /// Parses the `head` of a request, with the empty line.
    ///
    /// # Errors
    /// [`Refused`] if the request is not an upgrade to SIP over WebSocket.
    pub fn parse(head: &[u8]) -> Result<Self, Refused> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(head) {
            Ok(httparse::Status::Complete(_)) => {}
            Ok(httparse::Status::Partial) | Err(_) => return Err(Refused::Malformed),
        }
        let fields = &*request.headers;
        let values = |name: &'static str| {
            let named = fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
            named.map(|field| field.value)
        };
        let has_token = |name, token: &str| {
            let mut tokens = values(name).flat_map(|value| value.split(|&byte| byte == b','));
            tokens.any(|found| lex::trim(found).eq_ignore_ascii_case(token.as_bytes()))
        };
        let text = |name| {
            let value = values(name).next()?;
            core::str::from_utf8(lex::trim(value)).ok().map(String::from)
        };
        let is_head = request.method == Some("HEAD");
        if (is_head || request.method == Some("GET")) && values("Upgrade").next().is_none() {
            return Err(Refused::Page { is_head });
        }
        if request.method != Some("GET")
            || !has_token("Upgrade", "websocket")
            || !has_token("Connection", "Upgrade")
        {
            return Err(Refused::Other);
        }
        if !has_token("Sec-WebSocket-Version", "13") {
            return Err(Refused::Version);
        }
        if !has_token("Sec-WebSocket-Protocol", PROTOCOL) {
            return Err(Refused::Protocol);
        }
        let key = text("Sec-WebSocket-Key").ok_or(Refused::Malformed)?;
        // The key has 16 bytes. Some clients send fewer, and the key proves nothing.
        let is_key = STANDARD.decode(&key).is_ok_and(|key| (1..=MAX_KEY).contains(&key.len()));
        let host = text("Host").filter(|_| is_key).ok_or(Refused::Malformed)?;
        let hops = |field: ClientField| {
            values(field.name()).map(String::from_utf8_lossy).collect::<Vec<_>>().join(",")
        };
        Ok(Self {
            origin: text("Origin"),
            host,
            x_forwarded_for: hops(ClientField::XForwardedFor),
            forwarded: hops(ClientField::Forwarded),
            key,
        })
    }

    /// The lines of `field` joined by commas, or empty. They are trusted only from a known proxy
    /// that writes this field.
    #[must_use]
    pub fn hops(&self, field: ClientField) -> &str {
        match field {
            ClientField::XForwardedFor => &self.x_forwarded_for,
            ClientField::Forwarded => &self.forwarded,
        }
    }

    /// Returns true if the origin has the same host as the request, at any port, or if there is no
    /// origin.
    #[must_use]
    pub fn is_of_same_host(&self) -> bool {
        let Some(origin) = &self.origin else { return true };
        let host = origin.split_once("://").map_or("", |(_, host)| host);
        without_port(host).eq_ignore_ascii_case(self.host_name())
    }

    /// The requested host: a name, or an address without brackets.
    #[must_use]
    pub fn host_name(&self) -> &str {
        without_port(&self.host)
    }
}

/// Returns the host of `authority`: a name, or an address without brackets.
fn without_port(authority: &str) -> &str {
    let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => authority.split_once(':').map_or(authority, |(host, _)| host),
    };
    host.strip_suffix('.').unwrap_or(host)
}

/// Returns the path that the `head` of an HTTP request asks for, without its query. Empty if the
/// head has none.
#[must_use]
pub fn requested_path(head: &[u8]) -> &[u8] {
    let target = head.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
    target.split(|&byte| byte == b'?').next().unwrap_or_default()
}

/// Returns the response that accepts `upgrade`. Frames follow it.
#[must_use]
pub fn accept(upgrade: &Upgrade) -> Vec<u8> {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {}\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n",
        hash(&upgrade.key)
    )
    .into_bytes()
}

impl Refused {
    /// Returns the response that rejects the request. The connection is closed after it.
    #[must_use]
    pub fn answer(self) -> Vec<u8> {
        let (status, fields, text) = match self {
            Self::Malformed => ("400 Bad Request", "", "This is no request of HTTP."),
            Self::Page { .. } => ("200 OK", "Upgrade: websocket\r\n", HERE),
            Self::Other => (
                "426 Upgrade Required",
                "Upgrade: websocket\r\nSec-WebSocket-Protocol: sip\r\n",
                HERE,
            ),
            Self::Version => (
                "426 Upgrade Required",
                "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
                "It takes WebSocket of version 13.",
            ),
            Self::Protocol => (
                "400 Bad Request",
                "Sec-WebSocket-Protocol: sip\r\n",
                "It takes the subprotocol sip (Sec-WebSocket-Protocol).",
            ),
            Self::Forwarded => (
                "400 Bad Request",
                "",
                "The proxy does not say in X-Forwarded-For for which client it asks.",
            ),
            Self::Origin => {
                ("403 Forbidden", "", "Pages of this origin may not ask here (websocket.origins).")
            }
        };
        let length = text.len() + 1;
        let mut answer = format!(
            "HTTP/1.1 {status}\r\n{fields}Connection: close\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        if self != (Self::Page { is_head: true }) {
            answer += text;
            answer.push('\n');
        }
        answer.into_bytes()
    }
}

/// Returns a request to upgrade the connection to `host`. The sixteen bytes of `nonce` are
/// unpredictable.
#[must_use]
pub fn request(host: &str, nonce: [u8; 16]) -> Vec<u8> {
    format!(
        "GET / HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n",
        STANDARD.encode(nonce)
    )
    .into_bytes()
}

/// Returns true if the `head` of a response accepts the request with `nonce`.
#[must_use]
pub fn is_accepted(head: &[u8], nonce: [u8; 16]) -> bool {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let is_whole = matches!(response.parse(head), Ok(httparse::Status::Complete(_)));
    let is = |name: &str, wanted: &[u8]| {
        let mut fields = response.headers.iter();
        fields
            .any(|field| field.name.eq_ignore_ascii_case(name) && lex::trim(field.value) == wanted)
    };
    is_whole
        && response.code == Some(101)
        && is("Sec-WebSocket-Accept", hash(&STANDARD.encode(nonce)).as_bytes())
        && is("Sec-WebSocket-Protocol", PROTOCOL.as_bytes())
}

fn hash(key: &str) -> String {
    STANDARD.encode(Sha1::new().chain_update(key).chain_update(MAGIC).finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    /// RFC 7118 section 8.1, with the key of RFC 6455 section 1.3.
    const REQUEST: &str = "GET / HTTP/1.1\r\nHost: proxy.example.com\r\nUpgrade: websocket\r\n\
        Connection: keep-alive, Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Origin: http://www.example.com\r\nSec-WebSocket-Protocol: soap, sip\r\n\
        Sec-WebSocket-Version: 13\r\n\r\n";

    #[test]
    fn a_request_for_sip_is_accepted() {
        let upgrade = Upgrade::parse(REQUEST.as_bytes()).unwrap();
        assert_eq!(upgrade.origin.as_deref(), Some("http://www.example.com"));
        assert!(!upgrade.is_of_same_host());
        let answer = String::from_utf8(accept(&upgrade)).unwrap();
        assert!(answer.starts_with("HTTP/1.1 101 "));
        assert!(answer.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
        for (origin, host, is_same) in [
            ("https://PROXY.example.com", "proxy.example.com", true),
            ("https://proxy.example.com", "proxy.example.com:8443", true),
            ("https://proxy.example.com:8443", "proxy.example.com.", true),
            ("https://proxy.example.com.evil.example", "proxy.example.com", false),
            ("http://[2001:db8::1]:80", "[2001:db8::1]:5066", true),
            ("http://[2001:db8::2]", "[2001:db8::1]", false),
            ("null", "proxy.example.com", false),
        ] {
            let text = REQUEST.replace("http://www.example.com", origin);
            let text = text.replace("Host: proxy.example.com", &format!("Host: {host}"));
            let upgrade = Upgrade::parse(text.as_bytes()).unwrap();
            assert_eq!(upgrade.is_of_same_host(), is_same, "{origin} {host}");
        }
        assert_eq!(upgrade.hops(ClientField::XForwardedFor), "");
        let lines = "X-Forwarded-For: 1.2.3.4, 5.6.7.8\r\nx-forwarded-for: 9.9.9.9\r\n\
                     forwarded: for=1.2.3.4\r\nForwarded: for=5.6.7.8\r\nOrigin:";
        let upgrade = Upgrade::parse(REQUEST.replace("Origin:", lines).as_bytes()).unwrap();
        let hops = upgrade.hops(ClientField::XForwardedFor);
        assert_eq!(hops, "1.2.3.4, 5.6.7.8,9.9.9.9");
        assert_eq!(upgrade.hops(ClientField::Forwarded), "for=1.2.3.4,for=5.6.7.8");
        let short = REQUEST.replace("dGhlIHNhbXBsZSBub25jZQ==", "MTIzNDU2Nzg=");
        assert!(Upgrade::parse(short.as_bytes()).is_ok(), "a key of 8 bytes");
    }

    #[test]
    fn other_requests_are_refused_with_what_would_do() {
        for (from, to, refused, status) in [
            ("GET", "POST", Refused::Other, "426"),
            ("Upgrade: websocket", "Upgrade: h2c", Refused::Other, "426"),
            ("keep-alive, Upgrade", "keep-alive", Refused::Other, "426"),
            ("Version: 13", "Version: 8", Refused::Version, "426"),
            ("soap, sip", "soap", Refused::Protocol, "400"),
            ("dGhlIHNhbXBsZSBub25jZQ==", "dGh", Refused::Malformed, "400"),
            ("Upgrade: websocket", "X: y", Refused::Page { is_head: false }, "200"),
            ("Host:", "H:", Refused::Malformed, "400"),
            ("GET / HTTP/1.1", "OPTIONS sip:a SIP/2.0", Refused::Malformed, "400"),
        ] {
            let text = REQUEST.replacen(from, to, 1);
            assert_ne!(text, REQUEST);
            assert_eq!(Upgrade::parse(text.as_bytes()), Err(refused), "{to}");
            let answer = String::from_utf8(refused.answer()).unwrap();
            assert!(answer.starts_with(&("HTTP/1.1 ".to_string() + status)), "{answer}");
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("Content-Length: {}", body.len())));
        }
        let head = Upgrade::parse(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap_err();
        assert_eq!(head, Refused::Page { is_head: true });
        let answer = String::from_utf8(head.answer()).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n"), "{answer}");
    }

    #[test]
    fn a_path_ends_before_its_query() {
        for (head, path) in [
            ("GET / HTTP/1.1\r\n\r\n", "/"),
            ("HEAD /a.js?b=c?d HTTP/1.1\r\n\r\n", "/a.js"),
            ("GET", ""),
            ("", ""),
        ] {
            assert_eq!(requested_path(head.as_bytes()), path.as_bytes(), "{head}");
        }
    }

    #[test]
    fn who_asks_knows_whether_it_is_accepted() {
        let nonce = *b"the sample nonce";
        let asked = request("example.org:443", nonce);
        let upgrade = Upgrade::parse(&asked).unwrap();
        assert_eq!((upgrade.host.as_str(), upgrade.origin.as_deref()), ("example.org:443", None));
        let answer = accept(&upgrade);
        assert!(is_accepted(&answer, nonce));
        assert!(!is_accepted(&answer, [0; 16]), "it is the answer to something else");
        assert!(!is_accepted(&Refused::Other.answer(), nonce));
        assert!(!is_accepted(&answer[..answer.len() - 2], nonce));
    }
}
