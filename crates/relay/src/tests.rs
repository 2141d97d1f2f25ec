//! Calls through a relay with a simulated host.

mod bandwidth;
mod codecs;
mod reports;
mod sound;

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

#[test]
fn packets_pass_between_a_phone_behind_nat_and_one_with_a_public_address() {
    let rig = Rig::new(Limits::default());
    let offer = rig.first_offer(&sdp("10.0.0.7", 4000));
    assert!(offer.contains("m=audio 20002 ") && !offer.contains("10.0.0.7"), "{offer}");
    let answer = rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    assert!(answer.contains("c=IN IP4 192.0.2.1\r\n") && answer.contains("m=audio 20000 "));
    // The caller has no address before its first packet.
    assert_eq!(rig.send(Side::Callee, "203.0.113.1:6000", &rtp(1)), Err(Drop::NoDestination));
    let (to, packet) = rig.send(Side::Caller, "198.51.100.1:33333", &rtp(1)).unwrap();
    assert_eq!((to, packet), (place("203.0.113.1:6000"), rtp(1)));
    let (to, _) = rig.send(Side::Callee, "203.0.113.1:6000", &rtp(2)).unwrap();
    assert_eq!(to, place("198.51.100.1:33333"));
    let [caller, callee] = rig.stream().summary();
    assert_eq!((caller.packets, callee.packets, callee.unsent), (1, 2, 1));
}

#[test]
fn packets_of_strangers_are_refused_before_and_after_the_first_packet() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&sdp("198.51.100.1", 4000));
    rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    let stranger = "192.0.2.66:4000";
    assert_eq!(rig.send(Side::Caller, stranger, &rtp(1)), Err(Drop::Source));
    rig.send(Side::Caller, "198.51.100.1:4000", &rtp(1)).unwrap();
    for from in [stranger, "198.51.100.1:4001"] {
        assert_eq!(rig.send(Side::Caller, from, &rtp(2)), Err(Drop::Source));
    }
    // A new offer with the same address opens no window.
    let role = Role::Offer { exchange: 2 };
    rig.pass(Side::Caller, role, &sdp("198.51.100.1", 4000), |_| {}).unwrap().unwrap();
    let role = Role::Response { exchange: 2, is_final: true };
    rig.pass(Side::Callee, role, &sdp("203.0.113.1", 6000), |_| {}).unwrap().unwrap();
    assert_eq!(rig.send(Side::Caller, "198.51.100.1:4001", &rtp(2)), Err(Drop::Source));
    rig.send(Side::Caller, "198.51.100.1:4000", &rtp(2)).unwrap();
    // With another address it moves, once the answer has passed.
    let role = Role::Offer { exchange: 3 };
    rig.pass(Side::Caller, role, &sdp("198.51.100.1", 4100), |_| {}).unwrap().unwrap();
    assert_eq!(rig.send(Side::Caller, "198.51.100.1:4100", &rtp(3)), Err(Drop::Source));
    let role = Role::Response { exchange: 3, is_final: true };
    rig.pass(Side::Callee, role, &sdp("203.0.113.1", 6000), |_| {}).unwrap().unwrap();
    rig.send(Side::Caller, "198.51.100.1:4100", &rtp(3)).unwrap();
    assert_eq!(rig.stream().summary()[0].refused, 5);
}

#[test]
fn an_end_behind_nat_moves_with_its_private_address() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&sdp("10.0.0.7", 4000));
    rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    rig.send(Side::Caller, "198.51.100.1:33333", &rtp(1)).unwrap();
    let role = Role::Offer { exchange: 2 };
    rig.pass(Side::Caller, role, &sdp("10.0.0.7", 4100), |_| {}).unwrap().unwrap();
    assert_eq!(rig.send(Side::Caller, "198.51.100.1:44444", &rtp(2)), Err(Drop::Source));
    let role = Role::Response { exchange: 2, is_final: true };
    rig.pass(Side::Callee, role, &sdp("203.0.113.1", 6000), |_| {}).unwrap().unwrap();
    rig.send(Side::Caller, "198.51.100.1:44444", &rtp(2)).unwrap();
    assert_eq!(rig.send(Side::Caller, "198.51.100.1:33333", &rtp(3)), Err(Drop::Source));
}

