//! The messages of the last minutes in HEP version 3, the Homer Encapsulation Protocol: a datagram
//! for each message, with one correlation ID for both legs of a call through the B2BUA.

use super::blank::blanked;
use super::parties::call_id;
use super::recent::Recent;
use super::ring::{Entry, Kind};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// The maximum number of second legs with a known first leg, by their Call-IDs. The oldest makes
/// room for a new one.
const MAX_LEGS: usize = 20_000;

/// The values of the chunks for the address family, as in Linux.
const INET: u8 = 2;
const INET6: u8 = 10;

/// The values of the chunk for the protocol of IP.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// The value of the chunk for the protocol of the payload.
const SIP: u8 = 1;

/// The types of chunks.
const FAMILY: u16 = 1;
const PROTOCOL: u16 = 2;
const V4: [u16; 2] = [3, 4];
const V6: [u16; 2] = [5, 6];
const PORTS: [u16; 2] = [7, 8];
const SECONDS: u16 = 9;
const MICROSECONDS: u16 = 10;
const PAYLOAD_TYPE: u16 = 11;
const AGENT: u16 = 12;
const PAYLOAD: u16 = 15;
const CORRELATION: u16 = 17;

/// The reader of messages for HEP.
pub(crate) struct HepFeed {
    /// The identifier of this server.
    agent: u32,
    seen: Vec<u64>,
    legs: Legs,
}

impl HepFeed {
    /// A reader from the first message on, for a server with the identifier `agent`.
    pub(crate) fn new(agent: u32) -> Self {
        Self { agent, seen: Vec::new(), legs: Legs::default() }
    }

    /// Passes the messages that are new since the last call to `each`, as datagrams of HEP without
    /// secrets. Returns the number of messages that were replaced by later ones meanwhile.
    pub(crate) fn read(&mut self, recent: &Recent, mut each: impl FnMut(&[u8])) -> u64 {
        let Self { agent, seen, legs } = self;
        recent.read(seen, |entry, bytes| match entry.kind {
            Kind::Joined => legs.join(bytes),
            Kind::Received | Kind::Sent => each(&datagram(*agent, entry, bytes, legs)),
        })
    }
}

/// The first Call-IDs of calls with several.
#[derive(Default)]
struct Legs {
    firsts: HashMap<Vec<u8>, Vec<u8>>,
    order: VecDeque<Vec<u8>>,
}

impl Legs {
    /// Notes two Call-IDs with a line end between them.
    fn join(&mut self, both: &[u8]) {
        let Some(at) = both.iter().position(|byte| *byte == b'\n') else { return };
        let (one, other) = (&both[..at], &both[at + 1..]);
        // Messages of the second leg cause messages of the first one, too.
        let (first, second) = (self.first(one).to_vec(), other);
        if first == second || self.firsts.contains_key(second) {
            return;
        }
        if self.order.len() >= MAX_LEGS
            && let Some(oldest) = self.order.pop_front()
        {
            self.firsts.remove(&oldest);
        }
        self.order.push_back(second.to_vec());
        self.firsts.insert(second.to_vec(), first);
    }

    /// The Call-ID of the first leg of the call with this one.
    fn first<'i>(&'i self, id: &'i [u8]) -> &'i [u8] {
        self.firsts.get(id).map_or(id, |first| first)
    }
}

fn datagram(agent: u32, entry: &Entry, bytes: &[u8], legs: &Legs) -> Vec<u8> {
    let flow = entry.flow();
    let [local, remote] =
        [flow.local, flow.remote].map(|end| SocketAddr::new(end.ip().to_canonical(), end.port()));
    let ends = if entry.kind == Kind::Sent { [local, remote] } else { [remote, local] };
    let protocol = if flow.transport.is_stream() { TCP } else { UDP };
    let mut out = b"HEP3\0\0".to_vec();
    let is_v4 = ends.iter().all(SocketAddr::is_ipv4);
    chunk(&mut out, FAMILY, &[if is_v4 { INET } else { INET6 }]);
    chunk(&mut out, PROTOCOL, &[protocol]);
    for (at, end) in ends.iter().enumerate() {
        match end.ip() {
            IpAddr::V4(ip) if is_v4 => chunk(&mut out, V4[at], &ip.octets()),
            IpAddr::V4(ip) => chunk(&mut out, V6[at], &ip.to_ipv6_mapped().octets()),
            IpAddr::V6(ip) => chunk(&mut out, V6[at], &ip.octets()),
        }
        chunk(&mut out, PORTS[at], &end.port().to_be_bytes());
    }
    chunk(&mut out, SECONDS, &((entry.at / 1_000_000) as u32).to_be_bytes());
    chunk(&mut out, MICROSECONDS, &((entry.at % 1_000_000) as u32).to_be_bytes());
    chunk(&mut out, PAYLOAD_TYPE, &[SIP]);
    chunk(&mut out, AGENT, &agent.to_be_bytes());
    if let Some(id) = call_id(bytes) {
        chunk(&mut out, CORRELATION, legs.first(id));
    }
    chunk(&mut out, PAYLOAD, &blanked(bytes));
    let length = (out.len() as u16).to_be_bytes();
    out[4..6].copy_from_slice(&length);
    out
}

