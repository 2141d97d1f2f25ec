//! The limits on bindings, the ones that are removed first, and the ones that a new binding
//! replaces (RFC 3261 section 10.3, RFC 5626 section 6).

use super::{contacts, granted, register};
use crate::rig::{ALICE, BOB, Draft, Rig, open_config, udp};
use barebell_sip_server::journal_record as record;
use sip::Duration;

#[test]
fn a_phone_that_names_its_instance_replaces_its_own_binding() {
    let mut rig = Rig::open();
    let contact = |host: &str, reg_id: u32| {
        format!("<sip:alice@{host}>;reg-id={reg_id};+sip.instance=\"<urn:uuid:1>\"")
    };
    register(&mut rig, &contacts(&[&contact("a.example", 1)]));
    let now = register(&mut rig, &contacts(&[&contact("b.example", 1)]));
    let shown = "<sip:alice@b.example>;expires=3600;+sip.instance=\"<urn:uuid:1>\";reg-id=1";
    assert_eq!(now, [shown]);
    assert_eq!(
        register(&mut rig, &contacts(&[&contact("c.example", 2)])).len(),
        2,
        "a second flow"
    );
}

#[test]
fn at_the_limit_the_oldest_contact_makes_room() {
    let mut config = open_config();
    config.registrar.max_contacts = 2;
    let mut rig = Rig::new(config);
    register(&mut rig, &contacts(&["<sip:alice@a.example>"]));
    register(&mut rig, &contacts(&["<sip:alice@b.example>"]));
    // A refresh makes the binding the newer one.
    register(&mut rig, &contacts(&["<sip:alice@a.example>"]));
    let third = register(&mut rig, &contacts(&["<sip:alice@c.example>"]));
    let left = ["<sip:alice@c.example>;expires=3600", "<sip:alice@a.example>;expires=3600"];
    assert_eq!((third, rig.count("contact-limit")), (left.map(String::from).to_vec(), 1));

    let swap = contacts(&["<sip:alice@a.example>;expires=0", "<sip:alice@d.example>"]);
    assert_eq!(register(&mut rig, &swap).len(), 2);
    assert_eq!(rig.count("contact-limit"), 1, "nobody had to make room");
}

#[test]
fn a_register_with_more_contacts_than_may_be_changes_nothing() {
    let mut config = open_config();
    config.registrar.max_contacts = 2;
    let mut rig = Rig::new(config);
    register(&mut rig, &contacts(&["<sip:alice@a.example>", "<sip:alice@b.example>"]));
    let three = ["<sip:alice@a.example>;q=0.5", "<sip:alice@c.example>", "<sip:alice@d.example>"];
    assert_eq!(rig.send(&udp(ALICE), &contacts(&three)).status(), 403);
    assert_eq!(rig.count("contact-limit"), 1);
    let unchanged = ["<sip:alice@b.example>;expires=3600", "<sip:alice@a.example>;expires=3600"];
    assert_eq!(register(&mut rig, &Draft::register("alice")), unchanged);
}

#[test]
fn a_phone_that_comes_back_with_a_new_contact_takes_its_own_place() {
    const PHONE: &str = ";+sip.instance=\"<urn:uuid:1>\"";
    let mut rig = Rig::open();
    let of = |host: &str, expires: &str| format!("<sip:alice@{host}.example>{PHONE}{expires}");
    let uris = |rig: &Rig| {
        let mut uris = rig.contacts("alice@example.com");
        uris.sort();
        uris.iter().map(|uri| uri[10..11].to_owned()).collect::<String>()
    };
    register(&mut rig, &contacts(&["<sip:alice@x.example>;+sip.instance=\"<urn:uuid:2>\""]));
    register(&mut rig, &contacts(&[&of("a", "")]));
    register(&mut rig, &contacts(&[&of("b", "")]));
    assert_eq!(uris(&rig), "bx", "without reg-id, too");
    register(&mut rig, &contacts(&[&of("a", ";expires=0")]));
    assert_eq!(uris(&rig), "bx", "what it had is gone, and what it has stays");
    register(&mut rig, &contacts(&[&of("c", ""), &of("d", "")]));
    assert_eq!(uris(&rig), "cdx", "several contacts of one REGISTER stay beside one another");
    register(&mut rig, &contacts(&[&of("c", "")]));
    assert_eq!(uris(&rig), "cdx", "a refresh of one of them");
    register(&mut rig, &contacts(&[&of("d", ";expires=0"), &of("e", "")]));
    assert_eq!(uris(&rig), "ex");
    register(&mut rig, &contacts(&[&of("f", ";reg-id=1")]));
    register(&mut rig, &contacts(&[&of("g", ";reg-id=2")]));
    register(&mut rig, &contacts(&[&of("h", ";reg-id=1")]));
    assert_eq!(uris(&rig), "eghx", "each flow that has a number by itself");
}

