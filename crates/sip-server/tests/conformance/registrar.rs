//! The registrar (RFC 3261 section 10.3, RFC 3327, RFC 5626).

use crate::rig::{ALICE, BOB, Draft, Rig, Sent, closed_config, open_config, tcp, udp};
use sip::{Duration, HeaderName};
use sip_server::{Config, record};

/// The contacts of a 200, in its order.
fn granted(response: &Sent) -> Vec<String> {
    assert_eq!(response.status(), 200, "{response:#?}");
    response.values(HeaderName::Contact)
}

/// A REGISTER for alice with these Contact values.
fn contacts(values: &[&str]) -> Draft {
    values.iter().fold(Draft::register("alice"), |draft, value| draft.and("Contact", value))
}

/// Sends `draft` and gives back what is there now.
fn register(rig: &mut Rig, draft: &Draft) -> Vec<String> {
    granted(rig.send(&udp(ALICE), draft).response())
}

#[test]
fn contacts_are_added_refreshed_fetched_and_removed() {
    let mut rig = Rig::open();
    let first = contacts(&["<sip:alice@a.example>", "\"Desk\" <sip:alice@b.example>;expires=100"]);
    let both = ["<sip:alice@a.example>;expires=3600", "<sip:alice@b.example>;expires=100"];
    assert_eq!(register(&mut rig, &first), both);
    let fetched = register(&mut rig, &Draft::register("alice"));
    assert_eq!(fetched, [both[1], both[0]], "the newest first");

    rig.wait(Duration::from_secs(40));
    let refresh = contacts(&["<sip:alice@b.example>"]).and("Expires", "200");
    let expected = ["<sip:alice@b.example>;expires=200", "<sip:alice@a.example>;expires=3560"];
    assert_eq!(register(&mut rig, &refresh), expected, "its own first");

    let third = contacts(&["sip:alice@c.example"]);
    assert_eq!(register(&mut rig, &third).len(), 3, "others are added to");

    let remove = contacts(&["<sip:alice@a.example>;expires=0", "<sip:alice@c.example>"]);
    let expected = ["<sip:alice@c.example>;expires=3600", "<sip:alice@b.example>;expires=200"];
    assert_eq!(register(&mut rig, &remove), expected, "removed and refreshed at once");

    let unknown = contacts(&["<sip:alice@z.example>"]).and("Expires", "0");
    assert_eq!(register(&mut rig, &unknown), expected, "what is not there is removed already");

    let all = contacts(&["*"]).and("Expires", "0");
    assert_eq!(register(&mut rig, &all), [""; 0]);
    assert_eq!(rig.server.bindings(), 0);
}

#[test]
fn a_star_stands_alone_with_an_expiry_of_zero() {
    let mut rig = Rig::open();
    register(&mut rig, &contacts(&["<sip:alice@a.example>"]));
    for draft in [
        contacts(&["*"]),
        contacts(&["*"]).and("Expires", "3600"),
        contacts(&["*"]).and("Expires", "soon"),
        contacts(&["*", "<sip:alice@b.example>"]).and("Expires", "0"),
        contacts(&["<sip:alice@b.example>, *"]).and("Expires", "0"),
        contacts(&["*;expires=0"]),
    ] {
        assert_eq!(rig.send(&udp(ALICE), &draft).status(), 400, "{draft:?}");
    }
    assert_eq!(rig.contacts("alice@example.com"), ["sip:alice@a.example"]);
}

