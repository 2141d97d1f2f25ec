//! Lines over a simulated network with known faults, in simulated time: the figures tell what was
//! set.

use super::comparison::{Sent, Turnaround, Verified};
use super::fault::Faults;
use super::line::{LONGEST, Line, PeerReport, Seed};
use super::reception::StreamFigures;
use super::signal::{FRAME_MILLIS, Sound};
use crate::record::Histogram;
use media::{Codec, MediaConfig, Negotiator, Security, Stream};
use sip::{Duration, Instant};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// The frames of a long call: the mean of so many random faults is within 1 % of the set value.
const FRAMES: u64 = 200_000;

/// The most frames of a call with all its packets in the outcome.
const CAPTURED: u64 = 20_000;

fn start() -> Instant {
    Instant::from_micros(1_000_000_000)
}

/// Negotiates the streams of a caller and a callee.
fn streams(codec: Codec, security: Security) -> [Stream; 2] {
    let media_config = MediaConfig {
        codecs: vec![codec],
        security,
        offers_all_codecs: true,
        ..MediaConfig::default()
    };
    let mut seed = 3_u8;
    let mut random = |bytes: &mut [u8]| {
        bytes.fill_with(|| {
            seed = seed.wrapping_mul(37).wrapping_add(11);
            seed
        });
    };
    let place = |port| ([192, 0, 2, 1], port).into();
    let mut caller = Negotiator::new(media_config.clone(), place(4000), 1);
    let mut callee = Negotiator::new(media_config, place(5000), 2);
    let offer = caller.offer(&mut random);
    let (answer, theirs) = callee.answer(&offer, &mut random).expect("an answer");
    [caller.accept(&answer).expect("a stream"), theirs]
}

/// A packet on its way: the time of its arrival, its order, its direction, its bytes.
type Packet = Reverse<(Instant, u64, usize, Vec<u8>)>;

/// The faults that were applied to the packets of one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Applied {
    lost: u64,
    doubled: u64,
}

/// The result of a call.
struct Outcome {
    forward: StreamFigures,
    echo: StreamFigures,
    verified: Verified,
    forward_delay: Histogram,
    round_trip: Histogram,
    told: Vec<PeerReport>,
    applied: Applied,
    /// The packets that came back, with their times of arrival.
    came_back: Vec<(Instant, Vec<u8>)>,
}

/// Plays a call of `frames` frames through a network with these faults in each direction.
fn call(frames: u64, codec: Codec, security: Security, faults: [Faults; 2]) -> Outcome {
    let [own, theirs] = streams(codec, security);
    let sent = Sent {
        sound: Arc::new(Sound::new(codec, 1)),
        phase: 9,
        start: start(),
        turnaround: Turnaround::default(),
    };
    let seed = |ssrc| Seed { ssrc, number: 65_000, timestamp: 7 };
    let line =
        |stream, seed, sent| Line::new(stream, None, seed, sent, start()).expect("usable keys");
    let mut caller = line(own, seed(1), Some(sent.clone()));
    let mut callee = line(theirs, seed(2), None);
    callee.listen(sent);
    let mut random = fastrand::Rng::with_seed(5);
    let mut packets: BinaryHeap<Packet> = BinaryHeap::new();
    let mut order = 0;
    let mut buffer = [0; LONGEST];
    let mut outcome = Outcome {
        forward: StreamFigures::default(),
        echo: StreamFigures::default(),
        verified: Verified::default(),
        forward_delay: Histogram::default(),
        round_trip: Histogram::default(),
        told: Vec::new(),
        applied: Applied::default(),
        came_back: Vec::new(),
    };
    let mut submit = |packets: &mut BinaryHeap<Packet>, way: usize, at: Instant, bytes: &[u8]| {
        let copies: Vec<Duration> = faults[way].fate(&mut random).copies().collect();
        for &delay in &copies {
            order += 1;
            packets.push(Reverse((at + delay, order, way, bytes.to_vec())));
        }
        copies.len()
    };
    for frame in 0..=frames {
        let due = start() + Duration::from_millis(frame * FRAME_MILLIS);
        // Everything that arrives before the frame.
        while packets.peek().is_some_and(|Reverse((at, ..))| *at < due || frame == frames) {
            let Some(Reverse((at, _, way, bytes))) = packets.pop() else { break };
            buffer[..bytes.len()].copy_from_slice(&bytes);
            if way == 1 && frames <= CAPTURED {
                outcome.came_back.push((at, bytes.clone()));
            }
            let told = &mut outcome.told;
            let line = if way == 0 { &mut callee } else { &mut caller };
            let mut tell = |one| told.push(one);
            let Some(heard) = line.receive(&mut buffer, bytes.len(), at, &mut tell) else {
                continue;
            };
            let delays =
                if way == 0 { &mut outcome.forward_delay } else { &mut outcome.round_trip };
            heard.placed.into_iter().for_each(|placed| delays.record(placed.delay));
            if way == 0 {
                let length = callee.echo(&mut buffer, heard.length, at).expect("an echo");
                submit(&mut packets, 1, at, &buffer[..length]);
                if let Some((length, _)) = callee.report(at, &mut buffer) {
                    packets.push(Reverse((at, 0, 1, buffer[..length].to_vec())));
                }
            }
        }
        if frame < frames {
            let length = caller.send_frame(&mut buffer).expect("a packet");
            match submit(&mut packets, 0, due, &buffer[..length]) {
                0 => outcome.applied.lost += 1,
                2 => outcome.applied.doubled += 1,
                _ => {}
            }
            if let Some((length, _)) = caller.report(due, &mut buffer) {
                packets.push(Reverse((due, 0, 0, buffer[..length].to_vec())));
            }
        }
    }
    outcome.forward = callee.take_figures(None).0;
    (outcome.echo, outcome.verified) = caller.take_figures(None);
    outcome
}

