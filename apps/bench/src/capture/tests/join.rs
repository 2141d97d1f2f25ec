//! Captures of several machines with clocks of their own.

use super::build::{Capture, Fields, Link, PCAP, message};
use crate::capture::{Analysis, CaptureError, Reading, join};
use std::path::PathBuf;

const CALLER: &str = "10.0.0.1:5060";
const SERVER: &str = "10.0.0.2:5060";
const CALLEE: &str = "10.0.0.3:5060";

/// Writes captures of the machines, and joins them.
fn joined(captures: &[&Capture]) -> Result<Analysis, CaptureError> {
    let folder = tempfile::tempdir().unwrap();
    let write = |(number, capture): (usize, &&Capture)| {
        let path: PathBuf = folder.path().join(format!("{number}.pcap"));
        std::fs::write(&path, capture.write(PCAP, Link::Ethernet)).unwrap();
        path
    };
    let files: Vec<PathBuf> = captures.iter().enumerate().map(write).collect();
    join(&files, Reading::default())
}

/// Adds a message to the captures of its sender and its receiver: at `time` of the first clock, and
/// `way` later; their clocks are ahead. All in microseconds.
fn sent(
    (from, from_ahead): (&mut Capture, u64),
    (to, to_ahead): (&mut Capture, u64),
    (source, destination): (&str, &str),
    (time, way): (u64, u64),
    bytes: &[u8],
) {
    from.udp(time + from_ahead, source, destination, bytes);
    to.udp(time + way + to_ahead, source, destination, bytes);
}

#[test]
fn clocks_are_aligned_over_the_server_between_the_machines() {
    let mut machines = [Capture::default(), Capture::default(), Capture::default()];
    let [caller, server, callee] = &mut machines;
    // The server is 5 s ahead, the callee 90 s.
    let ahead = [0, 5_000_000, 90_000_000];
    let inbound = (CALLER, SERVER);
    for round in 0..3_u64 {
        let at = round * 1_000_000;
        let id = format!("call-{round}");
        let fields = Fields { call_id: &id, branches: &["1"], cseq: "1 REGISTER", to_tag: "" };
        let request = message("REGISTER sip:b", fields, "");
        let answer = message("200", fields, "");
        // The first round takes longest: the shortest ways are 300 and 500 microseconds.
        let slow = if round == 0 { 4_000 } else { 0 };
        sent((caller, 0), (server, ahead[1]), inbound, (at, 300 + slow), &request);
        sent((server, ahead[1]), (callee, ahead[2]), (SERVER, CALLEE), (at + 5_000, 100), &request);
        sent((callee, ahead[2]), (server, ahead[1]), (CALLEE, SERVER), (at + 6_000, 100), &answer);
        let back = (SERVER, CALLER);
        sent((server, ahead[1]), (caller, 0), back, (at + 7_000, 500 + slow), &answer);
    }
    let analysis = joined(&[caller, server, callee]).unwrap();
    let [to_server, to_callee] = &analysis.clocks[..] else { panic!("{:?}", analysis.clocks) };
    // The ways are 300 and 500: the middle is 100 off, and 400 is the largest possible error.
    assert!((to_server.ahead_us - 4_999_900.0).abs() < 1.0, "{to_server:?}");
    assert!((to_server.error_us - 400.0).abs() < 1.0, "{to_server:?}");
    assert_eq!(to_server.datagrams, 6);
    assert!((to_callee.ahead_us - 89_999_900.0).abs() < 1.0, "{to_callee:?}");
    assert!((to_callee.error_us - 500.0).abs() < 1.0, "{to_callee:?}");
    // Each message counts once: three on each of two hops, both ways.
    assert_eq!(analysis.methods["REGISTER"].requests, 6);
    assert_eq!(analysis.methods["REGISTER"].retransmissions, 0);
    assert_eq!(analysis.transits.len(), 4);
    assert!(analysis.transits.iter().all(|transit| transit.delay_us.count() == 3));
    let way = |from: &str, to: &str| {
        let transit = analysis
            .transits
            .iter()
            .find(|transit| transit.from.to_string() == from && transit.to.to_string() == to);
        transit.unwrap().delay_us.min()
    };
    assert_eq!([way("10.0.0.1", "10.0.0.2"), way("10.0.0.2", "10.0.0.1")], [400, 400]);
    let notes = analysis.notes().join("\n");
    assert!(notes.contains("1.pcap: 4999.900 ms ahead of the first, at most 0.400 ms"), "{notes}");
    let ended = analysis.ended_us.unwrap() - analysis.started_us.unwrap();
    assert!(ended < 2_100_000, "{ended}");
}

#[test]
fn a_retransmission_and_a_lost_message_stay_what_they_are() {
    let (mut caller, mut server) = (Capture::default(), Capture::default());
    let fields = Fields { call_id: "x", branches: &["1"], cseq: "1 REGISTER", to_tag: "" };
    let (request, answer) = (message("REGISTER sip:b", fields, ""), message("200", fields, ""));
    // The first request is lost between the machines.
    caller.udp(0, CALLER, SERVER, &request);
    let ends = (CALLER, SERVER);
    sent((&mut caller, 0), (&mut server, 7_000), ends, (500_000, 200), &request);
    sent((&mut server, 7_000), (&mut caller, 0), (SERVER, CALLER), (501_000, 200), &answer);
    let other = Fields { call_id: "y", ..fields };
    let [request, answer] = ["REGISTER sip:b", "200"].map(|line| message(line, other, ""));
    sent((&mut caller, 0), (&mut server, 7_000), ends, (600_000, 200), &request);
    sent((&mut server, 7_000), (&mut caller, 0), (SERVER, CALLER), (601_000, 200), &answer);
    let analysis = joined(&[&caller, &server]).unwrap();
    assert!((analysis.clocks[0].ahead_us - 7_000.0).abs() < 1.0, "{:?}", analysis.clocks);
    let counts = &analysis.methods["REGISTER"];
    assert_eq!((counts.requests, counts.retransmissions), (2, 1));
    let longest = analysis.transits.iter().map(|transit| transit.delay_us.max()).max();
    assert_eq!(longest, Some(200));
}

#[test]
fn a_capture_without_common_datagrams_of_both_directions_is_refused() {
    let (mut caller, mut server, mut other) =
        (Capture::default(), Capture::default(), Capture::default());
    let fields = Fields { call_id: "x", branches: &["1"], cseq: "1 REGISTER", to_tag: "" };
    let request = message("REGISTER sip:b", fields, "");
    sent((&mut caller, 0), (&mut server, 0), (CALLER, SERVER), (0, 200), &request);
    other.udp(0, CALLEE, SERVER, &request);
    for second in [&server, &other] {
        let error = joined(&[&caller, second]).unwrap_err();
        assert!(error.to_string().contains("1.pcap: no datagrams of both directions"), "{error}");
    }
}
