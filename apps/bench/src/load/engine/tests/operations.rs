//! Operations with one request, and their outcomes.

use super::super::Task;
use super::rig::{Rig, Sent, answer, assert_delays, only, server};
use crate::load::tally::Tally;
use crate::record::Delay;
use sip::{Duration, Instant};
use std::collections::BTreeMap;

#[test]
fn a_request_that_is_answered_with_200_succeeds_and_took_as_long_as_it_did() {
    for (task, line, expires, contact) in [
        (Task::Register, "REGISTER", &["600"][..], "<sip:user0@192.0.2.10:6000>"),
        (Task::Logout, "REGISTER", &["0"], "<sip:user0@192.0.2.10:6000>"),
        (Task::Clear, "REGISTER", &["0"], "*"),
        (Task::Options, "OPTIONS", &[], ""),
    ] {
        let mut rig = Rig::new(|_| ());
        let request = only(rig.start(task));
        assert_eq!(request.start_line(), format!("{line} sip:example.org SIP/2.0"));
        assert_eq!((request.link, request.remote), (0, None));
        assert_eq!(request.values("Expires"), expires, "{task:?}");
        let contacts: &[&str] = if contact.is_empty() { &[] } else { &[contact] };
        assert_eq!(request.values("Contact"), contacts, "{task:?}");
        rig.wait(7);
        // It is processed 5 ms after the kernel's time of receipt; this delay is not the server's.
        assert!(rig.deliver_late(0, &answer(&request.text, "200 OK", ""), 5, 0).is_empty());
        let parts = rig.finish();
        let counts = &parts.counts;
        assert_eq!((counts.offered, counts.started, counts.succeeded), (1, 1, 1));
        assert_eq!((counts.sent, counts.received, counts.challenged), (1, 1, 0));
        assert_eq!(counts.finals[line], BTreeMap::from([(200, 1)]));
        let mut delays = vec![(Delay::Response, 7), (Delay::FromSchedule, 7)];
        if line == "REGISTER" {
            delays.push((Delay::Rrd, 7));
        }
        assert_delays(&parts, &delays);
        assert_eq!(parts.lag.max(), 0);
    }
}

#[test]
fn lateness_of_the_generator_counts_from_the_schedule_only() {
    let mut rig = Rig::new(|_| ());
    let scheduled = rig.now;
    rig.wait(40);
    rig.engine.start(rig.now, scheduled, Task::Register, 0, None);
    // Written, but sent later.
    rig.now += Duration::from_millis(10);
    let request = only(rig.take());
    rig.wait(20);
    rig.deliver(0, &answer(&request.text, "200 OK", ""));
    let parts = rig.finish();
    assert_delays(&parts, &[(Delay::Response, 20), (Delay::Rrd, 20), (Delay::FromSchedule, 70)]);
    assert!(parts.lag.max().abs_diff(50_000) <= 50, "{}", parts.lag.max());
}

#[test]
fn any_other_final_response_is_a_refusal_without_a_response_delay() {
    for (task, method) in [(Task::Register, "REGISTER"), (Task::Options, "OPTIONS")] {
        for (status, line) in
            [(302, "302 Moved"), (403, "403 No"), (503, "503 Busy"), (603, "603 No")]
        {
            let mut rig = Rig::new(|_| ());
            let request = only(rig.start(task));
            assert!(rig.deliver(0, &answer(&request.text, line, "")).is_empty());
            let parts = rig.finish();
            assert_eq!((parts.counts.succeeded, parts.counts.refused), (0, 1));
            assert_eq!(parts.counts.finals[method], BTreeMap::from([(status, 1)]));
            assert_delays(&parts, &[]);
        }
    }
}

#[test]
fn a_response_that_comes_again_is_counted_and_changes_nothing() {
    let mut rig = Rig::new(|_| ());
    let request = only(rig.start(Task::Register));
    let ok = answer(&request.text, "200 OK", "");
    for _ in 0..3 {
        rig.deliver(0, &ok);
    }
    let parts = rig.finish();
    assert_eq!((parts.counts.succeeded, parts.counts.received, parts.counts.repeated), (1, 3, 2));
    assert_eq!((parts.counts.late, parts.counts.unexpected, parts.counts.malformed), (0, 0, 0));
    assert_eq!(parts.counts.finals["REGISTER"], BTreeMap::from([(200, 1)]));
}

