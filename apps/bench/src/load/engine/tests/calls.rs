//! Calls with both ends in the engine.

use super::super::Task;
use super::rig::{Rig, Sent, answer, assert_delays, only, relayed, returned, server};
use crate::record::Delay;
use sip::Duration;
use std::collections::BTreeMap;

const ROUTES: [&str; 2] = ["<sip:192.0.2.1;lr>", "<sip:192.0.2.5:5080;lr;x=1>"];

/// Returns the 200 of the callee of `invite`, as relayed by a proxy that adds `routes`.
fn ok_of(rig: &mut Rig, invite: &Sent, routes: &[&str]) -> String {
    let sent = rig.deliver(2, &relayed(&invite.text, routes));
    let [ringing, ok] = &sent[..] else { panic!("{sent:#?}") };
    assert!(ringing.text.starts_with("SIP/2.0 180 Ringing\r\n"));
    assert_eq!(ringing.value("To"), ok.value("To"), "one dialog");
    returned(&ok.text)
}

#[test]
fn a_whole_call_with_all_its_delays() {
    let mut rig = Rig::new(|settings| {
        settings.ring = Duration::from_millis(100);
        settings.hold = Duration::from_millis(200);
    });
    let invite = only(rig.start(Task::Invite));
    assert_eq!(invite.start_line(), "INVITE sip:user2@example.org SIP/2.0");
    assert!(invite.value("Contact").starts_with("<sip:user0@192.0.2.10:6000"));
    rig.wait(7);
    rig.deliver(0, &answer(&invite.text, "100 Trying", ""));
    rig.wait(3);
    // 10 ms to the callee, which needs 2 ms and 1 ms to ring, and rings for 100 ms.
    let ringing = only(rig.deliver_late(2, &relayed(&invite.text, &ROUTES), 2, 1));
    assert!(ringing.text.starts_with("SIP/2.0 180 Ringing\r\n"));
    assert_eq!((ringing.link, ringing.remote), (2, Some(server())));
    assert_eq!(ringing.values("Record-Route"), ROUTES);
    rig.wait(5);
    rig.deliver(0, &returned(&ringing.text));
    let rung = rig.millis();
    let ok = only(rig.wait(110));
    assert!(ok.at - rung >= 94 && ok.at - rung <= 106, "{} after {rung}", ok.at);
    assert!(ok.text.starts_with("SIP/2.0 200 OK\r\n"));
    assert_eq!(ok.values("Record-Route"), ROUTES);
    assert_eq!(ok.value("Contact"), "<sip:user2@192.0.2.10:6002>");
    let after_ok = rig.millis() - ok.at;
    let ack = only(rig.deliver(0, &returned(&ok.text)));
    let answered = rig.millis();
    assert_eq!(ack.start_line(), "ACK sip:user2@192.0.2.10:6002 SIP/2.0");
    assert_eq!(ack.values("Route"), [ROUTES[1], ROUTES[0]], "reversed");
    assert_eq!(ack.remote, Some("192.0.2.5:5080".parse().unwrap()), "the first route");
    assert_eq!((ack.link, ack.value("CSeq")), (0, "1 ACK"));
    assert!(rig.deliver(2, &relayed(&ack.text, &[])).is_empty());
    let bye = only(rig.wait(220));
    let held = bye.at - answered;
    assert!((200..=208).contains(&held), "held for {held} ms");
    assert_eq!(bye.start_line(), "BYE sip:user2@192.0.2.10:6002 SIP/2.0");
    assert_eq!(bye.values("Route"), [ROUTES[1], ROUTES[0]]);
    assert_eq!(bye.remote, Some("192.0.2.5:5080".parse().unwrap()));
    assert_eq!((bye.link, bye.value("CSeq")), (0, "2 BYE"));
    assert_eq!(bye.value("To"), ack.value("To"));
    assert_eq!(bye.value("Call-ID"), invite.value("Call-ID"));
    assert_eq!(bye.value("From"), invite.value("From"));
    let to_callee = rig.millis() - bye.at;
    let ended = only(rig.deliver_late(2, &relayed(&bye.text, &[]), 6, 3));
    assert!(ended.text.starts_with("SIP/2.0 200 OK\r\n"));
    rig.wait(15);
    assert!(rig.deliver(0, &returned(&ended.text)).is_empty());
    let parts = rig.finish();
    let counts = &parts.counts;
    assert_eq!((counts.offered, counts.succeeded, counts.completed_calls), (1, 1, 1));
    // INVITE, 180, 200, ACK, BYE, 200; received with a 100 in addition.
    assert_eq!((counts.sent, counts.received), (6, 7));
    assert_eq!((counts.repeated, counts.unexpected, counts.retransmitted), (0, 0, 0));
    assert_eq!(counts.finals["INVITE"], BTreeMap::from([(200, 1)]));
    assert_eq!(counts.finals["BYE"], BTreeMap::from([(200, 1)]));
    let setup = 10 + after_ok;
    assert_delays(
        &parts,
        &[
            (Delay::Invite, 10),
            (Delay::Srd, 15),
            (Delay::Setup, setup),
            (Delay::Response, setup),
            (Delay::FromSchedule, setup),
            (Delay::Sdt, held),
            (Delay::Sdd, to_callee + 15),
            (Delay::Latency, setup + to_callee + 15),
        ],
    );
}

