//! Limits on the costs that strangers, peers and registrars can cause.

mod rig;

use barebell_sip_ua::{Account, AccountId, CallId, Config, Event, Failure, RegistrationState};
use rig::{Rig, SESSION, address};
use sip::HeaderName;
use std::net::SocketAddr;
use std::time::Duration;
use test_support::flow::{response, value};
use test_support::network::Link;

fn stranger() -> SocketAddr {
    ([203, 0, 113, 9], 5060).into()
}

fn rig() -> Rig {
    let config = Config { incoming_calls: 1, server_transactions: 64, ..Config::default() };
    let configs = [Config { user: "alice".into(), ..config.clone() }, config];
    Rig::new(1, Link { delay: Duration::from_millis(5), ..Link::default() }, &configs)
}

/// Alice calls bob, who answers.
fn talking(rig: &mut Rig) -> (CallId, CallId) {
    let here = rig.call(0, 1);
    let Event::Incoming { call: there, .. } = rig.expect(1) else { panic!("no call") };
    rig.act(1, |agent, now| agent.answer(now, there, SESSION));
    assert!(matches!(rig.expect(0), Event::Answered { .. }));
    rig.pass(Duration::from_secs(1));
    (here, there)
}

fn request(method: &str, number: usize, to_tag: &str) -> Vec<u8> {
    format!(
        "{method} sip:bob@{} SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bK{number}\r\n\
         From: <sip:s@x>;tag=s\r\nTo: <sip:bob@y>{to_tag}\r\nCall-ID: {number}\r\n\
         CSeq: 1 {method}\r\nMax-Forwards: 70\r\nContact: <sip:s@{}>\r\n\
         Content-Type: text/plain\r\nContent-Length: 0\r\n\r\n",
        address(1),
        stranger(),
        stranger()
    )
    .into_bytes()
}

#[test]
fn a_flood_takes_nothing_from_who_is_talked_to() {
    for (method, to_tag) in
        [("INVITE", ""), ("INVITE", ";tag=forged"), ("MESSAGE", ""), ("BYE", ";tag=forged")]
    {
        let mut rig = rig();
        let (here, _) = talking(&mut rig);
        for number in 0..500 {
            rig.send(stranger(), 1, &request(method, number, to_tag));
        }
        rig.pass(Duration::from_secs(1));
        assert_eq!(rig.calls(1), 1);
        rig.act(0, |agent, now| agent.hang_up(now, here));
        rig.pass(Duration::from_secs(1));
        assert_eq!((rig.calls(0), rig.calls(1)), (0, 0), "{method}{to_tag}");
        (0..2).for_each(|side| drop(rig.events(side)));
        talking(&mut rig);
    }
}

#[test]
fn a_refusal_is_sent_once_for_each_request_and_is_the_same_each_time() {
    let mut rig = rig();
    talking(&mut rig);
    let invite = request("INVITE", 1, "");
    (0..2).for_each(|_| rig.send(stranger(), 1, &invite));
    rig.pass(Duration::from_secs(60));
    let answers = rig.all_mail(stranger(), "SIP/2.0 486");
    assert_eq!(answers.len(), 2);
    assert_eq!(value(&answers[0], HeaderName::To), value(&answers[1], HeaderName::To));
}

/// A CANCEL that crosses the refusal, or is repeated: its response has the same tag in To (RFC 3261
/// section 9.2), although the call is gone.
#[test]
fn a_cancel_of_a_refused_call_gets_the_tag_of_the_refusal() {
    let mut rig = rig();
    rig.send(stranger(), 1, &request("INVITE", 1, ""));
    let Event::Incoming { call, .. } = rig.expect(1) else { panic!("no call") };
    rig.act(1, |agent, now| agent.decline(now, call, 486));
    let refusal = rig.mail(stranger(), "SIP/2.0 486");
    for _ in 0..2 {
        rig.send(stranger(), 1, &request("CANCEL", 1, ""));
        let answer = rig.mail(stranger(), "SIP/2.0 200");
        assert_eq!(value(&answer, HeaderName::To), value(&refusal, HeaderName::To));
    }
}

#[test]
fn calls_that_stand_count_among_those_that_others_have_begun() {
    let mut rig = rig();
    talking(&mut rig);
    let invite = request("INVITE", 1, "");
    rig.send(stranger(), 1, &invite);
    rig.mail(stranger(), "SIP/2.0 486");
}

#[test]
fn a_refer_in_a_call_that_ends_is_not_remembered() {
    let mut rig = rig();
    let (here, there) = talking(&mut rig);
    let uri = format!("sip:carol@{}", stranger());
    rig.act(0, |agent, now| agent.transfer(now, here, &uri));
    assert!(matches!(rig.expect(1), Event::TransferAsked { .. }));
    rig.act(1, |agent, now| agent.hang_up(now, there));
    rig.finish();
}

