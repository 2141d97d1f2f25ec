//! Calls through the B2BUA from the first INVITE to their end.

mod rig;

use barebell_b2bua::{B2bua, Config, Counters};
use rig::{Rig, address, session, without_origin};
use sip::{Connection, Flow, Instant, Transport};
use sip_ua::{End, Event, Failure, Reliable};
use std::time::Duration;

#[test]
fn a_call_is_answered_and_ended_by_the_callee() {
    let mut rig = Rig::new(1, &Rig::phones(2));
    let offer = session(0, 4000, "sendrecv");
    let caller = rig.call(0, 1, &offer);
    let incoming = rig.expect_where(1, |event| matches!(event, Event::Incoming { .. }));
    let Event::Incoming { call, offer: Some(offered), .. } = incoming else { panic!("an offer") };
    assert_eq!(without_origin(&offered), without_origin(&offer));
    rig.act(1, |phone, now| phone.ring(now, call, b""));
    rig.expect_where(0, |event| matches!(event, Event::Ringing { status: 180, .. }));
    let answer = session(1, 5000, "sendrecv");
    rig.act(1, |phone, now| phone.answer(now, call, &answer));
    let answered = rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
    let Event::Answered { session: Some(answered), .. } = answered else { panic!("an answer") };
    assert_eq!(without_origin(&answered), without_origin(&answer));
    assert_eq!(rig.b2bua().calls(), 1);
    rig.pass(Duration::from_secs(5));
    rig.act(1, |phone, now| phone.hang_up(now, call));
    let ended = rig.expect_where(0, |event| matches!(event, Event::Ended { .. }));
    assert!(matches!(ended, Event::Ended { call, .. } if call == caller));
    rig.finish();
    assert_eq!(rig.b2bua().counters().answered, 1);
}

#[test]
fn neither_end_sees_the_dialog_of_the_other() {
    let mut rig = Rig::new(2, &Rig::phones(2));
    let (caller, _) = rig.establish(0, 1);
    let invite = rig.last(1, "INVITE");
    let answer = rig.last(0, "SIP/2.0 200");
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).expect("the field");
        line.to_owned()
    };
    assert_ne!(field(&invite, "Call-ID"), field(&answer, "Call-ID"));
    assert!(!invite.contains(&format!("SIP/2.0/UDP {}", address(0))), "{invite}");
    assert!(field(&invite, "Contact").contains("call@192.0.2.100"), "{invite}");
    assert!(field(&answer, "Contact").contains("call@192.0.2.100"), "{answer}");
    assert!(field(&invite, "o=").ends_with("IN IP4 192.0.2.100"), "{invite}");
    assert!(field(&answer, "o=").ends_with("IN IP4 192.0.2.100"), "{answer}");
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn a_call_is_cancelled() {
    let mut rig = Rig::new(3, &Rig::phones(2));
    let caller = rig.call(0, 1, &session(0, 4000, "sendrecv"));
    let callee = rig.expect_incoming(1);
    rig.act(1, |phone, now| phone.ring(now, callee, b""));
    rig.expect_where(0, |event| matches!(event, Event::Ringing { .. }));
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    let ended = rig.expect_where(1, |event| matches!(event, Event::Ended { .. }));
    assert!(matches!(ended, Event::Ended { end: End::Cancelled { .. }, .. }), "{ended:?}");
    rig.finish();
}

#[test]
fn a_cancel_that_crosses_the_answer_ends_the_call_at_both_ends() {
    for seed in 0..200 {
        let mut rig = Rig::new(seed, &Rig::phones(2));
        let caller = rig.call(0, 1, &session(0, 4000, "sendrecv"));
        let callee = rig.expect_incoming(1);
        rig.act(1, |phone, now| phone.ring(now, callee, b""));
        rig.expect_where(0, |event| matches!(event, Event::Ringing { .. }));
        rig.act(1, |phone, now| phone.answer(now, callee, &session(1, 5000, "sendrecv")));
        rig.pass(Duration::from_millis(seed));
        rig.act(0, |phone, now| phone.hang_up(now, caller));
        rig.finish();
    }
}

