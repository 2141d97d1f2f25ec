//! Telephone numbers (RFC 3966).

use crate::rig::{ALICE, BOB, Draft, Rig, STRANGER, closed_config, udp};

fn with_number(number: &str) -> Rig {
    let mut rig = Rig::open();
    rig.register(number, &udp(BOB), &format!("<sip:bob@{BOB}>"));
    rig
}

#[test]
fn a_number_is_a_user_of_the_default_domain() {
    for (number, uri) in [
        ("+12015550123", "tel:+12015550123"),
        ("+12015550123", "TEL:+1-201-555-0123"),
        ("+12015550123", "tel:+1.(201).555.0123;isub=1;ext=5"),
        ("7042", "tel:7042;phone-context=example.com"),
        ("*21#", "tel:*21#;phone-context=example.com"),
    ] {
        for method in ["INVITE", "MESSAGE", "OPTIONS"] {
            let reaction = with_number(number).send(&udp(ALICE), &Draft::new(method, uri));
            let forwarded = reaction.forwarded();
            assert_eq!(forwarded.request_uri(), format!("sip:bob@{BOB}"), "{method} {uri}");
        }
    }
}

#[test]
fn a_local_number_is_of_the_place_that_it_is_local_to() {
    let mut rig = with_number("7042");
    let there = Draft::new("REGISTER", "sip:example.org")
        .with("To", "<sip:7042@example.org>")
        .and("Contact", "<sip:other@198.51.100.30>");
    assert_eq!(rig.send(&udp("198.51.100.30:5060"), &there).status(), 200);
    let ours = format!("sip:bob@{BOB}");
    for (uri, expected) in [
        ("tel:7042;phone-context=example.com", Some(&ours[..])),
        ("tel:7042;phone-context=EXAMPLE.org", Some("sip:other@198.51.100.30")),
        // The context is required, but many phones omit it.
        ("tel:7042", Some(&ours[..])),
        ("tel:7042;phone-context=foreign.example", None),
        ("tel:7042;phone-context=+49", None),
        ("tel:7042;phone-context=", None),
    ] {
        let reaction = rig.send(&udp(ALICE), &Draft::invite(uri));
        match expected {
            Some(expected) => assert_eq!(reaction.forwarded().request_uri(), expected, "{uri}"),
            None => assert_eq!(reaction.status(), 404, "{uri}"),
        }
    }
    let mut global = with_number("+12015550123");
    let invite = Draft::invite("tel:+12015550123;phone-context=foreign.example");
    assert_eq!(global.send(&udp(ALICE), &invite).forwarded().request_uri(), ours);
}

#[test]
fn a_number_that_nobody_has_is_not_found() {
    for uri in ["tel:+12015550124", "tel:12015550123"] {
        let reaction = with_number("+12015550123").send(&udp(ALICE), &Draft::invite(uri));
        assert_eq!(reaction.status(), 404, "{uri}");
    }
}

#[test]
fn what_is_no_number_is_refused() {
    for uri in
        ["tel:", "tel:+", "tel:bob@example.com", "tel:+1 201", "tel:;phone-context=x", "tel:xyz"]
    {
        let reaction = with_number("+12015550123").send(&udp(ALICE), &Draft::invite(uri));
        assert_eq!(reaction.status(), 400, "{uri}");
    }
}

