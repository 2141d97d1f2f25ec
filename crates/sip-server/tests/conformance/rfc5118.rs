//! The torture messages of RFC 5118: IPv6.

use crate::rig::{Rig, open_config, text, udp};
use crate::torture::Framed::{Two, Waits, Whole};
use crate::torture::Outcome::{Answered, Forwarded, Located, PassedOn, Refused, Registered};
use crate::torture::Parsed::{Faulty, Sound};
use crate::torture::{Case, Ends, Framed, assert_carried_over, case};
use barebell_sip_server::config::Listener;
use sip::message::{FramingFault, RequestFault};
use sip::stream::{Frame, Framer};
use sip::uri::UriError;
use sip::{HeaderName, Host, Location, Message, Transport};

const ENDS: Ends = Ends { sender: "[2001:db8::9:1]:5060", contact: "[2001:db8::20]:5060" };

pub(crate) const CASES: &[Case] = &[
    case("ipv6-good", "4.1", "REGISTER to an IPv6 address", Sound, Registered(1), Whole, ""),
    case(
        "ipv6-bad",
        "4.2",
        "IPv6 address without brackets",
        Faulty(RequestFault::RequestUri(UriError::Host)),
        Refused(400),
        Whole,
        "",
    ),
    case(
        "port-ambiguous",
        "4.3",
        "a port inside the brackets",
        Sound,
        PassedOn,
        Whole,
        "the whole text in brackets is the address, 2001:db8::10:5070, which is not ours",
    ),
    case(
        "port-unambiguous",
        "4.4",
        "a port after the brackets",
        Sound,
        Registered(1),
        Whole,
        "the server listens on that port",
    ),
    case(
        "via-received-param-with-delim",
        "4.5",
        "received in brackets",
        Sound,
        Refused(405),
        Whole,
        "it is for the server itself, which has no dialogs; received is replaced, without brackets",
    ),
    case(
        "via-received-param-no-delim",
        "4.5",
        "received without brackets",
        Sound,
        Answered,
        Whole,
        "received is replaced",
    ),
    case(
        "ipv6-in-sdp",
        "4.6",
        "IPv6 in a session description",
        Sound,
        Forwarded,
        Whole,
        "bodies are not parsed",
    ),
    case(
        "mult-ip-in-header",
        "4.7",
        "IPv4 and IPv6 in Via",
        Sound,
        Located("host.example.net"),
        Whole,
        "the other Via values are forwarded unchanged",
    ),
    case(
        "mult-ip-in-sdp",
        "4.8",
        "IPv4 and IPv6 in a session description",
        Sound,
        Forwarded,
        Whole,
        "bodies are not parsed",
    ),
    case(
        "ipv4-mapped-ipv6",
        "4.9",
        "IPv4-mapped addresses",
        Sound,
        Forwarded,
        Whole,
        "as a source it is the IPv4 address",
    ),
    case(
        "ipv6-bug-abnf-3-colons",
        "4.10",
        "three colons before an IPv4 part",
        Sound,
        PassedOn,
        Whole,
        "parsed as two; the request URI is forwarded unchanged",
    ),
    case(
        "ipv6-correct-abnf-2-colons",
        "4.10",
        "two colons before an IPv4 part",
        Sound,
        PassedOn,
        Whole,
        "",
    ),
];

fn read(folder: &str, file: &str) -> Option<Vec<u8>> {
    let path = test_support::corpora()?.join("rfc5118").join(folder).join(file);
    Some(std::fs::read(&path).unwrap_or_else(|error| panic!("{path:?}: {error}")))
}

fn rig() -> Rig {
    let mut config = open_config();
    let address = "[2001:db8::10]:5070".parse().unwrap();
    config.listeners.push(Listener { transport: Transport::Udp, address });
    Rig::new(config)
}

fn rig_with_user() -> Rig {
    let mut rig = rig();
    rig.register("user", &udp(ENDS.contact), &format!("<sip:user@{}>", ENDS.contact));
    rig
}

#[test]
fn every_message_has_the_outcome_that_the_rfc_asks_for() {
    let mut differences = Vec::new();
    for case in CASES {
        let Some(bytes) = read("wire-crlf-fixed-cl", case.file) else { return };
        // The effect of a REGISTER is tested without other bindings.
        let mut rig = if bytes.starts_with(b"REGISTER") { rig() } else { rig_with_user() };
        differences.extend(case.differences(&bytes, &mut rig, ENDS));
    }
    assert_eq!(differences, [""; 0]);
}