#[test]
fn requests_of_a_dialog_go_to_the_remote_target_where_there_is_no_route() {
    for (contact, remote) in [
        ("<sip:user2@192.0.2.10:6002>", Some("192.0.2.10:6002")),
        ("<sip:user2@192.0.2.10>", Some("192.0.2.10:5060")),
        // A host name stands for the destination of the INVITE.
        ("<sip:user2@phone.example.org>", None),
    ] {
        let mut rig = Rig::new(|_| ());
        let invite = only(rig.start(Task::Invite));
        let ok = answer(&invite.text, "200 OK", &format!("Contact: {contact}\r\n"));
        let sent = rig.deliver(0, &ok);
        let [ack, bye] = &sent[..] else { panic!("{sent:#?}") };
        for request in [ack, bye] {
            let uri = request.start_line().split(' ').nth(1).unwrap();
            assert_eq!(format!("<{uri}>"), contact);
            assert_eq!(request.remote, remote.map(|remote| remote.parse().unwrap()));
            assert!(request.values("Route").is_empty());
        }
        rig.deliver(0, &answer(&bye.text, "200 OK", ""));
        assert_eq!(rig.finish().counts.succeeded, 1);
    }
}

#[test]
fn a_session_that_stays_has_no_bye() {
    let mut rig = Rig::new(|settings| {
        settings.hold = Duration::from_millis(50);
        settings.hangs_up = false;
    });
    let invite = only(rig.start(Task::Invite));
    let ok = answer(&invite.text, "200 OK", "Contact: <sip:a@192.0.2.9>\r\n");
    let ack = only(rig.deliver(0, &ok));
    assert!(ack.text.starts_with("ACK "), "{}", ack.text);
    assert!(rig.wait(100).is_empty());
    assert_eq!(rig.finish().counts.succeeded, 1);
}

#[test]
fn a_call_that_does_not_ring_has_its_request_delay_from_the_200() {
    let mut rig = Rig::new(|_| ());
    let invite = only(rig.start(Task::Invite));
    rig.wait(30);
    let ok = answer(&invite.text, "200 OK", "Contact: <sip:a@192.0.2.9>\r\n");
    let bye = rig.deliver(0, &ok).pop().unwrap();
    rig.wait(4);
    rig.deliver(0, &answer(&bye.text, "200 OK", ""));
    let setup = [Delay::Srd, Delay::Setup, Delay::Response, Delay::FromSchedule];
    let mut delays: Vec<_> = setup.into_iter().map(|delay| (delay, 30)).collect();
    delays.extend([(Delay::Sdt, 0), (Delay::Sdd, 4), (Delay::Latency, 34)]);
    assert_delays(&rig.finish(), &delays);
}

#[test]
fn failed_calls_succeed_where_they_are_to_fail() {
    for (task, line, status, succeeds) in [
        (Task::InviteNotFound, "404 Not Found", 404, true),
        (Task::InviteNotFound, "480 Unavailable", 480, false),
        (Task::InviteRedirect, "302 Moved", 302, true),
        (Task::InviteRedirect, "404 Not Found", 404, false),
        (Task::Invite, "486 Busy Here", 486, false),
    ] {
        let mut rig = Rig::new(|_| ());
        let invite = only(rig.start(task));
        rig.wait(12);
        let end = answer(&invite.text, line, "Contact: <sip:elsewhere@192.0.2.9>\r\n");
        let ack = only(rig.deliver(0, &end));
        // The ACK of the transaction (RFC 3261 section 17.1.1.3).
        let uri = invite.start_line().split(' ').nth(1).unwrap();
        assert_eq!(ack.start_line(), format!("ACK {uri} SIP/2.0"));
        assert_eq!(ack.values("Via"), invite.values("Via"));
        assert_eq!((ack.value("CSeq"), ack.remote), ("1 ACK", None));
        assert!(ack.value("To").ends_with(";tag=server"));
        // The ACK was lost, so the response is retransmitted.
        let again = only(rig.deliver(0, &end));
        assert_eq!(again.text, ack.text);
        let parts = rig.finish();
        let counts = &parts.counts;
        assert_eq!((counts.succeeded, counts.refused), (succeeds.into(), (!succeeds).into()));
        assert_eq!((counts.repeated, counts.late), (1, 0));
        assert_eq!(counts.finals["INVITE"], BTreeMap::from([(status, 1)]));
        let mut delays = vec![(Delay::SrdFailed, 12)];
        if succeeds {
            delays.extend([(Delay::Response, 12), (Delay::FromSchedule, 12)]);
        }
        assert_delays(&parts, &delays);
    }
}

