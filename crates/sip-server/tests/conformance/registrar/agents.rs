//! The User-Agent of bindings, and the end of a registration by the operator.

use super::contacts;
use crate::rig::{ALICE, Rig, text, udp};
use barebell_sip_server::{Output, journal_record};

/// The contacts of alice with their User-Agents.
fn agents(rig: &Rig) -> Vec<(String, String)> {
    let mut found = Vec::new();
    rig.server.for_each_binding(rig.now, &mut |view| {
        found.push((text(view.contact), text(view.agent)));
    });
    found
}

#[test]
fn a_binding_has_the_start_of_its_user_agent_also_after_a_restart() {
    let mut rig = Rig::open();
    let long = "x".repeat(100);
    for (agent, kept) in [("Phone 1.0", "Phone 1.0"), (&*long, &long[..64]), ("", "")] {
        let mut draft = contacts(&["<sip:alice@a.example>"]);
        if !agent.is_empty() {
            draft = draft.and("User-Agent", agent);
        }
        let journal = rig.send(&udp(ALICE), &draft).journal;
        let expected = [("sip:alice@a.example".to_owned(), kept.to_owned())];
        assert_eq!(agents(&rig), expected);
        let later = Rig::open();
        later.restore(&journal_record::read(&journal).next().unwrap().unwrap());
        assert_eq!(agents(&later), expected);
    }
}

#[test]
fn the_operator_ends_one_binding_or_all() {
    let mut rig = Rig::open();
    rig.add_user("alice");
    let draft = contacts(&["<sip:alice@a.example>", "<sip:alice@b.example>"]);
    let added = rig.send(&udp(ALICE), &draft).journal;
    let end = |rig: &Rig, contact: Option<&[u8]>| {
        let mut out = Output::default();
        let user = b"alice@example.com";
        (rig.server.end_registration(user, contact, rig.now, &mut out), out.journal)
    };
    assert_eq!(end(&rig, Some(b"sip:alice@c.example")), (0, Vec::new()));
    let (count, removed) = end(&rig, Some(b"sip:alice@a.example"));
    assert_eq!(count, 1);
    assert_eq!(rig.contacts("alice@example.com"), ["sip:alice@b.example"]);
    // The removal survives a restart.
    let later = Rig::open();
    for journal in [&added, &removed] {
        later.restore(&journal_record::read(journal).next().unwrap().unwrap());
    }
    assert_eq!(later.contacts("alice@example.com"), ["sip:alice@b.example"]);
    assert_eq!(end(&rig, None).0, 1);
    assert_eq!((rig.server.bindings(), rig.server.registered()), (0, 0));
    // A copy of the REGISTER that is on its way restores nothing, and the next one registers.
    assert_eq!(rig.send(&udp(ALICE), &draft).status(), 500);
    assert_eq!(rig.send(&udp(ALICE), &draft.next()).status(), 200);
    assert_eq!(end(&rig, None).0, 2);
}

#[test]
fn an_unknown_user_has_no_registration_to_end() {
    let rig = Rig::open();
    let mut out = Output::default();
    assert_eq!(rig.server.end_registration(b"zoe@example.com", None, rig.now, &mut out), 0);
    assert!(out.journal.is_empty());
}
