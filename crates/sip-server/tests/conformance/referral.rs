//! The targets that a trunk may be referred to. The test acts as the B2BUA, with a trunk at the
//! other end of each call.

use crate::joining::{describe, within};
use crate::rig::{ALICE, BOB, Reaction, STRANGER, closed_config, udp};
use crate::trunks::{call, with_trunks};
use barebell_sip_server::{
    Config, Event, Group, JoinedCalls, MediaService, MediaServices, Strategy,
};
use sip::{Duration, HeaderName};
use std::sync::Arc;

/// A B2BUA with a trunk at the other end of each call. The party of the leg `abroad` is on a trunk,
/// too.
struct AllOnTrunks;

impl JoinedCalls for AllOnTrunks {
    fn replacing(&self, _: &[u8], _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn referral_of_trunk(&self, _: &[u8], to_tag: &[u8], refer_to: &[u8]) -> Option<Vec<u8>> {
        assert!(!to_tag.is_empty());
        Some(match refer_to {
            b"<sip:call@203.0.113.1?Replaces=abroad>" => b"<sip:bob@trunk.example>".to_vec(),
            refer_to => refer_to.to_vec(),
        })
    }
}

#[test]
fn a_trunk_is_referred_to_users_groups_services_and_numbers_of_them() {
    let names = vec![("70".to_owned(), MediaService::Park)];
    let group = Group {
        name: "600@example.com".to_owned(),
        members: vec!["bob@example.com".to_owned()],
        strategy: Strategy::Together,
        timeout: Duration::from_secs(20),
        fallback: None,
        forwards: false,
    };
    let config = Config {
        media_services: MediaServices { names, ..MediaServices::default() },
        groups: vec![group],
        ..closed_config()
    };
    let mut rig = with_trunks(config);
    rig.add_user("555");
    rig.join(Arc::new(AllOnTrunks));
    let sent = rig.send_as("alice", &udp(ALICE), &call("sip:bob@example.com")).forwarded().clone();
    let answered = describe(&mut rig, &sent, 200, "bob", &format!("sip:bob@{BOB}"));
    let answered = answered.response().clone();
    let mut cseq = 10;
    let mut refer = |target: &str| -> Reaction {
        cseq += 1;
        let refer = within(&answered, "REFER", &format!("sip:bob@{BOB}")).with_cseq(cseq);
        rig.send(&udp(ALICE), &refer.and("Refer-To", target))
    };
    for (target, passed) in [
        ("<sip:bob@example.com>", None),
        ("sip:carol@EXAMPLE.com;x=y", None),
        ("<sip:call@203.0.113.1?Replaces=a%3Bto-tag%3Db%3Bfrom-tag%3Dc>", None),
        ("<sip:701@example.com>", Some("<sip:701@example.com;parked-by=alice>")),
        ("<sip:20@example.com>", None),
        ("<sip:555@example.com>", None),
        ("<sip:600@example.com>", None),
    ] {
        let sent = refer(target).forwarded().clone();
        assert_eq!(sent.values(HeaderName::ReferTo), [passed.unwrap_or(target)]);
    }
    for target in [
        "<sip:+49900@trunk.example>",
        "<sip:bob@trunk.example>",
        "<sip:bob@192.0.2.7>",
        "<tel:+49900>",
        "<tel:20>",
        "<sip:call@203.0.113.1?Replaces=abroad>",
        // Providers tend to read the user part only.
        "<sip:0456@example.com>",
        "<sip:0900@example.com>",
        "<sip:+49900@example.com>",
        "<sip:+49-(900)@example.com>",
        "<sip:%2b49900@example.com>",
        "<sip:+49900;a=b@example.com>",
        "<sip:+49900@example.com;user=phone>",
        "<sip:556@example.com>",
        "<sip:example.com>",
        "<sip:bob@example.com>, <sip:+49900@trunk.example>",
        "x",
    ] {
        let refused = refer(target);
        assert_eq!((refused.status(), refused.requests().count()), (403, 0), "{target}");
        let is_notice = |event: &Event| matches!(event, Event::Notice(notice) if notice.to_string().contains("Is Referred"));
        assert!(refused.events.iter().any(is_notice), "{target}: {:?}", refused.events);
    }
}

/// Sends a request within a call to bob's phone, from its caller: alice, or a stranger. Returns the
/// status of the response, or zero if the request passes.
fn in_dialog(method: &str, fields: &[(&str, &str)], is_user: bool) -> u16 {
    let mut rig = with_trunks(closed_config());
    let (sent, from) = match is_user {
        true => (rig.send_as("alice", &udp(ALICE), &call("sip:bob@example.com")), udp(ALICE)),
        false => {
            let invite =
                call("sip:bob@example.com").with("From", "<sip:eve@foreign.example>;tag=e");
            (rig.send(&udp(STRANGER), &invite), udp(STRANGER))
        }
    };
    let sent = sent.forwarded().clone();
    let answered = describe(&mut rig, &sent, 200, "bob", &format!("sip:bob@{BOB}"));
    let answered = answered.response().clone();
    let request = within(&answered, method, &format!("sip:bob@{BOB}"));
    let request = fields.iter().fold(request, |draft, (name, value)| draft.and(name, value));
    let reaction = rig.send(&from, &request);
    if reaction.requests().count() == 1 { 0 } else { reaction.status() }
}

#[test]
fn a_phone_is_referred_to_numbers_that_its_party_may_call() {
    for (target, of_user, of_stranger) in [
        ("<sip:0456@example.com>", 0, 403),
        ("<sip:0900@example.com>", 403, 403),
        ("<sip:09-00@example.com;user=phone>", 403, 403),
        ("<tel:09-00;phone-context=example.com>", 403, 403),
        ("<sip:carol@example.com>", 0, 0),
        ("<sip:20@example.com>", 0, 0),
        ("<sip:0900@foreign.example>", 0, 0),
    ] {
        let refer = [("Refer-To", target)];
        let statuses = [true, false].map(|is_user| in_dialog("REFER", &refer, is_user));
        assert_eq!(statuses, [of_user, of_stranger], "{target}");
    }
}

#[test]
fn a_party_outside_does_not_control_a_phone_by_notify() {
    for (event, status) in [
        ("talk", 489),
        ("HOLD", 489),
        ("check-sync;reboot=true", 489),
        ("refer", 0),
        ("dialog;id=talk", 0),
    ] {
        let fields = [("Event", event), ("Subscription-State", "active")];
        assert_eq!(in_dialog("NOTIFY", &fields, false), status, "{event}");
    }
}
