//! Subscriptions that go to the owner's notifier, the changes of calls that the owner is told, and
//! pickup. The test acts as the notifier.

use crate::joining::{back, second_leg, within};
use crate::rig::{ALICE, BOB, Draft, Reaction, Rig, STRANGER, Sent, closed_config, udp};
use crate::trunks::{TRUNK, call, with_trunks};
use barebell_sip_server::config::Mode;
use barebell_sip_server::{
    CallChange, CallServices, CallerPlace, Config, Event, Group, MediaService, MediaServices,
    RetargetedCall, RingingCall, Strategy, Watch, WatchedCalls, Watching,
};
use sip::{Duration, Endpoint, HeaderName};
use std::sync::Arc;

const CAROL: &str = "198.51.100.30:5060";

fn config(calls: Watch) -> Config {
    let watching = Watching { messages: true, calls, pickup: "**".into() };
    Config { watching, ..closed_config() }
}

/// A server with alice, bob and carol, where bob is registered.
fn watching(calls: Watch) -> Rig {
    let mut rig = Rig::closed_with(config(calls));
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    rig
}

fn subscribe(event: &str, of: &str) -> Draft {
    Draft::new("SUBSCRIBE", of)
        .and("Contact", &format!("<sip:alice@{ALICE}>"))
        .and("Event", event)
        .and("Expires", "600")
}

fn changes(reaction: &Reaction) -> Vec<CallChange> {
    let calls = reaction.events.iter().filter_map(|event| match event {
        Event::Call(change) => Some((**change).clone()),
        _ => None,
    });
    calls.collect()
}

#[test]
fn a_subscription_of_a_user_with_the_right_goes_to_the_notifier() {
    let mut rig = watching(Watch::State);
    let draft = subscribe("message-summary;x=1", "sip:alice@example.com");
    let sent = rig.send_as("alice", &udp(ALICE), &draft).forwarded().clone();
    assert_eq!(sent.flow, udp(ALICE).internal_to(Endpoint::Notifier));
    let own =
        "sip:notifier@203.0.113.1:5060;of=alice%40example.com;by=alice%40example.com;shows=calls";
    assert_eq!(sent.request_uri(), own);
    let draft = subscribe("dialog", "sip:bob@example.com");
    let sent = rig.send_as("alice", &udp(ALICE), &draft).forwarded().clone();
    let other = "sip:notifier@203.0.113.1:5060;of=bob%40example.com;by=alice%40example.com";
    assert_eq!(sent.request_uri(), other);
    let mut rig = watching(Watch::Calls);
    let sent = rig.send_as("alice", &udp(ALICE), &draft.next()).forwarded().clone();
    assert!(sent.request_uri().ends_with(";by=alice%40example.com;shows=calls"));
}

#[test]
fn a_subscription_without_the_right_is_refused() {
    let mut rig = watching(Watch::Calls);
    let mut refused =
        |event: &str, of: &str| rig.send_as("alice", &udp(ALICE), &subscribe(event, of)).status();
    assert_eq!(refused("message-summary", "sip:bob@example.com"), 403);
    assert_eq!(refused("dialog", "sip:bob@example.org"), 403, "another domain");
    assert_eq!(refused("dialog", "sip:nobody@example.com"), 404);
    assert_eq!(rig.count("watching-denied"), 2);
    let stranger =
        subscribe("dialog", "sip:bob@example.com").with("From", "<sip:x@y.example>;tag=x");
    assert_eq!(rig.send(&udp(STRANGER), &stranger).status(), 405);
}

#[test]
fn other_subscriptions_go_to_the_phones_of_the_user() {
    let mut rig = watching(Watch::Off);
    for event in ["dialog", "presence"] {
        let draft = subscribe(event, "sip:bob@example.com");
        assert_eq!(rig.send_as("alice", &udp(ALICE), &draft).forwarded().flow, udp(BOB), "{event}");
    }
    let mut rig = Rig::closed_with(Config { mode: Mode::Redirect, ..config(Watch::Calls) });
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    let draft = subscribe("dialog", "sip:bob@example.com");
    let redirected = rig.send_as("alice", &udp(ALICE), &draft);
    assert_eq!(redirected.response().value(HeaderName::Contact), format!("<sip:bob@{BOB}>"));
}

