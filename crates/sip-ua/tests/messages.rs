//! The subscription of an account to its message counts, at a scripted server.

mod rig;

use barebell_sip_ua::{Account, AccountId, Config, Event};
use rig::{Rig, address};
use sip::HeaderName;
use std::net::SocketAddr;
use std::time::Duration;
use test_support::flow::{response, value};
use test_support::network::Link;

fn server() -> SocketAddr {
    ([198, 51, 100, 9], 5060).into()
}

/// A registered agent, and the SUBSCRIBE that follows its registration.
fn registered() -> (Rig, Vec<u8>) {
    let accounts = vec![Account::new(&format!("sip:alice@{}", server()))];
    let config = Config { accounts, subscribes: true, keepalive: None, ..Config::default() };
    let mut rig = Rig::new(1, Link::default(), &[config]);
    rig.act(0, |agent, now| {
        agent.register(now, AccountId(0));
        Ok(())
    });
    let register = rig.mail(server(), "REGISTER");
    let contact = value(&register, HeaderName::Contact);
    let lines = format!("Contact: {contact};expires=3600\r\n");
    rig.send(server(), 0, &response(&register, address(0), 200, "r", &lines, ""));
    assert!(matches!(rig.expect(0), Event::Registration { .. }));
    let subscribe = rig.mail(server(), "SUBSCRIBE");
    (rig, subscribe)
}

/// Answers a SUBSCRIBE.
fn answer(rig: &mut Rig, subscribe: &[u8], status: u16, lines: &str) {
    let lines = format!("Contact: <sip:notifier@{}>\r\n{lines}", server());
    rig.send(server(), 0, &response(subscribe, address(0), status, "n", &lines, ""));
}

/// The SUBSCRIBE that follows `earlier`, which may have been retransmitted.
fn next(rig: &mut Rig, earlier: &[u8]) -> Vec<u8> {
    let names = [HeaderName::CallId, HeaderName::CSeq];
    let is_other = |it: &[u8]| names.iter().any(|&name| value(it, name) != value(earlier, name));
    loop {
        let subscribe = rig.mail(server(), "SUBSCRIBE");
        if is_other(&subscribe) {
            return subscribe;
        }
    }
}

/// A NOTIFY within the dialog of `subscribe`.
fn notify(subscribe: &[u8], cseq: u32, state: &str, body: &str) -> Vec<u8> {
    let [from, to, call_id] =
        [HeaderName::From, HeaderName::To, HeaderName::CallId].map(|name| value(subscribe, name));
    let to = to.split(";tag=").next().unwrap_or_default();
    format!(
        "NOTIFY sip:alice@{here} SIP/2.0\r\nVia: SIP/2.0/UDP {there};branch=z9hG4bK{cseq}n\r\n\
         Max-Forwards: 70\r\nFrom: {to};tag=n\r\nTo: {from}\r\nCall-ID: {call_id}\r\n\
         CSeq: {cseq} NOTIFY\r\nContact: <sip:notifier@{there}>\r\nEvent: message-summary\r\n\
         Subscription-State: {state}\r\nContent-Type: application/simple-message-summary\r\n\
         Content-Length: {length}\r\n\r\n{body}",
        here = address(0),
        there = server(),
        length = body.len()
    )
    .into_bytes()
}

const TWO: &str = "Messages-Waiting: yes\r\nVoice-Message: 2/1 (0/0)\r\n";

#[test]
fn message_counts_of_a_subscription_are_reported_and_it_is_refreshed() {
    let (mut rig, subscribe) = registered();
    assert_eq!(value(&subscribe, HeaderName::Event), "message-summary");
    // It may arrive before the response.
    rig.send(server(), 0, &notify(&subscribe, 1, "active;expires=600", TWO));
    rig.mail(server(), "SIP/2.0 200");
    let account = Some(AccountId(0));
    let told = Event::MessagesWaiting { account, waiting: true, new: Some(2), old: Some(1) };
    assert_eq!(rig.expect(0), told);
    answer(&mut rig, &subscribe, 200, "Expires: 600\r\n");
    rig.pass(Duration::from_secs(481));
    let refresh = next(&mut rig, &subscribe);
    assert_eq!(value(&refresh, HeaderName::CallId), value(&subscribe, HeaderName::CallId));
    assert!(value(&refresh, HeaderName::To).ends_with(";tag=n"));
    rig.send(server(), 0, &notify(&subscribe, 1, "active", TWO));
    assert!(rig.events(0).is_empty(), "a retransmission");
}

#[test]
fn a_subscription_that_the_server_has_ended_or_lost_begins_anew() {
    let (mut rig, subscribe) = registered();
    answer(&mut rig, &subscribe, 200, "Expires: 600\r\n");
    rig.send(server(), 0, &notify(&subscribe, 1, "terminated;reason=probation;retry-after=5", ""));
    rig.mail(server(), "SIP/2.0 200");
    rig.pass(Duration::from_secs(6));
    let again = next(&mut rig, &subscribe);
    assert_ne!(value(&again, HeaderName::CallId), value(&subscribe, HeaderName::CallId));
    answer(&mut rig, &again, 200, "Expires: 600\r\n");
    rig.pass(Duration::from_secs(481));
    let refresh = next(&mut rig, &again);
    rig.send(server(), 0, &response(&refresh, address(0), 481, "n", "", ""));
    rig.pass(Duration::from_secs(3));
    let third = next(&mut rig, &refresh);
    assert!(!value(&third, HeaderName::To).contains(";tag="));
}

#[test]
fn a_server_without_such_subscriptions_is_not_asked_again() {
    let (mut rig, subscribe) = registered();
    rig.send(server(), 0, &response(&subscribe, address(0), 489, "n", "", ""));
    rig.pass(Duration::from_secs(3500));
    let asked = rig.sent.iter().filter(|(_, line)| line.starts_with("SUBSCRIBE"));
    assert_eq!(asked.count(), 1);
    rig.send(server(), 0, &notify(&subscribe, 1, "active", TWO));
    rig.mail(server(), "SIP/2.0 481");
}
