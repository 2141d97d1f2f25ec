//! Sources that restart, and long gaps that are no restart.

use super::build::analyse_bytes;
use super::build::{Capture, Link, PCAP};
use super::rtp::{FROM, TO, assert_ms, only_stream, rtp};
use crate::capture::Reading;
use crate::capture::sdp::Assumed;
use crate::capture::track::RtpStream;
use std::path::Path;

/// A packet of 20 ms of speech: number, timestamp and microseconds.
type Packet = (u16, u32, u64);

/// Yields `count` packets from this number, timestamp and time.
fn run(count: u16, (number, timestamp, micros): Packet) -> impl Iterator<Item = Packet> {
    (0..count).map(move |index| {
        let timestamp = timestamp.wrapping_add(160 * u32::from(index));
        (number.wrapping_add(index), timestamp, micros + 20_000 * u64::from(index))
    })
}

/// Returns the stream of these packets in chronological order, with a payload type.
fn stream_of(payload_type: u8, packets: impl IntoIterator<Item = Packet>) -> RtpStream {
    let mut packets: Vec<_> = packets.into_iter().collect();
    packets.sort_by_key(|&(_, _, micros)| micros);
    let mut capture = Capture::default();
    for (number, timestamp, micros) in packets {
        capture.udp(micros, FROM, TO, &rtp(payload_type, number, timestamp));
    }
    only_stream(&capture)
}

fn stream(packets: impl IntoIterator<Item = Packet>) -> RtpStream {
    stream_of(0, packets)
}

fn order(stream: &RtpStream) -> (u64, u64, u64, u64, u64) {
    (stream.expected, stream.lost, stream.duplicates, stream.out_of_order, stream.restarts)
}

/// Returns runs that each begin with this number and timestamp; the first element is the count of
/// packets before.
fn runs(beginnings: &[(u16, u16, u32)]) -> RtpStream {
    let mut packets = Vec::new();
    for &(count, number, timestamp) in beginnings {
        packets.extend(run(count, (number, timestamp, 20_000 * packets.len() as u64)));
    }
    stream(packets)
}

#[test]
fn a_source_that_begins_anew_has_lost_nothing() {
    for beginnings in [
        // At 0 again, after few and after many packets.
        [(175, 0, 0), (300, 0, 0), (400, 0, 0)],
        [(20, 0, 0), (30, 0, 0), (40, 0, 0)],
        [(1500, 0, 0), (1200, 0, 0), (5, 0, 0)],
        // Another position: a little ahead, far ahead, far behind, around the wrap.
        [(50, 7, 3), (50, 700, 4_000_000), (50, 40_000, 8)],
        [(50, 60_000, 9), (50, 20, 1), (50, 65_500, 7_000)],
        // Only the numbers restart, and the timestamps continue.
        [(50, 9_000, 0), (50, 300, 8_000), (50, 2_500, 16_000)],
    ] {
        let stream = runs(&beginnings);
        let packets = beginnings.iter().map(|&(count, _, _)| u64::from(count)).sum();
        assert_eq!(stream.packets, packets, "{beginnings:?}");
        assert_eq!(order(&stream), (packets, 0, 0, 0, 2), "{beginnings:?}");
        assert_ms(stream.max_jitter_ms, 0.0);
        assert_ms(stream.max_delta_ms, 20.0);
    }
}

#[test]
fn a_gap_is_loss_as_long_as_the_time_stamps_go_on() {
    for payload_type in [0, 96] {
        for gap in [2, 99, 100, 1000, 2900, 3100, 10_000, 30_000, 40_000, 65_000] {
            let at = |index: u16| (index, 160 * u32::from(index), 20_000 * u64::from(index));
            let stream = stream_of(payload_type, run(50, at(0)).chain(run(50, at(50 + gap))));
            let lost = u64::from(gap);
            assert_eq!(
                order(&stream),
                (100 + lost, lost, 0, 0, 0),
                "gap {gap}, type {payload_type}"
            );
        }
    }
}

#[test]
fn copies_and_late_packets_are_no_new_beginning() {
    let whole = || run(300, (0, 0, 0));
    // Another path, where every packet comes 300 ms later.
    let later = run(300, (0, 0, 305_000));
    let copies = stream(whole().chain(later));
    assert_eq!(order(&copies), (300, 0, 300, 0, 0));
    // A block of 150 that is repeated all at once, and one of 120 that is repeated 3 s late.
    let at_once = run(150, (0, 0, 0))
        .map(|(number, timestamp, _)| (number, timestamp, 2_990_000 + u64::from(number)));
    assert_eq!(order(&stream(whole().chain(at_once))), (300, 0, 150, 0, 0));
    let late = whole().map(|(number, timestamp, micros)| match number {
        60..180 => (number, timestamp, 3_601_000 + u64::from(number)),
        _ => (number, timestamp, micros),
    });
    assert_eq!(order(&stream(late)), (300, 0, 0, 120, 0));
}

