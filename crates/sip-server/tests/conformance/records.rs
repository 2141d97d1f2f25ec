//! The records of relayed calls: one for each call.

use crate::media::{NAT, answer, body, offer, server};
use crate::rig::{BOB, Draft, Reaction, Rig, Sent, open_config, udp};
use barebell_sip_server::config::State;
use barebell_sip_server::relay::{CallReport, Calls};
use barebell_sip_server::{CallRecord, Config, Event, Party};
use sip::{Duration, HeaderName};
use std::sync::Arc;

/// The second phone of bob.
const OTHER: &str = "198.51.100.21:5060";

fn records(reaction: &Reaction) -> Vec<&CallRecord> {
    fn record(event: &Event) -> Option<&CallRecord> {
        match event {
            Event::CallEnded(record) => Some(record),
            _ => None,
        }
    }
    reaction.events.iter().filter_map(record).collect()
}

#[track_caller]
fn only(reaction: &Reaction) -> CallRecord {
    let [record] = records(reaction)[..] else { panic!("one record is expected: {reaction:#?}") };
    assert!(!record.is_joined);
    record.clone()
}

/// The status, the reason phrase and the Reason of a record.
fn cause(record: &CallRecord) -> (Option<(u16, &str)>, Option<&str>) {
    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }
    let response = record.response.as_ref();
    (response.map(|(status, phrase)| (*status, text(phrase))), record.reason.as_deref().map(text))
}

fn rig() -> (Rig, Arc<dyn Calls>) {
    server(open_config(), &format!("<sip:bob@{BOB}>"))
}

/// The INVITEs of alice to both phones of bob.
fn forked() -> (Rig, Arc<dyn Calls>, [Sent; 2]) {
    let (mut rig, relay) = rig();
    rig.register("bob", &udp(OTHER), &format!("<sip:bob@{OTHER}>"));
    let reaction = rig.send(&udp(NAT), &offer("192.168.1.5"));
    let branches: Vec<Sent> = reaction.requests().cloned().collect();
    (rig, relay, branches.try_into().expect("two branches"))
}

fn refuse(rig: &mut Rig, invite: &Sent, status: u16) -> Reaction {
    rig.receive(&invite.flow, &invite.answer(status, "bob", ""))
}

/// A request of alice in the dialog with the callee `tag`.
fn within(invite: &Sent, method: &str, tag: &str, more: (&str, &str)) -> Draft {
    let draft = Draft::invite("sip:bob@198.51.100.20:5060").with_method(method).with_cseq(2);
    let draft = draft.with("Call-ID", &invite.value(HeaderName::CallId)).and(more.0, more.1);
    draft.with("To", &format!("<sip:bob@example.com>;tag={tag}"))
}

/// Ends the call of `invite` by a BYE of alice. Returns the output for the response.
fn hang_up(rig: &mut Rig, invite: &Sent, tag: &str) -> Reaction {
    let draft = within(invite, "BYE", tag, ("Reason", "Q.850;cause=16"));
    let reaction = rig.send(&udp(NAT), &draft);
    assert!(records(&reaction).is_empty());
    let bye = reaction.forwarded().clone();
    rig.receive(&bye.flow, &bye.answer(200, tag, ""))
}

#[test]
fn an_answered_call_is_recorded_at_its_end() {
    let (mut rig, _) = rig();
    let start = rig.now;
    let invite = rig.send(&udp(NAT), &offer("192.168.1.5")).forwarded().clone();
    let second = Duration::from_secs(1);
    rig.wait(second);
    refuse(&mut rig, &invite, 180);
    rig.wait(second);
    answer(&mut rig, &invite, 183);
    rig.wait(second);
    answer(&mut rig, &invite, 200);
    rig.wait(second);
    let record = only(&hang_up(&mut rig, &invite, "bob"));
    assert_eq!((record.created, record.ringing), (start, Some(start + second)));
    let answered = (record.answered, record.ended);
    assert_eq!(answered, (Some(start + second.times(3)), start + second.times(4)));
    assert_eq!(record.ended_by, Party::Caller);
    assert_eq!(cause(&record), (None, Some("Q.850;cause=16")));
    let [caller, callee] = &record.report.parties;
    assert_eq!(
        (&caller[..], &callee[..]),
        (&b"sip:alice@example.com"[..], &b"sip:bob@example.com"[..])
    );
    let ends = record.report.ends.each_ref().map(|end| end.signalling);
    assert_eq!(ends, [NAT.parse().unwrap(), BOB.parse().unwrap()]);
    // The dialog is over.
    assert!(records(&hang_up(&mut rig, &invite, "bob")).is_empty());
}