#[test]
fn a_plain_stream_is_handed_over_once_both_ends_have_latched() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&sdp("198.51.100.1", 4000));
    rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    let packets = |numbers: core::ops::Range<u16>| {
        for number in numbers {
            rig.send(Side::Caller, "198.51.100.1:4000", &rtp(number)).unwrap();
        }
    };
    packets(1..11);
    assert_eq!(rig.entry(Side::Caller), None);
    rig.send(Side::Callee, "203.0.113.1:6000", &rtp(1)).unwrap();
    let end = |text| place(text).into();
    let received = Ends { source: end("198.51.100.1:4000"), destination: end("192.0.2.1:20000") };
    let sent = Ends { source: end("192.0.2.1:20002"), destination: end("203.0.113.1:6000") };
    let entry = Entry::new(received, sent, 1 | 1 << 101);
    assert_eq!(rig.entry(Side::Caller), Some(entry));
    let back = rig.entry(Side::Callee).unwrap();
    assert_eq!((back.received.source, back.sent.source), (sent.destination, received.destination));

    // Rewritten packets that are counted are measured like others.
    for number in (11..15).chain(16..101) {
        rig.stream().count(Side::Caller, &rtp(number), Duration::from_secs(50));
    }
    packets(101..111);
    let [caller, _] = rig.stream().summary();
    assert_eq!((caller.packets, caller.bytes, caller.lost), (109, 109 * 172, Some(1)));

    // The others are no gap.
    let last = Some(Duration::from_secs(50));
    rig.stream().add(Side::Caller, Rewrites { packets: 90, bytes: 90 * 172, last });
    packets(201..211);
    let [caller, _] = rig.stream().summary();
    assert_eq!((caller.packets, caller.bytes, caller.lost), (209, 209 * 172, Some(1)));

    // An answer takes it back, with the packets since, before the addresses change.
    let last = Some(Duration::from_secs(60));
    rig.rewrites.lock()[0] = Rewrites { packets: 5, bytes: 860, last };
    let role = Role::Offer { exchange: 2 };
    rig.pass(Side::Caller, role, &sdp("198.51.100.1", 4100), |_| {}).unwrap().unwrap();
    assert_eq!(rig.entry(Side::Caller), Some(entry));
    let role = Role::Response { exchange: 2, is_final: true };
    rig.pass(Side::Callee, role, &sdp("203.0.113.1", 6000), |_| {}).unwrap().unwrap();
    assert_eq!((rig.entry(Side::Caller), rig.entry(Side::Callee)), (None, None));
    let [caller, _] = rig.stream().summary();
    assert_eq!((caller.packets, caller.last), (214, last));

    // A call ends with the packets of its end.
    rig.rewrites.lock()[1] = Rewrites { packets: 7, bytes: 1204, last };
    let report = rig.relay.end_dialog(b"c", [b"callee", b"caller"], Duration::ZERO).unwrap();
    assert_eq!(report.streams[0][1].packets, 8);
}

#[test]
fn streams_with_keys_of_the_relay_are_not_handed_over() {
    let mut rig = Rig::new(Limits::default());
    rig.keying = Keying::Required;
    let mut here = Phone::new(CALLER, Security::Off);
    let mut there = Phone::new(CALLEE, Security::Required);
    let answer = there.answer(&rig.first_offer(&here.offer())).unwrap();
    here.accept(&rig.first_answer(&answer).unwrap());
    here.talk(&rig, Side::Caller, &mut there);
    there.talk(&rig, Side::Callee, &mut here);
    assert_eq!((rig.entry(Side::Caller), rig.entry(Side::Callee)), (None, None));
}

#[test]
fn other_packets_are_refused() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&sdp("198.51.100.1", 4000));
    rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    let mut other = rtp(1);
    other[1] = 8;
    let here = "198.51.100.1:4000";
    assert_eq!(rig.send(Side::Caller, here, &other), Err(Drop::PayloadType(8)));
    for first in [0, 16, 22, 64, 255] {
        other[0] = first;
        assert!(matches!(rig.send(Side::Caller, here, &other), Err(Drop::Kind(_))), "{first}");
    }
    assert!(matches!(rig.send(Side::Caller, here, &[0x80, 0, 1]), Err(Drop::Rtp(_))));
    assert!(matches!(rig.send(Side::Caller, here, &[]), Err(Drop::Kind(_))));
}

