//! Calls through a relay with a simulated host.

mod addresses;
mod bandwidth;
mod calls;
mod codecs;
mod digits;
mod handover;
#[cfg(feature = "web")]
mod handshake;
mod keys;
mod phone;
mod profile;
mod reports;
mod sound;
#[cfg(feature = "web")]
mod web;

use crate::frame::{Ends, Entry};
use crate::{
    Calls, Channel, Codec, Drop, End, Host, Keying, Limits, NoPort, Passage, Ports, Relay,
    RelayError, Selection,
};
use crate::{Rewrites, Role, Side, Stream};
use core::cell::Cell;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};
use core::time::Duration;
use media::{MediaConfig, Negotiator, Security, Seed, Session};
use parking_lot::{Mutex, RawMutex};
use phone::Phone;
use sdp::dtls::{Fingerprint, HashFunction};
use std::string::String;
use std::sync::Arc;
use std::vec::Vec;

type Streams = Arc<Mutex<Vec<Arc<Stream<RawMutex>>>>>;

/// A host with the ports 20000 and more; it keeps the streams in order of their ports.
struct Fake {
    streams: Streams,
    open: Arc<AtomicUsize>,
    /// The packets that were rewritten and are not yet added, of each side.
    rewrites: Arc<Mutex<[Rewrites; 2]>>,
    random: AtomicU8,
    fingerprint: Option<Fingerprint>,
}

struct FakePorts([u16; 2], Arc<AtomicUsize>);

impl Ports for FakePorts {
    fn rtp(&self) -> [u16; 2] {
        self.0
    }
}

impl core::ops::Drop for FakePorts {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Relaxed);
    }
}

impl Host<RawMutex> for Fake {
    type Ports = FakePorts;

    fn open(&self, stream: &Arc<Stream<RawMutex>>, _: [IpAddr; 2]) -> Result<FakePorts, NoPort> {
        let number = self.streams.lock().len() as u16;
        if self.open.load(Relaxed) == 4 {
            return Err(NoPort);
        }
        self.streams.lock().push(Arc::clone(stream));
        self.open.fetch_add(1, Relaxed);
        Ok(FakePorts([20000 + 4 * number, 20002 + 4 * number], Arc::clone(&self.open)))
    }

    fn is_own(&self, place: SocketAddr) -> bool {
        place.ip() == IpAddr::from(RELAY) && (20_000..20_100).contains(&place.port())
    }

    fn withdraw(&self, _: &FakePorts) -> [Rewrites; 2] {
        core::mem::take(&mut self.rewrites.lock())
    }

    fn fingerprint(&self) -> Option<&Fingerprint> {
        self.fingerprint.as_ref()
    }

    fn random(&self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.random.fetch_add(37, Relaxed);
        }
    }
}

const RELAY: [u8; 4] = [192, 0, 2, 1];
const CALLER: [u8; 4] = [198, 51, 100, 1];
const CALLEE: [u8; 4] = [203, 0, 113, 1];
const BRANCH: Option<&[u8]> = Some(b"b");
static CALLS: [[u8; 1]; 5] = [[0], [1], [2], [3], [4]];

struct Rig {
    relay: Relay<RawMutex, Fake>,
    streams: Streams,
    open: Arc<AtomicUsize>,
    rewrites: Arc<Mutex<[Rewrites; 2]>>,
    keying: Keying,
    transcode: &'static [Codec],
    /// The time at which packets are sent.
    now: Cell<Duration>,
}

impl Rig {
    fn new(limits: Limits) -> Self {
        let (streams, open) = (Streams::default(), Arc::default());
        let rewrites = Arc::default();
        let host = Fake {
            streams: Arc::clone(&streams),
            open: Arc::clone(&open),
            rewrites: Arc::clone(&rewrites),
            random: 1.into(),
            fingerprint: Some(Fingerprint { hash: HashFunction::Sha256, bytes: [0xfe].repeat(32) }),
        };
        Self {
            relay: Relay::new(host, limits),
            streams,
            open,
            rewrites,
            keying: Keying::Passed,
            transcode: &[],
            now: Cell::default(),
        }
    }