#[test]
fn the_callee_may_end_the_call() {
    let (mut rig, _) = rig();
    let draft = offer("192.168.1.5").with("Contact", &format!("<sip:alice@{NAT}>"));
    let invite = rig.send(&udp(NAT), &draft).forwarded().clone();
    answer(&mut rig, &invite, 200);
    let call_id = invite.value(HeaderName::CallId);
    let bye = Draft::invite(&format!("sip:alice@{NAT}")).with_method("BYE");
    let bye = bye.with("From", "<sip:bob@example.com>;tag=bob").with("Call-ID", &call_id);
    let bye = bye.with("To", "<sip:alice@example.com>;tag=alice-tag");
    let bye = rig.send(&udp(BOB), &bye).forwarded().clone();
    let record = only(&rig.receive(&bye.flow, &bye.answer(481, "alice-tag", "")));
    assert_eq!((record.ended_by, cause(&record)), (Party::Callee, (None, None)));
    assert_eq!(&record.report.parties[0][..], b"sip:alice@example.com");
}

#[test]
fn a_refused_call_is_recorded_with_the_response_that_the_caller_gets() {
    let (mut rig, relay) = rig();
    let invite = rig.send(&udp(NAT), &offer("192.168.1.5")).forwarded().clone();
    let busy = invite.answer(486, "bob", "Reason: Q.850;cause=17\r\n");
    let reaction = rig.receive(&invite.flow, &busy);
    let record = only(&reaction);
    assert_eq!((record.ended_by, record.answered), (Party::Callee, None));
    let (response, reason) = cause(&record);
    assert_eq!((response.map(|it| it.0), reason), (Some(486), Some("Q.850;cause=17")));
    assert!(records(&rig.receive(&invite.flow, &busy)).is_empty(), "a retransmission");
    // That server is overloaded: the caller gets 500.
    let invite = rig.send(&udp(NAT), &offer("192.168.1.5")).forwarded().clone();
    let record = only(&refuse(&mut rig, &invite, 503));
    assert_eq!(cause(&record).0, Some((500, "Server Internal Error")));
    assert_eq!(relay.count(), 0);
}

#[test]
fn a_challenge_ends_no_call() {
    let (mut rig, _) = rig();
    let invite = rig.send(&udp(NAT), &offer("192.168.1.5")).forwarded().clone();
    let challenge = "Proxy-Authenticate: Digest realm=\"x\", nonce=\"y\"\r\n";
    let reaction = rig.receive(&invite.flow, &invite.answer(407, "bob", challenge));
    assert_eq!((reaction.responses().count(), records(&reaction).len()), (1, 0));
}

#[test]
fn a_fork_that_one_phone_answers_has_one_record() {
    let (mut rig, relay, [one, other]) = forked();
    refuse(&mut rig, &one, 180);
    refuse(&mut rig, &other, 180);
    let reaction = rig.receive(&other.flow, &other.answer(200, "other", "Contact: <sip:b@x>\r\n"));
    assert!(records(&reaction).is_empty());
    let reaction = refuse(&mut rig, &one, 487);
    assert_eq!((records(&reaction).len(), relay.count()), (0, 1));
    let record = only(&hang_up(&mut rig, &other, "other"));
    assert_eq!(record.report.ends[1].signalling, other.flow.remote);
}

#[test]
fn a_fork_that_both_phones_answer_has_one_record() {
    let (mut rig, relay, [one, other]) = forked();
    for (branch, tag) in [(&one, "bob"), (&other, "other")] {
        rig.receive(&branch.flow, &branch.answer(200, tag, "Contact: <sip:b@x>\r\n"));
    }
    assert!(records(&hang_up(&mut rig, &other, "other")).is_empty());
    only(&hang_up(&mut rig, &one, "bob"));
    assert_eq!(relay.count(), 0);
}

#[test]
fn a_fork_that_all_phones_refuse_has_one_record() {
    let (mut rig, relay, [one, other]) = forked();
    assert!(records(&refuse(&mut rig, &one, 486)).is_empty());
    let record = only(&refuse(&mut rig, &other, 603));
    assert_eq!(cause(&record).0.map(|it| it.0), Some(603));
    assert_eq!(relay.count(), 0);
}