/// The notifier accepts `subscribe`. Returns the response as alice gets it.
fn accept(rig: &mut Rig, subscribe: &Sent) -> Sent {
    let routes = subscribe.values(HeaderName::RecordRoute);
    let routes: String = routes.iter().map(|it| format!("Record-Route: {it}\r\n")).collect();
    let fields = format!("{routes}Contact: <sip:notifier@203.0.113.1:5060>\r\nExpires: 600\r\n");
    rig.receive(&subscribe.flow, &subscribe.answer(200, "n", &fields)).response().clone()
}

#[test]
fn a_notify_reaches_the_subscriber_and_a_refresh_proves_the_user_anew() {
    let mut rig = watching(Watch::Calls);
    let draft = subscribe("dialog", "sip:bob@example.com");
    let sent = rig.send_as("alice", &udp(ALICE), &draft).forwarded().clone();
    let accepted = accept(&mut rig, &sent);
    let notify = back(&sent, "NOTIFY", &format!("sip:alice@{ALICE}"), "n")
        .and("Event", "dialog")
        .and("Subscription-State", "active");
    assert_eq!(rig.send(&sent.flow, &notify).forwarded().flow, udp(ALICE));
    let refresh = within(&accepted, "SUBSCRIBE", "sip:notifier@203.0.113.1:5060")
        .and("Contact", &format!("<sip:alice@{ALICE}>"))
        .and("Event", "dialog");
    assert_eq!(rig.send(&udp(ALICE), &refresh).status(), 407, "the token is no proof of the user");
    let refreshed = rig.send_as("alice", &udp(ALICE), &refresh.next());
    assert_eq!(refreshed.forwarded().flow, sent.flow);
    rig.remove_user("alice@example.com");
    let late = rig.send_as("alice", &udp(ALICE), &refresh.next().next().next());
    assert_ne!(late.status(), 200);
    assert!(late.requests().next().is_none(), "a removed user refreshes nothing");
}

#[test]
fn message_counts_reach_the_phones_of_a_user_and_nothing_else_leaves_the_notifier() {
    let mut rig = watching(Watch::Calls);
    let flow = udp(ALICE).internal_to(Endpoint::Notifier);
    let notify = |uri: &str| {
        Draft::new("NOTIFY", uri).and("Event", "message-summary").and("Contact", "<sip:n@h>")
    };
    let sent = rig.send(&flow, &notify("sip:bob@example.com"));
    assert_eq!(sent.forwarded().flow, udp(BOB));
    assert_eq!(rig.send(&flow, &notify("sip:x@192.0.2.5")).status(), 403);
    let other = udp(ALICE).internal_to(Endpoint::B2bua);
    assert_eq!(rig.send(&other, &notify("sip:bob@example.com")).status(), 403);
    let call = Draft::invite("sip:bob@example.com");
    assert_eq!(rig.send(&flow, &call).status(), 403);
}