#[test]
fn an_offer_that_is_never_answered_ends_with_its_call() {
    let mut rig = rig();
    let call = rig.call_uri(0, &format!("sip:{}", stranger()), SESSION);
    let invite = rig.mail(stranger(), "INVITE");
    rig.reply((stranger(), 0), &invite, (200, "s"), "", "v=0\r\n");
    assert!(matches!(rig.expect(0), Event::Answered { .. }));
    rig.act(0, |agent, now| agent.offer(now, call, SESSION.to_vec()));
    let offer = rig.mail(stranger(), "INVITE");
    rig.reply((stranger(), 0), &offer, (100, "s"), "", "");
    rig.pass(Duration::from_secs(1));
    rig.act(0, |agent, now| agent.hang_up(now, call));
    rig.finish();
}

#[test]
fn a_call_that_is_taken_back_is_not_made_again_with_credentials() {
    let account = Account {
        password: Some(barebell_sip_ua::Password::new("secret")),
        ..Account::new(&format!("sip:alice@{}", stranger()))
    };
    let config = Config { accounts: vec![account], ..Config::default() };
    let mut rig = Rig::new(1, Link::default(), &[config]);
    let uri = format!("sip:bob@{}", stranger());
    let session = SESSION.to_vec();
    let call = rig.act(0, |agent, now| agent.call(now, Some(AccountId(0)), &uri, session));
    let invite = rig.mail(stranger(), "INVITE");
    rig.act(0, |agent, now| agent.hang_up(now, call));
    let lines = "WWW-Authenticate: Digest realm=\"r\", nonce=\"n\"\r\n";
    rig.reply((stranger(), 0), &invite, (401, "s"), lines, "");
    rig.finish();
    assert_eq!(rig.count(0, "INVITE"), 1);
}

#[test]
fn header_fields_in_a_contact_do_not_come_into_our_requests() {
    let mut rig = rig();
    let call = rig.call_uri(0, &format!("sip:{}", stranger()), SESSION);
    let invite = rig.mail(stranger(), "INVITE");
    let contact = format!("Contact: <sip:x@{}?Replaces=a>\r\n", stranger());
    let bytes = response(&invite, address(0), 200, "s", &contact, "v=0\r\n");
    rig.send(stranger(), 0, &bytes);
    let ack = rig.mail(stranger(), "ACK");
    assert!(ack.starts_with(format!("ACK sip:x@{} SIP/2.0\r\n", stranger()).as_bytes()));
    rig.act(0, |agent, now| agent.hang_up(now, call));
}

/// Returns an agent with an account at the stranger, and its first REGISTER.
fn registering() -> (Rig, Vec<u8>) {
    let account = Account::new(&format!("sip:alice@{}", stranger()));
    let config = Config { accounts: vec![account], keepalive: None, ..Config::default() };
    let mut rig = Rig::new(1, Link::default(), &[config]);
    rig.act(0, |agent, now| {
        agent.register(now, AccountId(0));
        Ok(())
    });
    let register = rig.mail(stranger(), "REGISTER");
    (rig, register)
}

#[test]
fn a_registrar_that_wants_more_each_time_is_asked_twice() {
    let (mut rig, register) = registering();
    rig.reply((stranger(), 0), &register, (423, "s"), "Min-Expires: 700\r\n", "");
    let register = rig.mail(stranger(), "REGISTER");
    assert_eq!(value(&register, HeaderName::Expires), "700");
    rig.reply((stranger(), 0), &register, (423, "s"), "Min-Expires: 701\r\n", "");
    let Event::Registration { state, .. } = rig.expect(0) else { panic!("nothing told") };
    let RegistrationState::Failed { failure: Failure::Refused { status: 423, .. }, .. } = state
    else {
        panic!("{state:?}")
    };
    assert_eq!(rig.count(0, "REGISTER"), 2);
}

#[test]
fn a_registration_is_refreshed_neither_without_a_pause_nor_never() {
    for (granted, within, count) in [(1, 20, 5..7), (u32::MAX, 24 * 3600, 3..4)] {
        let (mut rig, mut register) = registering();
        let end = rig.now() + Duration::from_secs(within);
        while rig.now() < end {
            let contact = value(&register, HeaderName::Contact);
            let lines = format!("Contact: {contact};expires={granted}\r\n");
            let bytes = response(&register, address(0), 200, "s", &lines, "");
            rig.send(stranger(), 0, &bytes);
            register = rig.mail(stranger(), "REGISTER");
        }
        let asked = rig.count(0, "REGISTER");
        assert!(count.contains(&asked), "{granted}: {asked}");
    }
}