#[test]
fn an_address_that_never_sends_gets_ten_seconds_of_audio() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&sdp("198.51.100.1", 4000));
    // The callee names the address of a third party.
    rig.first_answer(&sdp("203.0.113.99", 6000)).unwrap();
    assert_eq!(rig.send_audio(Side::Caller, "198.51.100.1:4000", 1000, 20), 500);
    rig.send(Side::Callee, "203.0.113.99:6000", &rtp(1)).unwrap();
    rig.send(Side::Caller, "198.51.100.1:4000", &rtp(1001)).unwrap();
}

/// The number of packets of the caller that reach a callee which never sends. `signalling` are the
/// hosts of its signalling when the offer is sent and when it answers, and `named` are the hosts
/// that it names for RTP and RTCP.
fn packets_to(signalling: [[u8; 4]; 2], is_proven: bool, named: [&str; 2]) -> usize {
    let rig = Rig::new(Limits::default());
    let at = |host: [u8; 4]| SocketAddr::new(host.into(), 5060);
    let begin = |passage: &mut Passage<'_>| {
        (passage.branch, passage.begins, passage.to_tag) = (BRANCH, true, b"");
        (passage.to.signalling, passage.to.is_proven) = (at(signalling[0]), is_proven);
    };
    let offer = Role::Offer { exchange: 1 };
    rig.pass(Side::Caller, offer, &sdp("198.51.100.1", 4000), begin).unwrap();
    let answer = Role::Response { exchange: 1, is_final: false };
    let follow = |passage: &mut Passage<'_>| {
        (passage.branch, passage.from.signalling) = (BRANCH, at(signalling[1]));
    };
    let [named, rtcp] = named;
    let body = sdp(named, 6000) + &std::format!("a=rtcp:6001 IN IP4 {rtcp}\r\n");
    rig.pass(Side::Callee, answer, &body, follow).unwrap();
    rig.send_audio(Side::Caller, "198.51.100.1:4000", 1000, 20)
}

#[test]
fn an_end_that_only_receives_gets_all_packets_at_the_host_that_it_has_proved() {
    let [callee, second, third] = ["203.0.113.1", "203.0.113.2", "203.0.113.99"];
    assert_eq!(packets_to([CALLEE; 2], true, [callee; 2]), 1000);
    assert_eq!(packets_to([CALLEE; 2], false, [callee; 2]), 500);
    // The address of a third party, also for RTCP alone.
    assert_eq!(packets_to([CALLEE; 2], true, [third; 2]), 500);
    assert_eq!(packets_to([CALLEE; 2], true, [callee, third]), 500);
    // A response of another host than the one that got the request.
    let moved = [CALLEE, [203, 0, 113, 2]];
    assert_eq!(packets_to(moved, true, [second; 2]), 500);
    assert_eq!(packets_to(moved, true, [callee; 2]), 500);
}

/// A phone with a media session.
struct Phone {
    negotiator: Negotiator,
    session: Option<Session>,
    place: SocketAddr,
    random: u8,
}

impl Phone {
    fn new(host: [u8; 4], security: Security) -> Self {
        Self::with(host, MediaConfig { security, ..MediaConfig::default() })
    }

    /// A phone with one codec.
    fn with_codec(host: [u8; 4], security: Security, codec: Codec) -> Self {
        let (codecs, offers_all_codecs) = ([codec].into(), true);
        Self::with(host, MediaConfig { security, codecs, offers_all_codecs, ..Default::default() })
    }

    fn with(host: [u8; 4], config: MediaConfig) -> Self {
        let place = SocketAddr::new(host.into(), 4000);
        Self {
            negotiator: Negotiator::new(config, place, 1),
            session: None,
            place,
            random: host[0],
        }
    }

    fn random(seed: &mut u8) -> impl FnMut(&mut [u8]) {
        |bytes| {
            bytes.iter_mut().for_each(|byte| {
                *seed = seed.wrapping_mul(37).wrapping_add(11);
                *byte = *seed;
            });
        }
    }

    fn offer(&mut self) -> String {
        let offer = self.negotiator.offer(&mut Self::random(&mut self.random));
        String::from_utf8(offer).unwrap()
    }

    fn answer(&mut self, offer: &str) -> Option<String> {
        let Self { negotiator, random, .. } = self;
        let answer = negotiator.answer(offer.as_bytes(), &mut Self::random(random));
        let (answer, stream) = answer.ok()?;
        self.carry(stream);
        Some(String::from_utf8(answer).unwrap())
    }

