//! Messages that the owner keeps for users without a reachable phone (RFC 3428).

use crate::rig::{ALICE, BOB, Draft, Rig, STRANGER, closed_config, open_config, tcp, udp};
use barebell_sip_server::config::Push;
use barebell_sip_server::{Config, Event};
use sip::{Duration, Endpoint, HeaderName};

fn message() -> Draft {
    Draft::new("MESSAGE", "sip:bob@example.com").with_body("hello")
}

fn rig(config: Config) -> Rig {
    Rig::closed_with(Config { keeps_messages: true, ..config })
}

#[test]
fn a_message_for_a_user_without_a_phone_goes_to_the_keeper() {
    let mut rig = rig(open_config());
    let reaction = rig.send(&udp(ALICE), &message());
    let kept = reaction.forwarded();
    assert_eq!(kept.flow.endpoint(), Some(Endpoint::Keeper));
    let route = "<sip:keeper@keeper.invalid;lr;of=bob%40example.com;proved>";
    let found = kept.value(HeaderName::Route);
    assert!(found == route || found == route.replace("%40", "@"), "{found}");
    let accepted = rig.receive(&kept.flow, &kept.answer(202, "keeper", ""));
    assert_eq!(accepted.response().status(), 202);
    let unknown = Draft::new("MESSAGE", "sip:zoe@example.com");
    assert_eq!(rig.send(&udp(ALICE), &unknown).status(), 404);
    let call = Draft::invite("sip:bob@example.com");
    assert_eq!(rig.send(&udp(ALICE), &call).status(), 480, "calls are not kept");
}

#[test]
fn messages_of_strangers_have_the_rate_of_absent_users_and_no_proof() {
    let mut rig = rig(closed_config());
    let ours = rig.send_as("alice", &udp(ALICE), &message()).forwarded().clone();
    assert!(ours.value(HeaderName::Route).ends_with(";proved>"), "{ours:?}");
    let draft = message().with("From", "<sip:x@elsewhere.example>;tag=1");
    let mut statuses = Vec::new();
    for _ in 0..15 {
        let reaction = rig.send(&udp(STRANGER), &draft.next());
        statuses.push(match reaction.requests().next() {
            Some(kept) => {
                assert_eq!(kept.flow.endpoint(), Some(Endpoint::Keeper));
                assert!(!kept.value(HeaderName::Route).contains("proved"), "{kept:?}");
                202
            }
            None => reaction.status(),
        });
    }
    assert_eq!(statuses, [[202; 10].as_slice(), &[503; 5]].concat());
    let ours = rig.send_as("alice", &udp(ALICE), &message().next());
    assert_eq!(ours.forwarded().flow.endpoint(), Some(Endpoint::Keeper), "a user");
}

#[test]
fn a_message_for_a_registered_phone_is_not_kept() {
    let mut rig = rig(open_config());
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    let reaction = rig.send(&udp(ALICE), &message());
    let sent = reaction.forwarded().clone();
    assert_eq!(sent.flow, udp(BOB));
    let refused = rig.receive(&sent.flow, &sent.answer(415, "bob", ""));
    assert_eq!(refused.response().status(), 415);
}

#[test]
fn a_message_is_kept_if_the_phone_that_sleeps_is_not_woken() {
    let push = Push { providers: vec!["fcm".to_owned()], awake: Duration::from_secs(20) };
    let mut rig = rig(Config { push: Some(push), ..open_config() });
    rig.register("bob", &tcp(BOB, 1), "<sip:bob@192.168.1.2;pn-provider=fcm;pn-prid=T>");
    rig.end(&tcp(BOB, 1));
    let reaction = rig.send(&udp(ALICE), &message());
    assert!(reaction.sent.is_empty(), "{reaction:#?}");
    let ticket = reaction.events.into_iter().find_map(|event| match event {
        Event::Wake(wake) => Some(wake.ticket),
        _ => None,
    });
    let reaction = rig.not_woken(ticket.expect("the phone is to be woken"));
    assert_eq!(reaction.forwarded().flow.endpoint(), Some(Endpoint::Keeper));
}

#[test]
fn the_keeper_reaches_users_and_its_messages_are_not_kept_again() {
    let mut rig = rig(closed_config());
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    let keeper = udp(ALICE).internal_to(Endpoint::Keeper);
    let reaction = rig.send(&keeper, &message().with("From", "<sip:alice@example.com>;tag=k"));
    assert_eq!(reaction.forwarded().flow, udp(BOB));
    let carol = Draft::new("MESSAGE", "sip:carol@example.com");
    let carol = carol.with("From", "<sip:alice@example.com>;tag=k");
    let answer = rig.send(&keeper, &carol);
    assert_eq!(answer.response().status(), 480);
    let other = Draft::new("MESSAGE", "sip:x@elsewhere.example");
    assert_eq!(rig.send(&keeper, &other).response().status(), 403);
    let notifier = udp(ALICE).internal_to(Endpoint::Notifier);
    assert_eq!(rig.send(&notifier, &message()).response().status(), 403);
}

#[test]
fn each_register_is_told() {
    let mut rig = rig(open_config());
    let registers = Draft::register("bob").and("Contact", &format!("<sip:bob@{BOB}>"));
    let told = |reaction: &crate::rig::Reaction| {
        reaction.events.iter().any(|event| matches!(event, Event::Registered(_)))
    };
    assert!(told(&rig.send(&udp(BOB), &registers)));
    assert!(told(&rig.send(&udp(BOB), &registers.next())), "a refresh, too");
    assert!(!told(&rig.send(&udp(BOB), &Draft::register("bob"))), "a query is none");
}