    /// Passes a description of `side` in the call `c`, on the branch `b` until it is answered.
    fn pass(
        &self,
        side: Side,
        role: Role,
        body: &str,
        change: impl FnOnce(&mut Passage<'_>),
    ) -> Result<Option<String>, RelayError> {
        let permits = |place: SocketAddr| !matches!(place.ip(), IpAddr::V4(ip) if ip.is_private() || ip.is_loopback());
        let end =
            |host: [u8; 4]| End::new(SocketAddr::new(host.into(), 5060), RELAY.into(), &permits);
        let (mut from, mut to) = (end(CALLER), end(CALLEE));
        let (mut from_tag, mut to_tag) = (&b"caller"[..], &b"callee"[..]);
        if side == Side::Callee {
            (from, to, from_tag, to_tag) = (to, from, to_tag, from_tag);
            from.keying = self.keying;
        } else {
            to.keying = self.keying;
        }
        to.codecs.transcode = self.transcode;
        let mut passage = Passage {
            call_id: b"c",
            branch: None,
            from_tag,
            to_tag,
            from,
            to,
            role,
            side,
            begins: false,
            parties: [b"sip:alice@example.com", b"sip:bob@example.com"],
            owner: 7,
            now: Duration::ZERO,
        };
        change(&mut passage);
        self.relay.describe(&passage, body.as_bytes())
    }

    fn first_offer(&self, body: &str) -> String {
        let role = Role::Offer { exchange: 1 };
        let begin = |passage: &mut Passage<'_>| {
            (passage.branch, passage.begins, passage.to_tag) = (BRANCH, true, b"");
        };
        self.pass(Side::Caller, role, body, begin).unwrap().unwrap()
    }

    fn first_answer(&self, body: &str) -> Result<String, RelayError> {
        let role = Role::Response { exchange: 1, is_final: true };
        let answer = self.pass(Side::Callee, role, body, |passage| passage.branch = BRANCH);
        self.relay.confirm(b"c", b"b", b"callee", Duration::ZERO);
        answer.map(Option::unwrap)
    }

    /// Passes another offer of the callee, and its answer. Returns both as they arrive.
    fn renew(&self, callee: &mut Phone, caller: &mut Phone) -> [String; 2] {
        let role = Role::Offer { exchange: 9 };
        let offer = self.pass(Side::Callee, role, &callee.offer(), |_| {}).unwrap().unwrap();
        let answer = caller.answer(&offer).unwrap_or_else(|| panic!("{offer}"));
        let role = Role::Response { exchange: 9, is_final: true };
        let answer = self.pass(Side::Caller, role, &answer, |_| {}).unwrap().unwrap();
        callee.accept(&answer);
        [offer, answer]
    }

    fn stream(&self) -> Arc<Stream<RawMutex>> {
        Arc::clone(self.streams.lock().last().unwrap())
    }

    /// The entry for packets of `side`, if its stream gives one.
    fn entry(&self, side: Side) -> Option<Entry> {
        let locals = [place("192.0.2.1:20000"), place("192.0.2.1:20002")];
        let mut entry = None;
        self.stream().hand_over(side, locals, |given| entry = Some(given));
        entry
    }

    /// Sends `count` packets of audio at `interval` milliseconds. Returns the number of those that
    /// are relayed.
    fn send_audio(&self, side: Side, from: &str, count: u16, interval: u64) -> usize {
        let is_sent = |number: &u16| {
            let sent = self.send(side, from, &rtp(*number)).is_ok();
            self.now.set(self.now.get() + Duration::from_millis(interval));
            sent
        };
        (0..count).filter(is_sent).count()
    }

    fn send(&self, side: Side, from: &str, packet: &[u8]) -> Result<(SocketAddr, Vec<u8>), Drop> {
        let mut buffer = [0; 1500];
        buffer[..packet.len()].copy_from_slice(packet);
        let from = from.parse().unwrap();
        let relayed = self.stream().relay(
            side,
            Channel::Rtp,
            from,
            &mut buffer,
            packet.len(),
            self.now.get(),
        )?;
        Ok((relayed.to, buffer[..relayed.length].to_vec()))
    }
}

fn sdp(host: &str, port: u16) -> String {
    std::format!(
        "v=0\r\no=- 1 1 IN IP4 {host}\r\ns=-\r\nc=IN IP4 {host}\r\nt=0 0\r\nm=audio {port} RTP/AVP 0 101\r\na=rtpmap:101 telephone-event/8000\r\n"
    )
}

fn rtp(sequence_number: u16) -> Vec<u8> {
    let mut packet = [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9].to_vec();
    packet[2..4].copy_from_slice(&sequence_number.to_be_bytes());
    packet.extend([0xd5; 160]);
    packet
}

fn place(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Passes an offer of the caller within the call, and the answer of the callee.
fn exchange(rig: &Rig, number: u32, offer: &str, answer: &str) {
    let role = Role::Offer { exchange: number };
    rig.pass(Side::Caller, role, offer, |_| {}).unwrap().unwrap();
    let role = Role::Response { exchange: number, is_final: true };
    rig.pass(Side::Callee, role, answer, |_| {}).unwrap().unwrap();
}
