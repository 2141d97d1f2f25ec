//! The server name of a connection, taken from a request.

use rustls::pki_types::ServerName;
use sip::header::NameAddr;
use sip::{HeaderName, Host, Message, SipUri, Uri};

/// The host of the next hop of `request`, before any DNS look-up: the name that the server must
/// prove (RFC 5922 section 7.1).
#[must_use]
pub fn called_by(request: &[u8]) -> Option<ServerName<'static>> {
    let message = Message::parse(request).ok()?;
    let uri = message.request_uri()?;
    let route = message.elements(HeaderName::Route).next();
    let route = route.map(|route| NameAddr::parse(HeaderName::Route, route)).transpose().ok()?;
    let next = match &route {
        Some(route) => route.uri(),
        None => Uri::parse(uri),
    };
    let Ok(Uri::Sip(SipUri { host, .. })) = next else { return None };
    match host {
        Host::Ip(address) => Some(address.to_canonical().into()),
        Host::Name(name) => {
            let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
            ServerName::try_from(name).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_hop_names_the_certificate() {
        for (uri, route, called) in [
            ("sips:b@Example.ORG", "", Some("example.org")),
            ("sips:b@[2001:db8::1]:5071", "", Some("2001:db8::1")),
            (
                "sips:b@example.org",
                "Route: <sips:p.example.net;lr>, <sips:q>\r\n",
                Some("p.example.net"),
            ),
            ("tel:+1", "", None),
        ] {
            let text = format!("OPTIONS {uri} SIP/2.0\r\n{route}Content-Length: 0\r\n\r\n");
            let name = called.map(|name| ServerName::try_from(name.to_owned()).unwrap());
            assert_eq!(called_by(text.as_bytes()), name, "{uri}");
        }
        assert_eq!(called_by(b"SIP/2.0 200 OK\r\n\r\n"), None);
    }
}