    fn accept(&mut self, answer: &str) {
        let stream = self.negotiator.accept(answer.as_bytes()).expect("an acceptable answer");
        self.carry(stream);
    }

    fn carry(&mut self, stream: media::Stream) {
        match &mut self.session {
            Some(session) => session.renew(stream).expect("usable keys"),
            None => {
                let seed = Seed { ssrc: self.random.into(), sequence_number: 65_530, timestamp: 1 };
                self.session = Some(Session::new(stream, seed).expect("usable keys"));
            }
        }
    }

    fn packet(&mut self) -> Vec<u8> {
        let session = self.session.as_mut().expect("a session");
        let mut packet = Vec::new();
        let frame = std::vec![1000; session.frame_samples()];
        session.send(&frame, &mut packet).expect("a destination");
        packet
    }

    /// Sends fifty packets to the other phone, through the relay.
    fn talk(&mut self, rig: &Rig, side: Side, other: &mut Self) {
        let from = std::format!("{}", self.place);
        let before = other.session.as_ref().map_or(0, |session| session.statistics().received);
        for _ in 0..50 {
            let (to, mut packet) = rig.send(side, &from, &self.packet()).expect("a relayed packet");
            assert_eq!(to, other.place);
            let session = other.session.as_mut().expect("a session");
            session.receive(Duration::ZERO, SocketAddr::new(RELAY.into(), 20000), &mut packet);
        }
        let statistics = other.session.as_ref().expect("a session").statistics();
        assert_eq!(statistics.refused, 0);
        // The first packet of a source is not counted.
        assert!(statistics.received - before >= 49, "{statistics:?}");
    }
}

#[test]
fn keys_end_at_the_relay_on_either_side_and_last_over_a_new_offer() {
    for (caller, callee, keying) in [
        (Security::Off, Security::Off, Keying::Passed),
        (Security::Required, Security::Required, Keying::Passed),
        (Security::Required, Security::Off, Keying::Clear),
        (Security::Required, Security::Off, Keying::Optional),
        (Security::Off, Security::Required, Keying::Required),
        (Security::Off, Security::Off, Keying::Optional),
        (Security::Required, Security::Required, Keying::Required),
    ] {
        let mut rig = Rig::new(Limits::default());
        rig.keying = keying;
        let (mut here, mut there) = (Phone::new(CALLER, caller), Phone::new(CALLEE, callee));
        let offer = rig.first_offer(&here.offer());
        let case = std::format!("{caller:?} {callee:?} {keying:?}");
        let answer = there.answer(&offer).unwrap_or_else(|| panic!("{case}: {offer}"));
        here.accept(&rig.first_answer(&answer).expect(&case));
        here.talk(&rig, Side::Caller, &mut there);
        there.talk(&rig, Side::Callee, &mut here);
        // The callee offers again, and the rollover counters go on. The signalling asks for keys
        // only in the first offer.
        rig.keying = Keying::Passed;
        let [offer, _] = rig.renew(&mut there, &mut here);
        here.talk(&rig, Side::Caller, &mut there);
        there.talk(&rig, Side::Callee, &mut here);
        assert_eq!(offer.contains("a=crypto"), caller == Security::Required, "{case}: {offer}");
    }
}

#[test]
fn a_packet_in_the_name_of_the_end_does_not_redirect_its_packets() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&sdp("198.51.100.1", 4000));
    rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    // The host is that of the caller, the port is not.
    rig.send(Side::Caller, "198.51.100.1:1", &rtp(1)).unwrap();
    let to = |packet: &[u8]| rig.send(Side::Callee, "203.0.113.1:6000", packet).unwrap().0;
    assert_eq!(to(&rtp(1)), place("198.51.100.1:1"));
    rig.send(Side::Caller, "198.51.100.1:4000", &rtp(2)).unwrap();
    assert_eq!(to(&rtp(2)), place("198.51.100.1:4000"));
    assert_eq!(rig.send(Side::Caller, "198.51.100.1:1", &rtp(3)), Err(Drop::Source));
}

/// Passes an offer of the caller within the call, and the answer of the callee.
fn exchange(rig: &Rig, number: u32, offer: &str, answer: &str) {
    let role = Role::Offer { exchange: number };
    rig.pass(Side::Caller, role, offer, |_| {}).unwrap().unwrap();
    let role = Role::Response { exchange: number, is_final: true };
    rig.pass(Side::Callee, role, answer, |_| {}).unwrap().unwrap();
}

