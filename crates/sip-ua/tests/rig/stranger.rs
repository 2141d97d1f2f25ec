//! Peers with scripted messages.

use super::Rig;
use std::net::SocketAddr;

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
        let bytes =
            test_support::flow::response(request, self.places[to], status, tag, &lines, session);
        self.send(place, to, &bytes);
    }
}
