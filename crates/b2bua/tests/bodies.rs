//! Bodies with more than a session description pass between the legs, in calls, changes, responses,
//! INFO and MESSAGE.

mod rig;

use barebell_b2bua::Config;
use rig::{Rig, address, session, without_origin};
use sip::{Flow, Method, Transport};
use sip_ua::{CallId, End, Envelope, Event, Failure, PassedRequest, Placement};

const MIXED: &str = "multipart/mixed;boundary=b";

/// A body with the bytes `more` around a session description.
fn envelope(more: &str) -> Envelope {
    Envelope {
        body_type: MIXED.to_owned(),
        lines: b"MIME-Version: 1.0\r\n".to_vec(),
        before: format!(
            "--b\r\nContent-Type: application/isup\r\n\r\n{more}\r\n--b\r\n\
             Content-Type: application/sdp\r\n\r\n"
        )
        .into_bytes(),
        after: b"\r\n--b--\r\n".to_vec(),
    }
}

/// A body without a session description.
fn other(body: &str) -> Envelope {
    Envelope {
        body_type: "application/isup".to_owned(),
        lines: b"Content-Disposition: signal;handling=optional\r\n".to_vec(),
        before: body.as_bytes().to_vec(),
        after: Vec::new(),
    }
}

fn rig(seed: u64, config: Config) -> Rig {
    let passing = sip_ua::Config { passes: true, ..sip_ua::Config::default() };
    Rig::with_config(seed, &[passing.clone(), passing], config)
}

/// The first phone calls the other one.
fn call(rig: &mut Rig, session: Vec<u8>, envelope: Envelope) -> CallId {
    let flow = Flow {
        transport: Transport::Udp,
        local: address(0),
        remote: ([192, 0, 2, 100], 5060).into(),
        connection: None,
    };
    let place = |phone: &mut sip_ua::Agent, now| {
        Ok(phone.place_for(
            now,
            Placement {
                uri: b"sip:p1@192.0.2.100",
                from: b"<sip:p0@192.0.2.100>",
                to: b"<sip:p1@192.0.2.100>",
                routes: &[],
                flow,
                max_forwards: 70,
                lines: Vec::new(),
                session,
                envelope: Some(envelope),
                is_reliable: true,
                account: None,
            },
        ))
    };
    rig.act(0, place).0
}

/// The body of a message.
fn body(text: &str) -> &str {
    text.split_once("\r\n\r\n").expect("the end of the header").1
}

/// A body without the origin of its description.
fn comparable(body: &[u8]) -> String {
    without_origin(body)
}