#[test]
fn two_phones_at_one_private_address_are_two() {
    let mut rig = Rig::open();
    let contact = "<sip:alice@192.168.1.10:5060>";
    let phone =
        |number: u32| contacts(&[&format!("{contact};+sip.instance=\"<urn:uuid:{number}>\"")]);
    let (home, office) = (udp("198.51.100.10:40001"), udp("192.0.2.20:40002"));
    for _ in 0..2 {
        for (flow, number) in [(&home, 1), (&office, 2)] {
            let answer = rig.send(flow, &phone(number));
            assert!(granted(answer.response())[0].contains(&format!("urn:uuid:{number}")));
        }
    }
    let ringing = rig.send(&udp(BOB), &Draft::invite("sip:alice@example.com"));
    assert_eq!(ringing.requests().map(|sent| sent.flow).collect::<Vec<_>>(), [office, home]);
    // A phone without an instance is at the address of its contact.
    assert_eq!(rig.send(&home, &contacts(&[&format!("{contact};expires=0")])).status(), 200);
    assert_eq!(rig.contacts("alice@example.com").len(), 1);
}

/// The registered instances, in the order of their numbers.
fn instances(rig: &mut Rig) -> String {
    let shown = register(rig, &Draft::register("alice"));
    let mut numbers: Vec<_> = shown
        .iter()
        .map(|contact| contact.split_once("uuid:").unwrap().1[..1].to_owned())
        .collect();
    numbers.sort();
    numbers.concat()
}

#[test]
fn of_two_phones_at_one_address_that_is_meant_which_it_looks_like() {
    let contact = "<sip:alice@192.168.1.10:5060>";
    let (home, office) = (udp("198.51.100.10:40001"), udp("192.0.2.20:40002"));
    let elsewhere = udp("192.0.2.30:40003");
    for first in [0, 1] {
        // The sending flow, the Call-ID of the phone, and the phone that is meant.
        for (flow, call, meant) in [
            (home, "x", 1),
            (home, "2", 1),
            (office, "1", 2),
            (elsewhere, "1", 1),
            (elsewhere, "2", 2),
        ] {
            for expires in ["0", "3600"] {
                let mut rig = Rig::open();
                for (flow, number) in
                    [(home, 1), (office, 2), (home, 1), (office, 2)].into_iter().skip(first).take(3)
                {
                    let phone = format!("{contact};+sip.instance=\"<urn:uuid:{number}>\"");
                    let draft = contacts(&[&phone]).with("Call-ID", &number.to_string());
                    assert_eq!(rig.send(&flow, &draft).status(), 200);
                }
                let draft = contacts(&[contact]).with("Call-ID", call).and("Expires", expires);
                let answer = rig.send(&flow, &draft.with_cseq(2));
                let shown = granted(answer.response());
                let is_there = |number: u32| {
                    shown.iter().any(|shown| shown.contains(&format!("uuid:{number}")))
                };
                assert_eq!(shown.len(), if expires == "0" { 1 } else { 2 }, "{flow} {call}");
                assert_eq!((is_there(meant), is_there(3 - meant)), (false, true), "{flow} {call}");
            }
        }
    }
}