#[test]
fn an_address_that_never_sends_gets_no_more_at_other_ports() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&sdp("198.51.100.1", 4000));
    rig.first_answer(&sdp("203.0.113.99", 6000)).unwrap();
    let mut sent = 0;
    for number in 2..12 {
        sent += rig.send_audio(Side::Caller, "198.51.100.1:4000", 200, 20);
        let answer = sdp("203.0.113.99", 6000 + 2 * number as u16);
        exchange(&rig, number, &sdp("198.51.100.1", 4000), &answer);
    }
    assert_eq!(sent, 500);
}

#[test]
fn a_medium_has_its_ports_until_its_end_is_answered() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&sdp("198.51.100.1", 4000));
    rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    let role = Role::Offer { exchange: 2 };
    let end = sdp("198.51.100.1", 0);
    rig.pass(Side::Caller, role, &end, |_| {}).unwrap().unwrap();
    // The callee has refused it.
    rig.send(Side::Caller, "198.51.100.1:4000", &rtp(1)).unwrap();
    assert_eq!(rig.open.load(Relaxed), 1);
    exchange(&rig, 3, &end, &sdp("203.0.113.1", 0));
    assert_eq!(rig.open.load(Relaxed), 0);
}

#[test]
fn each_medium_is_charged() {
    let rig = Rig::new(Limits { calls_of_owner: 3, ..Limits::default() });
    let begin = |media: usize| {
        let role = Role::Offer { exchange: 1 };
        let offer = sdp("198.51.100.1", 4000) + &"m=audio 5000 RTP/AVP 0\r\n".repeat(media - 1);
        rig.pass(Side::Caller, role, &offer, |passage| {
            (passage.branch, passage.begins, passage.to_tag) = (BRANCH, true, b"");
        })
    };
    assert_eq!(begin(4), Err(RelayError::Share));
    assert_eq!((rig.relay.count(), rig.open.load(Relaxed)), (0, 0));
    begin(3).unwrap();
    let role = Role::Offer { exchange: 1 };
    let other = rig.pass(Side::Caller, role, &sdp("198.51.100.1", 4000), |passage| {
        (passage.call_id, passage.branch, passage.begins) = (b"other", BRANCH, true);
    });
    assert_eq!(other, Err(RelayError::Share));
    assert!(rig.relay.end_branch(b"c", b"b").is_some());
    begin(3).unwrap();
}

#[test]
fn ports_of_the_relay_are_no_destinations_but_in_the_next_branch_of_a_call() {
    let rig = Rig::new(Limits::default());
    let own = |port: u16| sdp("192.0.2.1", port);
    let offer = |branch: &'static [u8], from: &'static [u8], body: &str| {
        rig.pass(Side::Caller, Role::Offer { exchange: 1 }, body, |passage| {
            (passage.branch, passage.begins) = (Some(branch), true);
            (passage.from_tag, passage.to_tag) = (from, b"");
        })
    };
    let answer = |branch: &'static [u8], to: &'static [u8], body: &str| {
        let role = Role::Response { exchange: 1, is_final: true };
        rig.pass(Side::Callee, role, body, |passage| {
            (passage.branch, passage.to_tag) = (Some(branch), to);
        })
    };
    // The call passes twice: its second branch has the description of the first.
    assert!(
        offer(b"b1", b"caller", &sdp("198.51.100.1", 4000)).unwrap().unwrap().contains("20002")
    );
    for port in [20_000, 20_006, 20_050] {
        assert_eq!(offer(b"b2", b"caller", &own(port)), Err(RelayError::OwnPort), "{port}");
    }
    assert_eq!(rig.open.load(Relaxed), 1);
    assert!(offer(b"b2", b"caller", &own(20_002)).unwrap().is_some());
    let ports = [20_000, 20_002];
    for port in ports.into_iter().chain([20_050]) {
        assert_eq!(answer(b"b2", b"caller", &own(port)), Err(RelayError::OwnPort), "{port}");
    }
    answer(b"b2", b"caller", &sdp("203.0.113.1", 6000)).unwrap().unwrap();
    let streams = rig.streams.lock().len();
    let second = 20_000 + 4 * (streams as u16 - 1);
    assert_eq!(answer(b"b1", b"caller", &own(20_002)), Err(RelayError::OwnPort));
    assert!(answer(b"b1", b"caller", &own(second)).unwrap().is_some());
}

