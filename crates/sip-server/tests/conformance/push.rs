//! Phones that sleep until a push notification wakes them (RFC 8599).

use crate::ended::{answered, within};
use crate::rig::{ALICE, BOB, Draft, Reaction, Rig, closed_config, open_config, tcp, text, udp};
use barebell_sip_server::config::{Push, State};
use barebell_sip_server::{Config, Event, Wake, WakeReason, journal_record};
use sip::Duration;

/// The contact of bob's phone, with its place in a push notification service.
const CONTACT: &str = "<sip:bob@192.168.1.2;transport=tcp;pn-provider=fcm;pn-prid=T1;pn-param=p>";

fn config() -> Config {
    let push = Push {
        providers: vec!["fcm".to_owned(), "apns".to_owned()],
        awake: Duration::from_secs(20),
    };
    Config { push: Some(push), ..open_config() }
}

fn registers(contact: &str) -> Draft {
    Draft::register("bob").and("Contact", contact).and("Expires", "3600")
}

/// Bob's phone registers on connection `number`.
fn register_on(rig: &mut Rig, number: u64, contact: &str) -> Reaction {
    let reaction = rig.send(&tcp(BOB, number), &registers(contact));
    assert_eq!(reaction.status(), 200);
    reaction
}

fn calls(rig: &mut Rig) -> Reaction {
    rig.send(&udp(ALICE), &Draft::invite("sip:bob@example.com"))
}

/// The only phone that is to be woken.
#[track_caller]
fn wanted(reaction: &Reaction) -> Wake {
    let mut wakes = reaction.events.iter().filter_map(|event| match event {
        Event::Wake(wake) => Some((**wake).clone()),
        _ => None,
    });
    let wake = wakes.next().expect("a phone is to be woken");
    assert!(wakes.next().is_none() && reaction.requests().next().is_none(), "{reaction:#?}");
    wake
}

fn has_registered(reaction: &Reaction) -> bool {
    reaction.events.iter().any(|event| match event {
        Event::Registered(user) => **user == *b"bob@example.com",
        _ => false,
    })
}

/// A server with bob's phone, which sleeps.
fn asleep() -> Rig {
    let mut rig = Rig::new(config());
    register_on(&mut rig, 1, CONTACT);
    let ended = rig.end(&tcp(BOB, 1));
    assert!(ended.journal.is_empty(), "the binding stays");
    assert_eq!(rig.contacts("bob@example.com").len(), 1);
    rig
}

#[test]
fn a_call_waits_for_the_register_of_a_phone_that_sleeps() {
    let mut rig = asleep();
    let reaction = calls(&mut rig);
    let wake = wanted(&reaction);
    assert!(reaction.responses().next().is_none(), "only 100: {reaction:#?}");
    assert_eq!(*wake.user, *b"bob@example.com");
    assert_eq!((&*wake.provider, &*wake.prid, &*wake.param), (&b"fcm"[..], &b"T1"[..], &b"p"[..]));
    assert_eq!(wake.reason, WakeReason::Call);
    let ticket = rig.woken(wake.ticket).expect_err("the phone has not registered");
    let registered = register_on(&mut rig, 2, CONTACT);
    assert!(has_registered(&registered));
    let reaction = rig.woken(ticket).expect("the request goes on");
    let invite = reaction.forwarded();
    assert_eq!(invite.flow, tcp(BOB, 2));
    let rung = rig.receive(&invite.flow, &invite.answer(180, "bob", ""));
    assert_eq!(rung.response().status(), 180);
    let answered = rig.receive(&invite.flow, &invite.answer(200, "bob", ""));
    assert_eq!(answered.response().status(), 200);
    assert_eq!((rig.count("sleeping-phones"), rig.count("woken-phones")), (1, 1));
}

#[test]
fn a_phone_with_another_contact_is_recognised_by_its_token() {
    let mut rig = asleep();
    let wake = wanted(&calls(&mut rig));
    let other = "<sip:bob@192.168.7.7:4444;transport=tcp;pn-provider=FCM;pn-prid=T1>";
    register_on(&mut rig, 2, other);
    assert_eq!(rig.contacts("bob@example.com").len(), 1, "it replaces the binding");
    let reaction = rig.woken(wake.ticket).expect("the request goes on");
    assert!(reaction.forwarded().request_uri().starts_with("sip:bob@192.168.7.7:4444"));
    // Another phone of the user releases nothing.
    let mut rig = asleep();
    let wake = wanted(&calls(&mut rig));
    register_on(&mut rig, 2, "<sip:bob@192.168.1.9;pn-provider=fcm;pn-prid=T2>");
    assert!(rig.woken(wake.ticket).is_err());
}