#[test]
fn unknown_messages_are_malformed_and_a_keep_alive_is_not() {
    let mut rig = Rig::new(|_| ());
    let request = only(rig.start(Task::Options));
    // A message of another load: the salt in the branch differs.
    let other = answer(&request.text.replace("12345678", "12345679"), "200 OK", "");
    for text in ["garbage", &other, "SIP/2.0 200 OK\r\n\r\n", "\r\n\r\n", "\r\n"] {
        rig.deliver(0, text);
    }
    assert_eq!((rig.counts().malformed, rig.counts().received), (3, 3));
    assert_eq!(rig.engine.in_flight(), 1);
    rig.deliver(0, &answer(&request.text, "200 OK", ""));
    assert_eq!(rig.finish().counts.succeeded, 1);
}

#[test]
fn an_operation_that_is_given_up_is_lost() {
    let mut rig = Rig::new(|_| ());
    let request = only(rig.start(Task::Register));
    rig.wait(100);
    rig.engine.abandon(rig.now);
    rig.deliver(0, &answer(&request.text, "200 OK", ""));
    let parts = rig.finish();
    assert_eq!((parts.counts.lost, parts.counts.succeeded, parts.counts.late), (1, 0, 1));
    assert!(parts.counts.finals.is_empty());
}

#[test]
fn late_messages_do_not_count_in_the_next_load() {
    let mut rig = Rig::new(|_| ());
    let request = only(rig.start(Task::Register));
    rig.engine.abandon(rig.now);
    rig.wait(10);
    rig.engine.begin(Tally::new(rig.now, rig.now..Instant::MAX));
    rig.deliver(0, &answer(&request.text, "200 OK", ""));
    let counts = rig.counts();
    assert_eq!((counts.late, counts.repeated, counts.received), (0, 0, 0));
}

#[test]
fn only_operations_scheduled_in_the_measured_time_count() {
    let mut rig = Rig::new(|_| ());
    let measured = rig.now + Duration::from_millis(100)..rig.now + Duration::from_millis(200);
    rig.engine.begin(Tally::new(rig.now, measured));
    let mut requests = Vec::new();
    for _ in 0..3 {
        requests.push(only(rig.start(Task::Register)));
        rig.wait(100);
    }
    for request in requests {
        rig.deliver(0, &answer(&request.text, "200 OK", ""));
    }
    let parts = rig.finish();
    let counts = parts.counts;
    assert_eq!((counts.offered, counts.started, counts.succeeded), (1, 1, 1));
    assert_eq!((counts.sent, counts.received), (1, 1));
    assert_eq!(parts.lag.count(), 1);
    assert_eq!(parts.operations, 3, "what it cost is shared by all");
    let succeeded: u64 = parts.series.iter().map(|second| second.succeeded).sum();
    assert_eq!(succeeded, 3);
}

#[test]
fn a_link_of_its_own_is_closed_when_the_operation_is_over() {
    let mut rig = Rig::new(|_| ());
    rig.engine.start(rig.now, rig.now, Task::Options, 0, Some(9));
    let request = only(rig.take());
    assert_eq!(request.link, 9);
    let ok = answer(&request.text, "200 OK", "");
    rig.engine.receive(rig.now, rig.now, 9, server(), ok.as_bytes());
    assert_eq!(rig.engine.out.closed, [9]);
}

#[test]
fn a_refresh_is_no_operation_and_is_tried_again_while_the_binding_lasts() {
    let mut rig = Rig::new(|_| ());
    let register = only(rig.start(Task::Register));
    let contact = register.value("Contact").to_owned();
    rig.deliver(
        0,
        &answer(&register.text, "200 OK", &format!("Contact: {contact};expires=100\r\n")),
    );
    assert!(rig.engine.is_registered(0, rig.now) && !rig.engine.is_registered(1, rig.now));
    rig.wait(49_000);
    assert_eq!(rig.engine.refresh_due(rig.now), None);
    rig.wait(1_000);
    assert_eq!(rig.engine.refresh_due(rig.now), Some(0));
    for status in ["503 Service Unavailable", "200 OK"] {
        let refresh = only(rig.start(Task::Refresh));
        assert_eq!(refresh.value("Contact"), contact);
        assert_eq!(
            (refresh.value("Expires"), refresh.value("Call-ID")),
            ("600", register.value("Call-ID"))
        );
        assert!(refresh.number() > register.number());
        rig.deliver(0, &answer(&refresh.text, status, ""));
        assert_eq!(rig.engine.refresh_due(rig.now), None);
        rig.wait(2_000);
        let again = (status != "200 OK").then_some(0);
        assert_eq!(rig.engine.refresh_due(rig.now), again, "{status}");
    }
    rig.wait(100_000);
    assert!(rig.engine.is_registered(0, rig.now), "for the 600 s that were asked for");
    let logout = only(rig.start(Task::Logout));
    rig.deliver(0, &answer(&logout.text, "200 OK", ""));
    assert!(!rig.engine.is_registered(0, rig.now));
    let parts = rig.finish();
    assert_eq!((parts.counts.offered, parts.counts.succeeded, parts.counts.refused), (2, 2, 0));
    assert_eq!((parts.counts.started, parts.counts.refreshed, parts.operations), (2, 2, 2));
    assert_eq!(parts.counts.finals["REGISTER"], BTreeMap::from([(200, 2)]));
}

