//! One question to one server (RFC 8489 section 6.2.1).

use crate::BINDING;
use crate::message::{Class, Message, TransactionId, attribute_type as at};
use crate::writer::Writer;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

/// The time until the request is sent again, the first time; it doubles each time.
const RETRANSMISSION: Duration = Duration::from_millis(500);
/// How often the request is sent (Rc).
const REQUESTS: u32 = 7;
/// How long an answer to the last one is waited for, in the time of [`RETRANSMISSION`] (Rm).
const LAST_WAIT: u32 = 16;

/// The attributes that mean something in an answer.
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

/// What an owner is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The request is in the buffer: send it there.
    Send(SocketAddr),
    /// Nothing until [`Client::next_timer`].
    Wait,
    /// Nobody has answered in 39.5 s.
    TimedOut,
}

/// What a server has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The address that it sees.
    Mapped(SocketAddr),
    /// The code of an error, 300 to 699.
    Refused(u16),
    /// A success that names no address, or one with attributes that would have to be known.
    Useless,
}

/// A binding request that is sent until it is answered. Times are spans since an epoch that the
/// caller chooses and stays with.
#[derive(Clone, Debug)]
pub struct Client {
    id: TransactionId,
    server: SocketAddr,
    sent: u32,
    next: Duration,
    is_answered: bool,
}

impl Client {
    /// Asks `server` from `now` on. `id` has to be random: who can guess it can answer.
    #[must_use]
    pub const fn new(id: TransactionId, server: SocketAddr, now: Duration) -> Self {
        Self { id, server, sent: 0, next: now, is_answered: false }
    }

    /// Whom it asks.
    #[must_use]
    pub const fn server(&self) -> SocketAddr {
        self.server
    }

    /// When to call [`Client::poll`]; `None` once it is answered.
    #[must_use]
    pub fn next_timer(&self) -> Option<Duration> {
        (!self.is_answered).then_some(self.next)
    }

    /// What to do at `now`. A request is written into `out`.
    pub fn poll(&mut self, now: Duration, out: &mut Vec<u8>) -> Event {
        if self.is_answered || now < self.next {
            return Event::Wait;
        }
        if self.sent == REQUESTS {
            return Event::TimedOut;
        }
        let is_last = self.sent + 1 == REQUESTS;
        let wait = if is_last { LAST_WAIT } else { 1 << self.sent };
        self.sent += 1;
        self.next = now + RETRANSMISSION * wait;
        Writer::new(Class::Request, BINDING, self.id, out).fingerprint();
        Event::Send(self.server)
    }

    /// A datagram has come from `from`. `None` where it is not the answer: of another question,
    /// from elsewhere, or damaged; then it is waited for still.
    pub fn receive(&mut self, from: SocketAddr, datagram: &[u8]) -> Option<Answer> {
        let message = Message::parse(datagram).ok()?;
        let is_ours = from == self.server && message.id == self.id && message.method == BINDING;
        if !is_ours || self.sent == 0 || self.is_answered {
            return None;
        }
        let answer = match message.class {
            Class::Request | Class::Indication => return None,
            Class::Error => match message.error() {
                Some(error) => Answer::Refused(error.code),
                None => Answer::Useless,
            },
            Class::Success if message.unknown(KNOWN).next().is_some() => Answer::Useless,
            Class::Success => message.mapped_address().map_or(Answer::Useless, Answer::Mapped),
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
        writer.xor_mapped_address(([198, 51, 100, 7], 40_000).into());
        writer.fingerprint();
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
                Event::Wait => panic!("the timer came too early"),
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
    fn only_the_answer_to_the_question_from_whom_it_was_asked_counts() {
        let mut client = Client::new(ID, server(), Duration::ZERO);
        assert_eq!(client.receive(server(), &success(ID)), None, "nothing was asked");
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
        let mapped = Answer::Mapped(([198, 51, 100, 7], 40_000).into());
        assert_eq!(client.receive(server(), &success(ID)), Some(mapped));
        assert_eq!(client.receive(server(), &success(ID)), None, "once");
        assert_eq!(client.next_timer(), None);
    }

    #[test]
    fn errors_and_answers_without_an_address_are_told() {
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
        assert_eq!(refused, Some(Answer::Refused(420)));
        assert_eq!(answered(&|_| (), Class::Error), Some(Answer::Useless));
        assert_eq!(answered(&|_| (), Class::Success), Some(Answer::Useless));
        let address = SocketAddr::from(([192, 0, 2, 9], 9));
        let strange = |writer: &mut Writer<'_>| {
            writer.xor_mapped_address(address);
            writer.attribute(0x7fff, b"?");
        };
        assert_eq!(answered(&strange, Class::Success), Some(Answer::Useless));
        // As servers from before RFC 5389 answer.
        let old = [0, 1, 0x12, 0x34, 192, 0, 2, 5];
        let old = |writer: &mut Writer<'_>| assert!(writer.attribute(at::MAPPED_ADDRESS, &old));
        let mapped = Answer::Mapped(([192, 0, 2, 5], 0x1234).into());
        assert_eq!(answered(&old, Class::Success), Some(mapped));
    }
}
