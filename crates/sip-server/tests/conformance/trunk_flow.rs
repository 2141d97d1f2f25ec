//! The requests of the user agents of trunks: they go to the server that their flow names.

use crate::rig::{Draft, Rig, closed_config, udp};
use barebell_sip_server::{Flow, TrunkId, TrunkTarget, Trunks};
use sip::{Duration, HeaderName, Transport};
use std::sync::Arc;

const PROVIDER: &str = "198.51.100.77:5070";

/// A trunk without a target, with a user agent that registers.
struct Registering;

impl Trunks for Registering {
    fn target(&self, _: TrunkId) -> Option<TrunkTarget> {
        None
    }

    fn of_request(&self, _: &Flow, _: &[u8]) -> Option<TrunkId> {
        None
    }
}

fn rig() -> Rig {
    let mut rig = Rig::closed_with(closed_config());
    rig.set_trunks(Arc::new(Registering));
    rig
}

fn register() -> Draft {
    // The request URI is that of this server. Its users are not touched.
    Draft::new("REGISTER", "sip:example.com")
        .and("Contact", "<sip:0123@203.0.113.1:5060>")
        .and("Authorization", "Digest username=\"a\", realm=\"example.com\", nonce=\"1\"")
}

#[test]
fn a_register_goes_to_the_server_of_its_flow_and_its_response_comes_back() {
    for method in ["REGISTER", "OPTIONS"] {
        let (mut rig, outer) = (rig(), udp(PROVIDER));
        let flow = outer.internal_to(TrunkId(3).endpoint());
        let draft = Draft { method: method.into(), ..register() };
        let sent = rig.send(&flow, &draft).forwarded().clone();
        assert_eq!(sent.flow, outer);
        assert_eq!(sent.request_uri(), "sip:example.com");
        assert_eq!(sent.values(HeaderName::Via).len(), 2);
        assert!(
            sent.value(HeaderName::Authorization).contains("example.com"),
            "the realm of ours, too"
        );
        assert!(!sent.message().has(HeaderName::RecordRoute));
        for (status, expected) in [(401, 401), (403, 403), (503, 503), (200, 200)] {
            let sent = rig.send(&flow, &draft.clone().next()).forwarded().clone();
            let challenge = "WWW-Authenticate: Digest realm=\"example.com\",nonce=\"2\"\r\n";
            let back = rig.receive(&outer, &sent.answer(status, "t", challenge));
            let back = back.response();
            assert_eq!((back.status(), back.flow), (expected, flow));
            assert!(back.value(HeaderName::WwwAuthenticate).contains("example.com"), "{back:?}");
        }
        assert_eq!(rig.server.bindings(), 0);
    }
}

#[test]
fn an_undelivered_request_is_told_apart_from_a_refused_one() {
    let (mut rig, outer) = (rig(), Flow { transport: Transport::Tcp, ..udp(PROVIDER) });
    let flow = outer.internal_to(TrunkId(0).endpoint());
    let sent = rig.send(&flow, &register()).forwarded().clone();
    assert_eq!(sent.flow, outer, "a new connection");
    let back = rig.undeliverable(&sent.flow, &sent.bytes);
    assert_eq!((back.status(), back.response().flow), (430, flow));
    // Silence has no response: the user agent has timed out, too.
    rig.send(&flow, &register().next());
    let mut waited = Duration::from_secs(0);
    while waited < Duration::from_secs(40) {
        assert!(rig.wait(Duration::from_secs(1)).responses().next().is_none());
        waited = waited + Duration::from_secs(1);
    }
}

#[test]
fn nothing_but_register_and_options_is_forwarded_to_a_trunk() {
    let flow = udp(PROVIDER).internal_to(TrunkId(0).endpoint());
    for method in ["INVITE", "MESSAGE", "SUBSCRIBE", "REFER"] {
        let mut rig = rig();
        let reaction = rig.send(&flow, &Draft::new(method, "sip:1@provider.example"));
        assert_eq!(reaction.status(), 403, "{method}");
    }
    let mut rig = Rig::closed();
    assert_eq!(rig.send(&flow, &register()).status(), 403, "a server without trunks");
}
