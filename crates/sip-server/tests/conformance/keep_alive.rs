//! Keep-alives of the server to phones.

use crate::rig::{BOB, Rig, SERVER, closed_config, tcp, udp};
use barebell_sip_server::config::{Advertised, KeepAlive, Listener};
use sip::{HeaderName, Message, Transport};

const CONTACT: &str = "sip:bob@192.168.1.2:5070;ob?X=1";

#[test]
fn an_options_on_the_flow_keeps_it_and_its_response_is_counted() {
    let mut rig = Rig::open();
    for flow in [udp(BOB), tcp(BOB, 1)] {
        let reaction = rig.keep_alive(&flow, CONTACT, KeepAlive::Options);
        let options = reaction.forwarded();
        assert_eq!(options.flow, flow);
        assert_eq!(options.request_uri(), "sip:bob@192.168.1.2:5070;ob");
        let message = Message::parse(&options.bytes).unwrap();
        message.validate_request().expect("a valid request");
        assert_eq!(options.value(HeaderName::CSeq), "1 OPTIONS");
        assert!(options.value(HeaderName::Via).contains(SERVER));
        let dropped = rig.count("dropped");
        assert!(rig.receive(&flow, &options.answer(200, "bob", "")).is_silent());
        assert_eq!(rig.count("dropped"), dropped, "the response is none to an unknown request");
    }
    assert_eq!((rig.count("keep-alives"), rig.count("keep-alive-responses")), (2, 2));
}

#[test]
fn behind_an_address_translation_the_via_has_the_outer_address() {
    let mut config = closed_config();
    let listener = Listener { transport: Transport::Udp, address: SERVER.parse().unwrap() };
    let address = "192.0.2.200:6000".parse().unwrap();
    config.advertised = vec![Advertised { listener, address }];
    config.limits.trusted = crate::rig::open_config().limits.trusted;
    let mut rig = Rig::new(config);
    let reaction = rig.keep_alive(&udp(BOB), CONTACT, KeepAlive::Options);
    assert!(reaction.forwarded().value(HeaderName::Via).contains("192.0.2.200:6000;rport"));
}

#[test]
fn an_empty_line_is_four_bytes() {
    let mut rig = Rig::open();
    let reaction = rig.keep_alive(&udp(BOB), CONTACT, KeepAlive::EmptyLine);
    assert_eq!(reaction.sent.len(), 1);
    assert_eq!(reaction.sent[0].bytes, b"\r\n\r\n");
}

#[test]
fn a_source_that_has_never_answered_gets_none() {
    let mut config = closed_config();
    config.authentication.required = false;
    let mut rig = Rig::new(config);
    for kind in [KeepAlive::EmptyLine, KeepAlive::Options] {
        // The source of the REGISTER may be forged.
        assert!(rig.keep_alive(&udp(BOB), CONTACT, kind).is_silent());
    }
    assert_eq!((rig.count("keep-alives"), rig.count("unasked")), (0, 2));
}