#[test]
fn a_caller_with_a_number_is_a_stranger() {
    let mut rig = Rig::closed_with(closed_config());
    rig.add_user("+12015550123");
    rig.register("+12015550123", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    let from_number = |uri: &str| Draft::invite(uri).with("From", "<tel:+15550199>;tag=1");
    rig.send(&udp(STRANGER), &from_number("tel:+1-201-555-0123")).forwarded();
    assert_eq!(rig.send(&udp(STRANGER), &from_number("sip:y@foreign.example")).status(), 403);
}

#[test]
fn a_number_in_a_sip_uri_means_whom_it_means_in_a_tel_uri() {
    let ours = format!("sip:bob@{BOB}");
    for (number, uri) in [
        ("+12015550123", "sip:+12015550123@example.com;user=phone"),
        ("+12015550123", "sip:+1-201-555-0123@example.com;user=phone"),
        ("+12015550123", "sip:+1.(201).555.0123;isub=1;ext=5@example.com;transport=udp;USER=Phone"),
        ("+12015550123", "sip:%2b1%2D201-555-0123@203.0.113.1;user=phone"),
        ("7042", "sip:70-42@example.com;user=phone"),
        ("7042", "sip:70-42;phone-context=example.com@example.com;user=phone"),
        ("*21#", "sip:*21%23@example.com;user=phone"),
        // An invalid number is a name, even with `user=phone`.
        ("j.o-smith", "sip:j.o-smith@example.com;user=phone"),
        // Without the parameter every user part is a name.
        ("70-42", "sip:70-42@example.com"),
        ("70-42", "sip:70-42@example.com;user=ip"),
    ] {
        for method in ["INVITE", "MESSAGE", "OPTIONS"] {
            let reaction = with_number(number).send(&udp(ALICE), &Draft::new(method, uri));
            let forwarded = reaction.forwarded();
            assert_eq!(forwarded.request_uri(), ours, "{method} {uri}");
        }
    }
    for (number, uri) in [
        ("7042", "sip:70-42@example.com"),
        ("70-42", "sip:70-42@example.com;user=phone"),
        ("7042", "sip:7042;phone-context=foreign.example@example.com;user=phone"),
        ("7042", "sip:7042;phone-context=+49@example.com;user=phone"),
        ("7042", "sip:7042@example.org;user=phone"),
    ] {
        let reaction = with_number(number).send(&udp(ALICE), &Draft::invite(uri));
        assert_eq!(reaction.status(), 404, "{uri}");
    }
}

#[test]
fn a_phone_registers_and_proves_its_number_however_it_is_written() {
    let mut rig = Rig::closed_with(closed_config());
    rig.add_user("+12015550123");
    let address = "<sip:+1-201-555-0123@example.com;user=phone>";
    let register = Draft::register("+12015550123")
        .with("To", address)
        .with("From", &format!("{address};tag=1"))
        .and("Contact", &format!("<sip:bob@{BOB}>"));
    let (user, flow) = ("+12015550123", udp(BOB));
    assert_eq!(rig.send_as(user, &flow, &register).status(), 200);
    assert_eq!(rig.send_as("alice", &flow, &register.next()).status(), 403, "another's");
    let call = Draft::invite("sip:y@foreign.example")
        .with("From", &format!("{address};tag=1"))
        .and("P-Preferred-Identity", "<sip:boss@example.com>");
    assert_eq!(rig.send_as("alice", &udp(ALICE), &call).status(), 403);
    let call = Draft::invite("sip:+1(201)5550123@example.com;user=phone")
        .with("From", &format!("{address};tag=1"))
        .and("P-Preferred-Identity", "<sip:boss@example.com>");
    let reaction = rig.send_as(user, &flow, &call);
    let forwarded = reaction.forwarded();
    assert_eq!(forwarded.request_uri(), format!("sip:bob@{BOB}"));
    assert_eq!(forwarded.values(sip::HeaderName::PAssertedIdentity), [address]);
}

#[test]
fn a_contact_that_is_a_number_of_ours_means_its_phones() {
    let mut rig = with_number("+12015550123");
    let contact = "<sip:+1-201-555-0123@example.com;user=phone>";
    rig.register("desk", &udp("198.51.100.30:5060"), contact);
    let reaction = rig.send(&udp(ALICE), &Draft::invite("sip:desk@example.com"));
    assert_eq!(reaction.forwarded().request_uri(), format!("sip:bob@{BOB}"));
}
