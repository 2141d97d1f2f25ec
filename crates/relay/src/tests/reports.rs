//! The reports about calls.

use super::*;
use crate::CallReport;
use rtp::rtcp::ReportBlock;

const HERE: &str = "198.51.100.1:4000";
const THERE: &str = "203.0.113.1:6000";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A relay with a call that is answered at the time zero.
fn answered(more: &str) -> Rig {
    let rig = Rig::new(Limits { inactivity: seconds(1000), ..Limits::default() });
    rig.first_offer(&(sdp("198.51.100.1", 4000) + more));
    rig.first_answer(&(sdp("203.0.113.1", 6000) + more)).unwrap();
    rig
}

fn end(rig: &Rig, now: Duration) -> CallReport {
    rig.relay.end_dialog(b"c", [b"callee", b"caller"], now).expect("a call")
}

fn check_all(rig: &Rig, now: Duration) {
    (0..16).for_each(|_| assert!(rig.relay.expire(now).is_empty()));
}

#[test]
fn a_call_without_a_packet_in_five_seconds_is_marked_and_counted_once() {
    let rig = answered("");
    check_all(&rig, seconds(5));
    assert_eq!(rig.relay.reports()[0].no_media, None);
    check_all(&rig, seconds(6));
    check_all(&rig, seconds(9));
    assert_eq!((rig.relay.reports()[0].no_media, rig.relay.without_media()), (Some(true), 1));
    rig.send(Side::Caller, HERE, &rtp(1)).unwrap();
    assert_eq!((end(&rig, seconds(10)).no_media, rig.relay.without_media()), (Some(true), 1));
}

#[test]
fn a_call_with_a_packet_on_hold_or_of_few_seconds_is_not_marked() {
    let rig = answered("");
    rig.send(Side::Callee, THERE, &rtp(1)).unwrap();
    assert_eq!(end(&rig, seconds(60)).no_media, Some(false));
    let on_hold = answered("a=inactive\r\n");
    check_all(&on_hold, seconds(60));
    assert_eq!(end(&on_hold, seconds(60)).no_media, Some(false));
    assert_eq!(end(&answered(""), seconds(5)).no_media, None);
    let late = answered("");
    assert_eq!((end(&late, seconds(6)).no_media, late.relay.without_media()), (Some(true), 1));
}

#[test]
fn the_last_packet_of_either_end_is_reported() {
    let rig = answered("");
    let last = || rig.relay.reports()[0].last_packet;
    assert_eq!(last(), None);
    for (side, from, second) in [(Side::Callee, THERE, 7), (Side::Caller, HERE, 9)] {
        rig.now.set(seconds(second));
        rig.send(side, from, &rtp(1)).unwrap();
        assert_eq!(last(), Some(seconds(second)));
    }
    // A refused packet is no sign of an end.
    rig.now.set(seconds(11));
    rig.send(Side::Caller, "192.0.2.66:4000", &rtp(2)).unwrap_err();
    assert_eq!(last(), Some(seconds(9)));
}

#[test]
fn nothing_is_reported_that_was_not_measured() {
    let rig = answered("");
    let [caller, callee] = rig.relay.reports()[0].streams[0].clone();
    for direction in [&caller, &callee] {
        assert_eq!(direction.codec.as_deref(), Some("PCMU/8000"));
        let measured = (direction.expected, direction.lost, direction.jitter, direction.max_delta);
        assert_eq!(measured, (None, None, None, None));
        assert_eq!((direction.mean_opinion_score, direction.reported), (None, None));
    }
}

#[test]
fn loss_before_the_relay_and_the_reports_of_the_receiver_are_apart() {
    let rig = answered("");
    for number in (1..=100).filter(|number| number % 10 != 0) {
        rig.send(Side::Caller, HERE, &rtp(number)).unwrap();
    }
    let block = ReportBlock {
        ssrc: 9,
        fraction_lost: 64,
        lost: 25,
        highest_sequence_number: 100,
        jitter: 80,
        last_sender_report: 0,
        delay_since_last_sender_report: 0,
    };
    let mut report = [0; 100];
    let mut writer = rtp::rtcp::Writer::new(&mut report);
    writer.receiver_report(7, &[block]).unwrap();
    let length = writer.len();
    let from = place("203.0.113.1:6001");
    let stream = rig.stream();
    stream
        .relay(Side::Callee, Channel::Rtcp, from, &mut report, length, Duration::ZERO)
        .expect("a relayed report");
    let [caller, callee] = stream.summary();
    // The first packet of a source is not counted.
    assert_eq!((caller.expected, caller.lost), (Some(98), Some(9)));
    assert!(caller.mean_opinion_score.is_some_and(|score| score < 4.2));
    let reported = caller.reported.expect("a report");
    assert_eq!((reported.lost, reported.fraction_lost), (25, 0.25));
    assert_eq!(reported.jitter, Duration::from_millis(10));
    assert_eq!((callee.reported, callee.packets), (None, 0));
}

#[test]
fn the_last_branch_of_a_call_is_known() {
    let rig = Rig::new(Limits::default());
    let begin = |branch: &'static [u8]| {
        let offer = sdp("198.51.100.1", 4000);
        rig.pass(Side::Caller, Role::Offer { exchange: 1 }, &offer, |passage| {
            (passage.branch, passage.begins, passage.to_tag) = (Some(branch), true, b"");
        })
        .unwrap()
        .expect("an offer");
    };
    [&b"1"[..], b"2", b"3"].into_iter().for_each(begin);
    rig.relay.progress(b"c", b"2", true, seconds(2));
    rig.relay.progress(b"c", b"1", true, seconds(3));
    rig.relay.progress(b"c", b"1", true, seconds(4));
    let first = rig.relay.end_branch(b"c", b"1").expect("a branch");
    assert_eq!((first.is_last, first.ringing), (false, Some(seconds(3))));
    assert_eq!(*first.parties[1], b"sip:bob@example.com"[..]);
    let answer = sdp("203.0.113.1", 6000);
    let role = Role::Response { exchange: 1, is_final: true };
    rig.pass(Side::Callee, role, &answer, |passage| passage.branch = Some(b"2")).unwrap();
    rig.relay.confirm(b"c", b"2", b"callee", seconds(5));
    // The one that goes on is the answered one.
    let second = end(&rig, seconds(7));
    assert!(second.is_last);
    let merged = rig.relay.end_branch(b"c", b"3").expect("a branch").merged(second);
    assert_eq!((merged.is_last, merged.ringing), (true, Some(seconds(2))));
    assert_eq!(rig.relay.count(), 0);
}