#[test]
fn the_expiry_is_granted_within_its_bounds() {
    for (parameter, header, expected) in [
        ("", None, Some("3600")),
        ("", Some("1000"), Some("1000")),
        (";expires=900", Some("1000"), Some("900")),
        (";expires=60", None, Some("60")),
        (";expires=59", None, None),
        (";expires=1", Some("1000"), None),
        ("", Some("59"), None),
        (";expires=7201", None, Some("7200")),
        ("", Some("99999999999999999999"), Some("7200")),
        // What is no number counts as none (RFC 3261 section 10.2.1.1).
        (";expires=soon", Some("1000"), Some("3600")),
        ("", Some("soon"), Some("3600")),
        (";expires=-1", None, Some("3600")),
    ] {
        let mut rig = Rig::open();
        let mut draft = contacts(&[&format!("<sip:alice@a.example>{parameter}")]);
        if let Some(header) = header {
            draft = draft.and("Expires", header);
        }
        let reaction = rig.send(&udp(ALICE), &draft);
        match expected {
            Some(seconds) => assert_eq!(
                granted(reaction.response()),
                [format!("<sip:alice@a.example>;expires={seconds}")],
                "{parameter} {header:?}"
            ),
            None => {
                assert_eq!(reaction.status(), 423, "{parameter} {header:?}");
                assert_eq!(reaction.response().value(HeaderName::MinExpires), "60");
                assert_eq!(rig.server.bindings(), 0);
            }
        }
    }
}

#[test]
fn the_bounds_of_the_expiry_are_settings() {
    let mut config = open_config();
    config.registrar.min_expires = Duration::from_secs(300);
    config.registrar.max_expires = Duration::from_secs(600);
    config.registrar.default_expires = Duration::from_secs(400);
    let mut rig = Rig::new(config);
    let expires = |seconds| contacts(&["<sip:alice@a.example>"]).and("Expires", seconds);
    assert_eq!(
        rig.send(&udp(ALICE), &expires("299")).response().value(HeaderName::MinExpires),
        "300"
    );
    let granted_for = |seconds: &str| vec![format!("<sip:alice@a.example>;expires={seconds}")];
    assert_eq!(register(&mut rig, &expires("300")), granted_for("300"));
    assert_eq!(register(&mut rig, &expires("601")), granted_for("600"));
    assert_eq!(register(&mut rig, &contacts(&["<sip:alice@a.example>"])), granted_for("400"));
}

#[test]
fn bindings_end_when_they_are_not_refreshed() {
    let mut rig = Rig::open();
    let draft = contacts(&["<sip:alice@a.example>;expires=60", "<sip:alice@b.example>;expires=90"]);
    register(&mut rig, &draft);
    rig.wait(Duration::from_secs(60));
    assert_eq!(rig.contacts("alice@example.com"), ["sip:alice@b.example"]);
    let expired = rig.wait(Duration::from_secs(1));
    assert!(!expired.journal.is_empty(), "what ended is no longer kept");
    assert_eq!(rig.server.bindings(), 1);
    rig.wait(Duration::from_secs(60));
    assert_eq!((rig.server.bindings(), rig.server.registered()), (0, 0));
    assert_eq!(rig.count("expired-bindings"), 2);
}

#[test]
fn preferences_are_kept_and_shown() {
    for (q, expected) in [
        ("", Some("")),
        (";q=1", Some("")),
        (";q=1.000", Some("")),
        (";q=0.5", Some(";q=0.5")),
        (";q=0.250", Some(";q=0.25")),
        (";q=0.001", Some(";q=0.001")),
        (";q=0", Some(";q=0.0")),
        (";q=1.1", None),
        (";q=0.1234", None),
        (";q=high", None),
    ] {
        let mut rig = Rig::open();
        let draft = contacts(&[&format!("<sip:alice@a.example>{q}")]);
        let reaction = rig.send(&udp(ALICE), &draft);
        match expected {
            Some(shown) => assert_eq!(
                granted(reaction.response()),
                [format!("<sip:alice@a.example>{shown};expires=3600")],
                "{q}"
            ),
            None => assert_eq!(reaction.status(), 400, "{q}"),
        }
    }
}

