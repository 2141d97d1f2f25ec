//! A small TURN server (RFC 8656) of the simulated network, for IPv4 and one user.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use stun::turn::method::{ALLOCATE, CHANNEL_BIND, CREATE_PERMISSION, DATA, REFRESH, SEND};
use stun::turn::{Credentials, attribute_type as turn_at};
use stun::{BINDING, Class, Message, TransactionId, Writer, attribute_type as at};

/// The lifetimes of an allocation, a permission, a channel and a nonce.
const ALLOCATION: Duration = Duration::from_secs(600);
const PERMISSION: Duration = Duration::from_secs(300);
const CHANNEL: Duration = Duration::from_secs(600);
const NONCE: Duration = Duration::from_secs(400);
/// The first relayed port.
const PORTS: u16 = 50_000;

/// The credentials that the server accepts.
pub(crate) const USER: &str = "alice";
pub(crate) const PASSWORD: &str = "secret";

/// The server. A datagram that it sends is in the result of its functions, as from and to.
pub(crate) struct TurnServer {
    pub(crate) address: SocketAddr,
    key: Vec<u8>,
    begin: Instant,
    /// By the addresses of their clients.
    allocations: BTreeMap<SocketAddr, Allocation>,
    /// The number of datagrams that came in channels, and in indications.
    pub(crate) in_channels: usize,
    pub(crate) in_indications: usize,
}

struct Allocation {
    relayed: SocketAddr,
    end: Instant,
    permissions: BTreeMap<IpAddr, Instant>,
    channels: BTreeMap<u16, (SocketAddr, Instant)>,
}

type Sent = (SocketAddr, SocketAddr, Vec<u8>);

impl TurnServer {
    pub(crate) fn new(address: SocketAddr, begin: Instant) -> Self {
        let credentials = Credentials { user: USER.to_owned(), password: PASSWORD.to_owned() };
        let key = credentials.key(b"example.org").to_vec();
        let allocations = BTreeMap::new();
        Self { address, key, begin, allocations, in_channels: 0, in_indications: 0 }
    }

    /// The number of addresses that are relayed at.
    pub(crate) fn relayed(&self, now: Instant) -> usize {
        self.allocations.values().filter(|allocation| allocation.end > now).count()
    }

    fn nonce(&self, now: Instant) -> String {
        format!("nonce{}", now.duration_since(self.begin).as_secs() / NONCE.as_secs())
    }

    /// A datagram for the server itself.
    pub(crate) fn receive(&mut self, now: Instant, client: SocketAddr, bytes: &[u8]) -> Vec<Sent> {
        self.allocations.retain(|_, allocation| allocation.end > now);
        if let [0x40..=0x4f, ..] = bytes {
            let number = u16::from_be_bytes([bytes[0], bytes[1]]);
            let length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
            let Some(allocation) = self.allocations.get(&client) else { return Vec::new() };
            let Some((peer, end)) = allocation.channels.get(&number) else { return Vec::new() };
            assert!(*end > now, "the client refreshes its channels");
            self.in_channels += 1;
            return vec![(allocation.relayed, *peer, bytes[4..4 + length].to_vec())];
        }
        let message = Message::parse(bytes).expect("a message of a client");
        if message.class == Class::Indication && message.method != SEND {
            return Vec::new();
        }
        if message.method == BINDING {
            let mut answer = Vec::new();
            assert!(stun::respond_to_binding(client, bytes, &mut answer));
            return vec![(self.address, client, answer)];
        }
        if message.class == Class::Indication {
            let Some(allocation) = self.allocations.get(&client) else { return Vec::new() };
            let peer = peer_of(&message);
            let is_permitted = allocation.permissions.get(&peer.ip()).is_some_and(|end| *end > now);
            let data = message.value(turn_at::DATA).expect("the data of an indication");
            self.in_indications += 1;
            return match is_permitted {
                true => vec![(allocation.relayed, peer, data.to_vec())],
                false => Vec::new(),
            };
        }
        vec![(self.address, client, self.answer(now, client, &message))]
    }

