//! GRUUs: URIs that lead to one of several phones (RFC 5627).

use crate::dialog::answer;
use crate::rig::{ALICE, BOB, Draft, Rig, Sent, open_config, tcp, udp};
use barebell_sip_server::Flow;
use sip::{Duration, HeaderName};

/// A server that assigns GRUUs.
fn rig() -> Rig {
    let mut config = open_config();
    config.registrar.gruu = true;
    Rig::new(config)
}

const DESK: &str = "urn:uuid:11111111-0000-1000-8000-000a95a0e128";
const CELL: &str = "urn:uuid:22222222-0000-1000-8000-000a95a0e128";

fn registers(phone: &str, call_id: &str) -> Draft {
    let contact = format!("<sip:bob@192.168.1.2>;+sip.instance=\"<{phone}>\"");
    Draft::register("bob")
        .with("Contact", &contact)
        .with("Supported", "gruu")
        .with("Call-ID", call_id)
}

/// The parameter `name` of the first contact, without its quotes.
fn given(sent: &Sent, name: &str) -> String {
    assert_eq!(sent.status(), 200);
    let contact = &sent.values(HeaderName::Contact)[0];
    let start = contact.find(&format!(";{name}=\"")).expect(name) + name.len() + 3;
    contact[start..].split('"').next().unwrap().to_owned()
}

/// A desk phone and a cell phone of bob, with their public and temporary GRUUs.
fn two_phones(rig: &mut Rig) -> [(Flow, String, String); 2] {
    [(DESK, BOB, 1), (CELL, "198.51.100.20:6000", 2)].map(|(phone, remote, number)| {
        let flow = tcp(remote, number);
        let reaction = rig.send(&flow, &registers(phone, phone).with_cseq(1));
        let sent = reaction.response();
        (flow, given(sent, "pub-gruu"), given(sent, "temp-gruu"))
    })
}

fn call(rig: &mut Rig, uri: &str) -> Result<Sent, u16> {
    let reaction = rig.send(&udp(ALICE), &Draft::invite(uri));
    match reaction.responses().next() {
        Some(refusal) => Err(refusal.status()),
        None => Ok(reaction.forwarded().clone()),
    }
}

#[test]
fn a_phone_that_asks_gets_two_and_each_leads_to_it_alone() {
    let mut rig = rig();
    let [desk, cell] = two_phones(&mut rig);
    assert_eq!(desk.1, format!("sip:bob@example.com;gr={DESK}"));
    assert!(!desk.2.contains("bob") && !desk.2.contains("11111111"), "{}", desk.2);
    for (flow, public, temporary) in [desk, cell] {
        for uri in [public, temporary] {
            let forwarded = call(&mut rig, &uri).expect(&uri);
            assert_eq!(
                (forwarded.flow, &forwarded.request_uri()[..]),
                (flow, "sip:bob@192.168.1.2")
            );
        }
    }
    let both = rig.send(&udp(ALICE), &Draft::invite("sip:bob@example.com"));
    assert_eq!(both.requests().count(), 2);
    let silent = rig.send(&tcp(BOB, 1), &registers(DESK, "x").without("Supported"));
    assert!(!silent.response().value(HeaderName::Contact).contains("gruu"));
}

#[test]
fn what_names_no_phone_that_is_there_leads_nowhere() {
    let mut rig = rig();
    let [desk, cell] = two_phones(&mut rig);
    let forged = {
        let at = desk.2.find("tgruu.").unwrap() + 20;
        let other = if &desk.2[at..=at] == "A" { "B" } else { "A" };
        [&desk.2[..at], other, &desk.2[at + 1..]].concat()
    };
    for (uri, status) in [
        ("sip:bob@example.com;gr=urn:uuid:3", 480),
        ("sip:nobody@example.com;gr=urn:uuid:3", 404),
        ("sip:bob@example.com;gr", 404),
        ("sip:tgruu.@example.com;gr", 404),
        ("sip:tgruu.AAAA@example.com;gr", 404),
        (&forged, 404),
    ] {
        assert_eq!(call(&mut rig, uri).err(), Some(status), "{uri}");
    }
    rig.end(&desk.0);
    assert_eq!(call(&mut rig, &desk.1).err(), Some(480));
    assert_eq!(call(&mut rig, &desk.2).err(), Some(480));
    assert!(call(&mut rig, &cell.2).is_ok());
}

