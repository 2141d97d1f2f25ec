//! The edge of another registrar's domain: a Path with a flow token, and requests that return by it
//! (RFC 5626 section 5, RFC 3327).

use crate::dialog::answer;
use crate::rig::{Draft, Rig, STRANGER, Sent, closed_config, tcp, udp};
use barebell_sip_server::config::{Network, State};
use barebell_sip_server::{Config, Flow};
use sip::{Duration, HeaderName, Location, Transport};

const PHONE: &str = "198.51.100.77:4000";
/// The registrar of the other domain.
const HOME: &str = "192.0.2.50:5060";

fn config() -> Config {
    Config { edge_domains: vec!["corp.example".into()], ..closed_config() }
}

fn register(contact: &str) -> Draft {
    Draft::new("REGISTER", "sip:corp.example")
        .with("From", "<sip:pat@corp.example>;tag=r")
        .with("To", "<sip:pat@corp.example>")
        .and("Contact", contact)
        .and("Supported", "path, outbound")
}

/// Sends `draft`. Its next hop is located at [`HOME`].
fn send(rig: &mut Rig, flow: &Flow, draft: &Draft) -> Sent {
    let (_, ticket) = rig.send(flow, draft).wants_location();
    let remote = HOME.parse().unwrap();
    let place = Location { transport: Transport::Udp, remote, local: None };
    rig.located(ticket, &[place]).forwarded().clone()
}

/// The Path in the REGISTER of a phone on `flow`.
fn path(rig: &mut Rig, flow: &Flow) -> String {
    send(rig, flow, &register("<sip:pat@192.168.1.9;ob>")).value(HeaderName::Path)
}

/// An INVITE from the registrar for the phone, with `route`.
fn call(route: &str) -> Draft {
    Draft::new("INVITE", "sip:pat@192.168.1.9;ob")
        .with("From", "<sip:sam@corp.example>;tag=s")
        .with("To", "<sip:pat@corp.example>")
        .and("Contact", "<sip:sam@192.0.2.60>")
        .and("Route", route)
        .and("Via", "SIP/2.0/UDP 192.0.2.50;branch=z9hG4bK-h1, SIP/2.0/UDP c;branch=z9hG4bK-c")
}

#[test]
fn a_register_gets_a_path_and_what_comes_by_it_follows_the_flow() {
    for state in [State::Stateful, State::Stateless] {
        for flow in [tcp(PHONE, 5), udp(PHONE)] {
            let mut rig = Rig::new(Config { state, ..config() });
            let path = path(&mut rig, &flow);
            assert!(path.contains("@203.0.113.1:5060") && path.ends_with(";lr;ob>"), "{path}");
            let forwarded = rig.send(&udp(HOME), &call(&path)).forwarded().clone();
            assert_eq!((forwarded.flow, forwarded.values(HeaderName::Route).len()), (flow, 0));
            assert_eq!(forwarded.request_uri(), "sip:pat@192.168.1.9;ob");
            // The dialog uses the same flow.
            let answered = answer(&mut rig, &forwarded, 200, "sip:pat@192.168.1.9;ob");
            let bye = Draft::new("BYE", "sip:pat@192.168.1.9;ob")
                .with("Route", answered.values(HeaderName::RecordRoute).last().unwrap())
                .with("Call-ID", &forwarded.value(HeaderName::CallId))
                .with("From", &forwarded.value(HeaderName::From))
                .with("To", &answered.value(HeaderName::To))
                .with_cseq(2);
            assert_eq!(rig.send(&udp(HOME), &bye).forwarded().flow, flow);
        }
    }
}

#[test]
fn phones_call_their_own_domain_through_it_and_no_other() {
    let mut rig = Rig::new(config());
    let phone = udp(PHONE);
    let invite = |uri: &str| {
        Draft::new("INVITE", uri)
            .with("From", "<sip:pat@corp.example>;tag=p")
            .and("Contact", &format!("<sip:pat@{PHONE}>"))
    };
    let forwarded = send(&mut rig, &phone, &invite("sip:sam@corp.example"));
    assert!(!forwarded.value(HeaderName::RecordRoute).is_empty());
    assert_eq!(forwarded.value(HeaderName::Path), "");
    let by_route = invite("sip:5@pstn.example").and("Route", "<sip:orig@corp.example;lr>");
    assert_eq!(send(&mut rig, &phone, &by_route).request_uri(), "sip:5@pstn.example");
    for refused in [
        invite("sip:5@pstn.example"),
        invite("sip:sam@corp.example").and("Route", "<sip:pstn.example;lr>"),
        invite("sip:sam@other.corp.example"),
        // Another service may use the port.
        invite("sip:sam@corp.example:6379;transport=tcp"),
        invite("sip:sam@corp.example").and("Route", "<sip:corp.example:22;lr>"),
    ] {
        assert_eq!(rig.send(&phone, &refused).status(), 403, "{refused:?}");
    }
    let as_ours = invite("sip:sam@corp.example").with("From", "<sip:bob@example.com>;tag=x");
    assert_eq!(rig.send(&phone, &as_ours).status(), 407, "our users prove who they are");
}

