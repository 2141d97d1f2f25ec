//! Peers with scripted messages.

use super::Rig;
use sip::message::{Response, reason_phrase};
use sip::{HeaderName, Message};
use std::net::SocketAddr;

/// Returns the response to `request`, with complete header field lines and a session description.
pub(crate) fn response(
    request: &[u8],
    source: SocketAddr,
    status: u16,
    tag: &str,
    lines: &str,
    session: &str,
) -> Vec<u8> {
    let request = Message::parse(request).expect("a request");
    let reason = reason_phrase(status);
    let to_tag = Some(tag.as_bytes()).filter(|tag| !tag.is_empty());
    let response = Response { request: &request, source, status, reason, to_tag };
    let mut out = Vec::new();
    let fields = |out: &mut Vec<u8>| {
        out.extend_from_slice(lines.as_bytes());
        if !session.is_empty() {
            out.extend_from_slice(b"Content-Type: application/sdp\r\n");
        }
    };
    response.write_with_body(&mut out, fields, session.as_bytes());
    out
}

/// Returns the value of a header field of `message`.
pub(crate) fn value(message: &[u8], name: HeaderName) -> String {
    let message = Message::parse(message).expect("a message");
    let value = message.value(name).unwrap_or_default();
    String::from_utf8_lossy(value).into_owned()
}

/// Returns the body of `message`.
pub(crate) fn body(message: &[u8]) -> Vec<u8> {
    Message::parse(message).expect("a message").body().to_vec()
}

impl Rig {
    /// Returns the next message to the stranger at `place` with this beginning. Earlier messages
    /// are dropped.
    pub(crate) fn mail(&mut self, place: SocketAddr, beginning: &str) -> Vec<u8> {
        loop {
            while let Some(mail) = self.mail.get_mut(&place).and_then(|mail| mail.pop_front()) {
                if mail.starts_with(beginning.as_bytes()) {
                    return mail;
                }
            }
            assert!(self.step(), "no {beginning} comes to {place}");
        }
    }

    /// Returns all messages to the stranger at `place` with this beginning.
    pub(crate) fn all_mail(&mut self, place: SocketAddr, beginning: &str) -> Vec<Vec<u8>> {
        let mail = self.mail.remove(&place).unwrap_or_default();
        mail.into_iter().filter(|mail| mail.starts_with(beginning.as_bytes())).collect()
    }

    /// The stranger at `place` sends a message to an agent.
    pub(crate) fn send(&mut self, place: SocketAddr, to: usize, bytes: &[u8]) {
        self.transmit(place, self.places[to], bytes);
    }

    /// The stranger at `place` answers `request` of an agent, with its Contact.
    pub(crate) fn reply(
        &mut self,
        (place, to): (SocketAddr, usize),
        request: &[u8],
        (status, tag): (u16, &str),
        lines: &str,
        session: &str,
    ) {
        let lines = format!("Contact: <sip:{place}>\r\n{lines}");
        let bytes = response(request, self.places[to], status, tag, &lines, session);
        self.send(place, to, &bytes);
    }
}
