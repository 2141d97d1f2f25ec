//! The torture messages of RFC 4475.

mod cases;

use crate::rig::{Draft, Rig, Sent, open_config, tcp, text, udp};
use crate::torture::Ends;
use barebell_sip_server::Config;
use barebell_sip_server::config::{Domain, Network, State};
pub(crate) use cases::CASES;
use sip::header::NameAddr;
use sip::stream::{Frame, FrameError, Framer};
use sip::uri::unescape;
use sip::{HeaderName, Message, StartLine, Transport, Uri};

const ENDS: Ends = Ends { sender: "198.51.100.77:5060", contact: "198.51.100.20:5060" };

/// The users that the messages are for, as in the request URIs.
const USERS: [(&str, &str); 6] = [
    ("user", "example.com"),
    ("vivekg", "example.com"),
    ("1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*", "example.com"),
    ("sips%3Auser%40example.com", "example.net"),
    ("user;par=u%40example.net", "example.com"),
    ("UserB", "example.com"),
];

fn read(file: &str) -> Option<Vec<u8>> {
    let path = test_support::corpora()?.join("rfc4475/dat").join(file);
    Some(std::fs::read(&path).unwrap_or_else(|error| panic!("{path:?}: {error}")))
}

/// The configuration of a server for the domains of the messages.
fn config() -> Config {
    let mut config = open_config();
    let aliases = ["chair-dnrc.example.com", "services.example.com", "registrar.example.com"];
    config.domains[0].aliases.extend(aliases.map(String::from));
    config.domains.push(Domain { name: "example.net".into(), aliases: Vec::new() });
    // One message has a Route to this network.
    let loopback = Network { address: "127.0.0.0".parse().unwrap(), prefix: 8 };
    config.limits.reachable = vec![loopback];
    config
}

/// A server with the users that the messages are for.
fn rig() -> Rig {
    let mut rig = Rig::new(config());
    for (user, domain) in USERS {
        let draft = Draft::new("REGISTER", &format!("sip:{domain}"))
            .with("To", &format!("<sip:{user}@{domain}>"))
            .and("Contact", &format!("<sip:phone@{}>", ENDS.contact));
        assert_eq!(rig.send(&udp(ENDS.contact), &draft).status(), 200, "{user}");
    }
    rig
}

#[test]
fn every_message_has_the_outcome_that_the_rfc_asks_for() {
    let mut differences = Vec::new();
    for case in CASES {
        let Some(bytes) = read(case.file) else { return };
        // The effect of a REGISTER is tested without other bindings.
        let mut rig = if bytes.starts_with(b"REGISTER") { Rig::new(config()) } else { rig() };
        differences.extend(case.differences(&bytes, &mut rig, ENDS));
    }
    assert_eq!(differences, [""; 0]);
}

#[test]
fn escapes_are_undone_once() {
    let Some(bytes) = read("esc01.dat") else { return };
    let message = Message::parse(&bytes).unwrap();
    let contact = NameAddr::parse(HeaderName::Contact, message.value(HeaderName::Contact).unwrap());
    let Ok(Uri::Sip(uri)) = contact.unwrap().uri() else { panic!("a SIP URI") };
    let plain = |bytes| text(&unescape(bytes));
    let params = uri.params.iter().map(|(name, value)| (plain(name), value.map(plain)));
    let expected = [("lr".into(), None), ("name".into(), Some("value%41".into()))];
    assert_eq!(params.collect::<Vec<_>>(), expected);
    assert_eq!(uri.user.map(plain).as_deref(), Some("caller"));
}

#[test]
fn semicolons_belong_to_the_user_part() {
    let Some(bytes) = read("semiuri.dat") else { return };
    let message = Message::parse(&bytes).unwrap();
    let Uri::Sip(uri) = message.validate_request().unwrap().uri else { panic!("a SIP URI") };
    let user = unescape(uri.user.unwrap());
    assert_eq!(text(&user), "user;par=u@example.net");
}

#[test]
fn an_unusual_uri_that_nobody_has_is_not_found() {
    let Some(bytes) = read("intmeth.dat") else { return };
    assert_eq!(Rig::new(config()).receive(&udp(ENDS.sender), &bytes).status(), 404);
}

