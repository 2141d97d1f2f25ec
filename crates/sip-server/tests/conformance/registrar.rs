//! The registrar (RFC 3261 section 10.3, RFC 3327, RFC 5626).

mod agents;
mod places;

use crate::rig::{ALICE, BOB, Draft, Rig, Sent, closed_config, open_config, tcp, udp};
use barebell_sip_server::{Config, journal_record as record};
use sip::{Duration, HeaderName};

/// The contacts of a 200, in its order.
fn granted(response: &Sent) -> Vec<String> {
    assert_eq!(response.status(), 200, "{response:#?}");
    response.values(HeaderName::Contact)
}

/// A REGISTER for alice with these Contact values.
fn contacts(values: &[&str]) -> Draft {
    values.iter().fold(Draft::register("alice"), |draft, value| draft.and("Contact", value))
}

/// Sends `draft` and returns the current contacts.
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
        // An invalid number is treated as a missing one (RFC 3261 section 10.2.1.1).
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
    // Another Call-ID has a separate sequence: the phone was restarted.
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
        // No copy is expected after such a time: it is a restarted phone.
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

/// The clock was set back before the restart of the server.
#[test]
fn what_is_restored_lasts_no_longer_than_a_registration_may() {
    let mut rig = Rig::open();
    let draft =
        Draft::register("alice").and("Contact", "<sip:alice@a.example>").and("Expires", "7200");
    let journal = rig.send(&udp(ALICE), &draft).journal;
    let mut config = open_config();
    config.registrar.max_expires = Duration::from_secs(600);
    let mut earlier = Rig::new(config);
    for record in barebell_sip_server::journal_record::read(&journal) {
        earlier.restore(&record.unwrap());
    }
    assert_eq!(earlier.contacts("alice@example.com"), ["sip:alice@a.example"]);
    earlier.wait(Duration::from_secs(601));
    assert_eq!(earlier.contacts("alice@example.com"), [""; 0]);
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
fn the_answer_says_what_time_it_is() {
    let mut rig = Rig::open();
    let reaction = rig.send(&udp(ALICE), &contacts(&["<sip:alice@a.example>"]));
    let mut now = Vec::new();
    sip::header::write_date(&mut now, rig.now);
    assert_eq!(reaction.response().value(HeaderName::Date).as_bytes(), now);
}

#[test]
fn a_contact_with_too_many_parameters_is_refused() {
    let mut rig = Rig::open();
    let contact = |count| format!("<sip:alice@a.example{}>", ";p".repeat(count));
    let most = sip::param::MAX_URI_PARAMS;
    let refused = rig.send(&udp(ALICE), &contacts(&[&contact(most + 1)]));
    assert_eq!(refused.status(), 400);
    assert_eq!(register(&mut rig, &contacts(&[&contact(most)])).len(), 1);
    // Parameters of the header field need not be compared.
    let many = format!("<sip:alice@b.example>{}", ";p".repeat(500));
    assert_eq!(register(&mut rig, &contacts(&[&many])).len(), 2);
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
    let gone: Vec<_> = records.flat_map(|record| record.entries()).map(Result::unwrap).collect();
    let is_removal = |entry: &record::Entry<'_>| matches!(entry, record::Entry::Removed { .. });
    assert!(gone.len() == 2 && gone.iter().all(is_removal), "storage is told: {gone:?}");
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
        (contacts(&["<sip:a@b>"]).and("Require", "path, outbound, gruu, y"), 420),
    ] {
        let mut rig = Rig::open();
        let reaction = rig.send(&udp(ALICE), &draft);
        assert_eq!(reaction.status(), expected, "{draft:?}");
        assert_eq!(rig.server.bindings(), 0, "{draft:?}");
        if expected == 420 {
            let unsupported = reaction.response().values(HeaderName::Unsupported);
            assert_eq!(unsupported, ["gruu", "y"]);
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
    let records: Vec<_> =
        barebell_sip_server::journal_record::read(&journal).map(Result::unwrap).collect();
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

/// RFC 3261 section 10.3: all or nothing, and 500 means nothing.
#[test]
fn what_cannot_be_stored_is_not_bound_and_not_counted() {
    let mut rig = Rig::open();
    rig.send_unstored(&udp(ALICE), &contacts(&["<sip:alice@a.example>"]));
    assert_eq!((rig.server.bindings(), rig.server.registered()), (0, 0));
    let phone = "<sip:alice@b.example>;+sip.instance=\"<urn:x>\";reg-id=1";
    let first = register(&mut rig, &contacts(&["<sip:alice@a.example>", phone]));
    assert_eq!(rig.count("registers"), 1);
    let moved = "<sip:alice@c.example>;+sip.instance=\"<urn:x>\";reg-id=1";
    for draft in [
        contacts(&["<sip:alice@a.example>;expires=100"]),
        contacts(&["<sip:alice@d.example>", "<sip:alice@a.example>;expires=0"]),
        contacts(&[moved]),
        contacts(&["*"]).and("Expires", "0"),
    ] {
        let draft = draft.with("Call-ID", "another");
        rig.send_unstored(&udp(ALICE), &draft);
        let there = granted(rig.send(&udp(ALICE), &Draft::register("alice")).response());
        assert_eq!(there, [&first[1][..], &first[0][..]], "{draft:?}");
        assert_eq!((rig.server.bindings(), rig.server.registered()), (2, 1));
    }
    assert_eq!(rig.count("registers"), 5, "a fetch is one, too");
    // The same again, when it can be stored.
    let again = contacts(&["*"]).and("Expires", "0").with("Call-ID", "another");
    assert_eq!(register(&mut rig, &again), [""; 0]);
}

/// A user with many long contacts must not cause them all to be written at each REGISTER.
#[test]
fn no_more_is_stored_than_what_a_register_says() {
    let mut rig = Rig::open();
    let long = |number| format!("<sip:alice@h{number}.example;x={}>", "y".repeat(1200));
    for number in 0..10 {
        register(&mut rig, &contacts(&[&long(number)]));
    }
    for contact in ["<sip:alice@short.example>".to_owned(), long(3), long(4) + ";expires=0"] {
        let draft = contacts(&[&contact]);
        let received = draft.bytes(&udp(ALICE)).len();
        let stored = rig.send(&udp(ALICE), &draft).journal.len();
        assert!((1..=received).contains(&stored), "{stored} bytes for {received}");
    }
    let nothing = contacts(&["<sip:alice@unknown.example>;expires=0"]);
    assert!(rig.send(&udp(ALICE), &nothing).journal.is_empty());
}

#[test]
fn the_contacts_of_a_user_have_a_bound_in_bytes() {
    let mut config = open_config();
    config.registrar.max_bytes = 4000;
    let mut rig = Rig::new(config);
    let long = |host: &str| format!("<sip:alice@{host}.example;x={}>", "y".repeat(1200));
    for host in ["a", "b", "c"] {
        register(&mut rig, &contacts(&[&long(host)]));
    }
    assert_eq!(rig.server.bindings(), 3);
    assert_eq!(register(&mut rig, &contacts(&[&long("d")])).len(), 3, "the oldest made room");
    assert!(!rig.contacts("alice@example.com").iter().any(|it| it.starts_with("sip:alice@a.")));
    assert_eq!(rig.count("contact-limit"), 1);
    let at_once: Vec<String> = ["e", "f", "g", "h"].iter().map(|host| long(host)).collect();
    let at_once: Vec<&str> = at_once.iter().map(String::as_str).collect();
    assert_eq!(rig.send(&udp(ALICE), &contacts(&at_once)).status(), 403);
    assert_eq!(rig.server.bindings(), 3);
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
    let records: Vec<_> =
        barebell_sip_server::journal_record::read(&journal).map(Result::unwrap).collect();
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
fn another_password_ends_what_was_registered_with_the_old_one() {
    let mut rig = Rig::closed_with(closed_config());
    rig.register("alice", &udp(ALICE), "<sip:alice@a.example>");
    let mut out = barebell_sip_server::Output::default();
    let logins =
        |password: &str| sip::digest::Ha1Set::new(b"alice", b"example.com", password.as_bytes());
    rig.server.change_user(b"alice@example.com", logins("alice"), &mut out);
    assert_eq!(rig.contacts("alice@example.com"), ["sip:alice@a.example"], "the same password");
    assert!(out.journal.is_empty());
    rig.server.change_user(b"alice@example.com", logins("new"), &mut out);
    assert_eq!(rig.contacts("alice@example.com"), [""; 0]);
    let mut records = barebell_sip_server::journal_record::read(&out.journal).map(Result::unwrap);
    let entries: Vec<_> = records.next().unwrap().entries().map(Result::unwrap).collect();
    assert!(matches!(entries[..], [record::Entry::Removed { .. }]), "the end is stored");
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