#[test]
fn requests_that_come_late_change_nothing() {
    let mut rig = Rig::open();
    let call =
        |id: &str, cseq: u32, values: &[&str]| contacts(values).with("Call-ID", id).with_cseq(cseq);
    let (a, b) = ("<sip:alice@a.example>", "<sip:alice@b.example>");
    register(&mut rig, &call("one", 10, &[a]));
    register(&mut rig, &call("two", 5, &[b]));
    let removes_all = |id, cseq| call(id, cseq, &["*"]).and("Expires", "0");
    for late in [
        call("one", 9, &["<sip:alice@a.example>;expires=0"]),
        call("one", 9, &["<sip:alice@c.example>", a]),
        call("two", 4, &[b]),
        removes_all("one", 9),
        removes_all("two", 4),
    ] {
        let reaction = rig.send(&udp(ALICE), &late);
        assert_eq!(reaction.status(), 500, "{late:?}");
        assert!(reaction.journal.is_empty());
    }
    assert_eq!(rig.contacts("alice@example.com").len(), 2);
    // Another Call-ID has a count of its own: a phone that was started anew.
    assert_eq!(register(&mut rig, &call("three", 1, &[a])).len(), 2);
    assert_eq!(register(&mut rig, &removes_all("three", 2)).len(), 0);
}

#[test]
fn a_late_copy_does_not_bring_back_what_was_removed() {
    let mut rig = Rig::open();
    rig.server.add_user(b"alice@example.com", sip::digest::Ha1Set::new(b"alice", b"x", b"y"));
    let call = |cseq: u32, value: &str| contacts(&[value]).with("Call-ID", "one").with_cseq(cseq);
    let a = "<sip:alice@a.example>";
    for removal in [call(11, "<sip:alice@a.example>;expires=0"), call(11, "*").and("Expires", "0")]
    {
        assert_eq!(register(&mut rig, &call(10, a)).len(), 1);
        assert_eq!(register(&mut rig, &removal).len(), 0);
        assert_eq!(rig.send(&udp(ALICE), &call(10, a)).status(), 500);
        assert_eq!(register(&mut rig, &removal).len(), 0, "a copy of the removal");
        assert_eq!(register(&mut rig, &call(12, a)).len(), 1, "a new registration");
        register(&mut rig, &call(13, "*").and("Expires", "0"));
        // No copy is on its way for so long; it is a phone that was started anew.
        rig.wait(Duration::from_secs(32));
    }
}

#[test]
fn a_repeated_request_has_the_same_answer() {
    let mut rig = Rig::open();
    let draft = contacts(&["<sip:alice@a.example>"]);
    let first = rig.send(&udp(ALICE), &draft);
    let again = rig.send(&udp(ALICE), &draft);
    assert_eq!(first.response().bytes, again.response().bytes);
}

#[test]
fn a_contact_is_known_by_its_meaning() {
    for (one, other, is_same) in [
        ("sip:alice@a.example", "sip:alice@A.EXAMPLE", true),
        ("sip:alice@a.example", "sip:%61lice@a.example", true),
        ("sip:alice@a.example", "sip:Alice@a.example", false),
        ("sip:alice@a.example", "sip:alice@a.example:5060", false),
        ("sip:alice@a.example", "sip:alice@a.example;transport=tcp", false),
        ("sip:alice@a.example;x=1", "sip:alice@a.example", true),
        ("sip:alice@a.example;x=1", "sip:alice@a.example;x=2", false),
    ] {
        let mut rig = Rig::open();
        register(&mut rig, &contacts(&[&format!("<{one}>")]));
        let now = register(&mut rig, &contacts(&[&format!("<{other}>")]));
        assert_eq!(now.len(), if is_same { 1 } else { 2 }, "{one} {other}");
        assert!(now[0].contains(other), "the later form is kept: {now:?}");
    }
}