#[test]
fn the_parts_of_an_invite_and_of_its_responses_pass_around_their_descriptions() {
    let mut rig = rig(60, Config::default());
    let offer = session(0, 4000, "sendrecv");
    let caller = call(&mut rig, offer.clone(), envelope("IAM"));
    let event = rig.expect_where(1, |event| matches!(event, Event::Incoming { .. }));
    let Event::Incoming { call: callee, offer: Some(offered), .. } = event else {
        panic!("{event:?}")
    };
    assert_eq!(without_origin(&offered), without_origin(&offer));
    let invite = rig.last(1, "INVITE");
    assert!(invite.contains(&format!("Content-Type: {MIXED}\r\n")), "{invite}");
    assert_eq!(invite.matches("MIME-Version: 1.0\r\n").count(), 1, "{invite}");
    assert_eq!(comparable(body(&invite).as_bytes()), comparable(&envelope("IAM").around(&offer)));
    let early = session(1, 5000, "sendrecv");
    let (ring, answer) = (envelope("ACM"), envelope("ANM"));
    rig.act(1, |phone, now| phone.progress(now, callee, 183, b"", &early, Some(ring)));
    rig.expect_where(0, |event| matches!(event, Event::Ringing { .. }));
    let ringing = rig.last(0, "SIP/2.0 183");
    assert_eq!(comparable(body(&ringing).as_bytes()), comparable(&envelope("ACM").around(&early)));
    rig.pass(std::time::Duration::from_secs(1));
    // The description is settled already.
    rig.act(1, |phone, now| phone.answer_with(now, callee, b"", &early, Some(answer)));
    rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
    let answered = rig.last(0, "SIP/2.0 200");
    assert_eq!(comparable(body(&answered).as_bytes()), comparable(&envelope("ANM").around(&early)));
    rig.pass(std::time::Duration::from_secs(1));
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn an_answer_passes_with_its_parts() {
    let mut rig = rig(61, Config::default());
    let caller = call(&mut rig, session(0, 4000, "sendrecv"), envelope("IAM"));
    let callee = rig.expect_incoming(1);
    let answer = session(1, 5000, "sendrecv");
    rig.act(1, |phone, now| phone.answer_with(now, callee, b"", &answer, Some(envelope("ANM"))));
    let event = rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
    let Event::Answered { session: Some(answered), .. } = event else { panic!("{event:?}") };
    assert_eq!(without_origin(&answered), without_origin(&answer));
    let response = rig.last(0, "SIP/2.0 200");
    assert_eq!(
        comparable(body(&response).as_bytes()),
        comparable(&envelope("ANM").around(&answer))
    );
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn a_body_without_a_description_passes_and_the_callee_offers() {
    let mut rig = rig(62, Config::default());
    let caller = call(&mut rig, Vec::new(), other("IAM"));
    let callee = rig.expect_incoming(1);
    let invite = rig.last(1, "INVITE");
    assert!(invite.contains("Content-Type: application/isup\r\n"), "{invite}");
    assert!(invite.contains("Content-Disposition: signal;handling=optional\r\n"), "{invite}");
    assert_eq!(body(&invite), "IAM");
    rig.act(1, |phone, now| phone.progress(now, callee, 180, b"", b"", Some(other("ACM"))));
    rig.expect_where(0, |event| matches!(event, Event::Ringing { .. }));
    assert_eq!(body(&rig.last(0, "SIP/2.0 180")), "ACM");
    rig.act(1, |phone, now| phone.answer(now, callee, &session(1, 5000, "sendrecv")));
    rig.expect_where(0, |event| matches!(event, Event::Offer { offer: Some(_), .. }));
    rig.act(0, |phone, now| phone.accept(now, caller, &session(0, 4000, "sendrecv")));
    rig.expect_where(1, |event| matches!(event, Event::Answer { .. }));
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn the_bodies_of_requests_and_of_their_responses_pass_up_to_the_limit() {
    let mut rig = rig(63, Config { body: 300, ..Config::default() });
    let caller = call(&mut rig, session(0, 4000, "sendrecv"), envelope("IAM"));
    let callee = rig.expect_incoming(1);
    rig.act(1, |phone, now| phone.answer(now, callee, &session(1, 5000, "sendrecv")));
    rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
    rig.pass(std::time::Duration::from_secs(1));
    for (method, length, status) in
        [(Method::Info, 20, 200), (Method::Message, 300, 202), (Method::Info, 301, 413)]
    {
        let content = "x".repeat(length);
        let request = PassedRequest {
            method,
            lines: b"MIME-Version: 1.0\r\n",
            body_type: MIXED,
            body: content.as_bytes(),
        };
        rig.act(0, |phone, now| phone.request(now, caller, &request));
        if status != 413 {
            let event = rig.expect_where(1, |event| matches!(event, Event::Request { .. }));
            let Event::Request { request, message, .. } = event else { panic!("{event:?}") };
            let text = String::from_utf8(message).expect("text");
            assert!(text.contains("MIME-Version: 1.0\r\n"), "{text}");
            assert!(text.contains(&format!("Content-Type: {MIXED}\r\n")), "{text}");
            assert_eq!(body(&text), content);
            rig.act(1, |phone, now| {
                let lines = b"Content-Type: text/x\r\nContent-Language: en\r\n";
                phone
                    .respond_with(now, request, status, lines, b"done")
                    .expect("a waiting request");
                Ok(())
            });
        }
        let event = rig.expect_where(0, |event| matches!(event, Event::Response { .. }));
        let Event::Response { response: Ok(response), .. } = event else { panic!("{event:?}") };
        let text = String::from_utf8(response).expect("text");
        assert!(text.starts_with(&format!("SIP/2.0 {status} ")), "{text}");
        if status != 413 {
            assert_eq!((body(&text), text.matches("Content-Language: en").count()), ("done", 1));
            assert!(text.contains("Content-Type: text/x\r\n"), "{text}");
        }
    }
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
    call(&mut rig, session(0, 4000, "sendrecv"), envelope(&"x".repeat(300)));
    let is_refused = |event: &Event| matches!(event, Event::Ended { end: End::Failed(_), .. });
    let event = rig.expect_where(0, is_refused);
    let Event::Ended { end: End::Failed(Failure::Refused { status, .. }), .. } = event else {
        panic!("{event:?}")
    };
    assert_eq!(status, 413);
    rig.finish();
}

/// Checks the body of the last message of phone `phone` with this beginning: `parts` around
/// `session`.
fn expect_body(rig: &Rig, phone: usize, beginning: &str, parts: &str, session: &[u8]) {
    let text = rig.last(phone, beginning);
    assert!(text.contains(&format!("Content-Type: {MIXED}\r\n")), "{text}");
    assert_eq!(text.matches("MIME-Version: 1.0\r\n").count(), 1, "{text}");
    let expected = comparable(&envelope(parts).around(session));
    assert_eq!(comparable(body(&text).as_bytes()), expected);
}

/// Establishes a call without further parts. Returns its identifiers at both phones.
fn established(rig: &mut Rig) -> [CallId; 2] {
    let (caller, callee) = rig.establish(0, 1);
    rig.pass(std::time::Duration::from_secs(1));
    [caller, callee]
}

#[test]
fn the_parts_of_a_change_and_of_its_answer_pass() {
    let mut rig = rig(64, Config::default());
    let calls = established(&mut rig);
    for (here, there) in [(0, 1), (1, 0)] {
        // The second one changes nothing but the other parts.
        for parts in ["SUS", "RES"] {
            let offer = session(here, 4100, "sendonly");
            let answer = session(there, 5100, "recvonly");
            let (call, more) = (calls[here], Some(envelope(parts)));
            rig.act(here, |phone, now| phone.offer_once(now, call, offer.clone(), more, b""));
            rig.expect_where(there, |event| matches!(event, Event::Offer { .. }));
            expect_body(&rig, there, "INVITE", parts, &offer);
            let (call, more) = (calls[there], Some(envelope("OK")));
            rig.act(there, |phone, now| phone.accept_with(now, call, &answer, more));
            rig.expect_where(here, |event| matches!(event, Event::Answer { .. }));
            expect_body(&rig, here, "SIP/2.0 200", "OK", &answer);
            rig.pass(std::time::Duration::from_secs(1));
        }
    }
    rig.act(0, |phone, now| phone.hang_up(now, calls[0]));
    rig.finish();
}

#[test]
fn the_parts_of_an_update_before_the_answer_pass() {
    let mut rig = rig(65, Config::default());
    let caller = rig.call(0, 1, &session(0, 4000, "sendrecv"));
    let callee = rig.expect_incoming(1);
    rig.act(1, |phone, now| phone.ring(now, callee, &session(1, 5000, "sendrecv")));
    rig.expect_where(0, |event| matches!(event, Event::Ringing { .. }));
    rig.pass(std::time::Duration::from_secs(1));
    let (offer, answer) = (session(0, 4100, "sendrecv"), session(1, 5100, "sendrecv"));
    let more = Some(envelope("COT"));
    rig.act(0, |phone, now| phone.offer_once(now, caller, offer.clone(), more, b""));
    rig.expect_where(1, |event| matches!(event, Event::Offer { .. }));
    expect_body(&rig, 1, "UPDATE", "COT", &offer);
    rig.act(1, |phone, now| phone.accept_with(now, callee, &answer, Some(envelope("OK"))));
    rig.expect_where(0, |event| matches!(event, Event::Answer { .. }));
    expect_body(&rig, 0, "SIP/2.0 200", "OK", &answer);
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn the_parts_of_an_offer_before_the_answer_and_of_its_prack_pass() {
    let mut rig = rig(66, Config::default());
    let caller = rig.call(0, 1, b"");
    let callee = rig.expect_incoming(1);
    let (offer, answer) = (session(1, 5000, "sendrecv"), session(0, 4000, "sendrecv"));
    let more = Some(envelope("ACM"));
    rig.act(1, |phone, now| phone.progress(now, callee, 183, b"", &offer, more));
    rig.expect_where(0, |event| matches!(event, Event::Offer { .. }));
    expect_body(&rig, 0, "SIP/2.0 183", "ACM", &offer);
    rig.act(0, |phone, now| phone.accept_with(now, caller, &answer, Some(envelope("COT"))));
    rig.expect_where(1, |event| matches!(event, Event::Answer { .. }));
    expect_body(&rig, 1, "PRACK", "COT", &answer);
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn the_parts_of_an_offer_in_an_answer_and_of_its_ack_pass() {
    let mut rig = rig(67, Config::default());
    let caller = rig.call(0, 1, b"");
    let callee = rig.expect_incoming(1);
    let (offer, answer) = (session(1, 5000, "sendrecv"), session(0, 4000, "sendrecv"));
    rig.act(1, |phone, now| phone.answer_with(now, callee, b"", &offer, Some(envelope("ANM"))));
    rig.expect_where(0, |event| matches!(event, Event::Offer { .. }));
    expect_body(&rig, 0, "SIP/2.0 200", "ANM", &offer);
    rig.act(0, |phone, now| phone.accept_with(now, caller, &answer, Some(envelope("CON"))));
    rig.expect_where(1, |event| matches!(event, Event::Answer { .. }));
    expect_body(&rig, 1, "ACK", "CON", &answer);
    rig.pass(std::time::Duration::from_secs(1));
    // A re-INVITE without an offer may have a body, too.
    rig.act(0, |phone, now| phone.ask_once(now, caller, Some(other("SUS")), b""));
    rig.expect_where(1, |event| matches!(event, Event::Offer { offer: None, .. }));
    let invite = rig.last(1, "INVITE");
    assert!(invite.contains("Content-Type: application/isup\r\n"), "{invite}");
    assert_eq!(body(&invite), "SUS");
    let offer = session(1, 5100, "sendrecv");
    rig.act(1, |phone, now| phone.accept_with(now, callee, &offer, Some(envelope("OK"))));
    rig.expect_where(0, |event| matches!(event, Event::Offer { .. }));
    expect_body(&rig, 0, "SIP/2.0 200", "OK", &offer);
    rig.act(0, |phone, now| phone.accept_with(now, caller, &answer, Some(envelope("RES"))));
    rig.expect_where(1, |event| matches!(event, Event::Answer { .. }));
    expect_body(&rig, 1, "ACK", "RES", &answer);
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn the_parts_of_a_change_that_are_too_long_change_nothing() {
    let mut rig = rig(68, Config { body: 300, ..Config::default() });
    let long = "x".repeat(300);
    let [caller, callee] = established(&mut rig);
    let (offer, answer) = (session(0, 4100, "sendrecv"), session(1, 5100, "sendrecv"));
    let more = Some(envelope(&long));
    rig.act(0, |phone, now| phone.offer_once(now, caller, offer.clone(), more, b""));
    let event = rig.expect_where(0, |event| matches!(event, Event::OfferFailed { .. }));
    let Event::OfferFailed { failure, .. } = event else { panic!("{event:?}") };
    assert_eq!((failure.status(), rig.count(1, "INVITE")), (413, 1));
    // A response and an ACK lose them.
    rig.act(0, |phone, now| phone.ask_once(now, caller, None, b""));
    rig.expect_where(1, |event| matches!(event, Event::Offer { .. }));
    rig.act(1, |phone, now| phone.accept_with(now, callee, &answer, Some(envelope(&long))));
    rig.expect_where(0, |event| matches!(event, Event::Offer { .. }));
    rig.act(0, |phone, now| phone.accept_with(now, caller, &offer, Some(envelope(&long))));
    rig.expect_where(1, |event| matches!(event, Event::Answer { .. }));
    for (phone, beginning, expected) in [(0, "SIP/2.0 200", &answer), (1, "ACK", &offer)] {
        let text = rig.last(phone, beginning);
        assert!(text.contains("Content-Type: application/sdp\r\n"), "{text}");
        assert_eq!(comparable(body(&text).as_bytes()), comparable(expected));
    }
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}