/// Three messages of the RFC have a wrong Content-Length.
#[test]
fn the_printed_content_lengths_are_believed() {
    for (file, body, framed) in [
        ("ipv6-in-sdp", None, Waits),
        ("mult-ip-in-sdp", Some(181), Whole),
        ("ipv4-mapped-ipv6", Some(236), Whole),
    ] {
        let Some(bytes) = read("wire-crlf", file) else { return };
        let message = Message::parse(&bytes).unwrap();
        let reaction = rig_with_user().receive(&udp(ENDS.sender), &bytes);
        match body {
            Some(length) => {
                assert_eq!(message.body().len(), length, "{file}");
                assert_eq!(reaction.forwarded().message().body(), message.body(), "{file}");
            }
            None => {
                assert_eq!(message.framing_fault(), Some(FramingFault::ContentLength), "{file}");
                assert_eq!(reaction.status(), 400, "{file}");
            }
        }
        let frame = match framed {
            Waits => Frame::Incomplete,
            Two | Framed::Lost | Whole => Frame::Message(message.as_bytes().len()),
        };
        assert_eq!(Framer::default().next(&bytes), Ok(frame), "{file}");
    }
}

#[test]
fn the_brackets_tell_address_from_port() {
    for (file, host, port) in [
        ("port-ambiguous", "2001:db8::10:5070", None),
        ("port-unambiguous", "2001:db8::10", Some(5070)),
        ("ipv6-bug-abnf-3-colons", "2001:db8::192.0.2.1", None),
        ("ipv6-correct-abnf-2-colons", "2001:db8::192.0.2.1", None),
    ] {
        let Some(bytes) = read("wire-crlf", file) else { return };
        let message = Message::parse(&bytes).unwrap();
        let uri = *message.validate_request().unwrap().uri.as_sip().unwrap();
        assert_eq!((uri.host, uri.port), (Host::Ip(host.parse().unwrap()), port), "{file}");
    }
}

#[test]
fn received_says_where_the_request_came_from() {
    for file in ["via-received-param-with-delim", "via-received-param-no-delim"] {
        let Some(bytes) = read("wire-crlf", file) else { return };
        let message = Message::parse(&bytes).unwrap();
        let received = message.top_via().unwrap().received();
        assert_eq!(received, Some("2001:db8::9:255".parse().unwrap()), "{file}");
        let reaction = rig().receive(&udp(ENDS.sender), &bytes);
        let via = reaction.response().value(HeaderName::Via);
        assert!(via.contains(";received=2001:db8::9:1"), "{via}");
        assert!(!via.contains("::9:255"), "{via}");
        assert_eq!(reaction.response().flow.remote, ENDS.sender.parse().unwrap());
    }
}

#[test]
fn addresses_of_both_kinds_go_on_unchanged() {
    let Some(bytes) = read("wire-crlf", "mult-ip-in-header") else { return };
    let mut rig = rig();
    let (_, ticket) = rig.receive(&udp(ENDS.sender), &bytes).wants_location();
    let remote = "198.51.100.9:5060".parse().unwrap();
    let location = Location { transport: Transport::Udp, remote, local: None };
    let reaction = rig.located(ticket, &[location]);
    assert_eq!(reaction.forwarded().flow.remote, remote);
    assert_carried_over(&bytes, reaction.forwarded());
    let lowest = reaction.forwarded().values(HeaderName::Via).pop().unwrap();
    assert_eq!(lowest, "SIP/2.0/TCP [2001:db8::9:255];branch=z9hG4bK451jj;received=192.0.2.200");
}

#[test]
fn a_mapped_address_is_the_ipv4_address() {
    let Some(bytes) = read("wire-crlf-fixed-cl", "ipv4-mapped-ipv6") else { return };
    let message = Message::parse(&bytes).unwrap();
    let source = "192.0.2.10:19823".parse().unwrap();
    assert_eq!(message.top_via().unwrap().response_address(source), source);
    let mut rig = rig();
    let reaction = rig.receive(&udp("192.0.2.10:19823"), &bytes);
    assert_eq!(reaction.status(), 404, "nobody is registered");
    assert_eq!(reaction.response().flow.remote, source);
    assert_eq!(
        text(reaction.response().message().value(HeaderName::CallId).unwrap()),
        "SSG9559905523997077@hlau_4100"
    );
}
