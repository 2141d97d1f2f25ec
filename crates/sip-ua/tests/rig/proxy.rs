//! A proxy that stays in the path by Record-Route. It is stateless and forks, unless it hunts.

use super::hunt::Hunt;
use sip::header::{NameAddr, elements};
use sip::{Encode, HeaderName, Message, Method, Uri};
use std::net::SocketAddr;
use test_support::flow::{response, value};

/// Messages with their destinations.
pub(crate) type Sends = Vec<(SocketAddr, Vec<u8>)>;

/// A stateless proxy (RFC 3261 section 16.11). It forwards all responses of several phones.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    /// The targets of requests to a URI of the proxy itself.
    pub(crate) targets: Vec<SocketAddr>,
    /// Another proxy that it replaces.
    pub(crate) stands_for: Option<SocketAddr>,
    /// The hunt of a proxy that calls its targets one after the other.
    pub(crate) hunt: Option<Hunt>,
    /// True if it rejects calls without credentials (407).
    pub(crate) asks: bool,
}

/// The tag of a proxy that sends challenges.
const ASKS: &str = "asks";

fn place_of(uri: &[u8]) -> Option<SocketAddr> {
    let Ok(Uri::Sip(uri)) = Uri::parse(uri) else { return None };
    Some(SocketAddr::new(uri.host.ip()?, uri.port.unwrap_or(5060)))
}

fn place_of_route(route: &[u8]) -> Option<SocketAddr> {
    NameAddr::parse(HeaderName::Route, route).ok().and_then(|route| place_of(route.uri_bytes))
}

fn has_credentials(request: &Message<'_>) -> bool {
    request.value(HeaderName::ProxyAuthorization).is_some()
}

impl Proxy {
    pub(crate) const fn new(address: SocketAddr, targets: Vec<SocketAddr>) -> Self {
        Self { address, targets, stands_for: None, hunt: None, asks: false }
    }

    /// Returns the messages that the proxy sends for the received `bytes`.
    pub(crate) fn receive(&mut self, from: SocketAddr, bytes: &[u8]) -> Sends {
        let Ok(message) = Message::parse(bytes) else { return Sends::new() };
        if self.asks && message.method() == Some(Method::Invite) && !has_credentials(&message) {
            let asks = "Proxy-Authenticate: Digest realm=\"home\", nonce=\"n\", qop=\"auth\"\r\n";
            return vec![(from, response(bytes, from, 407, ASKS, asks, ""))];
        }
        if message.method() == Some(Method::Ack) && value(bytes, HeaderName::To).ends_with(ASKS) {
            return Sends::new();
        }
        let hunted = self.on_hunt(from, &message);
        hunted.unwrap_or_else(|| self.relay(from, &message))
    }

    fn relay(&self, from: SocketAddr, message: &Message<'_>) -> Sends {
        let is_own = |place| place == self.address || Some(place) == self.stands_for;
        match message.start_line() {
            sip::StartLine::Response { .. } => self.pass_back(message).into_iter().collect(),
            sip::StartLine::Request { uri, .. } => {
                let mut routes: Vec<&[u8]> = message.elements(HeaderName::Route).collect();
                if routes.first().and_then(|route| place_of_route(route)).is_some_and(is_own) {
                    routes.remove(0);
                }
                let own = place_of(uri).is_some_and(is_own);
                let targets: Vec<(SocketAddr, Vec<u8>)> = match own {
                    true => {
                        let uri = |place: &SocketAddr| format!("sip:{place}").into_bytes();
                        self.targets.iter().map(|place| (*place, uri(place))).collect()
                    }
                    false => place_of(uri).map(|place| (place, uri.to_vec())).into_iter().collect(),
                };
                let sends = targets.into_iter().enumerate().map(|(number, (place, uri))| {
                    let next = routes.first().and_then(|route| place_of_route(route));
                    (next.unwrap_or(place), self.forward(message, from, &uri, &routes, number))
                });
                sends.collect()
            }
        }
    }

    pub(super) fn forward(
        &self,
        request: &Message<'_>,
        from: SocketAddr,
        uri: &[u8],
        routes: &[&[u8]],
        number: usize,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        let via = request.top_via().expect("a Via");
        let branch = via.transaction_branch().unwrap_or_default();
        (request.method().expect("a request"), " ", uri, " SIP/2.0\r\n").encode(&mut out);
        // The branch is derived from the previous one, so that CANCEL and ACK take the same path.
        let own = ("Via: SIP/2.0/UDP ", self.address, ";branch=", branch, "-", number as u64);
        (own, "\r\n").encode(&mut out);
        ("Record-Route: <sip:", self.address, ";lr>\r\n").encode(&mut out);
        for route in routes {
            ("Route: ", *route, "\r\n").encode(&mut out);
        }
        let mut is_top_via = true;
        for field in request.fields() {
            match field.name {
                HeaderName::Via if std::mem::take(&mut is_top_via) => {
                    request.write_top_via(&field, from, &mut out);
                }
                HeaderName::Route => {}
                _ => out.extend_from_slice(field.line),
            }
        }
        ("\r\n", request.body()).encode(&mut out);
        out
    }

    /// Removes its own Via.
    fn pass_back(&self, response: &Message<'_>) -> Option<(SocketAddr, Vec<u8>)> {
        let vias: Vec<&[u8]> = response.elements(HeaderName::Via).collect();
        let next = sip::header::Via::parse(vias.get(1)?).ok()?;
        let port = next.rport().flatten().unwrap_or_else(|| next.port_or_default());
        let to = SocketAddr::new(next.received().or(next.host.ip())?, port);
        let mut out = Vec::new();
        let sip::StartLine::Response { status, reason } = response.start_line() else {
            return None;
        };
        ("SIP/2.0 ", status, " ", reason, "\r\n").encode(&mut out);
        let mut own = 1;
        for field in response.fields() {
            let count = elements(field.value).count();
            if field.name == HeaderName::Via && own > 0 {
                assert_eq!(count, 1, "a line for each Via");
                own -= 1;
                continue;
            }
            out.extend_from_slice(field.line);
        }
        ("\r\n", response.body()).encode(&mut out);
        Some((to, out))
    }
}
