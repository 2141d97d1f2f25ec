//! The requests of the operations, as a user agent writes them.

use super::Settings;
use super::key::Key;
use sip::header::{HeaderName, NameAddr};
use sip::message::write_decimal;
use sip::{Message, Method};
use std::net::SocketAddr;

/// What messages of one socket or connection say of it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// `host:port` for Via.
    pub(crate) sent_by: Vec<u8>,
    /// `host:port` and parameters, where the user is to be reached.
    pub(crate) contact: Vec<u8>,
}

/// The place of `link`. Connections that were opened later have the same as the first.
pub(crate) fn place_of(places: &[Place], link: u32) -> &Place {
    places.get(link as usize).unwrap_or(&places[0])
}

/// Appends each part.
pub(crate) fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Appends the tag of who sends the requests of an operation, the same in all of them.
pub(crate) fn put_tag(key: Key, out: &mut Vec<u8>) {
    super::key::hex(out, key.generation, 8);
    super::key::hex(out, key.slot, 6);
}

/// A request within or outside of a dialog.
pub(crate) struct Head<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) place: &'a Place,
    pub(crate) key: Key,
    pub(crate) method: Method<'static>,
    pub(crate) cseq: u32,
}

impl Head<'_> {
    /// Appends the start line, with the parts of the Request-URI, and Via and Max-Forwards.
    pub(crate) fn start(&self, out: &mut Vec<u8>, uri: &[&[u8]]) {
        put(out, &[self.method.as_bytes(), b" "]);
        put(out, uri);
        let transport = self.settings.transport.via_name().as_bytes();
        put(out, &[b" SIP/2.0\r\nVia: SIP/2.0/", transport, b" ", &self.place.sent_by]);
        out.extend_from_slice(b";rport;branch=z9hG4bK");
        self.key.write(self.settings.salt, out);
        out.extend_from_slice(b"\r\nMax-Forwards: 70\r\n");
    }

    /// Appends From, of `user`.
    pub(crate) fn from(&self, out: &mut Vec<u8>, user: &[u8]) {
        put(out, &[b"From: <sip:", user, b"@", self.settings.domain.as_bytes(), b">;tag="]);
        put_tag(self.key, out);
        out.extend_from_slice(b"\r\n");
    }

    /// Appends the Call-ID of the operation, by which its callee finds it.
    pub(crate) fn call_id(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Call-ID: ");
        Key { attempt: 0, ..self.key }.write(self.settings.salt, out);
        put(out, &[b"@", &self.place.sent_by, b"\r\n"]);
    }

    /// Appends CSeq.
    pub(crate) fn cseq(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"CSeq: ");
        write_decimal(out, self.cseq.into());
        put(out, &[b" ", self.method.as_bytes(), b"\r\n"]);
    }

    /// Appends Contact, of `user`.
    pub(crate) fn contact(&self, out: &mut Vec<u8>, user: &[u8]) {
        put(out, &[b"Contact: <sip:", user, b"@", &self.place.contact, b">\r\n"]);
    }

    /// Appends the end of the header fields, and `body`.
    pub(crate) fn end(&self, out: &mut Vec<u8>, body: &[u8]) {
        out.extend_from_slice(b"User-Agent: barebell-bench\r\nContent-Length: ");
        write_decimal(out, body.len() as u64);
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(body);
    }
}

/// Appends the ACK of a final `response` to an INVITE: for a 2xx as a request of its own within the
/// dialog (RFC 3261 section 13.2.2.4), for any other as part of the transaction (section 17.1.1.3).
/// All that is needed is in the response, so that one which comes late or again is acknowledged too.
/// Returns `None`, with `out` in disorder, where the response lacks what it must have.
pub(crate) fn write_ack(
    settings: &Settings,
    place: &Place,
    key: Key,
    response: &Message<'_>,
    authorization: &[u8],
    out: &mut Vec<u8>,
) -> Option<()> {
    let is_2xx = response.status().is_some_and(|status| status < 300);
    let to = response.first(HeaderName::To)?;
    let callee = NameAddr::parse(HeaderName::To, to.value).ok()?;
    let cseq = sip::header::CSeq::parse(response.value(HeaderName::CSeq)?).ok()?.number;
    let head = Head { settings, place, key, method: Method::Ack, cseq };
    if is_2xx {
        let key = Key { attempt: key.attempt.wrapping_add(0x80), ..key };
        let target = remote_target(response).unwrap_or(callee.uri_bytes);
        Head { key, ..head }.start(out, &[target]);
        write_routes(response, out);
        out.extend_from_slice(authorization);
    } else {
        head.start(out, &[callee.uri_bytes]);
    }
    for name in [HeaderName::From, HeaderName::To, HeaderName::CallId] {
        out.extend_from_slice(response.first(name)?.line);
    }
    head.cseq(out);
    head.end(out, b"");
    Some(())
}

/// The URI of the Contact of a response.
pub(crate) fn remote_target<'a>(response: &Message<'a>) -> Option<&'a [u8]> {
    let value = response.elements(HeaderName::Contact).next()?;
    NameAddr::parse(HeaderName::Contact, value).ok().map(|contact| contact.uri_bytes)
}

/// Appends the route set of a caller as Route lines: the Record-Route values of the response in
/// reverse order (RFC 3261 section 12.1.2).
pub(crate) fn write_routes(response: &Message<'_>, out: &mut Vec<u8>) {
    let count = response.elements(HeaderName::RecordRoute).count();
    for index in (0..count).rev() {
        if let Some(route) = response.elements(HeaderName::RecordRoute).nth(index) {
            put(out, &[b"Route: ", route, b"\r\n"]);
        }
    }
}

/// Where a request of the dialog goes: to the last Record-Route of the response or, without one, to
/// `target`; `None` where that is a name, which leads to where the INVITE went.
pub(crate) fn next_hop_of(response: &Message<'_>, target: &[u8]) -> Option<SocketAddr> {
    let route = response.elements(HeaderName::RecordRoute).last();
    let route = route.and_then(|value| NameAddr::parse(HeaderName::RecordRoute, value).ok());
    address_of(route.map_or(target, |route| route.uri_bytes))
}

/// Where a URI leads, unless it names a host by name.
pub(crate) fn address_of(uri: &[u8]) -> Option<SocketAddr> {
    let uri = sip::Uri::parse(uri).ok()?;
    let uri = uri.as_sip()?;
    Some(SocketAddr::new(uri.host.ip()?, uri.port.unwrap_or(sip::Transport::Udp.default_port())))
}

/// A session description that offers or accepts one G.711 stream (RFC 8866). No media is sent.
pub(crate) fn session_description(address: &str) -> Vec<u8> {
    let family = if address.contains(':') { "IP6" } else { "IP4" };
    format!(
        "v=0\r\no=- 1 1 IN {family} {address}\r\ns=-\r\nc=IN {family} {address}\r\nt=0 0\r\n\
         m=audio 40000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n"
    )
    .into_bytes()
}
