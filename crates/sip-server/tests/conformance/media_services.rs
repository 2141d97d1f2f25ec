//! Calls to the services of the owner's media server: their callers, the line that names the
//! service, and their media. The test acts as the media server.

use crate::joining::{describe, within};
use crate::media::{NAT, body, offer, sdp, server};
use crate::rig::{ALICE, BOB, Draft, Reaction, Rig, STRANGER, Sent, closed_config, udp};
use barebell_sip_server::config::{Joining, Relaying};
use barebell_sip_server::{CallServices, Config, Flow, MediaService, MediaServices};
use sip::{Endpoint, HeaderName};

fn config() -> Config {
    let names = [
        ("echo", MediaService::Echo),
        ("voicemail", MediaService::Retrieval),
        ("voicemail-", MediaService::Deposit),
        ("conference-", MediaService::Conference),
        ("announcement-", MediaService::Announcement),
        ("70", MediaService::Park),
    ];
    let names = names.map(|(name, service)| (name.to_owned(), service)).to_vec();
    let mailboxes = vec!["alice".to_owned(), "carol".to_owned()];
    let media_services = MediaServices { names, mailboxes, open_conferences: false };
    Config { media_services, ..closed_config() }
}

fn rig(config: Config) -> Rig {
    let (rig, _) = server(config, &format!("<sip:bob@{BOB}>"));
    rig.add_user("carol");
    rig
}

fn invite(name: &str) -> Draft {
    offer("198.51.100.10").with_uri(&format!("sip:{name}@example.com"))
}

/// The flow between the media server and the party at `place`.
fn internal(place: &str) -> Flow {
    udp(place).internal_to(Endpoint::MediaServer)
}

/// The Route lines of `forwarded`, which goes to the media server.
fn routes(forwarded: &Sent) -> Vec<String> {
    assert_eq!(forwarded.flow.endpoint(), Some(Endpoint::MediaServer));
    forwarded.values(HeaderName::Route)
}

#[test]
fn a_user_reaches_the_services_in_the_proved_name() {
    let mut rig = rig(config());
    for (name, route) in [
        ("echo", "<sip:echo@media-server.invalid;lr;caller=alice%40example.com>"),
        (
            "voicemail",
            "<sip:retrieval@media-server.invalid;lr;name=alice%40example.com;\
             caller=alice%40example.com>",
        ),
        (
            "conference-sales",
            "<sip:conference@media-server.invalid;lr;name=sales%40example.com;\
             caller=alice%40example.com>",
        ),
        (
            "voicemail-carol",
            "<sip:deposit@media-server.invalid;lr;name=carol%40example.com;\
             caller=alice%40example.com>",
        ),
    ] {
        let forwarded = rig.send_as("alice", &udp(ALICE), &invite(name)).forwarded().clone();
        assert_eq!(forwarded.flow, internal(ALICE), "{name}");
        assert_eq!(routes(&forwarded), [route]);
        assert_eq!(forwarded.value(HeaderName::ProxyAuthorization), "");
    }
    // Bob has no mailbox.
    let reaction = rig.send_as(
        "bob",
        &udp(BOB),
        &invite("voicemail").with("From", "<sip:bob@example.com>;tag=b"),
    );
    assert_eq!(reaction.status(), 404);
}

#[test]
fn a_stranger_may_leave_a_message_and_hear_an_announcement_only() {
    let mut rig = rig(config());
    let draft = |name| invite(name).with("From", "<sip:mallory@foreign.example>;tag=m");
    for name in ["echo", "voicemail", "conference-sales"] {
        let reaction = rig.send(&udp(STRANGER), &draft(name));
        assert_eq!(reaction.response().reason(), "Only for Users", "{name}");
        assert_eq!(reaction.status(), 403, "{name}");
    }
    for (name, route) in [
        ("voicemail-carol", "<sip:deposit@media-server.invalid;lr;name=carol%40example.com>"),
        ("announcement-a;b", "<sip:announcement@media-server.invalid;lr;name=a%3Bb>"),
    ] {
        let forwarded = rig.send(&udp(STRANGER), &draft(name)).forwarded().clone();
        assert_eq!(routes(&forwarded), [route]);
    }
    for name in ["voicemail-bob", "voicemail-nobody", "conference-", "echoes"] {
        assert_eq!(rig.send(&udp(STRANGER), &draft(name)).status(), 404, "{name}");
    }
    let mut open = config();
    open.media_services.open_conferences = true;
    let mut rig = self::rig(open);
    let forwarded = rig.send(&udp(STRANGER), &draft("conference-sales")).forwarded().clone();
    let route = "<sip:conference@media-server.invalid;lr;name=sales%40example.com>";
    assert_eq!(routes(&forwarded), [route]);
}

