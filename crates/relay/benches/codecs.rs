//! The cost of a packet of 20 ms for each pair of codecs, from the received packet to the packet to
//! send: `cargo bench -p barebell-relay --all-features`. A pair of equal codecs is not converted.

mod support;

use barebell_relay as relay;
use codec::Encoder;
use relay::{Channel, Codec, Side, Stream};
use rtp::packet::HeaderFields;
use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{ENDS, number};

/// The number of packets in a run, and of runs. The fastest run counts.
const PACKETS: usize = 500;
const RUNS: usize = 7;

/// A stream between a caller with the first codec and a callee with the second one, which has
/// confirmed its address.
fn stream(codecs: [Codec; 2]) -> Arc<Stream<parking_lot::RawMutex>> {
    let stream = support::stream(codecs, [20, 20]).expect("an offer and an answer");
    let fields = HeaderFields { payload_type: number(codecs[1]), ..HeaderFields::default() };
    let mut packet = [0; 4096];
    let length = fields.write(&[0; 33], &mut packet).expect("room for a packet");
    let place = SocketAddr::from(ENDS[1]);
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
    let from = SocketAddr::from(ENDS[0]);
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