#[test]
fn only_a_phone_s_own_proxy_is_in_its_path_and_only_where_it_asks() {
    let second = "SIP/2.0/UDP edge.example;branch=z9hG4bKe, SIP/2.0/UDP h;branch=z9hG4bKf";
    let contact = "<sip:pat@192.168.1.9>";
    for (draft, expected) in [
        (register(contact), 1),
        (register(contact).with("Supported", "outbound"), 1),
        (register(contact).with("Supported", "timer"), 0),
        (register(contact).and("Via", second), 0),
    ] {
        let mut rig = Rig::new(config());
        let forwarded = send(&mut rig, &udp(PHONE), &draft);
        assert_eq!(forwarded.values(HeaderName::Path).len(), expected, "{draft:?}");
    }
}

#[test]
fn a_flow_that_is_gone_is_reported_to_the_registrar() {
    let mut rig = Rig::new(config());
    let flow = tcp(PHONE, 5);
    let path = path(&mut rig, &flow);
    let forwarded = rig.send(&udp(HOME), &call(&path)).forwarded().clone();
    let refused = rig.undeliverable(&forwarded.flow, &forwarded.bytes);
    assert_eq!(refused.responses().map(Sent::status).collect::<Vec<_>>(), [430]);
}

#[test]
fn what_is_not_our_token_or_too_old_leads_nowhere() {
    let mut rig = Rig::new(config());
    let path = path(&mut rig, &udp(PHONE));
    let (token, rest) = path.split_at(path.find('@').unwrap());
    for at in 5..token.len() {
        let other = if &token[at..=at] == "A" { "B" } else { "A" };
        let forged = [&token[..at], other, &token[at + 1..], rest].concat();
        let reaction = rig.send(&udp(HOME), &call(&forged));
        assert_eq!(reaction.requests().count(), 0, "{at}");
    }
    let bare = path.replace(";ob", "");
    assert_eq!(rig.send(&udp(HOME), &call(&bare)).requests().count(), 0);
    rig.wait(Duration::from_secs(24 * 3600 - 10));
    assert_eq!(rig.send(&udp(HOME), &call(&path)).requests().count(), 1);
    rig.wait(Duration::from_secs(20));
    assert_eq!(rig.send(&udp(HOME), &call(&path)).requests().count(), 0);
}

#[test]
fn strangers_are_carried_to_the_domain_no_more_often_than_to_our_users() {
    let mut config = config();
    config.limits.foreign_rate = 5;
    config.limits.trusted = vec![Network { address: "192.0.2.50".parse().unwrap(), prefix: 32 }];
    let mut rig = Rig::new(config);
    let options =
        || Draft::new("OPTIONS", "sip:sam@corp.example").with("From", "<sip:x@corp.example>;tag=p");
    let carried = (0..200).filter(|_| !rig.send(&udp(STRANGER), &options()).events.is_empty());
    let carried = carried.count();
    assert!((5..=40).contains(&carried), "{carried}");
    assert!(!rig.send(&udp(PHONE), &options()).events.is_empty(), "others are carried");
    let mut other = Rig::new(closed_config());
    assert_eq!(other.send(&udp(PHONE), &options()).status(), 403, "without being its edge");
}

/// Bob is a user of this server and calls a phone of the other domain. The registrar of that domain
/// returns the request.
#[test]
fn our_own_users_call_phones_of_the_domain_by_a_registrar_that_is_trusted() {
    for trusts in [true, false] {
        let mut config = config();
        if trusts {
            config.limits.trusted =
                vec![Network { address: "192.0.2.50".parse().unwrap(), prefix: 32 }];
        }
        let mut rig = Rig::new(config);
        let flow = tcp(PHONE, 5);
        let path = path(&mut rig, &flow);
        let from_bob = call(&path).with("From", "<sip:bob@example.com>;tag=b");
        let reaction = rig.send(&udp(HOME), &from_bob);
        match trusts {
            true => assert_eq!(reaction.forwarded().flow, flow),
            false => assert_eq!(reaction.responses().map(Sent::status).next(), Some(407)),
        }
    }
}
