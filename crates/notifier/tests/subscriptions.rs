//! Subscriptions, message by message: acceptance, refusals, notifications and ends.

mod rig;

use barebell_notifier::{Config, Messages, Reason};
use rig::{Rig, Subscriber};
use sip::Duration;
use sip::HeaderName;

#[test]
fn the_state_is_told_at_once_and_after_each_change() {
    let mut rig = Rig::new(Config::default());
    let mut alice = Subscriber::new("alice", "message-summary", "alice@example.com");
    let (status, notifies) = rig.subscribe(&mut alice, 600);
    assert_eq!((status, notifies.len()), (200, 1));
    assert_eq!(notifies[0].state, "active;expires=600");
    assert!(notifies[0].body.starts_with("Messages-Waiting: no\r\n"));
    rig.answer(&notifies[0], 200, "");
    rig.pass(Duration::from_secs(1));
    rig.notifier.set_messages(rig.now, "alice@example.com", Messages { new: 1, old: 0 });
    rig.notifier.set_messages(rig.now, "alice@example.com", Messages { new: 1, old: 0 });
    rig.notifier.set_messages(rig.now, "bob@example.com", Messages { new: 9, old: 0 });
    let notifies = rig.notifies();
    assert_eq!(notifies.len(), 1);
    assert!(notifies[0].body.contains("Voice-Message: 1/0"));
    rig.answer(&notifies[0], 200, "");
    let (status, notifies) = rig.subscribe(&mut alice, 0);
    assert_eq!((status, notifies.len()), (200, 1));
    assert_eq!(notifies[0].state, "terminated;reason=timeout");
    assert_eq!(rig.notifier.remains(), 0);
    let (status, _) = rig.subscribe(&mut alice, 600);
    assert_eq!(status, 481, "the subscription has ended");
}

#[test]
fn changes_within_the_interval_or_before_the_response_are_told_together() {
    let mut rig = Rig::new(Config::default());
    let mut alice = Subscriber::new("alice", "message-summary", "alice@example.com");
    let (_, first) = rig.subscribe(&mut alice, 600);
    for new in 1..50 {
        rig.notifier.set_messages(rig.now, "alice@example.com", Messages { new, old: 0 });
    }
    assert!(rig.notifies().is_empty(), "the first NOTIFY is not answered");
    rig.answer(&first[0], 200, "");
    assert!(rig.notifies().is_empty(), "the interval is not over");
    rig.pass(Config::default().interval);
    let told = rig.notifies();
    assert_eq!(told.len(), 1);
    assert!(told[0].body.contains("Voice-Message: 49/0"));
}

#[test]
fn a_subscription_expires_unless_it_is_refreshed() {
    let mut rig = Rig::new(Config::default());
    let mut alice = Subscriber::new("alice", "message-summary", "alice@example.com");
    let (_, first) = rig.subscribe(&mut alice, 100);
    rig.answer(&first[0], 200, "");
    rig.pass(Duration::from_secs(90));
    let (status, again) = rig.subscribe(&mut alice, 100);
    assert_eq!((status, again.len(), rig.notifier.subscriptions()), (200, 1, 1));
    rig.answer(&again[0], 200, "");
    rig.pass(Duration::from_secs(99));
    assert_eq!(rig.notifier.subscriptions(), 1);
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.notifies()[0].state, "terminated;reason=timeout");
    assert_eq!(rig.notifier.remains(), 0);
}

#[test]
fn a_retransmitted_subscribe_begins_no_second_subscription() {
    let mut rig = Rig::new(Config::default());
    let mut alice = Subscriber::new("alice", "message-summary", "alice@example.com");
    rig.subscribe(&mut alice, 100);
    let tag = alice.to_tag.take();
    alice.cseq -= 1;
    let (status, _) = rig.subscribe(&mut alice, 100);
    assert_eq!((status, alice.to_tag.clone(), rig.notifier.subscriptions()), (200, tag, 1));
}

