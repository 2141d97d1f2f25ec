//! The records of calls that are refused before they reach a phone.

use crate::media::{offer, server};
use crate::rig::{
    ALICE, BOB, Draft, Reaction, Rig, STRANGER, Sent, closed_config, open_config, udp,
};
use barebell_sip_server::config::{Joining, Relaying, State};
use barebell_sip_server::relay::Calls;
use barebell_sip_server::{CallRecord, Config, Event, Party};
use sip::{Duration, HeaderName};
use std::sync::Arc;

fn records(reaction: &Reaction) -> Vec<CallRecord> {
    fn record(event: &Event) -> Option<CallRecord> {
        match event {
            Event::CallEnded(record) => Some((**record).clone()),
            _ => None,
        }
    }
    reaction.events.iter().filter_map(record).collect()
}

#[track_caller]
fn only(reaction: &Reaction) -> CallRecord {
    let [record] = &records(reaction)[..] else { panic!("one record is expected: {reaction:#?}") };
    record.clone()
}

fn status(record: &CallRecord) -> u16 {
    record.response.as_ref().expect("a response").0
}

fn rig(config: Config) -> (Rig, Arc<dyn Calls>) {
    server(config, &format!("<sip:bob@{BOB}>"))
}

fn relaying(config: Config) -> Config {
    Config { relaying: Relaying::All, ..config }
}

/// An INVITE for a user without a phone.
fn to_carol() -> Draft {
    Draft::invite("sip:carol@example.com").with("To", "<sip:carol@example.com>")
}

/// The INVITE that the B2BUA sends for `first`.
fn second_leg(first: &Sent, caller: &str) -> Draft {
    let route = first.value(HeaderName::Route);
    let route = route.replace('>', &format!(";caller={caller}>"));
    Draft::new("INVITE", &first.request_uri())
        .with("From", &first.value(HeaderName::From).replace("tag=", "tag=second-"))
        .with("To", &first.value(HeaderName::To))
        .and("Contact", "<sip:b2bua@203.0.113.1:5060>")
        .and("Route", &route)
}

#[test]
fn a_call_to_an_unknown_user_is_recorded() {
    for state in [State::Stateful, State::Stateless] {
        let (mut rig, relay) = rig(Config { state, ..relaying(open_config()) });
        let draft = to_carol();
        let reaction = rig.send(&udp(ALICE), &draft);
        let record = only(&reaction);
        assert_eq!(status(&record), reaction.response().status());
        assert_eq!((record.ended_by, record.is_joined), (Party::Server, false));
        assert_eq!((record.created, record.ended, record.answered), (rig.now, rig.now, None));
        assert!(record.unreached.expect("no phone").is_proven, "a trusted network");
        let [caller, callee] = &record.report.parties;
        assert_eq!(
            (&caller[..], &callee[..]),
            (&b"sip:alice@example.com"[..], &b"sip:carol@example.com"[..])
        );
        assert_eq!(record.report.ends[0].signalling, ALICE.parse().unwrap());
        assert_eq!(relay.count(), 0);
        // An INVITE within a dialog begins no call.
        let within = draft.with("To", "<sip:carol@example.com>;tag=x").with_cseq(2);
        let reaction = rig.send(&udp(ALICE), &within);
        assert!(records(&reaction).is_empty());
    }
}

#[test]
fn the_record_tells_if_the_caller_is_proven() {
    let (mut rig, _) = rig(relaying(closed_config()));
    let reaction = rig.send_as("alice", &udp(ALICE), &to_carol());
    assert!(only(&reaction).unreached.expect("no phone").is_proven);
    let foreign = to_carol().with("From", "<sip:mallory@elsewhere.example>;tag=1");
    let reaction = rig.send(&udp(STRANGER), &foreign);
    assert!(!only(&reaction).unreached.expect("no phone").is_proven);
    // A challenge ends no call.
    let reaction = rig.send(&udp(ALICE), &to_carol());
    assert_eq!((reaction.response().status(), records(&reaction).len()), (407, 0));
}

#[test]
fn text_of_a_stranger_is_cut() {
    let (mut rig, _) = rig(relaying(open_config()));
    let long = format!("sip:{}@example.com", "x".repeat(5000));
    let draft = to_carol().with("From", &format!("<{long}>;tag={}", "y".repeat(5000)));
    let draft = draft.with("Call-ID", &"z".repeat(5000));
    let record = only(&rig.send(&udp(ALICE), &draft));
    let report = &record.report;
    let lengths = [&report.call_id, &report.caller_tag, &report.parties[0]].map(|it| it.len());
    assert_eq!(lengths, [256; 3]);
}

#[test]
fn a_call_of_a_server_that_relays_some_calls_only_has_no_record() {
    let (mut rig, _) = rig(open_config());
    let reaction = rig.send(&udp(ALICE), &to_carol());
    assert_eq!((reaction.responses().count(), records(&reaction).len()), (1, 0));
}

#[test]
fn a_call_without_a_reachable_target_is_recorded_with_its_times() {
    let (mut rig, _) = rig(relaying(open_config()));
    let draft = offer("198.51.100.10").with_uri("sip:x@nowhere.example");
    let began = rig.now;
    let reaction = rig.send(&udp(ALICE), &draft);
    assert!(records(&reaction).is_empty());
    rig.wait(Duration::from_secs(3));
    let (_, ticket) = reaction.wants_location();
    let record = only(&rig.located(ticket, &[]));
    assert_eq!((status(&record), record.created, record.ended), (480, began, rig.now));
    assert_eq!(record.ended_by, Party::Server);
}

#[test]
fn a_call_through_the_b2bua_is_recorded_on_the_leg_that_is_refused() {
    let (mut rig, _) = rig(Config { joining: Joining::All, ..closed_config() });
    // The proxy refuses the first leg.
    let record = only(&rig.send_as("alice", &udp(ALICE), &to_carol()));
    assert!(!record.unreached.expect("no phone").is_first_leg);
    // The phone of bob is gone when the second leg comes.
    let draft = offer("198.51.100.10");
    let first = rig.send_as("alice", &udp(ALICE), &draft).forwarded().clone();
    let gone = Draft::register("bob").and("Contact", "*").and("Expires", "0");
    rig.send_as("bob", &udp(BOB), &gone);
    let second = second_leg(&first, "first-call-id");
    let reaction = rig.send(&udp(ALICE).internal(), &second);
    let record = only(&reaction);
    assert_eq!((status(&record), record.is_joined), (480, true));
    assert_eq!(record.caller_call_id.as_deref(), Some("first-call-id"));
    let unreached = record.unreached.expect("no phone");
    assert!(unreached.is_proven && !unreached.is_first_leg);
    // The owner drops the record of the first leg, unless the B2BUA has refused it itself.
    let reaction = rig.receive(&first.flow, &first.answer(480, "b2bua", ""));
    let record = only(&reaction);
    assert!(record.is_joined && record.unreached.expect("no phone").is_first_leg);
}