#[test]
fn a_call_fails_if_the_phone_is_not_woken_and_ends_if_the_caller_cancels_it() {
    let mut rig = asleep();
    let wake = wanted(&calls(&mut rig));
    assert_eq!(rig.not_woken(wake.ticket.clone()).response().status(), 480);
    assert!(!rig.is_waiting(&wake.ticket));
    let invite = Draft::invite("sip:bob@example.com");
    let wake = wanted(&rig.send(&udp(ALICE), &invite));
    assert!(rig.is_waiting(&wake.ticket));
    let cancelled = rig.send(&udp(ALICE), &invite.with_method("CANCEL"));
    let statuses: Vec<u16> = cancelled.responses().map(|sent| sent.status()).collect();
    assert_eq!(statuses, [200, 487]);
    assert!(!rig.is_waiting(&wake.ticket), "its place is free");
    register_on(&mut rig, 2, CONTACT);
    assert!(rig.woken(wake.ticket).expect("the ticket is used up").is_silent());
}

#[test]
fn other_phones_ring_meanwhile() {
    let mut rig = asleep();
    rig.register("bob", &udp("198.51.100.21:5060"), "<sip:bob@198.51.100.21:5060>");
    let reaction = calls(&mut rig);
    let awake = reaction.forwarded().clone();
    let wake = reaction.events.into_iter().find_map(|event| match event {
        Event::Wake(wake) => Some(wake.ticket),
        _ => None,
    });
    register_on(&mut rig, 2, CONTACT);
    let reaction = rig.woken(wake.expect("the other one is woken")).expect("it goes on");
    let woken = reaction.forwarded().clone();
    rig.receive(&awake.flow, &awake.answer(180, "desk", ""));
    let answered = rig.receive(&woken.flow, &woken.answer(200, "mobile", ""));
    assert_eq!(answered.responses().next().map(|sent| sent.status()), Some(200));
    let cancelled = answered.requests().find(|sent| sent.bytes.starts_with(b"CANCEL "));
    assert_eq!(cancelled.expect("the desk phone stops").flow, awake.flow);
}

#[test]
fn messages_wake_phones_and_other_requests_do_not() {
    let mut rig = asleep();
    let message = Draft::new("MESSAGE", "sip:bob@example.com").with_body("hello");
    assert_eq!(wanted(&rig.send(&udp(ALICE), &message)).reason, WakeReason::Message);
    let options = rig.send(&udp(ALICE), &Draft::new("OPTIONS", "sip:bob@example.com"));
    assert!(options.events.is_empty(), "{options:#?}");
}

#[test]
fn a_phone_on_udp_is_awake_for_a_while_after_its_register() {
    let mut rig = Rig::new(config());
    let contact = format!("<sip:bob@{BOB};pn-provider=apns;pn-prid=x>");
    rig.send(&udp(BOB), &registers(&contact));
    assert_eq!(calls(&mut rig).forwarded().flow, udp(BOB));
    rig.wait(Duration::from_secs(21));
    let wake = wanted(&calls(&mut rig));
    rig.send(&udp(BOB), &registers(&contact).with_cseq(2));
    let reaction = rig.woken(wake.ticket).expect("the request goes on");
    assert_eq!(reaction.forwarded().flow, udp(BOB));
}

/// The values of Feature-Caps.
fn caps(reaction: &Reaction) -> Vec<String> {
    let lines = text(&reaction.response().bytes);
    let lines = lines.lines().filter_map(|line| line.strip_prefix("Feature-Caps: "));
    lines.map(str::to_owned).collect()
}

/// The reference that the 200 of a REGISTER gives the phone.
fn purr(registered: &Reaction) -> String {
    let caps = caps(registered).concat();
    let (_, purr) = caps.split_once(";+sip.pnspurr=\"").expect("a reference");
    purr.trim_end_matches('"').to_owned()
}

/// A call of alice, which the phone of bob answers on connection 1 as `contact`. Then that ends.
fn call_that_lost_its_connection(rig: &mut Rig, contact: &str) -> crate::rig::Sent {
    let invite = calls(rig).forwarded().clone();
    let answer = answered(rig, &invite, 200, &tcp(BOB, 1), contact);
    rig.send(&udp(ALICE), &within(&answer, "ACK", contact));
    rig.end(&tcp(BOB, 1));
    answer
}

#[test]
fn a_request_within_a_dialog_waits_for_the_phone() {
    let contact = "sip:bob@192.168.1.2;transport=tcp";
    let mut rig = Rig::new(config());
    register_on(&mut rig, 1, CONTACT);
    let answer = call_that_lost_its_connection(&mut rig, contact);
    let wake = wanted(&rig.send(&udp(ALICE), &within(&answer, "BYE", contact)));
    assert_eq!((wake.reason, &*wake.prid), (WakeReason::Dialog, &b"T1"[..]));
    register_on(&mut rig, 2, CONTACT);
    let reaction = rig.woken(wake.ticket).expect("the request goes on");
    let bye = reaction.forwarded();
    assert_eq!((bye.flow, bye.request_uri()), (tcp(BOB, 2), contact.to_owned()));
    // The phone is awake, and gets the next request at once.
    let info = within(&answer, "INFO", contact).with_cseq(21);
    assert_eq!(rig.send(&udp(ALICE), &info).forwarded().flow, tcp(BOB, 2));
}