/// The clock was set back between the two lives of the server.
#[test]
fn what_is_restored_lasts_no_longer_than_a_registration_may() {
    let mut rig = Rig::open();
    let draft =
        Draft::register("alice").and("Contact", "<sip:alice@a.example>").and("Expires", "7200");
    let journal = rig.send(&udp(ALICE), &draft).journal;
    let mut config = open_config();
    config.registrar.max_expires = Duration::from_secs(600);
    let mut earlier = Rig::new(config);
    for record in sip_server::record::read(&journal) {
        earlier.restore(&record.unwrap());
    }
    assert_eq!(earlier.contacts("alice@example.com"), ["sip:alice@a.example"]);
    earlier.wait(Duration::from_secs(601));
    assert_eq!(earlier.contacts("alice@example.com"), [""; 0]);
}

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
fn a_path_is_kept_and_followed() {
    const PATH: &str = "<sip:edge2.example;lr>, <sip:192.0.2.5;lr>";
    for (fields, shown) in [
        (&[("Supported", "path")][..], true),
        (&[("Supported", "gruu, PATH"), ("Require", "path")], true),
        (&[], false),
    ] {
        let mut rig = Rig::open();
        let draft = contacts(&["<sip:alice@a.example>"]).and("Path", PATH);
        let draft = fields.iter().fold(draft, |draft, (name, value)| draft.and(name, value));
        let reaction = rig.send(&udp(ALICE), &draft);
        let paths = reaction.response().values(HeaderName::Path);
        assert_eq!(paths.join(", "), if shown { PATH } else { "" }, "{fields:?}");

        let reaction = rig.send(&udp(BOB), &Draft::invite("sip:alice@example.com"));
        let (destination, _) = reaction.wants_location();
        assert_eq!(destination.host, sip::locate::Host::parse(b"edge2.example").unwrap());
    }
    let mut rig = Rig::open();
    let draft = contacts(&["<sip:alice@a.example>"]).and("Path", "<sip:192.0.2.5;lr>");
    register(&mut rig, &draft);
    let reaction = rig.send(&udp(BOB), &Draft::invite("sip:alice@example.com"));
    let forwarded = reaction.forwarded();
    assert_eq!(forwarded.flow.remote, "192.0.2.5:5060".parse().unwrap());
    assert_eq!(forwarded.request_uri(), "sip:alice@a.example");
    assert_eq!(forwarded.values(HeaderName::Route), ["<sip:192.0.2.5;lr>"]);
}

#[test]
fn at_the_limit_the_oldest_contact_makes_room() {
    let mut config = open_config();
    config.registrar.max_contacts = 2;
    let mut rig = Rig::new(config);
    register(&mut rig, &contacts(&["<sip:alice@a.example>"]));
    register(&mut rig, &contacts(&["<sip:alice@b.example>"]));
    // A refresh makes it the newer one.
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
    // Who does not say who it is, is at the address that it names.
    assert_eq!(rig.send(&home, &contacts(&[&format!("{contact};expires=0")])).status(), 200);
    assert_eq!(rig.contacts("alice@example.com").len(), 1);
}

/// The instances that are registered, in the order of their ports.
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
        // The one that sends, with the Call-ID of a phone; which one is meant.
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
        // At the same place, behind a NAT and where it is seen.
        ("192.168.1.10:5060", place, "", "2"),
        ("198.51.100.10:40001", place, "", "2"),
        // Elsewhere.
        ("192.168.1.10:5060", udp("198.51.100.10:40009"), "", "12"),
        ("192.168.1.10:5060", udp("198.51.100.11:40001"), "", "12"),
        // It is sent to the contact, whatever port it sends from.
        ("198.51.100.10:5070", udp("198.51.100.10:40009"), "", "2"),
        // Behind a proxy, which says where it is.
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
    // It has given up its own place for that of another one.
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
    let at = |flow: &sip_server::Flow, more: &str| format!("<sip:alice@{}>{more}", flow.remote);
    let user = || {
        let rig = Rig::open();
        rig.server.add_user(b"alice@example.com", sip::digest::Ha1Set::new(b"alice", b"x", b"y"));
        rig
    };
    for (first, second) in [
        // It has a new port.
        (at(&old, PHONE), at(&new, PHONE)),
        // It does not say who it is, and has the same one.
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
        // It is another phone that goes on, or is on its way for too long to be a copy.
        assert_eq!(rig.send(&old, &draft("before", 8, &first)).status(), 200);
        assert_eq!(rig.send(&new, &draft("after", 2, &second)).status(), 200);
        rig.wait(Duration::from_secs(32));
        assert_eq!(rig.send(&old, &before).status(), 200);
    }
    // Those that were removed by another Call-ID, or had to make room.
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
fn the_answer_says_what_time_it_is() {
    let mut rig = Rig::open();
    let reaction = rig.send(&udp(ALICE), &contacts(&["<sip:alice@a.example>"]));
    let mut now = Vec::new();
    sip::header::write_date(&mut now, rig.now);
    assert_eq!(reaction.response().value(HeaderName::Date).as_bytes(), now);
}