    fn answer(&mut self, now: Instant, client: SocketAddr, request: &Message<'_>) -> Vec<u8> {
        let nonce = self.nonce(now);
        let mut out = Vec::new();
        let is_authentic = request.has_integrity(&self.key);
        let is_fresh = request.value(at::NONCE) == Some(nonce.as_bytes());
        if !is_authentic || !is_fresh {
            let code = if is_authentic { 438 } else { 401 };
            let mut writer = Writer::new(Class::Error, request.method, request.id, &mut out);
            writer.error(code, "No").unwrap();
            writer.attribute(at::REALM, b"example.org").unwrap();
            writer.attribute(at::NONCE, nonce.as_bytes()).unwrap();
            return out;
        }
        let port = PORTS + self.allocations.len() as u16;
        let relayed = SocketAddr::new(self.address.ip(), port);
        let allocation = self.allocations.entry(client).or_insert_with(|| {
            assert_eq!(request.method, ALLOCATE, "the first request of a client");
            let (permissions, channels) = (BTreeMap::new(), BTreeMap::new());
            Allocation { relayed, end: now + ALLOCATION, permissions, channels }
        });
        let mut writer = Writer::new(Class::Success, request.method, request.id, &mut out);
        match request.method {
            ALLOCATE => {
                writer.xor_address(turn_at::XOR_RELAYED_ADDRESS, allocation.relayed).unwrap();
                writer.xor_mapped_address(client).unwrap();
                let lifetime = (ALLOCATION.as_secs() as u32).to_be_bytes();
                writer.attribute(turn_at::LIFETIME, &lifetime).unwrap();
            }
            REFRESH => {
                let wanted = request
                    .value(turn_at::LIFETIME)
                    .map_or(1, |it| it.iter().copied().max().unwrap());
                let lifetime = if wanted == 0 { Duration::ZERO } else { ALLOCATION };
                allocation.end = now + lifetime;
                let lifetime = (lifetime.as_secs() as u32).to_be_bytes();
                writer.attribute(turn_at::LIFETIME, &lifetime).unwrap();
            }
            CREATE_PERMISSION => {
                allocation.permissions.insert(peer_of(request).ip(), now + PERMISSION);
            }
            CHANNEL_BIND => {
                let number =
                    request.value(turn_at::CHANNEL_NUMBER).expect("the number of the channel");
                let number = u16::from_be_bytes([number[0], number[1]]);
                let peer = peer_of(request);
                allocation.channels.insert(number, (peer, now + CHANNEL));
                allocation.permissions.insert(peer.ip(), now + PERMISSION);
            }
            other => panic!("method {other}"),
        }
        writer.integrity(&self.key).unwrap();
        out
    }

    /// A datagram of a peer for a relayed address.
    pub(crate) fn relay(
        &self,
        now: Instant,
        relayed: SocketAddr,
        peer: SocketAddr,
        bytes: &[u8],
    ) -> Vec<Sent> {
        let found = self.allocations.iter().find(|(_, it)| it.relayed == relayed && it.end > now);
        let Some((&client, allocation)) = found else { return Vec::new() };
        if allocation.permissions.get(&peer.ip()).is_none_or(|end| *end <= now) {
            return Vec::new();
        }
        let channel = allocation.channels.iter().find(|(_, (to, end))| *to == peer && *end > now);
        let mut out = Vec::new();
        if let Some((number, _)) = channel {
            out.extend(number.to_be_bytes());
            out.extend((bytes.len() as u16).to_be_bytes());
            out.extend(bytes);
        } else {
            let mut writer = Writer::new(Class::Indication, DATA, TransactionId([7; 12]), &mut out);
            writer.xor_address(turn_at::XOR_PEER_ADDRESS, peer).unwrap();
            writer.attribute(turn_at::DATA, bytes).unwrap();
        }
        vec![(self.address, client, out)]
    }
}

fn peer_of(message: &Message<'_>) -> SocketAddr {
    message.xor_address(turn_at::XOR_PEER_ADDRESS).expect("the address of the peer")
}
