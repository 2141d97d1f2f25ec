//! SIP over TCP, in arbitrary segments.

use super::build::{Capture, Fields, Link, PCAP, analyse, message};
use crate::capture::Analysis;
use crate::capture::websocket::tests::{AGREED, UPGRADE, frame};
use proptest::prelude::*;

const CLIENT: &str = "10.0.0.1:40000";
const SERVER: &str = "10.0.0.2:5060";

/// Returns three messages with a keep-alive between them.
fn stream() -> Vec<u8> {
    let fields = |call_id| Fields { call_id, branches: &["1"], cseq: "1 OPTIONS", to_tag: "" };
    let mut bytes = message("OPTIONS sip:b", fields("x"), "v=0\r\n\r\n\r\n");
    bytes.extend(b"\r\n\r\n");
    bytes.extend(message("OPTIONS sip:b", fields("y"), ""));
    bytes.extend(message("200", fields("z"), ""));
    bytes
}

/// Returns the segments of the stream between these cuts with their sequence numbers, starting at
/// `first`.
fn segments(bytes: &[u8], cuts: &[usize], first: u32) -> Vec<(u32, Vec<u8>)> {
    let mut cuts: Vec<_> = cuts.iter().copied().chain([0, bytes.len()]).collect();
    cuts.sort_unstable();
    cuts.windows(2)
        .filter(|pair| pair[0] < pair[1])
        .map(|pair| (first.wrapping_add(pair[0] as u32), bytes[pair[0]..pair[1]].to_vec()))
        .collect()
}

fn captured(first: u32, segments: &[(u32, Vec<u8>)], with_syn: bool) -> Analysis {
    let mut capture = Capture::default();
    if with_syn {
        capture.tcp(0, (CLIENT, SERVER), (first.wrapping_sub(1), true), b"");
    }
    for (micros, (sequence, bytes)) in (1..).zip(segments) {
        capture.tcp(micros, (CLIENT, SERVER), (*sequence, false), bytes);
    }
    analyse(&capture.write(PCAP, Link::Ethernet)).unwrap()
}

/// Returns the WebSocket data of a client with two requests and a keep-alive.
fn websocket() -> Vec<u8> {
    let fields = |call_id| Fields { call_id, branches: &["1"], cseq: "1 OPTIONS", to_tag: "" };
    let request = |call_id| message("OPTIONS sip:b", fields(call_id), "");
    let mask = Some([9, 8, 7, 6]);
    let long = request("y");
    let (one, other) = long.split_at(50);
    [
        UPGRADE.to_vec(),
        frame(8, 1, mask, &request("x")),
        frame(8, 1, mask, b"\r\n\r\n"),
        frame(0, 1, mask, one),
        frame(8, 9, mask, b"ping"),
        frame(8, 0, mask, other),
    ]
    .concat()
}

#[test]
fn a_websocket_that_cannot_be_read_is_counted() {
    let bytes = [AGREED, &frame(12, 1, None, b"packed")].concat();
    let analysis = captured(1, &segments(&bytes, &[], 1), true);
    assert_eq!((analysis.sip.tcp, analysis.streams.unframed), (0, 1));
    // Other HTTP is ignored.
    let bytes = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec();
    let analysis = captured(1, &segments(&bytes, &[], 1), true);
    assert_eq!((analysis.sip.tcp, analysis.streams.unframed), (0, 0));
}

proptest! {
    /// The same over WebSocket.
    #[test]
    fn messages_over_websocket_do_not_depend_on_the_segments(
        cuts in proptest::collection::vec(0..websocket().len(), 0..12),
        order in any::<prop::sample::Index>(),
        first in (u32::MAX - 600)..,
    ) {
        let mut segments = segments(&websocket(), &cuts, first);
        let at = order.index(segments.len());
        segments.rotate_left(at);
        let analysis = captured(first, &segments, true);
        prop_assert_eq!(analysis.sip.tcp, 2);
        prop_assert_eq!((analysis.streams.gaps, analysis.streams.unframed), (0, 0));
        prop_assert_eq!(analysis.methods["OPTIONS"].requests, 2);
    }

    /// For any segmentation, order and retransmission of segments, the messages are the same; the
    /// sequence numbers wrap within the stream.
    #[test]
    fn messages_do_not_depend_on_the_segments(
        cuts in proptest::collection::vec(0..stream().len(), 0..12),
        order in any::<prop::sample::Index>(),
        again in any::<prop::sample::Index>(),
        first in (u32::MAX - 600)..,
    ) {
        let mut segments = segments(&stream(), &cuts, first);
        let copy = segments[again.index(segments.len())].clone();
        let at = order.index(segments.len());
        segments.insert(at, copy);
        segments.rotate_left(at);
        let analysis = captured(first, &segments, true);
        prop_assert_eq!(analysis.sip.tcp, 3);
        prop_assert_eq!(analysis.streams.gaps, 0);
        prop_assert_eq!(analysis.methods["OPTIONS"].requests, 2);
        prop_assert_eq!(analysis.methods["OPTIONS"].retransmissions, 0);
    }
}