#[test]
fn the_owner_is_told_each_change_of_a_call() {
    let mut rig = watching(Watch::Calls);
    let invite = Draft::invite("sip:bob@example.com");
    let begun = rig.send_as("alice", &udp(ALICE), &invite);
    let sent = begun.forwarded().clone();
    let [CallChange::Begun { transaction, parties, caller, .. }] = &changes(&begun)[..] else {
        panic!("{:?}", begun.events)
    };
    let users = parties.each_ref().map(|party| party.user.as_deref());
    assert_eq!(users, [Some("alice@example.com"), Some("bob@example.com")]);
    assert_eq!((&*caller.uri, caller.flow), (format!("sip:alice@{ALICE}").as_bytes(), udp(ALICE)));
    let response = |status, interval| CallChange::Response {
        transaction: *transaction,
        status,
        callee_tag: (*b"bob").into(),
        interval,
    };
    let ringing = rig.receive(&sent.flow, &sent.answer(180, "bob", ""));
    assert_eq!(changes(&ringing), [response(180, None)]);
    let routes = sent.values(HeaderName::RecordRoute);
    let routes: String = routes.iter().map(|it| format!("Record-Route: {it}\r\n")).collect();
    let fields = format!("{routes}Contact: <sip:bob@{BOB}>\r\nSession-Expires: 90\r\n");
    let answered = rig.receive(&sent.flow, &sent.answer(200, "bob", &fields));
    assert_eq!(changes(&answered), [response(200, Some(Duration::from_secs(90)))]);
    let answered = answered.response().clone();
    let call_id: Box<[u8]> = sent.value(HeaderName::CallId).into_bytes().into();
    let tags: [Box<[u8]>; 2] = [(*b"alice-tag").into(), (*b"bob").into()];
    let bye = within(&answered, "BYE", &format!("sip:bob@{BOB}"));
    let ended = rig.send(&udp(ALICE), &bye);
    assert_eq!(changes(&ended), [CallChange::Ended { call_id, tags }]);
    // A BYE that no token proves ends nothing.
    let forged = Draft::new("BYE", &format!("sip:bob@{BOB}"))
        .with("From", &answered.value(HeaderName::From))
        .with("To", &answered.value(HeaderName::To))
        .with("Call-ID", &answered.value(HeaderName::CallId));
    assert_eq!(changes(&rig.send(&udp(STRANGER), &forged)), []);
}

#[test]
fn a_refused_or_cancelled_call_is_told_and_none_without_watching() {
    let mut rig = watching(Watch::State);
    let sent = rig.send_as("alice", &udp(ALICE), &Draft::invite("sip:bob@example.com"));
    let sent = sent.forwarded().clone();
    let refused = rig.receive(&sent.flow, &sent.answer(486, "bob", ""));
    assert!(matches!(&changes(&refused)[..], [CallChange::Response { status: 486, .. }]));
    let unreachable = rig.send_as("alice", &udp(ALICE), &Draft::invite("sip:carol@example.com"));
    assert_eq!(changes(&unreachable), [], "no transaction");
    let mut rig = watching(Watch::Off);
    let sent = rig.send_as("alice", &udp(ALICE), &Draft::invite("sip:bob@example.com"));
    assert_eq!(changes(&sent), []);
}

/// A call of alice that rings bob.
#[derive(Default)]
struct Ringing {
    transaction: u128,
    lacks_replaces: bool,
    is_from_trunk: bool,
}

impl WatchedCalls for Ringing {
    fn ringing(&self, user: &[u8]) -> Option<RingingCall> {
        let caller = CallerPlace {
            uri: format!("sip:alice@{ALICE}").into_bytes().into(),
            routes: (*b"<sip:edge.example.net;lr>").into(),
            flow: udp(ALICE),
            takes_replaces: !self.lacks_replaces,
        };
        let replaces = b"x;to-tag=a;from-tag=b;early-only".to_vec();
        let Self { transaction, is_from_trunk, .. } = *self;
        let call = RingingCall { caller, replaces, transaction, is_from_trunk };
        (user == b"bob@example.com").then_some(call)
    }

    fn named(&self, replaces: &[u8]) -> Option<(RingingCall, Box<str>)> {
        let call = self.ringing(b"bob@example.com")?;
        (replaces == call.replaces).then(|| (call, "bob@example.com".into()))
    }
}

fn pickup(code: &str) -> Draft {
    pickup_by("carol", code)
}

fn pickup_by(user: &str, code: &str) -> Draft {
    Draft::new("INVITE", &format!("sip:{code}@example.com"))
        .with("From", &format!("<sip:{user}@example.com>;tag=c"))
        .and("Contact", &format!("<sip:{user}@{CAROL}>"))
}