#[test]
fn nulls_do_not_shorten_names() {
    let Some(bytes) = read("escnull.dat") else { return };
    let mut rig = Rig::new(config());
    rig.receive(&udp(ENDS.sender), &bytes);
    let contacts = rig.contacts("null-\0-null@example.com");
    assert_eq!(contacts, ["sip:%00@host5.example.com", "sip:%00%00@host5.example.com"]);
}

#[test]
fn a_contact_keeps_what_is_its_own() {
    for (file, user, expected) in [
        ("cparam01.dat", "watson", "<sip:+19725552222@gw1.example.net>;"),
        ("cparam02.dat", "watson", "<sip:+19725552222@gw1.example.net;unknownparam>;"),
        ("regescrt.dat", "user", "<sip:user@example.com?Route=%3Csip:sip.example.com%3E>;"),
    ] {
        let Some(bytes) = read(file) else { return };
        let mut rig = Rig::new(config());
        rig.receive(&udp(ENDS.sender), &bytes);
        let fetched = rig.send(&udp(ENDS.sender), &Draft::register(user));
        let contacts = fetched.response().values(HeaderName::Contact);
        assert!(contacts.len() == 1 && contacts[0].starts_with(expected), "{contacts:?}");
        assert!(!contacts[0][expected.len()..].contains("unknownparam"), "{contacts:?}");
    }
}

#[test]
fn the_options_that_a_proxy_does_not_support_are_listed() {
    let Some(bytes) = read("bext01.dat") else { return };
    let reaction = rig().receive(&udp(ENDS.sender), &bytes);
    let unsupported = reaction.response().values(HeaderName::Unsupported);
    assert_eq!(unsupported, ["noProxiesSupportThis", "norDoAnyProxiesSupportThis"]);
}

#[test]
fn methods_that_the_server_has_are_listed() {
    let Some(bytes) = read("esc02.dat") else { return };
    let reaction = rig().receive(&udp(ENDS.sender), &bytes);
    let methods = reaction.response().values(HeaderName::Allow);
    assert!(methods.contains(&"REGISTER".into()) && methods.contains(&"OPTIONS".into()));
}

#[test]
fn an_unknown_authorization_scheme_proves_nothing() {
    let Some(bytes) = read("regaut01.dat") else { return };
    let mut config = config();
    config.authentication.required = true;
    let reaction = Rig::new(config).receive(&udp(ENDS.sender), &bytes);
    assert_eq!(reaction.status(), 401);
    assert!(reaction.response().value(HeaderName::WwwAuthenticate).starts_with("Digest "));
}

#[test]
fn a_long_request_goes_by_tcp_where_the_contact_leaves_the_choice() {
    let Some(bytes) = read("longreq.dat") else { return };
    let mut rig = Rig::new(config());
    rig.register("user", &udp(ENDS.contact), "<sip:user@198.51.100.21>");
    let reaction = rig.receive(&udp(ENDS.sender), &bytes);
    assert_eq!(reaction.forwarded().flow.transport, Transport::Tcp);
    assert_eq!(reaction.forwarded().values(HeaderName::Via).len(), 35);
}

#[test]
fn a_strict_router_in_the_way_gets_its_own_uri() {
    let Some(bytes) = read("mpart01.dat") else { return };
    let reaction = rig().receive(&udp(ENDS.sender), &bytes);
    let forwarded = reaction.forwarded();
    assert_eq!(forwarded.flow.remote, "127.0.0.1:5080".parse().unwrap());
    assert_eq!(forwarded.request_uri(), "sip:127.0.0.1:5080");
    assert_eq!(forwarded.values(HeaderName::Route), ["<sip:kumiko@example.org>"]);
}

#[test]
fn what_is_no_transaction_identifier_does_not_match_by_itself() {
    for file in ["badbranch.dat", "inv2543.dat"] {
        let Some(bytes) = read(file) else { return };
        let mut rig = rig();
        rig.receive(&udp(ENDS.sender), &bytes).forwarded();
        let again = rig.receive(&udp(ENDS.sender), &bytes);
        assert_eq!(again.requests().count(), 0, "{file}: a retransmission");
        let other = text(&bytes).replace("Call-ID: ", "Call-ID: other-");
        rig.receive(&udp(ENDS.sender), other.as_bytes()).forwarded();
    }
}