#[test]
fn a_stream_without_its_beginning_is_read_from_the_next_message_on() {
    let bytes = stream();
    let second = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let second = second + bytes[second..].windows(7).position(|seven| seven == b"OPTIONS").unwrap();
    let segments = segments(&bytes, &[20, second], 7);
    let analysis = captured(7, &segments[1..], false);
    assert_eq!((analysis.sip.tcp, analysis.sip.malformed), (2, 0));
}

#[test]
fn a_gap_costs_only_the_messages_in_it() {
    let bytes = stream();
    let last = bytes.windows(11).position(|one| one == b"SIP/2.0 200").unwrap();
    let mut segments = segments(&bytes, &[100, last], 7);
    segments.remove(1);
    let analysis = captured(7, &segments, true);
    assert_eq!(analysis.sip.tcp, 1);
    assert_eq!(analysis.streams.gaps, 1);
    assert_eq!(analysis.sip.stray_responses, 1);
}

#[test]
fn streams_without_sip_are_not_buffered() {
    let mut capture = Capture::default();
    let mut sequence = 1;
    for bytes in [&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], &[0x16, 3, 1, 0, 9], &[b'a'; 1000]] {
        for _ in 0..200 {
            capture.tcp(0, (CLIENT, SERVER), (sequence, false), bytes);
            sequence += bytes.len() as u32;
        }
    }
    let fields = Fields { call_id: "x", branches: &["1"], cseq: "1 OPTIONS", to_tag: "" };
    capture.tcp(1, (CLIENT, SERVER), (sequence, false), &message("OPTIONS sip:b", fields, ""));
    let analysis = capture.analyse();
    assert_eq!((analysis.sip.tcp, analysis.sip.malformed), (1, 0));
    assert_eq!((analysis.streams.gaps, analysis.streams.given_up), (0, 0));
}

#[test]
fn a_gap_is_not_waited_at_for_ever() {
    let body = "b".repeat(10_000);
    let mut capture = Capture::default();
    capture.tcp(0, (CLIENT, SERVER), (99, true), b"");
    // The gap is 100 bytes long, with 400 kB after it.
    let mut sequence = 200;
    for number in 0..40u32 {
        let branch = number.to_string();
        let fields = Fields { call_id: "x", branches: &[&branch], cseq: "1 MESSAGE", to_tag: "" };
        let bytes = message("MESSAGE sip:b", fields, &body);
        capture.tcp(u64::from(sequence), (CLIENT, SERVER), (sequence, false), &bytes);
        sequence += bytes.len() as u32;
    }
    let analysis = capture.analyse();
    assert_eq!((analysis.sip.tcp, analysis.streams.gaps), (40, 1));
    assert_eq!(analysis.methods["MESSAGE"].requests, 40);
}

#[test]
fn a_message_without_an_end_costs_its_segment() {
    let fields = Fields { call_id: "x", branches: &["1"], cseq: "1 OPTIONS", to_tag: "" };
    let good = message("OPTIONS sip:b", fields, "");
    let bad = b"OPTIONS sip:b SIP/2.0\r\nVia: SIP/2.0/TCP h\r\n\r\n".to_vec();
    let analysis = captured(7, &[(7, bad.clone()), (7 + bad.len() as u32, good)], true);
    assert_eq!((analysis.sip.tcp, analysis.streams.unframed), (1, 1));
}

#[test]
fn a_new_connection_on_the_same_ports_is_another_stream() {
    let fields = |branch| Fields { call_id: "x", branches: branch, cseq: "1 OPTIONS", to_tag: "" };
    let mut capture = Capture::default();
    for (index, branch) in [["1"], ["2"], ["3"]].iter().enumerate() {
        let first = 4_000_000_000u32.wrapping_mul(1 + index as u32);
        // The start of the third connection is not in the capture.
        if index < 2 {
            capture.tcp(0, (CLIENT, SERVER), (first.wrapping_sub(1), true), b"");
        }
        let bytes = message("OPTIONS sip:b", fields(branch), "");
        capture.tcp(1, (CLIENT, SERVER), (first, false), &bytes);
    }
    assert_eq!(capture.analyse().sip.tcp, 3);
}