#[test]
fn a_reference_leads_to_the_phone_after_a_restart() {
    let mut rig = Rig::new(config());
    let purr = purr(&register_on(&mut rig, 1, CONTACT));
    let named = format!("sip:bob@10.9.9.9:7777;transport=tcp;pn-purr={purr}");
    let wrong = "sip:bob@10.9.9.9:7777;transport=tcp;pn-purr=AAAAAAAAAAAAAA";
    for (contact, is_woken) in [(named.as_str(), true), (wrong, false)] {
        let mut rig = Rig::new(config());
        register_on(&mut rig, 1, CONTACT);
        let answer = call_that_lost_its_connection(&mut rig, contact);
        let journal = register_on(&mut rig, 2, CONTACT).journal;
        let record = journal_record::read(&journal).next().unwrap().unwrap();
        let mut later = Rig::new(config());
        later.restore(&record);
        let reaction = later.send(&udp(ALICE), &within(&answer, "BYE", contact));
        let wakes = reaction.events.iter().any(|event| matches!(event, Event::Wake(_)));
        assert_eq!(wakes, is_woken, "{contact}");
    }
}

#[test]
fn a_reference_is_given_only_if_requests_within_dialogs_pass_the_server() {
    for config in
        [Config { record_route: false, ..config() }, Config { state: State::Stateless, ..config() }]
    {
        let mut rig = Rig::new(config);
        assert_eq!(caps(&register_on(&mut rig, 1, CONTACT)), ["*;+sip.pns=\"fcm\""]);
    }
    let [one, again, other] = [CONTACT, CONTACT, &CONTACT.replace("T1", "T2")]
        .map(|contact| purr(&register_on(&mut Rig::new(config()), 1, contact)));
    assert_eq!(one, again);
    assert_ne!(one, other);
    assert!(!one.contains("T1") && one.len() == 14, "{one}");
}

#[test]
fn the_200_names_the_services_that_a_contact_asks_for() {
    let mut rig = Rig::new(config());
    let mut register = |contact: &str| rig.send(&tcp(BOB, 1), &registers(contact));
    assert!(caps(&register(CONTACT))[0].starts_with("*;+sip.pns=\"fcm\";+sip.pnspurr=\""));
    let all = ["*;+sip.pns=\"apns\"", "*;+sip.pns=\"fcm\""];
    assert_eq!(caps(&register("<sip:bob@192.168.1.2;pn-provider>")), all);
    assert_eq!(caps(&register("<sip:bob@192.168.1.2>")), [""; 0]);
    let unknown = register("<sip:bob@192.168.1.2;pn-provider=acme;pn-prid=1>");
    assert_eq!(unknown.status(), 555);
    let removal = register("<sip:bob@192.168.1.2;pn-provider=acme;pn-prid=1>;expires=0");
    assert_eq!(removal.status(), 200);
}

#[test]
fn without_push_notifications_the_parameters_have_no_effect() {
    for config in [open_config(), Config { push: None, ..closed_config() }] {
        let mut rig = Rig::closed_with(config);
        let reaction = rig.send_as("bob", &tcp(BOB, 1), &registers(CONTACT));
        assert_eq!(reaction.status(), 200);
        assert!(!text(&reaction.response().bytes).contains("Feature-Caps"));
        rig.end(&tcp(BOB, 1));
        assert_eq!(rig.contacts("bob@example.com"), [""; 0]);
    }
}

#[test]
fn a_phone_sleeps_on_after_a_restart() {
    let mut rig = Rig::new(config());
    let journal = register_on(&mut rig, 1, CONTACT).journal;
    let record = journal_record::read(&journal).next().unwrap().unwrap();
    let mut later = Rig::new(config());
    later.restore(&record);
    assert_eq!(later.contacts("bob@example.com").len(), 1);
    let wake = wanted(&calls(&mut later));
    register_on(&mut later, 2, CONTACT);
    let reaction = later.woken(wake.ticket).expect("the request goes on");
    assert_eq!(reaction.forwarded().flow, tcp(BOB, 2));
    let without = Rig::new(open_config());
    without.restore(&record);
    assert_eq!(without.contacts("bob@example.com"), [""; 0], "its connection has ended");
}

#[test]
fn phones_that_sleep_are_listed_before_their_bindings_end() {
    let mut rig = asleep();
    register_on(&mut rig, 3, "<sip:bob@192.168.1.9;pn-provider=fcm;pn-prid=T2>");
    let mut found = Vec::new();
    for part in 0..barebell_sip_server::Server::<parking_lot::RawMutex>::PARTS {
        rig.server.for_each_sleeping_of(part, rig.now, &mut |phone| {
            found.push((text(phone.prid), phone.expires.since(rig.now).as_secs()));
        });
    }
    assert_eq!(found, [("T1".to_owned(), 3600)]);
}