/// Asserts that `measured` is within 1 % of `set`.
#[track_caller]
fn assert_close(name: &str, measured: f64, set: f64) {
    assert!((measured - set).abs() <= 0.01 * set, "{name}: {measured} for {set}");
}

#[test]
fn delay_loss_and_jitter_are_measured_within_one_percent() {
    let there: Faults = "loss=30%,delay=40ms,jitter=12ms".parse().expect("faults");
    let back: Faults = "delay=30ms".parse().expect("faults");
    let outcome = call(FRAMES, Codec::Pcmu, Security::Off, [there, back]);
    let share = outcome.forward.lost() as f64 / outcome.forward.expected as f64;
    assert_close("loss", share, 0.3);
    // Losses before the first packet and after the last one do not show.
    assert!(outcome.forward.lost().abs_diff(outcome.applied.lost) <= 2);
    assert_eq!(outcome.echo.lost(), outcome.forward.lost(), "nothing is lost on the way back");
    // The mean difference of two delays between 0 and 12 ms is 4 ms.
    let millis = |span: std::time::Duration| span.as_secs_f64() * 1000.0;
    assert_close("jitter", millis(outcome.forward.mean_jitter), 4.0);
    assert_close("delay one way", outcome.forward_delay.mean() / 1000.0, 46.0);
    assert_close("round trip", outcome.round_trip.mean() / 1000.0, 76.0);
    assert!(outcome.forward_delay.min() >= 40_000 && outcome.forward_delay.max() <= 52_000);
    assert_eq!((outcome.forward.late, outcome.forward.duplicates), (0, 0));
    assert_eq!(outcome.verified.wrong, 0);
    assert_eq!(outcome.verified.exact, outcome.echo.received);
    // The reports of the other end tell the same.
    let losses: f64 = outcome.told.iter().map(|told| told.loss).sum();
    let mean = losses / outcome.told.len() as f64;
    assert!((mean - 0.3).abs() < 0.01, "loss by reports: {mean}");
}

#[test]
fn copies_and_late_packets_are_counted() {
    let there: Faults = "duplicate=3%,reorder=2%".parse().expect("faults");
    let outcome = call(20_000, Codec::Pcma, Security::Off, [there, Faults::default()]);
    assert_eq!(outcome.forward.lost(), 0);
    assert_eq!(outcome.forward.duplicates, outcome.applied.doubled);
    assert!((500..700).contains(&outcome.forward.duplicates), "3 % of 20,000");
    // A packet is late if the next one is not held back, too.
    let late = outcome.forward.late as f64 / 20_000.0;
    assert!((late - 0.02 * 0.98).abs() < 0.002, "{late}");
    assert_eq!((outcome.echo.late, outcome.echo.lost()), (outcome.forward.late, 0));
}