/// The message of one call is not the cause of the end of another.
#[test]
fn header_fields_stay_in_their_call() {
    for seed in 0..40 {
        let mut rig = Rig::new(seed, &Rig::phones(2));
        let caller = rig.call(0, 1, &session(0, 4000, "sendrecv"));
        let callee = rig.expect_incoming(1);
        rig.act(1, |phone, now| phone.ring(now, callee, b""));
        rig.expect_where(0, |event| matches!(event, Event::Ringing { .. }));
        let answer = session(1, 5000, "sendrecv");
        rig.act(1, |phone, now| phone.answer_with(now, callee, b"X-Who: bob\r\n", &answer, None));
        rig.pass(Duration::from_millis(seed));
        rig.act(0, |phone, now| phone.hang_up(now, caller));
        rig.pass(Duration::from_secs(1));
        rig.silence(1);
        rig.call(0, 1, &session(0, 4000, "sendrecv"));
        rig.pass(Duration::from_secs(60));
        let refused = rig.last(0, "SIP/2.0 408");
        assert!(!refused.contains("X-Who") && !refused.contains("Reason"), "{seed}: {refused}");
        rig.finish();
    }
}

#[test]
fn reliable_responses_are_offered_to_the_callee_if_the_caller_supports_them() {
    let caller = |reliable| sip_ua::Config { reliable, ..sip_ua::Config::default() };
    for (reliable, is_offered) in [(Reliable::Off, false), (Reliable::Supported, true)] {
        let mut rig = Rig::new(5, &[caller(reliable), sip_ua::Config::default()]);
        let (call, _) = rig.establish(0, 1);
        assert_eq!(rig.last(1, "INVITE").contains("100rel"), is_offered);
        rig.act(0, |phone, now| phone.hang_up(now, call));
        rig.finish();
    }
}

#[test]
fn the_status_and_the_fields_of_a_refusal_pass() {
    let mut rig = Rig::new(4, &Rig::phones(2));
    rig.call(0, 1, &session(0, 4000, "sendrecv"));
    let callee = rig.expect_incoming(1);
    rig.act(1, |phone, now| phone.decline_with(now, callee, 486, b"X-Why: lunch\r\n"));
    let ended = rig.expect_where(0, |event| matches!(event, Event::Ended { .. }));
    let Event::Ended { end: End::Failed(Failure::Refused { status, .. }), .. } = ended else {
        panic!("{ended:?}")
    };
    assert_eq!(status, 486);
    assert!(rig.last(0, "SIP/2.0 486").contains("X-Why: lunch\r\n"));
    rig.finish();
}

#[test]
fn a_redirection_passes_with_its_target() {
    let phones = vec![sip_ua::Config { redirects: 0, ..sip_ua::Config::default() }; 2];
    let mut rig = Rig::new(5, &phones);
    rig.call(0, 1, &session(0, 4000, "sendrecv"));
    let callee = rig.expect_incoming(1);
    rig.act(1, |phone, now| phone.redirect(now, callee, "sip:carol@example.com"));
    rig.expect_where(0, |event| matches!(event, Event::Ended { .. }));
    assert!(rig.last(0, "SIP/2.0 302").contains("Contact: <sip:carol@example.com>"));
    rig.finish();
}

/// Twinkle answers 400 to a profile that it does not know.
#[test]
fn a_profile_that_the_callee_does_not_know_is_refused_by_400() {
    for (profile, calls) in [("UDP/TLS/RTP/SAVP", 2), ("RTP/AVP", 1)] {
        let mut rig = Rig::new(6, &Rig::phones(2));
        let text = String::from_utf8(session(0, 4000, "sendrecv")).unwrap();
        let text = text.replace("RTP/AVP", profile);
        rig.call(0, 1, text.as_bytes());
        for place in 1..=calls {
            let call = rig.expect_incoming(1);
            let status = if place == 1 { 400 } else { 486 };
            rig.act(1, |phone, now| phone.decline(now, call, status));
        }
        rig.expect_where(0, |event| matches!(event, Event::Ended { .. }));
        assert_eq!(rig.count(1, "INVITE"), calls);
        rig.finish();
    }
}

