//! A client of TURN, its server and strangers.

use ::stun::turn::{Client, Credentials, Event, Received, Transport, attribute_type as turn};
use ::stun::{Class, Message, Writer, attribute_type as at};
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// The requests that are due at a time at most: the allocation, and 64 permissions and channels.
const MAX_REQUESTS: usize = 129;
/// The attributes that a response may have.
const ATTRIBUTES: [u16; 9] = [
    at::ERROR_CODE,
    at::REALM,
    at::NONCE,
    at::USERNAME,
    at::XOR_MAPPED_ADDRESS,
    turn::LIFETIME,
    turn::XOR_RELAYED_ADDRESS,
    turn::XOR_PEER_ADDRESS,
    0x7abc,
];
const REALM: &[u8] = b"example.org";

fn credentials() -> Credentials {
    Credentials { user: "alice".into(), password: "secret".into() }
}

/// A client, and the outputs that it may still have.
struct Turn {
    client: Client,
    is_stream: bool,
    is_ipv6: bool,
    now: Duration,
    /// The peers that were permitted.
    permitted: HashSet<IpAddr>,
    /// The last request.
    request: Vec<u8>,
    has_failed: bool,
}

impl Turn {
    fn peer(&self, number: u8) -> SocketAddr {
        let ip = match self.is_ipv6 {
            true => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number.into()).into(),
            false => IpAddr::from(Ipv4Addr::new(198, 51, 100, number)),
        };
        SocketAddr::new(ip, 4000 + u16::from(number & 3))
    }

    /// Passes octets of the server or of a stranger.
    fn receive(&mut self, octets: &[u8]) {
        let Self { client, permitted, .. } = self;
        let check = |peer: SocketAddr, data: &[u8]| {
            assert!(permitted.contains(&peer.ip()), "a datagram of {peer}");
            assert!(u16::try_from(data.len()).is_ok());
        };
        if self.is_stream {
            client.receive_stream(self.now, octets, check);
        } else if let Received::Data(peer, data) = client.receive(self.now, octets) {
            check(peer, data);
        }
    }

    /// Takes what the client sends.
    fn poll(&mut self) {
        let mut count = 0;
        while let Some(event) = self.client.poll(self.now) {
            count += 1;
            assert!(count <= 2 * MAX_REQUESTS, "requests do not end");
            assert!(!self.has_failed, "{event:?} after the end");
            match event {
                Event::Send(request) => self.request = request,
                Event::Allocated(relayed) => {
                    assert!(relayed.is_ipv6() == self.is_ipv6 && relayed.port() != 0);
                }
                Event::Failed(error, _) => {
                    assert!(error.to_string().len() < 400, "{error}");
                    self.has_failed = true;
                }
                _ => {}
            }
        }
        assert!(!self.has_failed || self.client.next_timer().is_none());
        assert!(self.client.next_timer().is_none_or(|next| next > self.now));
    }

    /// A response to the last request, with attributes by `fields`. It is signed by `is_signed`.
    fn response(&self, class: Class, is_signed: bool, fields: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let Ok(request) = Message::parse(&self.request) else { return out };
        let mut writer = Writer::new(class, request.method, request.id, &mut out);
        let mut rest = fields;
        let mut is_written = true;
        while let [choice, length, after @ ..] = rest {
            let (value, after) = after.split_at(after.len().min(usize::from(*length)));
            rest = after;
            let number = ATTRIBUTES[usize::from(*choice) % ATTRIBUTES.len()];
            is_written &= match (number, choice >> 4) {
                (at::REALM, 0..8) => writer.attribute(number, REALM),
                (at::ERROR_CODE, 0..8) => writer.error(401, "Unauthorized"),
                (at::ERROR_CODE, 8..12) => writer.error(438, "Stale Nonce"),
                (turn::XOR_RELAYED_ADDRESS, 0..8) => writer.xor_address(number, self.peer(9)),
                _ => writer.attribute(number, value),
            }
            .is_ok();
        }
        if is_signed {
            is_written &= writer.integrity(&credentials().key(REALM)).is_ok();
        }
        if is_written { out } else { Vec::new() }
    }
}

/// Runs a client. Each step has a byte that chooses it, and a byte for the length of its bytes:
/// octets of a stranger, a response, a command, or the time.
///
/// # Panics
/// A datagram is of a peer that was not permitted, a relayed address has another family than that
/// which was asked for, or requests do not end.
pub fn turn(bytes: &[u8]) {
    let [first, rest @ ..] = bytes else { return };
    let (is_stream, is_ipv6) = (first & 1 != 0, first & 2 != 0);
    let transport = if is_stream { Transport::Stream } else { Transport::Udp };
    let random = |bytes: &mut [u8]| bytes.fill(7);
    let mut turn = Turn {
        client: Client::new(credentials(), transport, is_ipv6, random),
        is_stream,
        is_ipv6,
        now: Duration::from_secs(1),
        permitted: HashSet::new(),
        request: Vec::new(),
        has_failed: false,
    };
    turn.client.begin(turn.now);
    turn.poll();
    let mut rest = rest;
    while let [choice, length, after @ ..] = rest {
        let (bytes, after) = after.split_at(after.len().min(usize::from(*length)));
        rest = after;
        match choice & 7 {
            0 => turn.receive(bytes),
            1 => turn.now += Duration::from_millis(500 * u64::from(choice >> 3)),
            2..=4 => {
                let class = if choice & 8 == 0 { Class::Success } else { Class::Error };
                let response = turn.response(class, choice & 16 != 0, bytes);
                turn.receive(&response);
            }
            5 | 6 => {
                let peer = turn.peer(*length);
                turn.permitted.insert(peer.ip());
                match choice & 8 {
                    0 => turn.client.permit(turn.now, peer.ip()),
                    _ => turn.client.bind(turn.now, peer),
                }
                let _ = turn.client.send(peer, bytes, &mut Vec::new());
            }
            _ => {
                let indication = turn.response(Class::Indication, false, bytes);
                turn.receive(&indication);
            }
        }
        turn.poll();
    }
    let relayed = turn.client.relayed();
    turn.client.close();
    if let Some(event) = turn.client.poll(turn.now) {
        assert!(relayed.is_some() && matches!(event, Event::Send(_)), "{event:?}");
    }
    assert_eq!(turn.client.next_timer(), None);
}