#[test]
fn a_phone_that_did_not_end_its_branch_keeps_no_ports() {
    let (mut rig, relay, [one, other]) = forked();
    refuse(&mut rig, &one, 180);
    rig.receive(&other.flow, &other.answer(200, "other", "Contact: <sip:b@x>\r\n"));
    assert_eq!(relay.count(), 2);
    let silent = (0..700).all(|_| records(&rig.wait(Duration::from_millis(100))).is_empty());
    assert_eq!((silent, relay.count()), (true, 1));
}

#[test]
fn an_offer_that_is_sent_again_with_other_keys_belongs_to_the_same_call() {
    for last in [200, 488] {
        let (mut rig, relay) = rig();
        let first = rig.send(&udp(NAT), &offer("192.168.1.5")).forwarded().clone();
        let reaction = refuse(&mut rig, &first, 488);
        assert!(records(&reaction).is_empty());
        let is_invite = |sent: &&Sent| sent.value(HeaderName::CSeq).ends_with("INVITE");
        let second = reaction.requests().find(is_invite).expect("another offer").clone();
        let record = match last {
            200 => {
                answer(&mut rig, &second, 200);
                only(&hang_up(&mut rig, &second, "bob"))
            }
            _ => only(&refuse(&mut rig, &second, 488)),
        };
        assert_eq!(record.answered.is_some(), last == 200);
        assert_eq!(relay.count(), 0);
    }
}

#[test]
fn a_cancelled_call_is_ended_by_the_caller() {
    let (mut rig, _) = rig();
    let draft = offer("192.168.1.5");
    let invite = rig.send(&udp(NAT), &draft).forwarded().clone();
    refuse(&mut rig, &invite, 180);
    let cancel = draft.with_method("CANCEL").with_body("").without("Content-Type");
    let cancel = cancel.and("Reason", "SIP;cause=600");
    assert!(records(&rig.send(&udp(NAT), &cancel)).is_empty());
    let record = only(&refuse(&mut rig, &invite, 487));
    assert_eq!((record.ended_by, record.ringing.is_some()), (Party::Caller, true));
    assert_eq!(cause(&record).0.map(|it| it.0), Some(487));
    assert_eq!(record.reason.as_deref(), Some(&b"SIP;cause=600"[..]));
}

#[test]
fn a_call_without_any_response_is_ended_by_the_server() {
    let (mut rig, relay) = rig();
    rig.send(&udp(NAT), &offer("192.168.1.5")).forwarded();
    let reactions: Vec<Reaction> = (0..400).map(|_| rig.wait(Duration::from_millis(100))).collect();
    let mut found = reactions.iter().flat_map(records);
    let record = found.next().expect("a record");
    assert_eq!((record.ended_by, found.count()), (Party::Server, 0));
    assert_eq!(cause(record).0, Some((408, "Request Timeout")));
    assert_eq!(relay.count(), 0);
}

#[test]
fn a_bye_without_a_response_ends_the_call() {
    let (mut rig, relay) = rig();
    let invite = rig.send(&udp(NAT), &offer("192.168.1.5")).forwarded().clone();
    answer(&mut rig, &invite, 200);
    rig.send(&udp(NAT), &within(&invite, "BYE", "bob", ("Reason", "Q.850;cause=16"))).forwarded();
    let reactions: Vec<Reaction> = (0..400).map(|_| rig.wait(Duration::from_millis(100))).collect();
    let found: Vec<&CallRecord> = reactions.iter().flat_map(records).collect();
    let [record] = found[..] else { panic!("{found:#?}") };
    assert_eq!((record.ended_by, cause(record)), (Party::Caller, (None, Some("Q.850;cause=16"))));
    assert_eq!(relay.count(), 0);
}

#[test]
fn a_call_that_the_server_ends_has_one_record() {
    let (mut rig, relay) = rig();
    let draft = offer("192.168.1.5").with("Contact", "<sip:alice@192.168.1.5:5060>");
    let invite = rig.send(&udp(NAT), &draft).forwarded().clone();
    let contact = format!("Contact: <sip:bob@{BOB}>\r\n");
    rig.receive(&invite.flow, &invite.answer(200, "bob", &contact));
    let call_id = invite.value(HeaderName::CallId);
    let now = core::time::Duration::from_micros(rig.now.as_micros());
    let ended = relay.end_dialog(call_id.as_bytes(), [b"bob", b"alice-tag"], now).expect("a call");
    let reaction = rig.hang_up(&ended, "SIP;cause=408");
    let record = only(&reaction);
    assert_eq!((record.ended_by, cause(&record)), (Party::Server, (None, Some("SIP;cause=408"))));
    for bye in reaction.requests() {
        let tag = if bye.flow.remote == BOB.parse().unwrap() { "bob" } else { "alice-tag" };
        assert!(records(&rig.receive(&bye.flow, &bye.answer(200, tag, ""))).is_empty());
    }
}

