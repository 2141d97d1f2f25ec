//! Plain streams whose packets are rewritten in their frames.

use super::*;

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