#[test]
fn a_call_to_the_code_replaces_the_ringing_call_at_its_caller() {
    let mut rig = watching(Watch::Calls);
    rig.watch(Arc::new(Ringing::default()));
    let sent = rig.send_as("carol", &udp(CAROL), &pickup("**bob")).forwarded().clone();
    assert_eq!((sent.flow, sent.request_uri()), (udp(ALICE), format!("sip:alice@{ALICE}")));
    assert_eq!(sent.value(HeaderName::Replaces), "x;to-tag=a;from-tag=b;early-only");
    assert_eq!(sent.value(HeaderName::Require), "replaces");
    assert_eq!(sent.values(HeaderName::Route), ["<sip:edge.example.net;lr>"]);
    assert_eq!(rig.send_as("carol", &udp(CAROL), &pickup("**alice")).status(), 481);
    assert_eq!(rig.send_as("carol", &udp(CAROL), &pickup("**nobody")).status(), 404);
    let stranger = pickup("**bob").with("From", "<sip:x@y.example>;tag=x");
    assert_eq!(rig.send(&udp(STRANGER), &stranger).status(), 403, "not for strangers");
    let mut rig = watching(Watch::State);
    rig.watch(Arc::new(Ringing::default()));
    assert_eq!(rig.send_as("carol", &udp(CAROL), &pickup("**bob")).status(), 403);
}

/// A server as [`watching`], with the group `sales` of bob, and a media server.
fn office() -> Rig {
    let names = vec![("echo".to_owned(), MediaService::Echo)];
    let group = Group {
        name: "sales@example.com".into(),
        members: vec!["bob@example.com".into()],
        strategy: Strategy::Together,
        timeout: Duration::from_secs(15),
        fallback: None,
        forwards: false,
    };
    let media_services = MediaServices { names, ..MediaServices::default() };
    let config = Config { groups: vec![group], media_services, ..config(Watch::Calls) };
    let mut rig = Rig::closed_with(config);
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    rig
}

#[test]
fn a_group_is_watched_like_a_user() {
    let mut rig = office();
    let draft = subscribe("dialog", "sip:sales@example.com");
    let sent = rig.send_as("alice", &udp(ALICE), &draft).forwarded().clone();
    let expected =
        "sip:notifier@203.0.113.1:5060;of=sales%40example.com;by=alice%40example.com;shows=calls";
    assert_eq!(sent.request_uri(), expected);
    let unknown = subscribe("dialog", "sip:nobody@example.com");
    assert_eq!(rig.send_as("alice", &udp(ALICE), &unknown).status(), 404);
    let messages = subscribe("message-summary", "sip:sales@example.com");
    assert_eq!(rig.send_as("alice", &udp(ALICE), &messages).status(), 403);
    let stranger = draft.next().with("From", "<sip:x@foreign.example>;tag=1");
    assert_eq!(rig.send(&udp(STRANGER), &stranger).requests().count(), 0);
}

/// The number of the transaction that a call has begun.
fn transaction(reaction: &Reaction) -> u128 {
    let begun = changes(reaction).into_iter().find_map(|change| match change {
        CallChange::Begun { transaction, .. } => Some(transaction),
        _ => None,
    });
    begun.expect("a call begins")
}