/// The calls that are over by the limits of the relay.
fn over(rig: &Rig, relay: &Arc<dyn Calls>) -> Vec<CallReport> {
    let now = core::time::Duration::from_micros(rig.now.as_micros());
    // Each check is of some of the calls.
    (0..16).flat_map(|_| relay.expire(now)).collect()
}

/// A later proxy forks the first branch, and the second one is a phone that answers.
#[test]
fn a_call_that_is_forked_one_by_one_for_ten_minutes_has_one_record() {
    let (mut rig, relay) = server(open_config(), &format!("<sip:bob@{BOB}>"));
    rig.register("bob", &udp(OTHER), &format!("<sip:bob@{OTHER}>;q=0.5"));
    let begun = rig.now;
    let first = rig.send(&udp(NAT), &offer("192.168.1.5")).forwarded().clone();
    for status in [180, 182, 181, 183, 182] {
        rig.receive(&first.flow, &first.answer(status, "later", ""));
        assert!(rig.wait(Duration::from_secs(120)).is_silent());
        assert_eq!((over(&rig, &relay).len(), relay.count()), (0, 1), "{status}");
    }
    let reaction = refuse(&mut rig, &first, 480);
    assert!(records(&reaction).is_empty());
    let second = reaction.requests().find(|sent| sent.flow.remote == OTHER.parse().unwrap());
    let second = second.expect("the next branch").clone();
    rig.receive(&second.flow, &second.answer(180, "bob", ""));
    rig.wait(Duration::from_secs(120));
    assert_eq!((over(&rig, &relay).len(), relay.count()), (0, 1));
    let answered = body(&answer(&mut rig, &second, 200));
    assert!(answered.contains("c=IN IP4 203.0.113.1\r\n"), "{answered}");
    let record = only(&hang_up(&mut rig, &second, "bob"));
    assert_eq!((record.created, record.ended_by), (begun, Party::Caller));
    assert!(record.answered.is_some());
    assert_eq!(relay.count(), 0);
}

#[test]
fn the_record_of_a_call_that_is_over_says_why() {
    let cause_of = |answers: bool, has_left| {
        let (mut rig, relay) = rig();
        let invite = rig.send(&udp(NAT), &offer("192.168.1.5")).forwarded().clone();
        if answers {
            answer(&mut rig, &invite, 200);
        }
        rig.now += Duration::from_secs(301);
        let mut calls = over(&rig, &relay);
        let mut call = calls.pop().expect("a call");
        call.has_left = has_left;
        let record = only(&rig.expire(call));
        let reason = cause(&record).1.expect("a Reason").to_owned();
        (record.ended_by, reason)
    };
    let no_media = "SIP;cause=408;text=\"No media\"".to_owned();
    let left = "Q.850;cause=16;text=\"RTCP BYE\"".to_owned();
    assert_eq!(cause_of(true, [false; 2]), (Party::Server, no_media));
    assert_eq!(cause_of(true, [true, false]), (Party::Caller, left.clone()));
    assert_eq!(cause_of(true, [false, true]), (Party::Callee, left));
    let unanswered = cause_of(false, [false; 2]);
    assert_eq!(unanswered, (Party::Server, "SIP;cause=408;text=\"No answer\"".to_owned()));
}

#[test]
fn a_stateless_server_records_calls_as_well() {
    let config = Config { state: State::Stateless, ..open_config() };
    let (mut rig, relay) = server(config, &format!("<sip:bob@{BOB}>"));
    let invite = rig.send(&udp(NAT), &offer("192.168.1.5")).forwarded().clone();
    let record = only(&refuse(&mut rig, &invite, 486));
    assert_eq!((record.ended_by, cause(&record).0.map(|it| it.0)), (Party::Callee, Some(486)));
    let invite = rig.send(&udp(NAT), &offer("192.168.1.5")).forwarded().clone();
    answer(&mut rig, &invite, 200);
    let record = only(&hang_up(&mut rig, &invite, "bob"));
    // The BYE is not known when its response comes.
    assert_eq!((record.ended_by, cause(&record)), (Party::Caller, (None, None)));
    assert_eq!(relay.count(), 0);
}
