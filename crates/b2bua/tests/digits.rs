//! Digits that one party sends by INFO, or gets by INFO while the other one has telephone events.

mod rig;

use barebell_b2bua::InfoDigit;
use rig::Rig;
use sip::{Duration as SipDuration, Message};
use sip_ua::{CallId, Event, PassedRequest};
use std::time::Duration;
use test_support::network::Link;

fn digit(key: char) -> InfoDigit {
    InfoDigit { key, duration: SipDuration::from_millis(160) }
}

/// The owner tells of a digit that the caller of the leg to phone 1 has sent as an event, or the
/// callee.
fn hear(rig: &mut Rig, is_of_caller: bool, key: char) {
    let invite = rig.last(1, "INVITE");
    let invite = Message::parse(invite.as_bytes()).expect("a message");
    let call_id = invite.value(sip::HeaderName::CallId).expect("a Call-ID").to_vec();
    let from = invite.value(sip::HeaderName::From).expect("From");
    let from = sip::header::NameAddr::parse(sip::HeaderName::From, from).expect("an address");
    let tag = from.tag().expect("a tag").to_vec();
    rig.act_b2bua(|b2bua, now| b2bua.press(now, &call_id, &tag, is_of_caller, digit(key)));
}

/// The keys that a phone gets.
fn keys(rig: &mut Rig, phone: usize) -> String {
    let events = rig.events(phone).into_iter();
    events
        .filter_map(|event| if let Event::Key { key, .. } = event { Some(key) } else { None })
        .collect()
}

fn press(rig: &mut Rig, phone: usize, call: CallId, key: char) {
    rig.act(phone, |phone, now| phone.press(now, call, key));
}

#[test]
fn a_digit_by_info_is_played_once_and_does_not_pass() {
    let mut rig = Rig::new(50, &Rig::phones(2));
    let (caller, callee) = rig.establish(0, 1);
    rig.owner.plays = true;
    press(&mut rig, 0, caller, '5');
    rig.pass(Duration::from_secs(1));
    press(&mut rig, 1, callee, '#');
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.owner.played, [(true, digit('5')), (false, digit('#'))]);
    assert_eq!((rig.count(0, "INFO"), rig.count(1, "INFO")), (0, 0));
    assert_eq!((rig.count(0, "SIP/2.0 200 OK"), keys(&mut rig, 1)), (2, String::new()));
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn a_telephone_event_becomes_one_info_with_its_duration() {
    let mut rig = Rig::new(51, &Rig::phones(2));
    let (caller, _) = rig.establish(0, 1);
    rig.pass(Duration::from_secs(1));
    hear(&mut rig, false, '7');
    rig.pass(Duration::from_secs(1));
    hear(&mut rig, true, '*');
    rig.pass(Duration::from_secs(1));
    assert_eq!((keys(&mut rig, 0).as_str(), keys(&mut rig, 1).as_str()), ("7", "*"));
    let info = rig.last(0, "INFO");
    assert!(info.contains("Content-Type: application/dtmf-relay\r\n"), "{info}");
    assert!(info.ends_with("\r\n\r\nSignal=7\r\nDuration=160\r\n"), "{info}");
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn quick_digits_stay_in_order_on_a_network_with_losses() {
    let link = Link {
        loss: 200,
        duplication: 50,
        delay: Duration::from_millis(5),
        jitter: Duration::from_millis(60),
    };
    for seed in 0..30 {
        let mut rig = Rig::behind_proxy(seed, 2, link);
        let (caller, _) = rig.establish(0, 1);
        rig.pass(Duration::from_secs(5));
        for key in "1123#".chars() {
            hear(&mut rig, true, key);
            rig.pass(Duration::from_millis(100));
        }
        rig.pass(Duration::from_secs(120));
        assert_eq!(keys(&mut rig, 1), "1123#", "seed {seed}");
        rig.act(0, |phone, now| phone.hang_up(now, caller));
        rig.finish();
    }
}

#[test]
fn a_digit_that_a_phone_sends_both_ways_stays_one() {
    let mut rig = Rig::new(52, &Rig::phones(2));
    let (caller, _) = rig.establish(0, 1);
    rig.pass(Duration::from_secs(1));
    // The INFO comes first, then the event; then the other way round.
    for key in "5511".chars() {
        press(&mut rig, 0, caller, key);
        rig.pass(Duration::from_millis(150));
        hear(&mut rig, true, key);
        rig.pass(Duration::from_millis(300));
    }
    for key in "99".chars() {
        hear(&mut rig, true, key);
        rig.pass(Duration::from_millis(100));
        press(&mut rig, 0, caller, key);
        rig.pass(Duration::from_millis(300));
    }
    // The same key in time apart is another digit.
    rig.pass(Duration::from_secs(5));
    hear(&mut rig, true, '9');
    rig.pass(Duration::from_secs(5));
    press(&mut rig, 0, caller, '9');
    rig.pass(Duration::from_secs(1));
    assert_eq!(keys(&mut rig, 1), "55119999");
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

#[test]
fn a_party_that_refuses_durations_gets_the_key_alone() {
    let mut rig = Rig::new(53, &[sip_ua::Config::default(), passing()]);
    let (caller, _) = rig.establish(0, 1);
    rig.pass(Duration::from_secs(1));
    for key in ['4', '2'] {
        hear(&mut rig, true, key);
    }
    let mut got = Vec::new();
    for _ in 0..3 {
        let event = rig.expect_where(1, |event| matches!(event, Event::Request { .. }));
        let Event::Request { request, message, .. } = event else { panic!("{event:?}") };
        let text = String::from_utf8(message).expect("text");
        let status = if text.contains("application/dtmf-relay") { 415 } else { 200 };
        got.push((status, text.rsplit("\r\n\r\n").next().unwrap_or_default().to_owned()));
        rig.act(1, |phone, now| {
            phone.respond(now, request, status, b"").expect("a waiting request");
            Ok(())
        });
    }
    let plain = |key: &str| (200, key.to_owned());
    assert_eq!(got[1..], [plain("4"), plain("2")]);
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.finish();
}

/// A phone with an owner that answers INFO.
fn passing() -> sip_ua::Config {
    sip_ua::Config { passes: true, ..sip_ua::Config::default() }
}

#[test]
fn a_digit_of_a_call_that_has_ended_leaves_nothing() {
    let mut rig = Rig::new(54, &[sip_ua::Config::default(), passing()]);
    let (caller, _) = rig.establish(0, 1);
    rig.pass(Duration::from_secs(1));
    for key in "0123456789".chars().cycle().take(40) {
        hear(&mut rig, true, key);
    }
    // The phone answers none.
    rig.pass(Duration::from_secs(1));
    assert_eq!((rig.count(1, "INFO"), rig.b2bua().counters().lost_digits), (1, 23));
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.pass(Duration::from_secs(1));
    hear(&mut rig, true, '1');
    let inform = PassedRequest {
        method: sip::Method::Info,
        lines: b"",
        body_type: InfoDigit::RELAY_TYPE,
        body: b"Signal=5\r\n",
    };
    let now = rig.now();
    assert!(rig.phones[0].request(now, caller, &inform).is_err());
    rig.answer_requests(1);
    rig.finish();
}