#[test]
fn the_line_of_the_proxy_is_the_first_whatever_the_sender_writes() {
    let mut rig = rig(config());
    let forged = "<sip:retrieval@media-server.invalid;lr;name=carol%40example.com>";
    let draft = invite("carol").and("Route", "<sip:example.com;lr>").and("Route", forged);
    // A Route beyond this server is followed, whatever the request URI is.
    let reaction = rig.send_as("alice", &udp(ALICE), &draft);
    let is_internal = |sent: &Sent| sent.flow.endpoint().is_some();
    assert!(!reaction.requests().any(is_internal), "{reaction:?}");
    let stranger = draft.with("From", "<sip:mallory@foreign.example>;tag=m");
    let reaction = rig.send(&udp(STRANGER), &stranger);
    assert!(!reaction.requests().any(is_internal), "{reaction:?}");
}

#[test]
fn a_user_with_a_mailbox_and_without_a_phone_gets_a_message() {
    let mut rig = rig(config());
    let deposit = "<sip:deposit@media-server.invalid;lr;name=carol%40example.com;\
                   caller=alice%40example.com>";
    let call = rig.send_as("alice", &udp(ALICE), &invite("carol")).forwarded().clone();
    assert_eq!(routes(&call), [deposit]);
    assert_eq!(call.request_uri(), "sip:carol@example.com");
    let message = Draft::new("MESSAGE", "sip:carol@example.com");
    assert_eq!(rig.send_as("alice", &udp(ALICE), &message).status(), 480);
    rig.register("carol", &udp(STRANGER), &format!("<sip:carol@{STRANGER}>"));
    let call = rig.send_as("alice", &udp(ALICE), &invite("carol")).forwarded().clone();
    assert_eq!(call.flow, udp(STRANGER));
    // Bob has a phone and no mailbox; without the phone the call fails.
    rig.remove_user("bob@example.com");
    rig.add_user("bob");
    assert_eq!(rig.send_as("alice", &udp(ALICE), &invite("bob")).status(), 480);
}

#[test]
fn a_server_without_names_of_services_has_no_mailboxes() {
    let mut without = config();
    without.media_services.names.clear();
    let mut rig = rig(without);
    assert_eq!(rig.send_as("alice", &udp(ALICE), &invite("carol")).status(), 480);
    assert_eq!(rig.send_as("alice", &udp(ALICE), &invite("echo")).status(), 404);
}

#[test]
fn calls_to_services_do_not_go_through_the_b2bua_and_their_dialogs_stand() {
    let mut rig = rig(Config { joining: Joining::All, ..config() });
    let draft = invite("echo").and("Contact", &format!("<sip:alice@{ALICE}>"));
    let first = rig.send_as("alice", &udp(ALICE), &draft).forwarded().clone();
    assert_eq!(first.flow, internal(ALICE));
    let contact = "sip:media@203.0.113.1:5060;transport=tcp";
    let answered = describe(&mut rig, &first, 200, "echo", contact).response().clone();
    assert_eq!((answered.flow, answered.status()), (udp(ALICE), 200));
    let within = |method: &str, from: HeaderName, to: HeaderName, uri: &str| {
        let draft = Draft::new(method, uri)
            .with("From", &answered.value(from))
            .with("To", &answered.value(to))
            .with("Call-ID", &answered.value(HeaderName::CallId))
            .with_cseq(9);
        let mut routes = answered.values(HeaderName::RecordRoute);
        routes.reverse();
        routes.iter().fold(draft, |draft, route| draft.and("Route", route))
    };
    let ack = within("ACK", HeaderName::From, HeaderName::To, contact);
    assert_eq!(rig.send(&udp(ALICE), &ack).forwarded().flow, internal(ALICE));
    let alice = format!("sip:alice@{ALICE}");
    let back = Draft::new("BYE", &alice)
        .with("From", &answered.value(HeaderName::To))
        .with("To", &answered.value(HeaderName::From))
        .with("Call-ID", &answered.value(HeaderName::CallId))
        .with_cseq(5);
    let routes = first.values(HeaderName::RecordRoute);
    let back = routes.iter().fold(back, |draft, route| draft.and("Route", route));
    assert_eq!(rig.send(&internal(ALICE), &back).forwarded().flow, udp(ALICE));
}

#[test]
fn media_of_callers_on_other_hosts_are_relayed() {
    let (mut rig, relay) = server(config(), &format!("<sip:bob@{BOB}>"));
    let here = "203.0.113.1:7000";
    let own = offer("203.0.113.1").with_uri("sip:echo@example.com");
    let direct = rig.send_as("alice", &udp(here), &own).forwarded().clone();
    assert_eq!((body(&direct), relay.count()), (sdp("203.0.113.1"), 0));
    let hidden = offer("192.168.1.5").with_uri("sip:echo@example.com");
    let relayed = rig.send_as("alice", &udp(NAT), &hidden).forwarded().clone();
    assert_eq!(relayed.flow, internal(NAT));
    assert!(body(&relayed).contains("c=IN IP4 203.0.113.1\r\n"), "{}", body(&relayed));
    assert_eq!(relay.count(), 1);
    let answered = describe(&mut rig, &relayed, 200, "echo", "sip:media@203.0.113.1:5060");
    assert!(body(answered.response()).contains("c=IN IP4 203.0.113.1\r\n"));
    let off = Config { relaying: Relaying::Off, ..config() };
    let (mut rig, relay) = server(off, &format!("<sip:bob@{BOB}>"));
    let forwarded = rig.send_as("alice", &udp(NAT), &hidden).forwarded().clone();
    assert_eq!((body(&forwarded), relay.count()), (sdp("192.168.1.5"), 0));
}

