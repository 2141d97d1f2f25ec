//! A binding request to one server (RFC 8489 section 6.2.1).

use crate::BINDING;
use crate::message::{Class, Message, TransactionId, attribute_type as at};
use crate::retransmission::{Due, Retransmission};
use crate::writer::Writer;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

/// The comprehension-required attributes that a response may have.
const KNOWN: &[u16] = &[
    at::MAPPED_ADDRESS,
    at::MESSAGE_INTEGRITY,
    at::ERROR_CODE,
    at::UNKNOWN_ATTRIBUTES,
    at::REALM,
    at::NONCE,
    at::MESSAGE_INTEGRITY_SHA256,
    at::PASSWORD_ALGORITHM,
    at::XOR_MAPPED_ADDRESS,
];

/// The result of [`Client::poll`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Send the request in the buffer to this address.
    Send(SocketAddr),
    /// Nothing to do until [`Client::next_timer`].
    Wait,
    /// No response arrived in 39.5 s.
    TimedOut,
}

/// The response of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingResponse {
    /// The reflexive transport address, as seen by the server.
    Mapped(SocketAddr),
    /// An error response with its code, 300 to 699.
    Error(u16),
    /// A success response without a mapped address, or a response with unknown
    /// comprehension-required attributes.
    Unusable,
}

/// A binding request and its retransmissions. Times are durations since an epoch that the caller
/// chooses and keeps.
#[derive(Clone, Debug)]
pub struct Client {
    id: TransactionId,
    server: SocketAddr,
    schedule: Retransmission,
    is_answered: bool,
}

impl Client {
    /// Starts a request to `server` at `now`. `id` has to be random: a guessed ID allows a forged
    /// response.
    #[must_use]
    pub const fn new(id: TransactionId, server: SocketAddr, now: Duration) -> Self {
        Self { id, server, schedule: Retransmission::new(now, false), is_answered: false }
    }

    /// The address of the server.
    #[must_use]
    pub const fn server(&self) -> SocketAddr {
        self.server
    }

    /// The time of the next call of [`Client::poll`], or `None` after a response.
    #[must_use]
    pub fn next_timer(&self) -> Option<Duration> {
        (!self.is_answered).then_some(self.schedule.next())
    }

    /// Returns the action at `now`. A request is written into `out`.
    pub fn poll(&mut self, now: Duration, out: &mut Vec<u8>) -> Event {
        if self.is_answered {
            return Event::Wait;
        }
        match self.schedule.poll(now) {
            Due::Wait => Event::Wait,
            Due::TimedOut => Event::TimedOut,
            Due::Send => {
                // An empty request has room for it.
                let _ = Writer::new(Class::Request, BINDING, self.id, out).fingerprint();
                Event::Send(self.server)
            }
        }
    }

    /// Processes a datagram from `from`. Returns `None` if it is not the response to this request:
    /// a different transaction, a different source address, or a malformed message. The client then
    /// continues to wait.
    pub fn receive(&mut self, from: SocketAddr, datagram: &[u8]) -> Option<BindingResponse> {
        let message = Message::parse(datagram).ok()?;
        let is_ours = from == self.server && message.id == self.id && message.method == BINDING;
        if !is_ours || !self.schedule.is_sent() || self.is_answered {
            return None;
        }
        let answer = match message.class {
            Class::Request | Class::Indication => return None,
            Class::Error => match message.error() {
                Some(error) => BindingResponse::Error(error.code),
                None => BindingResponse::Unusable,
            },
            Class::Success if message.unknown_attributes(KNOWN).next().is_some() => {
                BindingResponse::Unusable
            }
            Class::Success => {
                message.mapped_address().map_or(BindingResponse::Unusable, BindingResponse::Mapped)
            }
        };
        self.is_answered = true;
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: TransactionId = TransactionId([9; 12]);

    fn server() -> SocketAddr {
        ([192, 0, 2, 1], 3478).into()
    }

    fn success(id: TransactionId) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::new(Class::Success, BINDING, id, &mut out);
        writer.xor_mapped_address(([198, 51, 100, 7], 40_000).into()).unwrap();
        writer.fingerprint().unwrap();
        out
    }