#[test]
fn a_phone_that_was_set_up_anew_at_its_place_takes_that_place() {
    const PATH: &str = "<sip:192.0.2.5;lr>";
    let place = udp("198.51.100.10:40001");
    let plain = |uri: &str| contacts(&[uri]);
    let phone = |number: u32, contact: &str| {
        plain(&format!("<sip:alice@{contact}>;+sip.instance=\"<urn:uuid:{number}>\""))
    };
    for (contact, flow, path, expected) in [
        // At the same place, behind a NAT and with its external address.
        ("192.168.1.10:5060", place, "", "2"),
        ("198.51.100.10:40001", place, "", "2"),
        // At another place.
        ("192.168.1.10:5060", udp("198.51.100.10:40009"), "", "12"),
        ("192.168.1.10:5060", udp("198.51.100.11:40001"), "", "12"),
        // Requests go to the contact, whatever port the phone sends from.
        ("198.51.100.10:5070", udp("198.51.100.10:40009"), "", "2"),
        // Behind a proxy, which names the place.
        ("192.168.1.10:5060", place, PATH, "12"),
    ] {
        let mut rig = Rig::open();
        assert_eq!(rig.send(&place, &phone(1, contact)).status(), 200);
        let anew = match path {
            "" => phone(2, contact),
            path => phone(2, contact).and("Path", path),
        };
        assert_eq!(rig.send(&flow, &anew).status(), 200);
        assert_eq!(instances(&mut rig), expected, "{contact} {flow} {path}");
    }
    // The phone has moved from its own place to that of another one.
    let mut rig = Rig::open();
    for (flow, draft) in [
        (udp("198.51.100.11:5060"), phone(1, "198.51.100.11")),
        (udp("198.51.100.12:5060"), phone(2, "198.51.100.12")),
        (udp("198.51.100.12:5060"), phone(1, "198.51.100.12")),
    ] {
        assert_eq!(rig.send(&flow, &draft).status(), 200);
    }
    assert_eq!(instances(&mut rig), "1");
}

#[test]
fn a_late_copy_from_before_a_restart_of_the_phone_changes_nothing() {
    const PHONE: &str = ";+sip.instance=\"<urn:uuid:1>\"";
    let (old, new) = (udp("198.51.100.10:40001"), udp("198.51.100.10:40002"));
    let draft =
        |id: &str, cseq: u32, value: &str| contacts(&[value]).with("Call-ID", id).with_cseq(cseq);
    let at =
        |flow: &barebell_sip_server::Flow, more: &str| format!("<sip:alice@{}>{more}", flow.remote);
    let user = || {
        let rig = Rig::open();
        rig.server.add_user(b"alice@example.com", sip::digest::Ha1Set::new(b"alice", b"x", b"y"));
        rig
    };
    for (first, second) in [
        // The phone has a new port.
        (at(&old, PHONE), at(&new, PHONE)),
        // The phone has no instance, and the same port.
        (at(&old, ""), at(&old, "")),
    ] {
        let mut rig = user();
        let before = draft("before", 7, &first);
        assert_eq!(rig.send(&old, &before).status(), 200);
        assert_eq!(rig.send(&new, &draft("after", 1, &second)).status(), 200);
        let shown = rig.contacts("alice@example.com");
        for late in
            [&before, &draft("before", 6, &first), &draft("before", 7, "*").and("Expires", "0")]
        {
            let reaction = rig.send(&old, late);
            assert_eq!((reaction.status(), reaction.journal.len()), (500, 0), "{late:?}");
        }
        assert_eq!(rig.contacts("alice@example.com"), shown);
        assert_eq!(rig.send(&new, &draft("after", 1, &second)).status(), 200, "no late one");
        // A higher CSeq is from another phone, and a much later request is not a copy.
        assert_eq!(rig.send(&old, &draft("before", 8, &first)).status(), 200);
        assert_eq!(rig.send(&new, &draft("after", 2, &second)).status(), 200);
        rig.wait(Duration::from_secs(32));
        assert_eq!(rig.send(&old, &before).status(), 200);
    }
    // Bindings that were removed by another Call-ID, or replaced by newer ones.
    let mut rig = user();
    let before = draft("before", 7, &at(&old, ""));
    assert_eq!(rig.send(&old, &before).status(), 200);
    let removal = draft("after", 1, "*").and("Expires", "0");
    assert_eq!(rig.send(&new, &removal).status(), 200);
    assert_eq!(rig.send(&old, &before).status(), 500);
    assert_eq!(rig.send(&new, &removal).status(), 200, "nothing is there");
    assert_eq!(rig.send(&old, &draft("third", 1, &at(&old, ""))).status(), 200);
    assert_eq!(rig.send(&new, &removal).status(), 500, "what has come since stays");
    for number in 0..11 {
        let other = draft(&format!("n{number}"), 1, &format!("<sip:alice@n{number}.example>"));
        assert_eq!(rig.send(&new, &other).status(), 200);
    }
    assert_eq!(rig.send(&old, &draft("third", 1, &at(&old, ""))).status(), 500);
    assert_eq!(rig.send(&new, &removal).status(), 500);
}