#[test]
fn a_call_that_rang_and_was_not_answered_has_no_delay_of_a_successful_one() {
    let mut rig = Rig::new(|_| ());
    let invite = only(rig.start(Task::Invite));
    rig.wait(10);
    rig.deliver(0, &answer(&invite.text, "180 Ringing", ""));
    rig.wait(10);
    only(rig.deliver(0, &answer(&invite.text, "486 Busy Here", "")));
    assert_delays(&rig.finish(), &[(Delay::SrdFailed, 20)]);
}

#[test]
fn a_200_that_comes_again_is_acknowledged_again() {
    let mut rig = Rig::new(|settings| settings.hold = Duration::from_millis(100));
    let invite = only(rig.start(Task::Invite));
    let ok = ok_of(&mut rig, &invite, &ROUTES);
    let ack = only(rig.deliver(0, &ok));
    // During the call, during the BYE, and after the end.
    assert_eq!(only(rig.deliver(0, &ok)).text, ack.text);
    let bye = only(rig.wait(110));
    assert_eq!(only(rig.deliver(0, &ok)).text, ack.text);
    let ended = only(rig.deliver(2, &relayed(&bye.text, &[])));
    rig.deliver(0, &returned(&ended.text));
    assert_eq!(only(rig.deliver(0, &ok)).text, ack.text);
    let counts = rig.finish().counts;
    assert_eq!((counts.repeated, counts.succeeded, counts.late), (3, 1, 0));
    assert_eq!(counts.finals["INVITE"], BTreeMap::from([(200, 1)]));
}

#[test]
fn requests_that_come_again_are_answered_again_and_counted() {
    let mut rig = Rig::new(|settings| {
        settings.ring = Duration::from_millis(100);
        settings.hold = Duration::from_millis(100);
    });
    let invite = only(rig.start(Task::Invite));
    let relayed_invite = relayed(&invite.text, &[]);
    let ringing = only(rig.deliver(2, &relayed_invite));
    assert_eq!(only(rig.deliver(2, &relayed_invite)).text, ringing.text);
    let ok = only(rig.wait(110));
    assert_eq!(only(rig.deliver(2, &relayed_invite)).text, ok.text);
    assert_eq!(rig.counts().repeated, 2);
    let ack = only(rig.deliver(0, &returned(&ok.text)));
    for repeated in [2, 3] {
        assert!(rig.deliver(2, &relayed(&ack.text, &[])).is_empty());
        assert_eq!(rig.counts().repeated, repeated, "the second ACK");
    }
    let bye = only(rig.wait(110));
    let ended = only(rig.deliver(2, &relayed(&bye.text, &[])));
    assert_eq!(rig.counts().repeated, 3);
    assert_eq!(only(rig.deliver(2, &relayed(&bye.text, &[]))).text, ended.text);
    assert_eq!(rig.counts().repeated, 4);
    rig.deliver(0, &returned(&ended.text));
    // After the end of the call, too.
    assert_eq!(only(rig.deliver(2, &relayed(&bye.text, &[]))).start_line(), "SIP/2.0 200 OK");
    let counts = rig.finish().counts;
    assert_eq!((counts.repeated, counts.succeeded, counts.completed_calls), (5, 1, 1));
}

#[test]
fn an_ack_that_the_bye_overtakes_comes_for_the_first_time() {
    let mut rig = Rig::new(|_| ());
    let invite = only(rig.start(Task::Invite));
    let ok = ok_of(&mut rig, &invite, &[]);
    let sent = rig.deliver(0, &ok);
    let [ack, bye] = &sent[..] else { panic!("{sent:#?}") };
    let ended = only(rig.deliver(2, &relayed(&bye.text, &[])));
    assert!(rig.deliver(2, &relayed(&ack.text, &[])).is_empty());
    rig.deliver(0, &returned(&ended.text));
    let counts = rig.finish().counts;
    assert_eq!((counts.repeated, counts.unexpected, counts.succeeded), (0, 0, 1));
}