    #[test]
    fn a_request_is_sent_seven_times_as_rfc_8489_says() {
        let mut client = Client::new(ID, server(), Duration::from_secs(1));
        let (mut sent, mut out) = (Vec::new(), Vec::new());
        let end = loop {
            let now = client.next_timer().unwrap();
            let millis = (now - Duration::from_secs(1)).as_millis();
            match client.poll(now, &mut out) {
                Event::Send(to) => {
                    assert_eq!((to, client.poll(now, &mut out)), (server(), Event::Wait));
                    sent.push(millis);
                }
                Event::Wait => panic!("the timer fired too early"),
                Event::TimedOut => break millis,
            }
        };
        assert_eq!(sent, [0, 500, 1500, 3500, 7500, 15_500, 31_500]);
        assert_eq!(end, 39_500);
        let request = Message::parse(&out).unwrap();
        assert_eq!((request.class, request.method, request.id), (Class::Request, BINDING, ID));
        assert!(request.has_fingerprint);
    }

    #[test]
    fn only_the_matching_response_from_the_server_is_accepted() {
        let mut client = Client::new(ID, server(), Duration::ZERO);
        assert_eq!(client.receive(server(), &success(ID)), None, "no request was sent");
        client.poll(Duration::ZERO, &mut Vec::new());
        let elsewhere: SocketAddr = ([192, 0, 2, 1], 3479).into();
        assert_eq!(client.receive(elsewhere, &success(ID)), None);
        assert_eq!(client.receive(server(), &success(TransactionId([8; 12]))), None);
        let mut damaged = success(ID);
        damaged[27] ^= 1;
        assert_eq!(client.receive(server(), &damaged), None);
        let mut request = Vec::new();
        Writer::new(Class::Request, BINDING, ID, &mut request);
        assert_eq!(client.receive(server(), &request), None);
        let mapped = BindingResponse::Mapped(([198, 51, 100, 7], 40_000).into());
        assert_eq!(client.receive(server(), &success(ID)), Some(mapped));
        assert_eq!(client.receive(server(), &success(ID)), None, "once");
        assert_eq!(client.next_timer(), None);
    }

    #[test]
    fn errors_and_responses_without_an_address_are_reported() {
        let answered = |write: &dyn Fn(&mut Writer<'_>), class| {
            let mut client = Client::new(ID, server(), Duration::ZERO);
            client.poll(Duration::ZERO, &mut Vec::new());
            let mut out = Vec::new();
            write(&mut Writer::new(class, BINDING, ID, &mut out));
            client.receive(server(), &out)
        };
        let refused = answered(
            &|writer| {
                let _ = writer.error(420, "Unknown");
            },
            Class::Error,
        );
        assert_eq!(refused, Some(BindingResponse::Error(420)));
        assert_eq!(answered(&|_| (), Class::Error), Some(BindingResponse::Unusable));
        assert_eq!(answered(&|_| (), Class::Success), Some(BindingResponse::Unusable));
        let address = SocketAddr::from(([192, 0, 2, 9], 9));
        let strange = |writer: &mut Writer<'_>| {
            writer.xor_mapped_address(address).unwrap();
            writer.attribute(0x7fff, b"?").unwrap();
        };
        assert_eq!(answered(&strange, Class::Success), Some(BindingResponse::Unusable));
        // The response of a server that predates RFC 5389.
        let old = [0, 1, 0x12, 0x34, 192, 0, 2, 5];
        let old = |writer: &mut Writer<'_>| writer.attribute(at::MAPPED_ADDRESS, &old).unwrap();
        let mapped = BindingResponse::Mapped(([192, 0, 2, 5], 0x1234).into());
        assert_eq!(answered(&old, Class::Success), Some(mapped));
    }
}