#[test]
fn a_register_has_no_more_contacts_than_make_room_for_as_many_others() {
    let mut config = open_config();
    config.registrar.max_contacts = 2;
    let mut rig = Rig::new(config);
    let present = ["<sip:alice@a.example>;expires=3600", "<sip:alice@b.example>;expires=3600"];
    assert_eq!(register(&mut rig, &contacts(&present)), present);
    // Removing a binding that does not exist changes nothing, and is rejected only for the number
    // of contacts.
    let removal = "<sip:alice@c.example>;expires=0";
    assert_eq!(register(&mut rig, &contacts(&[removal; 4])), [present[1], present[0]]);
    for count in [5, 100] {
        assert_eq!(rig.send(&udp(ALICE), &contacts(&vec![removal; count])).status(), 403);
    }
    assert_eq!(rig.count("contact-limit"), 2);
    let others = contacts(&[
        "<sip:alice@a.example>;expires=0",
        "<sip:alice@b.example>;expires=0",
        "<sip:alice@c.example>",
        "<sip:alice@d.example>",
    ]);
    assert_eq!(register(&mut rig, &others).len(), 2);
}

#[test]
fn who_has_more_contacts_than_may_be_by_now_may_renew_and_remove_them() {
    let mut config = open_config();
    let mut rig = Rig::new(config.clone());
    let three = ["<sip:alice@a.example>", "<sip:alice@b.example>", "<sip:alice@c.example>"];
    register(&mut rig, &contacts(&three));
    config.registrar.max_contacts = 1;
    rig.server.configure(config);
    assert_eq!(register(&mut rig, &contacts(&["<sip:alice@a.example>"])).len(), 3);
    let removal = rig.send(&udp(ALICE), &contacts(&["<sip:alice@b.example>;expires=0"]));
    assert_eq!(removal.status(), 200);
    let stored = record::read(&removal.journal).next().unwrap().unwrap();
    assert!(matches!(stored.entries().next(), Some(Ok(record::Entry::Removed { .. }))));
    assert_eq!((stored.entries().count(), rig.server.bindings()), (1, 2));
    let added = register(&mut rig, &contacts(&["<sip:alice@d.example>"]));
    assert_eq!(added, ["<sip:alice@d.example>;expires=3600"], "what is new is within the limit");
}

#[test]
fn no_more_addresses_of_record_are_registered_than_may_be() {
    let mut config = open_config();
    config.limits.max_registered = 1;
    let mut rig = Rig::new(config);
    register(&mut rig, &contacts(&["<sip:alice@a.example>"]));
    let bob = Draft::register("bob").and("Contact", "<sip:bob@b.example>");
    assert_eq!(rig.send(&udp(BOB), &bob).status(), 503);
    assert_eq!(rig.count("registration-limit"), 1);
    assert_eq!(register(&mut rig, &contacts(&["<sip:alice@b.example>"])).len(), 2);
}