#[test]
fn a_refused_offer_is_made_twice_more_with_other_keys() {
    let mut rig = Rig::new(6, &Rig::phones(2));
    rig.call(0, 1, &session(0, 4000, "sendrecv"));
    let first = rig.expect_incoming(1);
    let mut call_id = rig.b2bua().reports()[0].call_ids[1].clone();
    assert!(!rig.b2bua().has_replaced(&call_id));
    rig.act(1, |phone, now| phone.decline(now, first, 488));
    let second = rig.expect_incoming(1);
    assert!(rig.b2bua().has_replaced(&call_id));
    call_id = rig.b2bua().reports()[0].call_ids[1].clone();
    rig.act(1, |phone, now| phone.decline(now, second, 488));
    let last = rig.expect_incoming(1);
    assert!(rig.b2bua().has_replaced(&call_id));
    rig.act(1, |phone, now| phone.decline(now, last, 488));
    let ended = rig.expect_where(0, |event| matches!(event, Event::Ended { .. }));
    assert!(matches!(ended, Event::Ended { end: End::Failed(_), .. }), "{ended:?}");
    assert_eq!((rig.count(0, "SIP/2.0 488"), rig.count(1, "INVITE")), (1, 3));
    rig.finish();
    assert!(!rig.b2bua().has_replaced(&call_id), "nothing is left of the call");
}

