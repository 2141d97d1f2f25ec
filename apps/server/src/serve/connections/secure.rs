//! TLS for connections: what those begin with that are accepted, and whom those trust that are
//! opened.

use crate::certificates::Tls;
use net::tls::{Server, ServerName, Session, TlsError};
use parking_lot::RwLock;
use sip::header::NameAddr;
use sip::message::StartLine;
use sip::{HeaderName, Host, Message, SipUri, Transport, Uri};

/// What TLS begins with. It can be replaced while the server runs: connections that are open go on
/// with what they began with.
pub(crate) struct CurrentTls(RwLock<Option<Tls>>);

impl CurrentTls {
    /// Without any there is no TLS.
    pub(crate) const fn new(tls: Option<Tls>) -> Self {
        Self(RwLock::new(tls))
    }

    /// Begins with this from now on.
    pub(crate) fn replace(&self, tls: Tls) {
        *self.0.write() = Some(tls);
    }

    /// What accepted connections begin with, if any are accepted.
    pub(crate) fn server(&self) -> Option<Server> {
        self.0.read().as_ref().map(|tls| tls.server.clone())
    }

    /// For a connection that is accepted by `transport`; `None` where that is not over TLS.
    pub(super) fn accept(&self, transport: Transport) -> Option<Result<Session, TlsError>> {
        let current = self.0.read();
        let server = &current.as_ref()?.server;
        match transport {
            Transport::Tls => Some(server.accept()),
            Transport::Wss => Some(server.accept_web()),
            _ => None,
        }
    }

    /// For one that is opened to `name`.
    pub(super) fn connect(&self, name: ServerName<'static>) -> Option<Result<Session, TlsError>> {
        Some(self.0.read().as_ref()?.client.connect(name))
    }
}

/// Who is called by a request: the host of its next hop, before the DNS was asked (RFC 5922 section
/// 7.1).
pub(super) fn called_by(request: &[u8]) -> Option<ServerName<'static>> {
    let message = Message::parse(request).ok()?;
    let StartLine::Request { uri, .. } = message.start_line() else { return None };
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
    fn the_next_hop_is_who_is_called() {
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