#[test]
fn messages_outside_of_the_operation_are_unexpected() {
    // A user answers that should not exist: the call is ended, and has failed.
    let mut rig = Rig::new(|_| ());
    let invite = only(rig.start(Task::InviteNotFound));
    let ok = answer(&invite.text, "200 OK", "Contact: <sip:a@192.0.2.9>\r\n");
    let bye = rig.deliver(0, &ok).pop().unwrap();
    rig.deliver(0, &answer(&bye.text, "200 OK", ""));
    let counts = rig.finish().counts;
    assert_eq!((counts.unexpected, counts.succeeded, counts.refused), (1, 0, 1));

    // Requests to a callee who was not called.
    let mut rig = Rig::new(|_| ());
    let invite = only(rig.start(Task::Invite));
    assert!(rig.deliver(2, &invite.text.replace("INVITE", "ACK")).is_empty());
    let refused = only(rig.deliver(2, &invite.text.replace("INVITE", "BYE")));
    assert!(refused.text.starts_with("SIP/2.0 481 "));
    assert_eq!(rig.counts().unexpected, 2);
    // An OPTIONS ping of the server.
    let there = only(rig.deliver(2, &invite.text.replace("INVITE", "OPTIONS")));
    assert!(there.text.starts_with("SIP/2.0 200 "));
    assert_eq!(rig.counts().unexpected, 2);
    // A request that belongs to no call of this load.
    let foreign = invite.text.replace("12345678", "00000000");
    assert!(only(rig.deliver(2, &foreign)).text.starts_with("SIP/2.0 486 "));
    assert_eq!((rig.counts().unexpected, rig.counts().malformed), (3, 0));
}

#[test]
fn a_bye_that_is_refused_or_not_answered_spoils_the_call() {
    for line in ["481 No Such Call", ""] {
        let mut rig = Rig::new(|_| ());
        let invite = only(rig.start(Task::Invite));
        let ok = answer(&invite.text, "200 OK", "Contact: <sip:a@192.0.2.9>\r\n");
        let bye = rig.deliver(0, &ok).pop().unwrap();
        let status = if line.is_empty() {
            assert_eq!(rig.wait(32_010).len(), 10, "timer E");
            0
        } else {
            rig.deliver(0, &answer(&bye.text, line, ""));
            481
        };
        let counts = rig.finish().counts;
        assert_eq!((counts.succeeded, counts.completed_calls), (0, 0));
        assert_eq!((counts.refused, counts.timed_out), if status == 0 { (0, 1) } else { (1, 0) });
        assert_eq!(counts.finals["INVITE"], BTreeMap::from([(200, 1)]));
        assert_eq!(counts.finals["BYE"], BTreeMap::from([(status, 1)]));
    }
}

#[test]
fn a_200_without_a_contact_cannot_be_ended() {
    let mut rig = Rig::new(|_| ());
    let invite = only(rig.start(Task::Invite));
    rig.deliver(0, &answer(&invite.text, "200 OK", ""));
    assert_eq!(rig.finish().counts.refused, 1);
}

#[test]
fn a_caller_registers_first_where_that_is_asked_for() {
    let mut rig = Rig::new(|settings| settings.register_first = true);
    let register = only(rig.start(Task::Invite));
    assert!(register.text.starts_with("REGISTER "));
    rig.wait(8);
    let invite = only(rig.deliver(0, &answer(&register.text, "200 OK", "")));
    assert_eq!(invite.start_line(), "INVITE sip:user2@example.org SIP/2.0");
    assert_eq!(invite.value("CSeq"), "1 INVITE");
    rig.wait(20);
    let ok = answer(&invite.text, "200 OK", "Contact: <sip:a@192.0.2.9>\r\n");
    let bye = rig.deliver(0, &ok).pop().unwrap();
    assert_eq!(bye.value("CSeq"), "2 BYE");
    rig.wait(6);
    rig.deliver(0, &answer(&bye.text, "200 OK", ""));
    let parts = rig.finish();
    assert_eq!((parts.counts.offered, parts.counts.succeeded), (1, 1));
    assert_delays(
        &parts,
        &[
            (Delay::Rrd, 8),
            (Delay::Srd, 20),
            (Delay::Setup, 20),
            (Delay::Response, 20),
            // The call is late by the time of its registration.
            (Delay::FromSchedule, 28),
            (Delay::Sdt, 0),
            (Delay::Sdd, 6),
            (Delay::Latency, 26),
        ],
    );

    let mut rig = Rig::new(|settings| settings.register_first = true);
    let register = only(rig.start(Task::Invite));
    assert!(rig.deliver(0, &answer(&register.text, "503 Busy", "")).is_empty());
    let counts = rig.finish().counts;
    assert_eq!((counts.refused, counts.offered), (1, 1));
    assert!(!counts.finals.contains_key("INVITE"));
}