/// Forwards the calls to `user` to `target` at once, if they find the user busy, or by a 302 of its
/// phone.
fn forward(rig: &Rig, user: &str, always: Option<&str>, busy: Option<&str>) {
    let to = |target: Option<&str>| target.map(|name| format!("{name}@example.com"));
    let services = CallServices { always: to(always), busy: to(busy), ..CallServices::default() };
    rig.server.set_call_services(format!("{user}@example.com").as_bytes(), services);
}

#[test]
fn a_forwarded_message_names_its_caller_if_the_caller_has_proved_the_name() {
    let deposit = |caller: &str| {
        format!("<sip:deposit@media-server.invalid;lr;name=carol%40example.com{caller}>")
    };
    let proved = deposit(";caller=alice%40example.com");
    let foreign = |draft: Draft| draft.with("From", "<sip:mallory@foreign.example>;tag=m");
    let mut rig = rig(config());
    forward(&rig, "bob", Some("voicemail-carol"), None);
    let call = rig.send_as("alice", &udp(ALICE), &invite("bob"));
    assert_eq!(routes(&to_media_server(&call)), [&*proved]);
    let call = rig.send(&udp(STRANGER), &foreign(invite("bob")));
    assert_eq!(routes(&to_media_server(&call)), [deposit("")]);
    // The caller is known after the first stage, too.
    forward(&rig, "bob", None, Some("voicemail-carol"));
    let call = rig.send_as("alice", &udp(ALICE), &invite("bob")).forwarded().clone();
    let left = rig.receive(&call.flow, &call.answer(486, "b", ""));
    assert_eq!(routes(&to_media_server(&left)), [&*proved]);
    let call = rig.send(&udp(STRANGER), &foreign(invite("bob"))).forwarded().clone();
    let left = rig.receive(&call.flow, &call.answer(486, "b", ""));
    assert_eq!(routes(&to_media_server(&left)), [deposit("")]);
    // And after a redirection by a phone of a user without forwards.
    forward(&rig, "bob", None, None);
    let call = rig.send_as("alice", &udp(ALICE), &invite("bob")).forwarded().clone();
    let redirection = "Contact: <sip:voicemail-carol@example.com>\r\n";
    let left = rig.receive(&call.flow, &call.answer(302, "b", redirection));
    assert_eq!(routes(&to_media_server(&left)), [&*proved]);
}

/// The INVITE to the media server among the messages of `reaction`.
fn to_media_server(reaction: &Reaction) -> Sent {
    let found = reaction.requests().find(|sent| sent.flow.endpoint().is_some());
    found.unwrap_or_else(|| panic!("{reaction:?}")).clone()
}

#[test]
fn a_call_that_a_transfer_parks_names_the_user_that_has_transferred_it() {
    let mut rig = rig(config());
    let sent = rig.send_as("alice", &udp(ALICE), &invite("bob")).forwarded().clone();
    let answered = describe(&mut rig, &sent, 200, "bob", &format!("sip:bob@{BOB}"));
    let answered = answered.response().clone();
    let mut cseq = 10;
    let mut refer = |rig: &mut Rig, target: &str| {
        cseq += 1;
        let refer = within(&answered, "REFER", &format!("sip:bob@{BOB}")).with_cseq(cseq);
        let sent = rig.send(&udp(ALICE), &refer.and("Refer-To", target)).forwarded().clone();
        sent.values(HeaderName::ReferTo)
    };
    let parked = "<sip:701@example.com;parked-by=alice>";
    assert_eq!(refer(&mut rig, "sip:701@example.com"), [parked]);
    assert_eq!(refer(&mut rig, "\"P, 1\" <sip:701@example.com>;x=y"), [parked]);
    // Another target, one that replaces a call, and one that names a user already.
    for target in [
        "<sip:carol@example.com>",
        "<sip:701@elsewhere.example>",
        "<sip:701@example.com?Replaces=a%3Bto-tag%3Db%3Bfrom-tag%3Dc>",
        "<sip:701@example.com;parked-by=carol>",
    ] {
        assert_eq!(refer(&mut rig, target), [target]);
    }
    let from = "<sip:bob@example.com>;tag=b";
    let park = |uri: &str| invite("701").with_uri(uri).with("From", from);
    let route = "<sip:park@media-server.invalid;lr;name=701%40example.com;caller=bob%40example.com";
    for (uri, referrer) in [
        (parked.trim_matches(['<', '>']), ";referrer=sip:alice%40example.com"),
        ("sip:701@example.com;parked-by=nobody", ""),
        ("sip:701@example.com", ""),
    ] {
        let forwarded = rig.send_as("bob", &udp(BOB), &park(uri)).forwarded().clone();
        assert_eq!(routes(&forwarded), [format!("{route}{referrer}>")], "{uri}");
    }
}