/// The response in `bytes`, changed into one to `request`.
fn as_response_to(bytes: &[u8], request: &Sent) -> Vec<u8> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n").unwrap();
    let answer = text(&request.answer(200, "phone", ""));
    let (_, fields) = answer.split_once("\r\n").unwrap();
    [&bytes[..end], b"\r\n", fields.as_bytes()].concat()
}

#[test]
fn reason_phrases_go_back_as_they_are() {
    let reason_of = |bytes: &[u8]| match Message::parse(bytes).unwrap().start_line() {
        StartLine::Response { reason, .. } => text(reason),
        StartLine::Request { .. } => panic!("a response"),
    };
    let Some(bytes) = read("unreason.dat") else { return };
    let mut rig = rig();
    let invite = Draft::invite("sip:user@example.com");
    let forwarded = rig.send(&udp(ENDS.sender), &invite).forwarded().clone();
    let back = rig.receive(&udp(ENDS.contact), &as_response_to(&bytes, &forwarded));
    assert_eq!(back.response().reason(), reason_of(&bytes));
    assert!(back.response().reason().starts_with("= 2**3 * 5**2 \u{43d}\u{43e} "));
    let bytes = read("noreason.dat").unwrap();
    assert_eq!(reason_of(&bytes), "");
    assert_eq!(reason_of(&text(&bytes).replacen("100 ", "100", 1).into_bytes()), "");
}

#[test]
fn a_response_with_a_cseq_that_is_no_number_is_dropped_also_in_its_transaction() {
    let Some(bytes) = read("scalarlg.dat") else { return };
    let cseq = text(Message::parse(&bytes).unwrap().value(HeaderName::CSeq).unwrap());
    let mut rig = rig();
    let options = Draft::new("OPTIONS", "sip:user@example.com");
    let forwarded = rig.send(&udp(ENDS.sender), &options).forwarded().clone();
    let answer = text(&forwarded.answer(503, "phone", ""));
    let bad = answer.replace("CSeq: 1 OPTIONS", &format!("CSeq: {cseq}"));
    assert_ne!(bad, answer);
    assert!(rig.receive(&udp(ENDS.contact), bad.as_bytes()).is_silent());
}

#[test]
fn nothing_goes_to_a_broadcast_address() {
    const BROADCAST: &str = "SIP/2.0/UDP 255.255.255.255;branch=z9hG4bK1saber23";
    for state in [State::Stateful, State::Stateless] {
        let mut rig = Rig::new(Config { state, ..config() });
        let contact = format!("<sip:{}>", ENDS.contact);
        rig.register("user", &udp(ENDS.contact), &contact);
        let invite = Draft::invite("sip:user@example.com");
        let forwarded = rig.send(&udp(ENDS.sender), &invite).forwarded().clone();
        let vias = forwarded.values(HeaderName::Via);
        let answer = text(&forwarded.answer(200, "phone", ""));
        let forged = answer.replace(&vias[1], BROADCAST);
        assert_ne!(forged, answer);
        for sent in rig.receive(&udp(ENDS.contact), forged.as_bytes()).sent {
            assert_eq!(sent.flow.remote, ENDS.sender.parse().unwrap(), "{state:?}");
        }
    }
}

#[test]
fn a_stream_that_lost_its_frame_is_answered_before_it_is_closed() {
    for file in ["ncl.dat", "mcl01.dat"] {
        let Some(bytes) = read(file) else { return };
        let Err(FrameError::ContentLength(head)) = Framer::default().next(&bytes) else {
            panic!("{file}: no error")
        };
        let flow = tcp(ENDS.sender, 7);
        let reaction = rig().refuse_unframed(&flow, &bytes[..head]);
        assert_eq!(reaction.status(), 400, "{file}");
        assert_eq!(reaction.response().flow, flow, "{file}");
    }
}

#[test]
fn a_stream_waits_for_the_rest_of_a_message() {
    let Some(mut bytes) = read("clerr.dat") else { return };
    let mut framer = Framer::default();
    let length = bytes.len();
    assert_eq!(framer.next(&bytes), Ok(Frame::Incomplete));
    let head = length - Message::parse(&bytes).unwrap().body().len();
    bytes.resize(head + 9999, b' ');
    assert_eq!(framer.next(&bytes), Ok(Frame::Message(head + 9999)));
}