#[test]
fn an_offer_in_a_response_is_answered_in_the_acknowledgement() {
    let rig = Rig::new(Limits::default());
    let role = Role::Response { exchange: 1, is_final: true };
    let begin = |passage: &mut Passage<'_>| (passage.branch, passage.begins) = (BRANCH, true);
    let offer = rig.pass(Side::Callee, role, &sdp("203.0.113.1", 6000), begin).unwrap().unwrap();
    assert!(offer.contains("m=audio 20000 "), "{offer}");
    rig.relay.confirm(b"c", b"b", b"callee", Duration::ZERO);
    let role = Role::Acknowledgement { exchange: 1 };
    let answer = rig.pass(Side::Caller, role, &sdp("198.51.100.1", 4000), |_| {}).unwrap().unwrap();
    assert!(answer.contains("m=audio 20002 "), "{answer}");
    rig.send(Side::Caller, "198.51.100.1:4000", &rtp(1)).unwrap();
    rig.send(Side::Callee, "203.0.113.1:6000", &rtp(1)).unwrap();
}

#[test]
fn calls_end_by_silence_but_not_on_hold_and_their_ports_are_closed() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&sdp("198.51.100.1", 4000));
    rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    let expire = |seconds| -> usize {
        (0..16).map(|_| rig.relay.expire(Duration::from_secs(seconds)).len()).sum()
    };
    assert_eq!(expire(60), 0);
    // A hold of both directions has no packets.
    let hold = sdp("198.51.100.1", 4000) + "a=inactive\r\n";
    let role = Role::Offer { exchange: 2 };
    rig.pass(Side::Caller, role, &hold, |_| {}).unwrap().unwrap();
    let role = Role::Response { exchange: 2, is_final: true };
    let answer = sdp("203.0.113.1", 6000) + "a=inactive\r\n";
    rig.pass(Side::Callee, role, &answer, |_| {}).unwrap().unwrap();
    assert_eq!(expire(10_000), 0);
    let late = |passage: &mut Passage<'_>| passage.now = Duration::from_secs(10_000);
    let role = Role::Offer { exchange: 3 };
    rig.pass(Side::Caller, role, &sdp("198.51.100.1", 4000), late).unwrap().unwrap();
    let role = Role::Response { exchange: 3, is_final: true };
    rig.pass(Side::Callee, role, &sdp("203.0.113.1", 6000), late).unwrap().unwrap();
    assert_eq!(expire(10_060), 0);
    assert_eq!((expire(10_061), rig.open.load(Relaxed), rig.relay.count()), (1, 0, 0));
}

#[test]
fn a_call_on_hold_whose_ends_have_vanished_ends_after_a_day() {
    let rig = Rig::new(Limits::default());
    rig.first_offer(&(sdp("198.51.100.1", 4000) + "a=inactive\r\n"));
    rig.first_answer(&(sdp("203.0.113.1", 6000) + "a=inactive\r\n")).unwrap();
    let expire = |seconds| -> usize {
        (0..16).map(|_| rig.relay.expire(Duration::from_secs(seconds)).len()).sum()
    };
    assert_eq!(expire(86_400), 0);
    assert_eq!((expire(86_401), rig.open.load(Relaxed), rig.relay.count()), (1, 0, 0));
}

#[test]
fn limits_hold_and_failures_leave_nothing() {
    let rig = Rig::new(Limits { calls: 5, calls_of_owner: 3, ..Limits::default() });
    let call = |number: u8, owner| {
        let role = Role::Offer { exchange: 1 };
        rig.pass(Side::Caller, role, &sdp("198.51.100.1", 4000), |passage| {
            passage.call_id = &CALLS[usize::from(number)];
            (passage.branch, passage.begins, passage.owner) = (BRANCH, true, owner);
        })
    };
    assert!((0..3).all(|number| call(number, 7).is_ok()));
    assert_eq!(call(3, 7), Err(RelayError::Share));
    assert!(call(3, 8).is_ok());
    assert_eq!(call(4, 8), Err(RelayError::NoPort));
    assert_eq!((rig.relay.count(), rig.open.load(Relaxed)), (4, 4));
    assert!(rig.relay.end_branch(&[0], b"b").is_some());
    assert!(call(4, 8).is_ok());
    for number in 1..5 {
        assert!(rig.relay.end_branch(&[number], b"b").is_some());
    }
    assert_eq!((rig.relay.count(), rig.open.load(Relaxed)), (0, 0));
    assert!(rig.relay.end_branch(&[1], b"b").is_none());
}