#[test]
fn a_copy_does_not_hide_a_new_beginning() {
    // The source restarts behind the number of a duplicate, long after it and right after it.
    for after in [200u16, 8] {
        let copy = (5, 800, 20_000 * u64::from(7u16) + 5_000);
        let anew = run(100, (6, 7_000_000, 20_000 * u64::from(after)));
        let stream = stream(run(after, (0, 0, 0)).chain([copy]).chain(anew));
        let sent = u64::from(after) + 100;
        assert_eq!(order(&stream), (sent, 0, 1, 0, 1), "{after}");
    }
}

#[test]
fn a_packet_far_from_all_others_changes_nothing() {
    let odd = [(30_000, 77, 1_005_000), (40_000, 78, 2_005_000)];
    let stream = stream(run(300, (0, 0, 0)).chain(odd));
    assert_eq!(order(&stream), (300, 0, 0, 0, 0));
    assert_eq!((stream.packets, stream.strays), (302, 2));
    assert_ms(stream.max_jitter_ms, 0.0);
}

#[test]
fn undecided_packets_are_counted_at_the_end() {
    let stream = stream(run(50, (0, 0, 0)).chain(run(3, (0, 0, 1_000_000))));
    assert_eq!((stream.packets, stream.ended_us - stream.started_us), (53, 1_040_000));
    assert_eq!(order(&stream), (50, 0, 3, 0, 0));
}

#[test]
fn equal_time_stamps_prove_no_restart() {
    let still = |packets: Vec<Packet>| {
        stream_of(96, packets.into_iter().map(|(number, _, micros)| (number, 5, micros)))
    };
    let gap =
        |gap: u16| run(50, (0, 0, 0)).chain(run(50, (50 + gap, 0, 1_000_000))).collect::<Vec<_>>();
    // As in RFC 3550 appendix A.1.
    assert_eq!(order(&still(gap(200))), (300, 200, 0, 0, 0));
    assert_eq!(order(&still(gap(20_000))), (100, 0, 0, 0, 1));
}

#[test]
fn after_a_long_pause_packets_that_do_not_go_on_are_another_stream() {
    let streams = |second: Packet| {
        let mut capture = Capture::default();
        for (number, timestamp, micros) in run(50, (100, 0, 0)).chain(run(50, second)) {
            capture.udp(micros, FROM, TO, &rtp(0, number, timestamp));
        }
        let streams = capture.analyse().rtp.streams;
        assert!(
            streams.iter().all(|stream| stream.lost == 0 && stream.restarts == 0),
            "{streams:?}"
        );
        streams.iter().map(|stream| stream.packets).collect::<Vec<_>>()
    };
    let later = 99_000_000;
    assert_eq!(streams((7, 7, later)), [50, 50], "numbers and time stamps begin anew");
    assert_eq!(streams((150, 7, later)), [100], "the numbers go on: silence was not sent");
}

#[test]
fn the_command_line_names_a_clock_where_no_description_does() {
    let mut capture = Capture::default();
    for index in 0..50u16 {
        let packet = rtp(111, index, 960 * u32::from(index));
        capture.udp(20_000 * u64::from(index), FROM, TO, &packet);
    }
    let bytes = capture.write(PCAP, Link::Ethernet);
    let stream = |assumed: &[Assumed]| {
        let reading = Reading::new(assumed);
        let analysis = analyse_bytes(Path::new("made.pcap"), &bytes[..], reading).unwrap();
        analysis.rtp.streams[0].clone()
    };
    assert_eq!(stream(&[]).mean_jitter_ms, None);
    let named = stream(&[Assumed::parse("111=opus/48000").unwrap()]);
    assert_ms(named.mean_jitter_ms, 0.0);
    assert_eq!(named.encodings, ["opus"]);
    assert_ms(stream(&[Assumed::parse("111=48000").unwrap()]).max_jitter_ms, 0.0);
    for text in ["111", "111=", "128=8000", "111=opus/0", "x=8000", "111=opus/48k"] {
        assert!(Assumed::parse(text).is_err(), "{text}");
    }
}