/// Returns a REGISTER of user 0 that gets a 423 with `more`, and the messages that follow.
fn too_brief(rig: &mut Rig, task: Task, more: &str) -> (Sent, Vec<Sent>) {
    let register = only(rig.start(task));
    rig.wait(5);
    let next = rig.deliver(0, &answer(&register.text, "423 Interval Too Brief", more));
    (register, next)
}

#[test]
fn a_registration_that_is_too_brief_is_repeated_with_min_expires() {
    let mut rig = Rig::new(|_| ());
    let (first, next) = too_brief(&mut rig, Task::Register, "Min-Expires: 1800\r\n");
    let second = only(next);
    assert_eq!((first.value("Expires"), second.value("Expires")), ("600", "1800"));
    assert_eq!((second.value("Contact"), second.link), (first.value("Contact"), first.link));
    assert_eq!(second.value("Call-ID"), first.value("Call-ID"));
    assert!(second.number() > first.number() && second.value("Via") != first.value("Via"));
    rig.wait(7);
    assert!(rig.deliver(0, &answer(&second.text, "200 OK", "")).is_empty());
    assert!(rig.engine.is_registered(0, rig.now + Duration::from_secs(1799)), "as was asked for");
    // This applies to later refreshes of that user only; a logout requests no expiry.
    let refresh = only(rig.start(Task::Refresh));
    assert_eq!(refresh.value("Expires"), "1800");
    rig.deliver(0, &answer(&refresh.text, "200 OK", ""));
    rig.engine.start(rig.now, rig.now, Task::Refresh, 1, None);
    let other = only(rig.take());
    assert_eq!(other.value("Expires"), "600");
    rig.deliver(1, &answer(&other.text, "200 OK", ""));
    let (logout, next) = too_brief(&mut rig, Task::Logout, "Min-Expires: 7200\r\n");
    assert_eq!((logout.value("Expires"), next.len()), ("0", 0));
    let parts = rig.finish();
    let counts = &parts.counts;
    assert_eq!((counts.offered, counts.succeeded, counts.refused), (2, 1, 1));
    assert_eq!(counts.finals["REGISTER"], BTreeMap::from([(200, 1), (423, 2)]));
    assert_delays(&parts, &[(Delay::Response, 12), (Delay::Rrd, 12), (Delay::FromSchedule, 12)]);
}

#[test]
fn a_registration_that_is_too_brief_again_or_for_no_reason_has_failed() {
    for more in ["", "Min-Expires: 600\r\n", "Min-Expires: soon\r\n", "Min-Expires: -1\r\n"] {
        let mut rig = Rig::new(|_| ());
        let (_, next) = too_brief(&mut rig, Task::Register, more);
        assert!(next.is_empty(), "{more}");
        assert_eq!(rig.finish().counts.refused, 1, "{more}");
    }
    let mut rig = Rig::new(|_| ());
    let (_, next) = too_brief(&mut rig, Task::Register, "Min-Expires: 1800\r\n");
    let brief = answer(&only(next).text, "423 Interval Too Brief", "Min-Expires: 3600\r\n");
    assert!(rig.deliver(0, &brief).is_empty(), "once");
    assert_eq!(only(rig.start(Task::Register)).value("Expires"), "1800");
    assert_eq!((rig.counts().refused, rig.counts().offered), (1, 2));
}

#[test]
fn two_registrations_of_a_user_that_are_too_brief_are_both_sent_again_and_retransmitted_as_they_were()
 {
    let mut rig = Rig::new(|_| ());
    let one = only(rig.start(Task::Register));
    let other = only(rig.start(Task::Register));
    let brief = |request: &str| answer(request, "423 No", "Min-Expires: 99999999999999999999\r\n");
    let next = only(rig.deliver(0, &brief(&one.text)));
    assert_eq!(next.value("Expires"), "4294967295", "what there is no number for is the highest");
    let again = rig.wait(510);
    assert!(again.iter().any(|sent| sent.text == other.text), "{again:#?}");
    assert!(again.iter().any(|sent| sent.text == next.text), "{again:#?}");
    assert_eq!(only(rig.deliver(0, &brief(&other.text))).value("Expires"), "4294967295");
}
