//! Limits of bandwidth.

use super::{BRANCH, CALLS, Rig, rtp, sdp};
use crate::{Bandwidth, Calls, Drop, Limits, Passage, RelayError, Role, Side};
use core::time::Duration;
use std::string::String;

const CALLER: &str = "198.51.100.1:4000";
const CALLEE: &str = "203.0.113.1:6000";

/// A call of audio, with these limits.
fn call(bandwidth: Bandwidth, more: &str) -> Rig {
    let rig = Rig::new(Limits { bandwidth, ..Limits::default() });
    rig.first_offer(&(sdp("198.51.100.1", 4000) + more));
    rig.first_answer(&(sdp("203.0.113.1", 6000) + more)).unwrap();
    rig.send(Side::Callee, CALLEE, &rtp(0)).unwrap();
    rig
}

/// Begins a further call of `owner`.
fn begin(rig: &Rig, number: usize, owner: u64) -> Result<Option<String>, RelayError> {
    let offer = Role::Offer { exchange: 1 };
    rig.pass(Side::Caller, offer, &sdp("198.51.100.1", 4000), |passage: &mut Passage<'_>| {
        (passage.call_id, passage.branch, passage.begins) = (&CALLS[number], BRANCH, true);
        (passage.owner, passage.now) = (owner, rig.now.get());
    })
}

#[test]
fn a_stream_has_the_bandwidth_that_its_codecs_need() {
    let rig = call(Bandwidth::default(), "");
    // Packets of 172 bytes: PCMU at 20 ms, at the double rate, and a flood.
    assert_eq!(rig.send_audio(Side::Caller, CALLER, 3000, 20), 3000);
    assert_eq!(rig.relay.refusals().packets, 0);
    assert_eq!(rig.send_audio(Side::Caller, CALLER, 3000, 10), 3000);
    let sent = rig.send_audio(Side::Caller, CALLER, 20_000, 1);
    // 20,000 bytes a second for 20 seconds, and a burst of two seconds.
    assert!((2_300..2_600).contains(&sent), "{sent}");
    assert_eq!(rig.relay.refusals().packets, 20_000 - sent as u64);
    let report = rig.relay.reports().pop().unwrap();
    assert_eq!(report.streams[0][0].unsent, 20_000 - sent as u64);
    // The other end has an allowance of its own.
    assert_eq!(rig.send_audio(Side::Callee, CALLEE, 100, 20), 100);
    // A codec of one end that needs more.
    let stereo = "a=rtpmap:0 L16/44100/2\r\n";
    let rig = call(Bandwidth::default(), stereo);
    assert_eq!(rig.send_audio(Side::Caller, CALLER, 20_000, 1), 20_000);
}

#[test]
fn calls_and_owners_have_limits_and_new_calls_wait_until_there_is_room() {
    // A packet of 172 bytes each 20 ms are 8600 bytes a second.
    for (bandwidth, is_shared) in [
        (Bandwidth { call: 5_000, ..Bandwidth::default() }, None),
        (Bandwidth { owner: 5_000, ..Bandwidth::default() }, Some(false)),
        (Bandwidth { all: 5_000, ..Bandwidth::default() }, Some(true)),
    ] {
        let rig = call(bandwidth, "");
        let sent = rig.send_audio(Side::Caller, CALLER, 2_000, 20);
        assert!((1_160..1_240).contains(&sent), "{bandwidth:?}: {sent}");
        let refused = rig.send(Side::Callee, CALLEE, &rtp(1));
        assert_eq!(refused, Err(Drop::Bandwidth), "{bandwidth:?}");
        let results = [(1, 7), (2, 8)].map(|(number, owner)| begin(&rig, number, owner).is_ok());
        assert_eq!(results, [is_shared.is_none(), is_shared != Some(true)], "{bandwidth:?}");
        let count = results.iter().filter(|begins| !**begins).count();
        assert_eq!(rig.relay.refusals().bandwidth, count as u64);
        rig.now.set(rig.now.get() + Duration::from_secs(2));
        assert!(begin(&rig, 3, 7).is_ok(), "{bandwidth:?}");
    }
}

#[test]
fn refusals_are_counted_by_their_limit() {
    let refused = |limits, calls: usize| {
        let rig = Rig::new(limits);
        let failures = (0..calls).filter(|number| begin(&rig, *number, 7).is_err()).count();
        assert_eq!(failures, 1);
        let refusals = rig.relay.refusals();
        [refusals.calls, refusals.calls_of_owner, refusals.ports, refusals.bandwidth]
    };
    assert_eq!(refused(Limits { calls: 1, ..Limits::default() }, 2), [1, 0, 0, 0]);
    assert_eq!(refused(Limits { calls_of_owner: 1, ..Limits::default() }, 2), [0, 1, 0, 0]);
    // The host has ports for four streams.
    assert_eq!(refused(Limits::default(), 5), [0, 0, 1, 0]);
}