#[test]
fn a_register_has_no_more_contacts_than_make_room_for_as_many_others() {
    let mut config = open_config();
    config.registrar.max_contacts = 2;
    let mut rig = Rig::new(config);
    let present = ["<sip:alice@a.example>;expires=3600", "<sip:alice@b.example>;expires=3600"];
    assert_eq!(register(&mut rig, &contacts(&present)), present);
    // To remove what is not there changes nothing, and so is refused for the number alone.
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
fn a_contact_with_too_many_parameters_is_refused() {
    let mut rig = Rig::open();
    let contact = |count| format!("<sip:alice@a.example{}>", ";p".repeat(count));
    let most = sip::param::MAX_URI_PARAMS;
    let refused = rig.send(&udp(ALICE), &contacts(&[&contact(most + 1)]));
    assert_eq!(refused.status(), 400);
    assert_eq!(register(&mut rig, &contacts(&[&contact(most)])).len(), 1);
    // Nobody compares the parameters of the header field.
    let many = format!("<sip:alice@b.example>{}", ";p".repeat(500));
    assert_eq!(register(&mut rig, &contacts(&[&many])).len(), 2);
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
    assert_eq!(stored.bindings().count(), 2);
    let added = register(&mut rig, &contacts(&["<sip:alice@d.example>"]));
    assert_eq!(added, ["<sip:alice@d.example>;expires=3600"], "what is new is within the limit");
}

#[test]
fn what_follows_a_connection_ends_with_it() {
    let mut rig = Rig::open();
    let (one, other) = (tcp(ALICE, 1), tcp("198.51.100.10:5061", 2));
    for flow in [&one, &other] {
        let contact = format!("<sip:alice@{};transport=tcp>", flow.remote);
        let draft = Draft::register("alice").and("Contact", &contact);
        assert_eq!(rig.send(flow, &draft).status(), 200);
    }
    let bob = Draft::register("bob").and("Contact", "<sip:bob@198.51.100.10;transport=tcp>");
    assert_eq!(rig.send(&one, &bob).status(), 200);
    let edge = "<sip:carol@198.51.100.30;transport=tcp>";
    let carol = Draft::register("carol").and("Contact", edge).and("Path", "<sip:192.0.2.5;lr>");
    assert_eq!(rig.send(&one, &carol).status(), 200);

    let ended = rig.end(&one);
    let records = record::read(&ended.journal).map(Result::unwrap);
    let left: Vec<_> = records.map(|record| record.bindings().count()).collect();
    assert_eq!(left.iter().sum::<usize>(), 1, "storage is told: {left:?}");
    assert_eq!(rig.count("lost-bindings"), 2);
    let contacts = rig.contacts("alice@example.com");
    assert_eq!(contacts, ["sip:alice@198.51.100.10:5061;transport=tcp"]);
    assert_eq!(rig.contacts("bob@example.com"), [""; 0]);
    assert_eq!(rig.contacts("carol@example.com").len(), 1, "reached through an edge proxy");
    assert_eq!((rig.server.bindings(), rig.server.registered()), (2, 2));
    let ringing = rig.send(&udp(BOB), &Draft::invite("sip:alice@example.com"));
    assert_eq!(ringing.requests().map(|sent| sent.flow).collect::<Vec<_>>(), [other]);
    let gone = rig.send(&udp(BOB), &Draft::invite("sip:bob@example.com"));
    assert_eq!(gone.status(), 404, "without credentials nobody is known who is not registered");
}

#[test]
fn no_connection_outlives_the_server() {
    let mut rig = Rig::open();
    let contact = "<sip:alice@198.51.100.10:5060;transport=tcp>";
    let draft = Draft::register("alice").and("Contact", contact);
    let journal = rig.send(&tcp(ALICE, 1), &draft).journal;
    let later = Rig::open();
    for record in record::read(&journal) {
        later.restore(&record.unwrap());
    }
    assert_eq!((later.server.bindings(), later.server.registered()), (0, 0));
    assert_eq!(later.contacts("alice@example.com"), [""; 0]);
}

#[test]
fn records_are_numbered_from_above_the_highest_that_was_stored() {
    let mut rig = Rig::open();
    rig.server.continue_after(41);
    for (user, number) in [("alice", 42), ("alice", 43)] {
        let draft = Draft::register(user).and("Contact", "<sip:alice@a.example>");
        let journal = rig.send(&udp(ALICE), &draft).journal;
        assert_eq!(record::read(&journal).next().unwrap().unwrap().sequence, number);
    }
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

#[test]
fn what_cannot_be_registered_is_refused() {
    for (draft, expected) in [
        (contacts(&["<tel:+123>"]), 400),
        (contacts(&["<http://www.example.com>"]), 400),
        (contacts(&["<sip:alice@>"]), 400),
        (contacts(&["<sip:alice@a.example"]), 400),
        (contacts(&["sip:alice@a.example?Subject=x"]), 400),
        (contacts(&[""]), 400),
        (contacts(&["<sip:alice@a.example>,,"]), 400),
        (contacts(&["<sip:a@b>"]).with("To", "<tel:+123>"), 400),
        (contacts(&["<sip:a@b>"]).with("To", "<sip:alice@foreign.example>"), 404),
        (contacts(&["<sip:a@b>"]).with("To", "<sip:example.com>"), 404),
        (contacts(&["<sip:a@b>"]).and("Require", "path, gruu, outbound"), 420),
    ] {
        let mut rig = Rig::open();
        let reaction = rig.send(&udp(ALICE), &draft);
        assert_eq!(reaction.status(), expected, "{draft:?}");
        assert_eq!(rig.server.bindings(), 0, "{draft:?}");
        if expected == 420 {
            let unsupported = reaction.response().values(HeaderName::Unsupported);
            assert_eq!(unsupported, ["gruu", "outbound"]);
        }
    }
}

#[test]
fn a_user_is_the_same_by_every_name_of_the_domain() {
    let mut rig = Rig::open();
    for (number, (uri, to)) in [
        ("sip:example.com", "<sip:alice@example.com>"),
        ("sip:EXAMPLE.com", "\"Alice\" <sip:alice@Example.Com;user=phone>"),
        ("sip:203.0.113.1:5060", "sip:%61lice@203.0.113.1"),
        ("sip:[2001:db8::10]", "<sip:alice@[2001:DB8:0::10]>"),
    ]
    .into_iter()
    .enumerate()
    {
        let draft = Draft::new("REGISTER", uri)
            .with("To", to)
            .and("Contact", &format!("<sip:alice@{number}.example>"));
        assert_eq!(rig.send(&udp(ALICE), &draft).status(), 200, "{uri} {to}");
        assert_eq!(rig.contacts("alice@example.com").len(), number + 1, "{uri} {to}");
    }
}

#[test]
fn users_register_themselves_and_nobody_else() {
    let mut rig = Rig::closed();
    let alice = contacts(&["<sip:alice@a.example>"]);
    assert_eq!(rig.send(&udp(ALICE), &alice).status(), 401);
    assert_eq!(rig.send_as("bob", &udp(BOB), &alice).status(), 403);
    assert_eq!(rig.count("identity-mismatches"), 1);
    assert_eq!(rig.server.bindings(), 0);
    assert_eq!(rig.send_as("alice", &udp(ALICE), &alice).status(), 200);
    let nobody = Draft::register("nobody").and("Contact", "<sip:nobody@a.example>");
    assert_eq!(rig.send_as("nobody", &udp(ALICE), &nobody).status(), 401);
    assert_eq!(rig.server.bindings(), 1);
}

#[test]
fn a_register_for_another_domain_is_not_ours() {
    let draft = contacts(&["<sip:alice@a.example>"]).with("To", "<sip:alice@foreign.example>");
    let foreign = draft.with_uri("sip:foreign.example");
    let mut rig = Rig::open();
    let (destination, _) = rig.send(&udp(ALICE), &foreign).wants_location();
    assert_eq!(destination.host, sip::locate::Host::parse(b"foreign.example").unwrap());
    let mut rig = Rig::closed();
    let from_stranger = foreign.with("From", "<sip:mallory@foreign.example>;tag=1");
    assert_eq!(rig.send(&udp(ALICE), &from_stranger).status(), 403);
}

#[test]
fn what_was_answered_is_in_the_journal_and_survives() {
    let mut rig = Rig::open();
    let mut journal = Vec::new();
    for draft in [
        contacts(&["<sip:alice@a.example>;q=0.7", "<sip:alice@b.example;ob>"]),
        contacts(&["<sip:alice@a.example>;expires=0"]),
        Draft::register("bob").and("Contact", "<sip:bob@b.example>"),
    ] {
        let reaction = rig.send(&udp(ALICE), &draft);
        assert_eq!(reaction.status(), 200);
        assert!(!reaction.journal.is_empty());
        journal.extend_from_slice(&reaction.journal);
    }
    let fetch = rig.send(&udp(ALICE), &Draft::register("alice"));
    assert!(fetch.journal.is_empty(), "a fetch changes nothing");

    let mut restarted = Rig::new(Config { ..open_config() });
    let records: Vec<_> = sip_server::record::read(&journal).map(Result::unwrap).collect();
    for record in records.iter().rev() {
        restarted.restore(record);
    }
    assert_eq!(restarted.contacts("alice@example.com"), ["sip:alice@b.example;ob"]);
    assert_eq!(restarted.contacts("bob@example.com"), ["sip:bob@b.example"]);
    let reaction = restarted.send(&udp(BOB), &Draft::invite("sip:alice@example.com"));
    assert_eq!(reaction.forwarded().flow, udp(ALICE), "the flow is remembered");
    let late = contacts(&["<sip:alice@b.example;ob>"]).with_cseq(0);
    assert_eq!(restarted.send(&udp(ALICE), &late).status(), 200, "another Call-ID");
}

#[test]
fn the_latest_record_of_a_user_wins_wherever_it_stands() {
    let mut rig = Rig::open();
    let mut journal = Vec::new();
    let contact = |user: &str, host: &str| {
        Draft::register(user)
            .and("Contact", &format!("<sip:{user}@{host}>;reg-id=1;+sip.instance=\"x\""))
    };
    for (user, host) in [("alice", "a.example"), ("alice", "b.example"), ("bob", "b.example")] {
        journal.extend(rig.send(&udp(ALICE), &contact(user, host)).journal);
    }
    let records: Vec<_> = sip_server::record::read(&journal).map(Result::unwrap).collect();
    let [first, second, bob] = records[..] else { panic!("three records: {records:?}") };
    for order in [
        [first, second, bob],
        [first, bob, second],
        [bob, first, second],
        [second, bob, first],
        [bob, second, first],
    ] {
        let restarted = Rig::open();
        order.iter().for_each(|record| restarted.restore(record));
        assert_eq!(restarted.contacts("alice@example.com"), ["sip:alice@b.example"]);
        assert_eq!((restarted.server.registered(), restarted.server.bindings()), (2, 2));
    }
}

#[test]
fn a_user_who_is_removed_is_gone() {
    let mut rig = Rig::closed_with(closed_config());
    rig.register("alice", &udp(ALICE), "<sip:alice@a.example>");
    assert!(rig.remove_user("alice@example.com"));
    assert!(!rig.remove_user("alice@example.com"));
    assert_eq!(rig.contacts("alice@example.com"), [""; 0]);
    let draft = contacts(&["<sip:alice@a.example>"]);
    assert_eq!(rig.send_as("alice", &udp(ALICE), &draft).status(), 401);
}