#[test]
fn the_calls_of_groups_and_forwards_are_told_with_the_users_that_ring() {
    let mut rig = office();
    let called = rig.send_as("alice", &udp(ALICE), &Draft::invite("sip:sales@example.com"));
    let call = RetargetedCall::Transaction(transaction(&called));
    let led = |name: &str| CallChange::Retargeted {
        call: call.clone(),
        users: vec![format!("{name}@example.com").into()],
    };
    assert_eq!(changes(&called)[1..], [led("bob")]);
    let CallChange::Begun { parties, is_to_group, .. } = &changes(&called)[0] else {
        panic!("{called:?}")
    };
    let users = parties.each_ref().map(|party| party.user.as_deref());
    assert_eq!(users, [Some("alice@example.com"), Some("sales@example.com")]);
    assert!(is_to_group);
    let sent = called.forwarded().clone();
    let answered = rig.receive(&sent.flow, &sent.answer(200, "bob", ""));
    assert_eq!(changes(&answered)[0], led("bob"));
    // The second stage of a call.
    rig.register("carol", &udp(CAROL), &format!("<sip:carol@{CAROL}>"));
    let busy = Some("carol@example.com".to_owned());
    let services = CallServices { busy, ..CallServices::default() };
    rig.server.set_call_services(b"bob@example.com", services);
    let called = rig.send_as("alice", &udp(ALICE), &Draft::invite("sip:bob@example.com"));
    let call = RetargetedCall::Transaction(transaction(&called));
    let sent = called.forwarded().clone();
    let busy = rig.receive(&sent.flow, &sent.answer(486, "bob", ""));
    let users = vec!["carol@example.com".into()];
    assert!(changes(&busy).contains(&CallChange::Retargeted { call, users }), "{busy:?}");
}

#[test]
fn a_caller_without_replaces_meets_the_call_that_picks_it_up_at_the_media_server() {
    let mut rig = office();
    let called = rig.send_as("alice", &udp(ALICE), &Draft::invite("sip:bob@example.com"));
    let transaction = transaction(&called);
    rig.watch(Arc::new(Ringing { transaction, lacks_replaces: true, is_from_trunk: false }));
    let at_bob = called.forwarded().clone();
    rig.receive(&at_bob.flow, &at_bob.answer(180, "bob", ""));
    let picked_up = rig.send_as("carol", &udp(CAROL), &pickup("**sales"));
    let to = |place: &str| udp(place).internal_to(Endpoint::MediaServer);
    let find = |flow| picked_up.requests().find(|sent| sent.flow == flow).cloned();
    let [alice, carol] = [ALICE, CAROL].map(|place| find(to(place)).expect("an INVITE"));
    let name = format!("name={transaction:x}");
    assert_eq!(
        carol.values(HeaderName::Route),
        [format!("<sip:meet@media-server.invalid;lr;{name};caller=carol%40example.com>")]
    );
    let route = format!("<sip:meet@media-server.invalid;lr;{name}>");
    assert_eq!(alice.values(HeaderName::Route), [route]);
    assert_eq!(picked_up.requests().filter(|sent| sent.flow == udp(BOB)).count(), 1, "a CANCEL");
    let ended = rig.receive(&at_bob.flow, &at_bob.answer(487, "bob", ""));
    assert_eq!(ended.responses().count(), 0);
    let answered = rig.receive(&alice.flow, &alice.answer(200, "media", ""));
    assert_eq!((answered.response().flow, answered.response().status()), (udp(ALICE), 200));
    // The answered call is not led away again.
    let late = rig.send_as("carol", &udp(CAROL), &pickup("**bob"));
    assert_eq!(late.requests().count(), 1);
}

/// The INVITE of a phone's key for the call of [`Ringing`], to `uri`.
fn pickup_by_key(uri: &str, replaces: &str) -> Draft {
    Draft::new("INVITE", uri)
        .with("From", "<sip:carol@example.com>;tag=c")
        .and("Contact", &format!("<sip:carol@{CAROL}>"))
        .and("Replaces", replaces)
}