#[test]
fn unsuitable_requests_are_refused_with_the_reason() {
    let mut rig = Rig::new(Config::default());
    let mut refused = |event: &str, of: &str, expires: u32, lines: &str| {
        let mut alice = Subscriber::new("alice", event, of);
        alice.lines = lines.to_owned();
        let (status, notifies) = rig.subscribe(&mut alice, expires);
        assert!(notifies.is_empty() && rig.notifier.remains() == 0);
        (status, alice.response)
    };
    let (status, response) = refused("presence", "alice@example.com", 600, "");
    assert_eq!(status, 489);
    assert!(response.contains("Allow-Events: message-summary, dialog\r\n"));
    let (status, response) = refused("dialog", "alice@example.com", 59, "");
    assert_eq!(status, 423);
    assert!(response.contains("Min-Expires: 60\r\n"));
    assert_eq!(refused("dialog", "alice@example.com", 600, "Accept: text/plain\r\n").0, 406);
    assert_eq!(refused("dialog", "", 600, "").0, 404, "the proxy names no user");
    let long = format!("Subject: {}\r\n", "x".repeat(5000));
    assert_eq!(refused("dialog", "alice@example.com", 600, &long).0, 513);
}

#[test]
fn another_name_or_an_older_request_changes_no_subscription() {
    let mut rig = Rig::new(Config::default());
    let mut alice = Subscriber::new("alice", "dialog", "bob@example.com");
    rig.subscribe(&mut alice, 600);
    let mut mallory = Subscriber { name: "mallory".into(), ..alice.clone() };
    assert_eq!(rig.subscribe(&mut mallory, 0).0, 403);
    let mut guess = Subscriber { to_tag: Some("0123456789abcdef".into()), ..alice.clone() };
    assert_eq!(rig.subscribe(&mut guess, 0).0, 481);
    let mut other = Subscriber { event: "message-summary".into(), ..alice.clone() };
    assert_eq!(rig.subscribe(&mut other, 600).0, 489);
    let mut older = Subscriber { cseq: 0, ..alice.clone() };
    rig.subscribe(&mut alice, 600);
    assert_eq!(rig.subscribe(&mut older, 0).0, 500);
    assert_eq!(rig.notifier.subscriptions(), 1);
}

#[test]
fn a_subscriber_that_refuses_or_is_silent_loses_its_subscription() {
    for (status, lines, remains) in
        [(481, "", 0), (500, "", 0), (500, "Retry-After: 5\r\n", 1), (408, "", 0)]
    {
        let mut rig = Rig::new(Config::default());
        let mut alice = Subscriber::new("alice", "dialog", "bob@example.com");
        let (_, notifies) = rig.subscribe(&mut alice, 600);
        rig.answer(&notifies[0], status, lines);
        assert_eq!(rig.notifier.subscriptions(), remains, "{status} {lines}");
        rig.pass(Duration::from_secs(5));
        assert_eq!(rig.notifies().len(), remains, "it is told again");
    }
    let mut rig = Rig::new(Config::default());
    let mut alice = Subscriber::new("alice", "dialog", "bob@example.com");
    rig.subscribe(&mut alice, 600);
    rig.pass(Config::default().patience);
    assert_eq!((rig.notifier.remains(), rig.notifier.counters().lost), (0, 1));
    assert!(rig.notifies().is_empty(), "a silent subscriber gets nothing more");
}

#[test]
fn a_forged_response_or_message_on_another_flow_has_no_effect() {
    let mut rig = Rig::new(Config::default());
    let mut alice = Subscriber::new("alice", "dialog", "bob@example.com");
    let (_, notifies) = rig.subscribe(&mut alice, 600);
    let mut forged = notifies[0].clone();
    forged.via = "SIP/2.0/TCP 192.0.2.1;branch=z9hG4bK0123456789abcdef".into();
    rig.answer(&forged, 481, "");
    assert_eq!(rig.notifier.subscriptions(), 1);
    let outside = sip::Flow { connection: None, ..rig.flow };
    rig.notifier.receive(rig.now, &outside, &notifies[0].response(481, ""));
    assert_eq!(rig.notifier.subscriptions(), 1);
    rig.answer(&notifies[0], 481, "");
    assert_eq!(rig.notifier.subscriptions(), 0);
}