#[test]
fn the_callee_offers_if_the_caller_does_not() {
    let mut rig = Rig::new(7, &Rig::phones(2));
    let caller = rig.call(0, 1, b"");
    let incoming = rig.expect_where(1, |event| matches!(event, Event::Incoming { .. }));
    let Event::Incoming { call, offer: None, .. } = incoming else { panic!("{incoming:?}") };
    let offer = session(1, 5000, "sendrecv");
    rig.act(1, |phone, now| phone.answer(now, call, &offer));
    let event = rig.expect_where(0, |event| matches!(event, Event::Offer { .. }));
    let Event::Offer { offer: Some(offered), .. } = event else { panic!("{event:?}") };
    assert_eq!(without_origin(&offered), without_origin(&offer));
    let answer = session(0, 4000, "sendrecv");
    rig.act(0, |phone, now| phone.accept(now, caller, &answer));
    let event = rig.expect_where(1, |event| matches!(event, Event::Answer { .. }));
    let Event::Answer { answer: answered, .. } = event else { panic!("{event:?}") };
    assert_eq!(without_origin(&answered), without_origin(&answer));
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn early_media_of_the_callee_pass() {
    let mut rig = Rig::new(8, &Rig::phones(2));
    let caller = rig.call(0, 1, &session(0, 4000, "sendrecv"));
    let callee = rig.expect_incoming(1);
    let early = session(1, 5000, "sendonly");
    rig.act(1, |phone, now| phone.ring(now, callee, &early));
    let ringing = rig.expect_where(0, |event| matches!(event, Event::Ringing { .. }));
    let Event::Ringing { status: 183, session: Some(passed), is_settled, .. } = ringing else {
        panic!("{ringing:?}")
    };
    assert!(is_settled);
    assert_eq!(without_origin(&passed), without_origin(&early));
    rig.pass(Duration::from_secs(1));
    rig.act(1, |phone, now| phone.answer(now, callee, b""));
    rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn an_unanswered_call_ends_at_both_ends() {
    let config = Config { ringing: sip::Duration::from_secs(20), ..Config::default() };
    let mut rig = Rig::with_config(9, &Rig::phones(2), config);
    rig.call(0, 1, &session(0, 4000, "sendrecv"));
    let callee = rig.expect_incoming(1);
    rig.act(1, |phone, now| phone.ring(now, callee, b""));
    rig.expect_where(1, |event| matches!(event, Event::Ended { .. }));
    rig.expect_where(0, |event| matches!(event, Event::Ended { .. }));
    rig.finish();
}

#[test]
fn a_call_is_reported_while_it_stands_and_ended_by_its_number() {
    let mut rig = Rig::new(21, &Rig::phones(4));
    rig.establish(0, 1);
    rig.call(2, 3, &session(2, 4000, "sendrecv"));
    rig.expect_incoming(3);
    let mut reports = rig.b2bua().reports();
    reports.sort_by_key(|report| report.created);
    let [established, ringing] = &reports[..] else { panic!("{reports:?}") };
    let invite = rig.last(1, "INVITE");
    let [caller, callee] = established.call_ids.each_ref().map(|id| String::from_utf8_lossy(id));
    assert!(invite.contains(&format!("Call-ID: {callee}\r\n")), "{invite}");
    assert!(rig.last(0, "SIP/2.0 200").contains(&format!("Call-ID: {caller}\r\n")));
    let [from, to] = established.parties.each_ref().map(|uri| String::from_utf8_lossy(uri));
    assert!(invite.contains(&format!("From: <{from}>")) && invite.contains(&format!("<{to}>")));
    assert!(established.answered.is_some() && ringing.answered.is_none());
    for call in [established.call, ringing.call] {
        rig.act_b2bua(|b2bua, now| b2bua.hang_up(now, call, "Q.850;cause=16").unwrap());
    }
    for phone in 0..4 {
        rig.expect_where(phone, |event| matches!(event, Event::Ended { .. }));
    }
    assert!(rig.last(1, "BYE").contains("Reason: Q.850;cause=16\r\n"));
    rig.finish();
    assert_eq!(rig.b2bua().reports(), []);
    rig.act_b2bua(|b2bua, now| {
        let ended = b2bua.hang_up(now, 1, "Q.850;cause=16");
        assert_eq!(ended.map_err(|unknown| unknown.0), Err(1));
    });
}

/// The B2BUA rejects a call of the phone 0, which has one, with `expected`. Returns its counters.
fn refuses(config: Config, expected: u16) -> Counters {
    let mut rig = Rig::with_config(10, &Rig::phones(3), config);
    let (caller, _) = rig.establish(0, 1);
    rig.call(0, 2, &session(0, 4000, "sendrecv"));
    let ended = rig.expect_where(0, |event| matches!(event, Event::Ended { .. }));
    let Event::Ended { end: End::Failed(Failure::Refused { status, .. }), .. } = ended else {
        panic!("{ended:?}")
    };
    assert_eq!(status, expected);
    assert_eq!(rig.last(0, "SIP/2.0").matches("Retry-After: 5\r\n").count(), 1);
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
    // The call that has ended is no longer counted.
    let mut call = || rig.establish(0, 1);
    let (caller, _) = call();
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
    rig.b2bua().counters()
}

#[test]
fn calls_over_a_limit_are_refused() {
    let share = refuses(Config { calls_of_source: 1, ..Config::default() }, 480);
    assert_eq!((share.over_share, share.over_limit), (1, 0));
    let all = refuses(Config { calls: 1, ..Config::default() }, 503);
    assert_eq!((all.over_share, all.over_limit), (0, 1));
}

#[test]
fn the_end_of_the_program_ends_all_calls() {
    let mut rig = Rig::new(11, &Rig::phones(4));
    rig.establish(0, 1);
    rig.call(2, 3, &session(2, 4000, "sendrecv"));
    rig.expect_incoming(3);
    rig.act_b2bua(|b2bua, now| b2bua.hang_up_all(now, "SIP;cause=503;text=\"Shutting Down\""));
    for phone in 0..4 {
        rig.expect_where(phone, |event| matches!(event, Event::Ended { .. }));
    }
    assert!(rig.last(0, "BYE").contains("Reason: SIP;cause=503;text=\"Shutting Down\"\r\n"));
    rig.finish();
}

#[test]
fn reasons_pass_with_the_request_that_ends_the_call() {
    let mut rig = Rig::new(12, &Rig::phones(2));
    let (caller, _) = rig.establish(0, 1);
    rig.act(0, |phone, now| phone.hang_up_with(now, caller, b"Reason: Q.850;cause=16\r\n"));
    let ended = rig.expect_where(1, |event| matches!(event, Event::Ended { .. }));
    let Event::Ended { end: End::HungUpByPeer { reason }, .. } = ended else { panic!("{ended:?}") };
    assert_eq!(reason, "Q.850;cause=16");
    rig.finish();
}

#[test]
fn a_request_that_has_no_hop_left_is_refused() {
    let mut b2bua = B2bua::new(Config::default(), &[1; 32]);
    let flow = Flow {
        transport: Transport::Tcp,
        local: ([192, 0, 2, 100], 5060).into(),
        remote: address(0),
        connection: Some(Connection::INTERNAL),
    };
    for (hops, expected) in [(0, "SIP/2.0 483"), (7, "INVITE")] {
        let invite = format!(
            "INVITE sip:p1@example.com SIP/2.0\r\nVia: SIP/2.0/TCP h;branch=z9hG4bK{hops}\r\n\
             Max-Forwards: {hops}\r\nFrom: <sip:p0@example.com>;tag=1\r\n\
             To: <sip:p1@example.com>\r\nCall-ID: {hops}\r\nCSeq: 1 INVITE\r\n\
             Contact: <sip:p0@192.0.2.1>\r\nContent-Length: 0\r\n\r\n"
        );
        b2bua.receive(Instant::from_micros(1), &flow, invite.as_bytes());
        let sent = core::iter::from_fn(|| b2bua.poll_transmit());
        let mut texts = sent.map(|sent| String::from_utf8_lossy(&sent.bytes).into_owned());
        let text = texts.find(|text| !text.starts_with("SIP/2.0 100 ")).expect("a message");
        assert!(text.starts_with(expected), "{text}");
        assert!(hops == 0 || text.contains("Max-Forwards: 7\r\n"), "{text}");
    }
}

#[test]
fn a_malformed_route_is_refused() {
    let mut rig = Rig::new(16, &Rig::phones(2));
    rig.script(0);
    rig.send(0, &rig::flow::invite(0, 1, "Route: <sip:pass@[192.0.2.100;lr>\r\n", b""));
    rig.mail(0, "SIP/2.0 400");
    assert_eq!(rig.count(1, "INVITE"), 0);
    rig.finish();
}

#[test]
fn the_stored_requests_end_a_call_that_the_b2bua_has_lost() {
    let mut rig = Rig::new(14, &Rig::phones(2));
    rig.establish(0, 1);
    rig.pass(Duration::from_secs(1));
    let Some(barebell_b2bua::Event::Answered { call, byes }) = rig.owner.events.pop_front() else {
        panic!("no event")
    };
    assert_eq!(rig.owner.events.pop_front(), None);
    // The program is killed, and starts again.
    *rig.b2bua() = B2bua::new(Config::default(), &[99; 32]);
    byes.iter().for_each(|bye| rig.pass_on(bye));
    for phone in 0..2 {
        let ended = rig.expect_where(phone, |event| matches!(event, Event::Ended { .. }));
        let Event::Ended { end: End::HungUpByPeer { reason }, .. } = ended else {
            panic!("{ended:?}")
        };
        assert_eq!(reason, "SIP;cause=503;text=\"Restarted\"");
    }
    rig.finish();
    assert!(call > 0);
}

#[test]
fn the_owner_is_told_of_the_end_of_an_answered_call() {
    let mut rig = Rig::new(15, &Rig::phones(2));
    let (caller, _) = rig.establish(0, 1);
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
    let events: Vec<_> = std::iter::from_fn(|| rig.owner.events.pop_front()).collect();
    let [
        barebell_b2bua::Event::Answered { call, .. },
        barebell_b2bua::Event::Ended { call: ended },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(call, ended);
}