#[test]
fn encrypted_audio_comes_back_unchanged_over_a_wrap_of_the_numbers() {
    for codec in [Codec::Pcmu, Codec::Gsm] {
        let outcome = call(2000, codec, Security::Required, [Faults::default(); 2]);
        let verified = Verified { exact: 2000, ..Verified::default() };
        assert_eq!((outcome.verified, outcome.echo.lost()), (verified, 0), "{codec:?}");
        assert_eq!(outcome.round_trip.max(), 0, "{codec:?}");
    }
}

/// Writes datagrams from the callee to the caller as a capture.
fn write_capture(path: &std::path::Path, datagrams: &[(Instant, Vec<u8>)]) {
    const RAW: u32 = 101;
    let mut file = Vec::new();
    for field in [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, RAW] {
        file.extend_from_slice(&u32::to_le_bytes(field));
    }
    for (at, payload) in datagrams {
        let mut frame = Vec::new();
        let builder = etherparse::PacketBuilder::ipv4([192, 0, 2, 1], [192, 0, 2, 1], 64);
        builder.udp(5000, 4000).write(&mut frame, payload).expect("a frame");
        let (micros, length) = (at.as_micros(), frame.len() as u64);
        for field in [micros / 1_000_000, micros % 1_000_000, length, length] {
            file.extend_from_slice(&(field as u32).to_le_bytes());
        }
        file.extend_from_slice(&frame);
    }
    std::fs::write(path, file).expect("a file");
}

/// The figures of a stream by tshark: packets, lost packets, and times in milliseconds.
#[derive(Debug)]
struct ByTshark {
    packets: u64,
    lost: i64,
    max_delta: f64,
    mean_jitter: f64,
    max_jitter: f64,
}

/// Analyses the only stream of RTP in a capture by tshark.
fn by_tshark(path: &std::path::Path) -> ByTshark {
    let output = std::process::Command::new("tshark")
        .args(["-n", "-q", "-d", "udp.port==4000,rtp", "-z", "rtp,streams", "-r"])
        .arg(path)
        .output()
        .expect("no tshark: apt install tshark");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = printed.lines().find(|line| line.contains("192.0.2.1")).expect("a stream");
    // Begin, end, two addresses with ports, SSRC, payload; then the figures.
    let words: Vec<&str> =
        line.split_whitespace().filter(|word| !word.ends_with("%)") && *word != "(").collect();
    let of = |index: usize| -> f64 {
        let word = words.get(8 + index).unwrap_or_else(|| panic!("{printed}"));
        word.parse().unwrap_or_else(|_| panic!("{word} in {printed}"))
    };
    ByTshark {
        packets: of(0) as u64,
        lost: of(1) as i64,
        max_delta: of(4),
        mean_jitter: of(6),
        max_jitter: of(7),
    }
}

#[test]
fn tshark_agrees_on_the_same_packets() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("echo.pcap");
    for (there, back) in [
        ("loss=0%", "loss=5%,delay=20ms,jitter=12ms"),
        ("loss=3%,jitter=15ms", "delay=5ms,loss=1%"),
        ("jitter=8ms", "reorder=2%"),
    ] {
        let faults = [there, back].map(|faults| faults.parse().expect("faults"));
        let outcome = call(CAPTURED, Codec::Pcmu, Security::Off, faults);
        let is_rtp = |(_, bytes): &&(Instant, Vec<u8>)| bytes[1] & 0x7f < 64;
        let packets: Vec<_> = outcome.came_back.iter().filter(is_rtp).cloned().collect();
        write_capture(&path, &packets);
        let (ours, theirs) = (outcome.echo, by_tshark(&path));
        let millis = |span: std::time::Duration| span.as_secs_f64() * 1000.0;
        assert_eq!(theirs.packets, ours.received, "{back}: {theirs:?}");
        // tshark counts up to the last packet, ours up to the highest number.
        let ahead = i64::from(back.contains("reorder"));
        let difference = theirs.lost - ours.lost() as i64;
        assert!((-ahead..=0).contains(&difference), "{back}: {theirs:?}");
        assert_close(&format!("{back}: mean jitter"), millis(ours.mean_jitter), theirs.mean_jitter);
        assert_close(
            &format!("{back}: highest jitter"),
            millis(ours.max_jitter),
            theirs.max_jitter,
        );
        assert_close(&format!("{back}: highest delta"), millis(ours.max_delta), theirs.max_delta);
    }
}