#[test]
fn the_key_of_a_phone_picks_up_a_call_whose_caller_cannot_be_replaced() {
    const REPLACES: &str = "x;to-tag=a;from-tag=b;early-only";
    // An INVITE to the caller, as its phone would take it, and one to the user that rings.
    for (uri, is_from_trunk) in [
        ("sip:alice@example.com", false),
        ("sip:+49151@trunk.example", true),
        ("sip:bob@example.com", true),
    ] {
        let mut rig = office();
        let called = rig.send_as("alice", &udp(ALICE), &Draft::invite("sip:bob@example.com"));
        let transaction = transaction(&called);
        let at_bob = called.forwarded().clone();
        rig.receive(&at_bob.flow, &at_bob.answer(180, "bob", ""));
        rig.watch(Arc::new(Ringing { transaction, lacks_replaces: true, is_from_trunk }));
        let other = pickup_by_key(uri, "x;to-tag=a;from-tag=other");
        let other = rig.send_as("carol", &udp(CAROL), &other);
        let meets = |reaction: &Reaction, place| {
            let flow = udp(place).internal_to(Endpoint::MediaServer);
            reaction.requests().filter(|sent| sent.flow == flow).count()
        };
        assert_eq!([meets(&other, ALICE), meets(&other, CAROL)], [0, 0], "another call: {uri}");
        let stranger = pickup_by_key(uri, REPLACES).with("From", "<sip:x@y.example>;tag=x");
        assert_eq!(rig.send(&udp(STRANGER), &stranger).status(), 403, "{uri}");
        let by_key = rig.send_as("carol", &udp(CAROL), &pickup_by_key(uri, REPLACES).next());
        assert_eq!([meets(&by_key, ALICE), meets(&by_key, CAROL)], [1, 1], "{uri}: {by_key:?}");
        let begun = changes(&by_key).into_iter().find_map(|change| match change {
            CallChange::Begun { parties: [_, callee], .. } => Some(callee.user),
            _ => None,
        });
        assert_eq!(begun, Some(None), "it rings no user");
    }
}

#[test]
fn a_call_from_a_trunk_is_picked_up_behind_the_b2bua() {
    let names = vec![("echo".to_owned(), MediaService::Echo)];
    let media_services = MediaServices { names, ..MediaServices::default() };
    let mut rig = with_trunks(Config { media_services, ..config(Watch::Calls) });
    let from = "<sip:+49151@trunk.example>;tag=1";
    let number = call("sip:+4930123@203.0.113.1").with("From", from);
    let begun = rig.send(&udp(TRUNK), &number);
    let first = begun.forwarded().clone();
    let call_id = first.value(HeaderName::CallId);
    assert!(matches!(&changes(&begun)[..], [CallChange::Begun { .. }]), "{begun:?}");
    let route = first.value(HeaderName::Route).replace('>', &format!(";caller={call_id}>"));
    let continued = rig.send(&first.flow, &second_leg(&first).with("Route", &route));
    let [CallChange::Continued { call_id: told, transaction }] = &changes(&continued)[..] else {
        panic!("{continued:?}")
    };
    assert_eq!(**told, *call_id.as_bytes());
    let at_bob = continued.forwarded().clone();
    rig.receive(&at_bob.flow, &at_bob.answer(180, "bob", ""));
    // Without a media server there is no other way than past the B2BUA.
    let ringing = |transaction| Ringing { transaction, lacks_replaces: false, is_from_trunk: true };
    rig.watch(Arc::new(ringing(*transaction)));
    let picked_up = rig.send_as("alice", &udp(ALICE), &pickup_by("alice", "**bob"));
    let to = |flow| picked_up.requests().filter(|sent| sent.flow == flow).count();
    let [picker, caller] = [udp(ALICE), first.flow].map(|it| it.internal_to(Endpoint::MediaServer));
    assert_eq!((to(picker), to(caller)), (1, 1), "{picked_up:?}");
    assert_eq!((to(udp(BOB)), to(udp(TRUNK)), to(first.flow)), (1, 0, 0), "a CANCEL");
    let mut rig = with_trunks(config(Watch::Calls));
    rig.watch(Arc::new(ringing(1)));
    let refused = rig.send_as("alice", &udp(ALICE), &pickup_by("alice", "**bob"));
    assert_eq!(refused.status(), 403);
}