#[test]
fn a_flood_of_subscriptions_takes_no_room_of_others() {
    let mut config = Config::default();
    (config.subscriptions, config.subscriptions_of_user) = (50, 10);
    config.subscriptions_of_source = 30;
    let mut rig = Rig::new(config);
    let mut accept = |name: &str, host: u8| {
        rig.flow.remote.set_ip([198, 51, 100, host].into());
        let count = (0..100).filter(|_| {
            let mut it = Subscriber::new(name, "dialog", "bob@example.com");
            rig.subscribe(&mut it, 600).0 == 200
        });
        count.count()
    };
    assert_eq!(accept("mallory", 1), 10, "those of a subscriber");
    assert_eq!(accept("alice", 1), 10, "another subscriber at the same source");
    assert_eq!(accept("bob", 1), 10);
    assert_eq!(accept("carol", 1), 0, "those of a source");
    assert_eq!((accept("carol", 2), accept("dave", 2)), (10, 10));
    assert_eq!(accept("erin", 3), 0, "all");
    assert!(rig.notifier.counters().over_limit > 0);
    rig.pass(Duration::from_secs(4000));
    assert_eq!(rig.notifier.remains(), 0);
}

#[test]
fn the_owner_ends_subscriptions_with_a_reason() {
    let mut rig = Rig::new(Config::default());
    let subscribers = [("alice", "dialog"), ("alice", "message-summary"), ("carol", "dialog")];
    for (name, event) in subscribers {
        let of = format!("{name}@example.com");
        rig.subscribe(&mut Subscriber::new(name, event, &of), 600);
    }
    rig.notifier.end_dialogs(rig.now, Reason::Rejected);
    let ends = rig.notifies();
    assert!(ends.iter().all(|it| it.state == "terminated;reason=rejected"));
    assert_eq!((ends.len(), rig.notifier.subscriptions()), (2, 1));
    rig.notifier.remove_user(rig.now, "alice@example.com");
    assert_eq!(rig.notifies()[0].state, "terminated;reason=noresource");
    assert_eq!(rig.notifier.remains(), 0);
}

#[test]
fn phones_without_a_subscription_are_told_if_the_owner_wants_it() {
    let mut rig = Rig::new(Config::default());
    rig.notifier.set_messages(rig.now, "alice@example.com", Messages { new: 1, old: 0 });
    assert!(rig.notifies().is_empty());
    let mut config = Config::default();
    config.unsolicited = Some(rig.flow);
    rig.notifier.configure(config);
    rig.notifier.set_messages(rig.now, "alice@example.com", Messages { new: 2, old: 0 });
    let told = rig.notifies();
    assert_eq!((told.len(), told[0].uri.as_str()), (1, "sip:alice@example.com"));
    assert!(told[0].body.contains("Voice-Message: 2/0"));
    let mut alice = Subscriber::new("alice", "message-summary", "alice@example.com");
    let (_, first) = rig.subscribe(&mut alice, 600);
    rig.answer(&first[0], 200, "");
    rig.pass(Duration::from_secs(1));
    rig.notifier.set_messages(rig.now, "alice@example.com", Messages { new: 3, old: 0 });
    let told = rig.notifies();
    assert_eq!((told.len(), told[0].state.starts_with("active")), (1, true));
}

#[test]
fn a_notify_takes_the_route_of_the_subscription() {
    let mut rig = Rig::new(Config::default());
    let mut alice = Subscriber::new("alice", "dialog", "bob@example.com");
    alice.lines = "Record-Route: <sip:token@192.0.2.1;lr>, <sip:edge.example.com;lr>\r\n".into();
    let (_, notifies) = rig.subscribe(&mut alice, 600);
    assert!(alice.response.contains("Record-Route: <sip:token@192.0.2.1;lr>\r\n"));
    let notify = sip::Message::parse(&notifies[0].bytes).unwrap();
    let routes: Vec<_> = notify.elements(HeaderName::Route).collect();
    assert_eq!(routes, [&b"<sip:token@192.0.2.1;lr>"[..], b"<sip:edge.example.com;lr>"]);
    assert_eq!(notifies[0].uri, "sip:alice@198.51.100.7:5060");
}