/// The controller says which descriptions are answers, and knows neither numbers of requests nor
/// which answer is final.
#[test]
fn answers_belong_to_the_last_offer_of_the_other_side() {
    let rig = Rig::new(Limits::default());
    let answer = |side| {
        rig.pass(side, Role::Answer, &sdp("203.0.113.1", 6000), |passage| {
            passage.branch = BRANCH;
        })
    };
    assert_eq!(answer(Side::Callee), Ok(None));
    rig.first_offer(&sdp("198.51.100.1", 4000));
    for _ in 0..2 {
        answer(Side::Callee).unwrap().unwrap();
    }
    let found = |side| {
        let mut found = None;
        let role = Role::Offer { exchange: 1 };
        let _ = rig.pass(side, role, "", |passage| found = rig.relay.find(passage));
        found.unwrap()
    };
    let (report, side) = found(Side::Callee);
    assert_eq!((side, report.answered), (Side::Callee, Some(Duration::ZERO)));
    assert_eq!((&*report.caller_tag, &*report.callee_tag), (&b"caller"[..], &b"callee"[..]));
    let [caller, callee] = &report.streams[0];
    assert_eq!((caller.local_port, callee.local_port), (20000, 20002));
    assert_eq!(callee.announced, Some(place("203.0.113.1:6000")));
    assert_eq!((&*callee.media_type, &*callee.protocol), ("audio", "RTP/AVP"));
    // The answer of the caller is to an offer of the callee, which has made none.
    let answered = rig.pass(Side::Caller, Role::Answer, &sdp("198.51.100.1", 4000), |_| {});
    assert_eq!(answered, Err(RelayError::NoOffer));
    assert_eq!(found(Side::Caller).0.callee_tag, report.callee_tag);
}

#[test]
fn branches_end_by_identifier_by_tag_and_by_dialog() {
    let rig = Rig::new(Limits::default());
    let begin = || {
        for (id, callee) in [(&b"1"[..], &b"x"[..]), (b"2", b"y"), (b"3", b"z")] {
            let offer = |passage: &mut Passage<'_>| {
                (passage.branch, passage.begins, passage.to_tag) = (Some(id), true, b"");
            };
            let role = Role::Offer { exchange: 1 };
            rig.pass(Side::Caller, role, &sdp("198.51.100.1", 4000), offer).unwrap().unwrap();
            let answer = |passage: &mut Passage<'_>| {
                (passage.branch, passage.from_tag) = (Some(id), callee);
            };
            let answered = rig.pass(Side::Callee, Role::Answer, &sdp("203.0.113.1", 6000), answer);
            answered.unwrap().unwrap();
        }
    };
    for (selection, ended) in [
        (Selection::All, 3),
        (Selection::Branch(b"2"), 1),
        (Selection::Branch(b"4"), 0),
        (Selection::Tag(b"caller"), 3),
        (Selection::Tag(b"z"), 1),
        (Selection::Tag(b"w"), 0),
        (Selection::Dialog([b"y", b"caller"]), 1),
        (Selection::Dialog([b"x", b"y"]), 0),
    ] {
        begin();
        assert_eq!(rig.relay.reports_of(b"c", selection).len(), ended, "{selection:?}");
        assert_eq!(rig.relay.end_all(b"c", selection).len(), ended, "{selection:?}");
        assert_eq!(rig.relay.count(), 3 - ended, "{selection:?}");
        rig.relay.end_all(b"c", Selection::All);
        assert_eq!((rig.relay.count(), rig.open.load(Relaxed)), (0, 0));
    }
}

/// The controller that asks for keys in the first offer may leave them out in later ones.
#[test]
fn a_leg_in_clear_stays_in_clear() {
    let mut rig = Rig::new(Limits::default());
    rig.keying = Keying::Required;
    let (mut here, mut there) =
        (Phone::new(CALLER, Security::Off), Phone::new(CALLEE, Security::Required));
    let answer = there.answer(&rig.first_offer(&here.offer())).unwrap();
    here.accept(&rig.first_answer(&answer).unwrap());
    let role = Role::Offer { exchange: 9 };
    let offer = rig.pass(Side::Callee, role, &there.offer(), |_| {}).unwrap().unwrap();
    assert!(offer.contains(" RTP/AVP ") && !offer.contains("a=crypto"), "{offer}");
}