#[test]
fn a_temporary_one_ends_with_the_call_id_and_no_two_look_alike() {
    let mut rig = rig();
    let flow = tcp(BOB, 1);
    let register = |rig: &mut Rig, call_id: &str, cseq: u32| {
        rig.wait(Duration::from_secs(1));
        let reaction = rig.send(&flow, &registers(DESK, call_id).with_cseq(cseq));
        given(reaction.response(), "temp-gruu")
    };
    let first = register(&mut rig, "one", 1);
    let second = register(&mut rig, "one", 2);
    assert_ne!(first, second);
    let bytes = |uri: &str| uri[10..53].to_owned();
    let same = bytes(&first).bytes().zip(bytes(&second).bytes()).filter(|(a, b)| a == b).count();
    assert!(same < 12, "{first} {second}");
    for uri in [&first, &second] {
        assert!(call(&mut rig, uri).is_ok(), "both of one Call-ID");
    }
    let third = register(&mut rig, "two", 1);
    assert_eq!([&first, &second].map(|uri| call(&mut rig, uri).err()), [Some(480); 2]);
    assert!(call(&mut rig, &third).is_ok());
}

#[test]
fn within_a_call_it_leads_to_the_phone_by_its_own_uri() {
    let mut rig = rig();
    let [desk, _] = two_phones(&mut rig);
    for gruu in [&desk.1, &desk.2] {
        let forwarded =
            call(&mut rig, "sip:bob@example.com;gr=urn:uuid:11111111-0000-1000-8000-000a95a0e128")
                .unwrap();
        let answered = answer(&mut rig, &forwarded, 200, gruu);
        let bye = Draft::new("BYE", gruu)
            .with("Route", &answered.value(HeaderName::RecordRoute))
            .with("Call-ID", &forwarded.value(HeaderName::CallId))
            .with("From", &forwarded.value(HeaderName::From))
            .with("To", &answered.value(HeaderName::To))
            .with_cseq(2);
        let bye = rig.send(&udp(ALICE), &bye).forwarded().clone();
        assert_eq!((bye.flow, &bye.request_uri()[..]), (desk.0, "sip:bob@192.168.1.2"), "{gruu}");
    }
}

#[test]
fn names_that_need_it_are_escaped() {
    let mut rig = rig();
    let contact = "<sip:b%20b@192.168.1.2>;+sip.instance=\"<urn:x:a;b?c>\"";
    let draft = Draft::register("b%20b").with("Contact", contact).with("Supported", "gruu");
    let reaction = rig.send(&tcp(BOB, 1), &draft);
    let uri = given(reaction.response(), "pub-gruu");
    assert_eq!(uri, "sip:b%20b@example.com;gr=urn:x:a%3Bb%3Fc");
    assert!(call(&mut rig, &uri).is_ok());
}

/// The token for one phone does not authorize requests to another phone of the same user.
#[test]
fn within_a_call_it_leads_to_no_other_phone() {
    let mut rig = rig();
    let [desk, cell] = two_phones(&mut rig);
    let forwarded = call(&mut rig, &desk.1).unwrap();
    let answered = answer(&mut rig, &forwarded, 200, &desk.1);
    for (uri, is_reached) in [(&desk.1, true), (&cell.1, false)] {
        let info = Draft::new("INFO", uri)
            .with("Route", &answered.value(HeaderName::RecordRoute))
            .with("Call-ID", &forwarded.value(HeaderName::CallId))
            .with("From", &forwarded.value(HeaderName::From))
            .with("To", &answered.value(HeaderName::To))
            .with_cseq(2);
        let sent = rig.send(&udp(ALICE), &info);
        assert_eq!(sent.requests().any(|sent| sent.flow == desk.0), is_reached, "{uri}");
    }
}

/// Each flow of a phone may have its own Call-ID.
#[test]
fn a_temporary_one_leads_to_all_flows_of_the_phone() {
    let mut rig = rig();
    let mut flows = [tcp(BOB, 1), tcp("198.51.100.20:6000", 2)];
    let mut given_to = |number: usize, flow: &Flow| {
        let contact = format!("<sip:bob@192.168.1.2>;reg-id={number};+sip.instance=\"<{DESK}>\"");
        let draft = registers(DESK, &format!("call-{number}")).with("Contact", &contact);
        given(rig.send(flow, &draft).response(), "temp-gruu")
    };
    let first = given_to(1, &flows[0]);
    given_to(2, &flows[1]);
    flows.reverse();
    let forwarded = call(&mut rig, &first).unwrap();
    assert_eq!(forwarded.flow, flows[0], "the newest");
    let moved = rig.undeliverable(&forwarded.flow, &forwarded.bytes);
    assert_eq!(moved.forwarded().flow, flows[1]);
}

/// If the DNS does not lead to the domain, peers cannot reach a phone by its GRUU.
#[test]
fn none_is_given_where_the_operator_has_not_said_so() {
    let reaction = Rig::open().send(&tcp(BOB, 1), &registers(DESK, "x"));
    assert_eq!(reaction.status(), 200);
    assert!(!reaction.response().value(HeaderName::Contact).contains("gruu"));
}
