//! Retransmissions and timeouts.

use super::super::Task;
use super::rig::{Rig, Sent, TICK, answer, only, relayed};
use sip::transaction::Timers;
use sip::{Duration, Transport};
use std::collections::BTreeMap;

#[track_caller]
fn assert_times(sent: &[Sent], expected: &[u64]) {
    let times: Vec<u64> = sent.iter().map(|sent| sent.at).collect();
    assert_eq!(times.len(), expected.len(), "{times:?} instead of {expected:?}");
    for (time, expected) in times.iter().zip(expected) {
        assert!((*expected..=expected + 6 * TICK).contains(time), "{times:?}, not {expected:?}");
    }
}

#[test]
fn a_request_is_sent_again_by_timer_e_until_timer_f() {
    for (task, method) in [(Task::Register, "REGISTER"), (Task::Options, "OPTIONS")] {
        let mut rig = Rig::new(|_| ());
        let request = only(rig.start(task));
        let again = rig.wait(31_990);
        assert_times(
            &again,
            &[500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500],
        );
        assert!(again.iter().all(|sent| sent.text == request.text), "the same each time");
        assert_eq!(rig.counts().timed_out, 0);
        assert!(rig.wait(30).is_empty());
        // After the timeout.
        assert!(rig.deliver(0, &answer(&request.text, "200 OK", "")).is_empty());
        let parts = rig.finish();
        let counts = &parts.counts;
        assert_eq!((counts.timed_out, counts.succeeded, counts.lost), (1, 0, 0));
        assert_eq!((counts.sent, counts.retransmitted, counts.received), (11, 10, 1));
        assert_eq!((counts.late, counts.repeated), (1, 0));
        assert_eq!(counts.finals[method], BTreeMap::from([(0, 1)]));
        assert!(parts.delays.is_empty());
    }
}

#[test]
fn an_invite_is_sent_again_by_timer_a_until_timer_b() {
    let mut rig = Rig::new(|_| ());
    let invite = only(rig.start(Task::InviteNotFound));
    let again = rig.wait(32_010);
    assert_times(&again, &[500, 1500, 3500, 7500, 15_500, 31_500]);
    assert!(again.iter().all(|sent| sent.text == invite.text));
    // A late response is acknowledged, since the server would retransmit it.
    let ack = only(rig.deliver(0, &answer(&invite.text, "404 Not Found", "")));
    assert!(ack.start_line().starts_with("ACK sip:nobody~user0@example.org "));
    let contact = "Contact: <sip:x@192.0.2.77:5070>\r\n";
    let ack = only(rig.deliver(0, &answer(&invite.text, "200 OK", contact)));
    assert_eq!(ack.start_line(), "ACK sip:x@192.0.2.77:5070 SIP/2.0");
    let counts = rig.finish().counts;
    assert_eq!((counts.timed_out, counts.late, counts.retransmitted), (1, 2, 6));
    assert_eq!(counts.finals["INVITE"], BTreeMap::from([(0, 1)]));
}

#[test]
fn nothing_is_sent_again_over_a_reliable_transport() {
    for task in [Task::Register, Task::Options, Task::Invite] {
        let mut rig = Rig::new(|settings| settings.transport = Transport::Tcp);
        only(rig.start(task));
        assert!(rig.wait(31_990).is_empty());
        assert_eq!(rig.counts().timed_out, 0);
        rig.wait(30);
        assert_eq!(rig.finish().counts.timed_out, 1);
    }
}

#[test]
fn t1_scales_all_timers() {
    let mut rig = Rig::new(|settings| {
        settings.timers = Timers { t1: Duration::from_millis(50), ..Timers::default() }
    });
    only(rig.start(Task::Register));
    let again = rig.wait(3190);
    assert_times(&again, &[50, 150, 350, 750, 1550, 3150]);
    rig.wait(30);
    assert_eq!(rig.finish().counts.timed_out, 1);
}

#[test]
fn a_provisional_response_slows_a_request_down_and_silences_an_invite() {
    let mut rig = Rig::new(|_| ());
    let request = only(rig.start(Task::Register));
    rig.wait(100);
    rig.deliver(0, &answer(&request.text, "100 Trying", ""));
    // The running timer expires; then every T2 (RFC 3261 section 17.1.2.2).
    assert_times(&rig.wait(9000), &[500, 4500, 8500]);
    rig.deliver(0, &answer(&request.text, "200 OK", ""));
    assert_eq!(rig.finish().counts.succeeded, 1);

    let mut rig = Rig::new(|_| ());
    let invite = only(rig.start(Task::Invite));
    rig.wait(100);
    rig.deliver(0, &answer(&invite.text, "100 Trying", ""));
    assert!(rig.wait(31_980).is_empty());
    assert_eq!(rig.counts().timed_out, 0);
    rig.wait(40);
    let counts = rig.finish().counts;
    assert_eq!((counts.timed_out, counts.retransmitted), (1, 0));
    assert_eq!(counts.finals["INVITE"], BTreeMap::from([(0, 1)]));
}

#[test]
fn a_callee_sends_its_200_again_until_the_ack_and_gives_up_after_64_t1() {
    for acknowledged in [true, false] {
        let mut rig = Rig::new(|_| ());
        let invite = only(rig.start(Task::Invite));
        let callee = rig.deliver(2, &relayed(&invite.text, &[]));
        let [ringing, ok] = &callee[..] else { panic!("{callee:#?}") };
        assert!(ringing.text.starts_with("SIP/2.0 180 "));
        assert!(ok.text.starts_with("SIP/2.0 200 "));
        // A provisional response stops the retransmissions of the INVITE.
        rig.deliver(0, &answer(&invite.text, "100 Trying", ""));
        let again = rig.wait(2000);
        assert_times(&again, &[500, 1500]);
        assert!(again.iter().all(|sent| sent.text == ok.text && sent.link == 2));
        if acknowledged {
            let ack = relayed(&invite.text, &[]).replace("INVITE", "ACK");
            let ack = ack.replace(invite.value("To"), ok.value("To"));
            assert!(rig.deliver(2, &ack).is_empty());
            assert!(rig.wait(29_000).is_empty());
            assert_eq!(rig.counts().timed_out, 0);
            continue;
        }
        let again = rig.wait(29_980);
        assert_times(&again, &[3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500]);
        rig.wait(40);
        let counts = rig.finish().counts;
        assert_eq!((counts.timed_out, counts.retransmitted), (1, 10));
    }
}