/// Writes a chunk of the general vendor. All chunks of a datagram have less than 64 KiB, since the
/// ring cuts messages and Call-IDs are parts of them.
fn chunk(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    out.extend([0, 0]);
    out.extend(kind.to_be_bytes());
    out.extend((value.len() as u16 + 6).to_be_bytes());
    out.extend(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip::{Flow, Transport};

    fn flow(local: &str, remote: &str, transport: Transport) -> Flow {
        let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
        Flow { transport, local, remote, connection: None }
    }

    fn message(call_id: &str) -> Vec<u8> {
        let text = format!(
            "BYE sip:b:SECRET@h SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
             From: <sip:a@h>;tag=1\r\nTo: <sip:b@h>\r\nCall-ID: {call_id}\r\nCSeq: 1 BYE\r\n\
             Content-Length: 0\r\n\r\n"
        );
        text.into_bytes()
    }

    /// The chunks of a datagram: their types and values.
    fn chunks(datagram: &[u8]) -> HashMap<u16, Vec<u8>> {
        let number = |at: usize| u16::from_be_bytes([datagram[at], datagram[at + 1]]);
        assert_eq!((&datagram[..4], usize::from(number(4))), (&b"HEP3"[..], datagram.len()));
        let (mut at, mut found) = (6, HashMap::new());
        while at < datagram.len() {
            let length = usize::from(number(at + 4));
            assert_eq!(number(at), 0, "the vendor");
            assert!(found.insert(number(at + 2), datagram[at + 6..at + length].to_vec()).is_none());
            at += length;
        }
        found
    }

    fn read(feed: &mut HepFeed, recent: &Recent) -> Vec<HashMap<u16, Vec<u8>>> {
        let mut found = Vec::new();
        assert_eq!(feed.read(recent, |datagram| found.push(chunks(datagram))), 0);
        found
    }

    #[test]
    fn a_message_has_its_ends_its_time_and_no_secrets() {
        let recent = Recent::new(1, 1 << 20);
        let mut feed = HepFeed::new(77);
        let plain = flow("192.0.2.1:5060", "[::ffff:192.0.2.9]:1024", Transport::Udp);
        recent.note(0, &plain, &message("x"), false);
        let secure = flow("[2001:db8::1]:5061", "[2001:db8::9]:1024", Transport::Tls);
        recent.note(0, &secure, &message("y"), true);
        let found = read(&mut feed, &recent);
        assert_eq!(found.len(), 2);
        let expected: [(u16, &[u8]); 9] = [
            (1, &[2]),
            (2, &[17]),
            (3, &[192, 0, 2, 9]),
            (4, &[192, 0, 2, 1]),
            (7, &[4, 0]),
            (8, &[0x13, 0xc4]),
            (11, &[1]),
            (12, &[0, 0, 0, 77]),
            (17, b"x"),
        ];
        expected.iter().for_each(|(kind, value)| assert_eq!(found[0][kind], *value, "{kind}"));
        let payload = String::from_utf8(found[0][&15].clone()).unwrap();
        assert!(payload.starts_with("BYE sip:b:xxxxxx@h SIP/2.0\r\n"), "{payload}");
        let second = u32::from_be_bytes(found[0][&9][..].try_into().unwrap());
        assert!(second > 1_700_000_000);
        assert_eq!((&found[1][&1][..], &found[1][&2][..]), (&[10][..], &[6][..]));
        assert_eq!(found[1][&5][15], 1);
        assert_eq!(found[1][&7], [0x13, 0xc5]);
        assert!(read(&mut feed, &recent).is_empty());
        recent.note(0, &plain, &message("z"), false);
        assert_eq!(read(&mut feed, &recent).len(), 1);
    }

    #[test]
    fn all_legs_of_a_call_have_the_call_id_of_the_first() {
        let recent = Recent::new(1, 1 << 20);
        let mut feed = HepFeed::new(1);
        let flow = flow("192.0.2.1:5060", "192.0.2.9:1024", Transport::Udp);
        let invite = |id: &str| {
            String::from_utf8(message(id)).unwrap().replace("BYE", "INVITE").into_bytes()
        };
        let join = |one: &str, other: &str| {
            let other = invite(other);
            recent.note_joined(0, &flow, &invite(one), [&other[..]].into_iter());
        };
        join("a", "b");
        join("b", "a");
        join("b", "c");
        for id in ["a", "b", "c", "d"] {
            recent.note(0, &flow, &message(id), true);
        }
        let found = read(&mut feed, &recent);
        let ids: Vec<&[u8]> = found.iter().map(|chunks| &chunks[&17][..]).collect();
        assert_eq!(ids, [b"a", b"a", b"a", b"d"]);
    }

    #[test]
    fn the_number_of_known_legs_is_limited() {
        let mut legs = Legs::default();
        for number in 0..MAX_LEGS + 10 {
            legs.join(format!("a{number}\nb{number}").as_bytes());
        }
        assert_eq!((legs.firsts.len(), legs.order.len()), (MAX_LEGS, MAX_LEGS));
        assert_eq!(legs.first(b"b9"), b"b9");
        assert_eq!(legs.first(b"b10"), b"a10");
    }
}
