//! The cost of a packet of 20 ms for each pair of codecs, from the received packet to the packet to
//! send: `cargo bench -p barebell-relay --all-features`. A pair of equal codecs is not converted.

use barebell_relay::{
    Calls, Channel, End, Host, Limits, NoPort, Passage, Ports, Relay, Role, Side, Stream,
};
use codec::{Codec, Encoder};
use parking_lot::{Mutex, RawMutex};
use rtp::packet::HeaderFields;
use std::hint::black_box;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The number of packets in a run, and of runs. The fastest run counts.
const PACKETS: usize = 500;
const RUNS: usize = 7;

/// A host with numbers in place of ports.
#[derive(Default)]
struct Numbers(Mutex<Option<Arc<Stream<RawMutex>>>>);

struct Pair;

impl Ports for Pair {
    fn rtp(&self) -> [u16; 2] {
        [20000, 20002]
    }
}

impl Host<RawMutex> for Numbers {
    type Ports = Pair;

    fn open(&self, stream: &Arc<Stream<RawMutex>>, _: [IpAddr; 2]) -> Result<Pair, NoPort> {
        *self.0.lock() = Some(Arc::clone(stream));
        Ok(Pair)
    }

    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

/// The payload type of a codec.
fn number(codec: Codec) -> u8 {
    let dynamic = || Codec::ALL.iter().position(|it| *it == codec).map_or(96, |at| 96 + at as u8);
    codec.static_payload_type().unwrap_or_else(dynamic)
}

fn description(host: &str, port: u16, codec: Codec) -> String {
    let (number, rate) = (number(codec), codec.clock_rate());
    let channels = if codec.channels() == 2 { "/2" } else { "" };
    format!(
        "v=0\r\nc=IN IP4 {host}\r\nm=audio {port} RTP/AVP {number}\r\n\
         a=rtpmap:{number} {}/{rate}{channels}\r\n",
        codec.name()
    )
}

/// A stream between a caller with the first codec and a callee with the second one.
fn stream(codecs: [Codec; 2]) -> Arc<Stream<RawMutex>> {
    let relay: Relay<RawMutex, _> = Relay::new(Numbers::default(), Limits::default());
    let permits = |_: SocketAddr| true;
    let end = |host: [u8; 4]| {
        End::new(SocketAddr::new(host.into(), 5060), [192, 0, 2, 1].into(), &permits)
    };
    let mut to = end([203, 0, 113, 1]);
    to.codecs.transcode = Codec::ALL;
    let offer = Passage {
        call_id: b"c",
        branch: Some(b"b"),
        from_tag: b"caller",
        to_tag: b"",
        from: end([198, 51, 100, 1]),
        to,
        role: Role::Offer { exchange: 1 },
        side: Side::Caller,
        begins: true,
        parties: [b"", b""],
        owner: 0,
        now: Duration::ZERO,
    };
    let answer = Passage {
        from_tag: b"callee",
        to_tag: b"caller",
        from: to,
        to: offer.from,
        role: Role::Response { exchange: 1, is_final: true },
        side: Side::Callee,
        begins: false,
        ..offer
    };
    let body = description("198.51.100.1", 4000, codecs[0]);
    relay.describe(&offer, body.as_bytes()).expect("an offer");
    let body = description("203.0.113.1", 6000, codecs[1]);
    relay.describe(&answer, body.as_bytes()).expect("an answer");
    let stream = relay.host().0.lock().take().expect("an open stream");
    // The callee has confirmed its address.
    let fields = HeaderFields { payload_type: number(codecs[1]), ..HeaderFields::default() };
    let mut packet = [0; 4096];
    let length = fields.write(&[0; 33], &mut packet).expect("room for a packet");
    let place = SocketAddr::from(([203, 0, 113, 1], 6000));
    let _ = stream.relay(Side::Callee, Channel::Rtp, place, &mut packet, length, Duration::ZERO);
    stream
}

/// Packets with a signal like a voice.
fn packets(codec: Codec) -> Vec<Vec<u8>> {
    let rate = f64::from(codec.sample_rate());
    let sample = |at: usize| {
        let time = at as f64 / rate;
        let harmonic = |n: u32| (f64::from(n) * 900.0 * time).sin() / f64::from(n);
        (4000.0 * (0.2 + (4.0 * time).sin().abs()) * (1..12).map(harmonic).sum::<f64>()) as i16
    };
    let samples: Vec<i16> = (0..PACKETS * codec.frame_samples()).map(sample).collect();
    let mut encoder = Encoder::new(codec);
    let encode = |frame: &[i16]| {
        let mut payload = Vec::new();
        encoder.encode(frame, &mut payload);
        payload
    };
    samples.chunks(codec.frame_samples()).map(encode).collect()
}

/// Microseconds for a packet.
fn measure(codecs: [Codec; 2]) -> f64 {
    let stream = stream(codecs);
    let payloads = packets(codecs[0]);
    let from = SocketAddr::from(([198, 51, 100, 1], 4000));
    let (mut buffer, mut sequence_number, mut timestamp) = ([0; 4096], 0_u16, 0_u32);
    let mut now = Duration::ZERO;
    let mut best = Duration::MAX;
    for _ in 0..RUNS {
        let start = Instant::now();
        for payload in &payloads {
            let payload_type = number(codecs[0]);
            let fields =
                HeaderFields { payload_type, sequence_number, timestamp, ..Default::default() };
            let length = fields.write(payload, &mut buffer).expect("room for a packet");
            now += Duration::from_millis(20);
            let relayed = stream.relay(Side::Caller, Channel::Rtp, from, &mut buffer, length, now);
            assert!(relayed.is_ok_and(|relayed| relayed.length > 0 && !relayed.has_more));
            black_box(&buffer);
            sequence_number = sequence_number.wrapping_add(1);
            timestamp = timestamp.wrapping_add(codecs[0].clock_rate() / 50);
        }
        best = best.min(start.elapsed());
    }
    best.as_secs_f64() * 1e6 / PACKETS as f64
}

fn main() {
    print!("{:<14}", "from \\ to, us");
    Codec::ALL.iter().for_each(|codec| print!(" {:>12}", codec.name()));
    println!();
    for &from in Codec::ALL {
        print!("{:<14}", from.name());
        Codec::ALL.iter().for_each(|&to| print!(" {:>12.1}", measure([from, to])));
        println!();
    }
}
