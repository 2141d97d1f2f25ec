use super::*;
use crate::message::Response;
use proptest::prelude::*;
use std::format;
use std::string::String;

const VIA: &str = "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1";

fn caller() -> Dialog {
    Dialog::new("c@a", "<sip:alice@a>", "one", "<sip:bob@b>", "sip:bob@b")
}

fn invite(dialog: &mut Dialog, record_routes: &str) -> String {
    let mut out = Vec::new();
    let cseq = dialog.next_cseq();
    dialog
        .request(Method::Invite, cseq, VIA, &mut out)
        .field(HeaderName::Contact, "<sip:alice@192.0.2.1>")
        .lines(record_routes)
        .end();
    String::from_utf8(out).unwrap()
}

/// A response with the To tag `tag` and the Contact of `tag`.
fn response(request: &str, status: u16, tag: &str, fields: &str) -> String {
    let mut out = Vec::new();
    Response {
        request: &Message::parse(request.as_bytes()).unwrap(),
        source: "192.0.2.1:5060".parse().unwrap(),
        status,
        reason: "x",
        to_tag: Some(tag.as_bytes()),
    }
    .write(&mut out, |out| out.extend_from_slice(fields.as_bytes()));
    String::from_utf8(out).unwrap()
}

fn read(text: &str) -> Message<'_> {
    Message::parse(text.as_bytes()).unwrap()
}

fn written(dialog: &Dialog, method: Method<'_>) -> String {
    let mut out = Vec::new();
    dialog.request(method, dialog.local_cseq(), VIA, &mut out).end();
    String::from_utf8(out).unwrap()
}

const RECORD_ROUTES: &str =
    "Record-Route: <sip:p2;lr>\r\nRecord-Route: <sip:p1;lr>, <sip:p0;lr>\r\n";

#[test]
fn both_ends_have_corresponding_views() {
    let mut alice = caller();
    let invite = invite(&mut alice, RECORD_ROUTES);
    let mut bob = Dialog::from_request(&read(&invite), b"two").unwrap();
    let fields = format!("{RECORD_ROUTES}Contact: <sip:bob@192.0.2.2>\r\n");
    let ringing = response(&invite, 180, "two", &fields);
    let mut early = Dialog::from_response(&read(&ringing)).unwrap();
    assert_eq!((early.state(), bob.state()), (State::Early, State::Early));
    let answer = response(&invite, 200, "two", &fields);
    early.on_success_received(&read(&answer)).unwrap();
    bob.on_success_sent();
    assert_eq!((early.state(), bob.state()), (State::Confirmed, State::Confirmed));

    let id = early.id();
    assert_eq!((id.call_id, id.local_tag, id.remote_tag), (&b"c@a"[..], &b"one"[..], &b"two"[..]));
    assert_eq!(DialogId::of(&read(&answer)), Ok(id));
    early.next_cseq();
    let bye = written(&early, Method::Bye);
    assert_eq!(
        bye,
        format!(
            "BYE sip:bob@192.0.2.2 SIP/2.0\r\nVia: {VIA}\r\nMax-Forwards: 70\r\n\
             Route: <sip:p0;lr>\r\nRoute: <sip:p1;lr>\r\nRoute: <sip:p2;lr>\r\n\
             From: <sip:alice@a>;tag=one\r\nTo: <sip:bob@b>;tag=two\r\nCall-ID: c@a\r\n\
             CSeq: 2 BYE\r\nContent-Length: 0\r\n\r\n"
        )
    );
    assert_eq!(early.next_hop(), b"sip:p0;lr");
    assert_eq!(DialogId::of(&read(&bye)), Ok(bob.id()));
    assert_eq!(bob.check_cseq(&read(&bye)), Ok(()));

    bob.next_cseq();
    let info = written(&bob, Method::Info);
    assert!(info.starts_with("INFO sip:alice@192.0.2.1 SIP/2.0\r\n"), "{info}");
    assert!(info.contains("Route: <sip:p2;lr>\r\nRoute: <sip:p1;lr>\r\nRoute: <sip:p0;lr>"));
    assert_eq!(DialogId::of(&read(&info)), Ok(early.id()));
}

#[test]
fn each_to_tag_creates_a_dialog() {
    let mut alice = caller();
    let invite = invite(&mut alice, "");
    let [one, two] = ["x", "y"].map(|tag| {
        let contact = format!("Contact: <sip:{tag}@192.0.2.9>\r\n");
        Dialog::from_response(&read(&response(&invite, 183, tag, &contact))).unwrap()
    });
    assert_ne!(one.id(), two.id());
    assert_eq!(
        (one.remote_target(), two.remote_target()),
        (&b"sip:x@192.0.2.9"[..], &b"sip:y@192.0.2.9"[..])
    );
}

#[test]
fn the_route_set_comes_from_the_2xx_and_is_kept() {
    let mut alice = caller();
    let invite = invite(&mut alice, "");
    let early = response(&invite, 180, "x", "Record-Route: <sip:old;lr>\r\n");
    let mut dialog = Dialog::from_response(&read(&early)).unwrap();
    assert_eq!(dialog.remote_target(), b"sip:bob@b", "no Contact received");
    dialog.next_cseq();
    let fields = "Record-Route: <sip:new;lr>\r\nContact: <sip:b@h1>\r\n";
    dialog.on_success_received(&read(&response(&invite, 200, "x", fields))).unwrap();
    assert_eq!(dialog.route_set(), [b"<sip:new;lr>"]);
    let fields = "Record-Route: <sip:later;lr>\r\nContact: <sip:b@h2>\r\n";
    dialog.on_success_received(&read(&response(&invite, 200, "x", fields))).unwrap();
    assert_eq!(dialog.route_set(), [b"<sip:new;lr>"]);
    assert_eq!((dialog.remote_target(), dialog.local_cseq()), (&b"sip:b@h2"[..], 2));
}

#[test]
fn a_strict_router_is_the_request_uri() {
    let mut alice = caller();
    let invite = invite(&mut alice, "");
    let fields =
        "Record-Route: <sip:loose;lr>\r\nRecord-Route: <sip:strict>\r\nContact: <sip:b@h>\r\n";
    let dialog = Dialog::from_response(&read(&response(&invite, 200, "x", fields))).unwrap();
    let bye = written(&dialog, Method::Bye);
    assert!(bye.starts_with("BYE sip:strict SIP/2.0\r\n"), "{bye}");
    assert!(bye.contains("\r\nRoute: <sip:loose;lr>\r\nRoute: <sip:b@h>\r\nFrom"), "{bye}");
    assert_eq!(dialog.next_hop(), b"sip:strict");
}

#[test]
fn a_preloaded_route_is_not_the_route_set() {
    let mut alice = caller();
    alice.set_routes([("<sip:", "proxy", ";lr>")]);
    let invite = invite(&mut alice, "");
    assert!(invite.starts_with("INVITE sip:bob@b SIP/2.0\r\n"), "{invite}");
    assert!(invite.contains("\r\nRoute: <sip:proxy;lr>\r\n"), "{invite}");
    let dialog = Dialog::from_response(&read(&response(&invite, 200, "x", ""))).unwrap();
    assert_eq!(dialog.route_set(), [b""; 0]);
}

#[test]
fn requests_are_accepted_in_order() {
    let mut alice = caller();
    let invite = invite(&mut alice, "");
    let mut bob = Dialog::from_request(&read(&invite), b"two").unwrap();
    let request = |number: u32, method: &str| {
        format!("{method} sip:bob@b SIP/2.0\r\nCSeq: {number} {method}\r\n\r\n")
    };
    assert_eq!(bob.check_cseq(&read(&request(1, "ACK"))), Ok(()));
    assert_eq!(bob.check_cseq(&read(&request(5, "INFO"))), Ok(()));
    assert_eq!(bob.check_cseq(&read(&request(5, "INFO"))), Ok(()), "a retransmission");
    let late = bob.check_cseq(&read(&request(4, "INFO")));
    assert_eq!(late, Err(DialogError::OutOfOrder));
    assert_eq!(DialogError::OutOfOrder.status(), 500);
    assert_eq!(bob.check_cseq(&read(&request(1, "ACK"))), Ok(()));
    assert!(bob.check_cseq(&read("INFO sip:b SIP/2.0\r\n\r\n")).is_err());
}

#[test]
fn a_target_refresh_changes_the_remote_target() {
    let mut alice = caller();
    let invite = invite(&mut alice, "");
    let mut bob = Dialog::from_request(&read(&invite), b"two").unwrap();
    bob.refresh_target(&read("UPDATE sip:b SIP/2.0\r\nContact: <sip:alice@new>\r\n\r\n"));
    assert_eq!(bob.remote_target(), b"sip:alice@new");
    bob.refresh_target(&read("UPDATE sip:b SIP/2.0\r\n\r\n"));
    assert_eq!(bob.remote_target(), b"sip:alice@new");
    bob.refresh_target(&read(
        "UPDATE sip:b SIP/2.0\r\nContact: <sip:alice@new;lr?Route=x>\r\n\r\n",
    ));
    assert_eq!(bob.request_uri(), b"sip:alice@new;lr");
}

#[test]
fn a_notify_before_the_response_creates_the_dialog() {
    let notify = "NOTIFY sip:alice@h SIP/2.0\r\nFrom: <sip:bob@b>;tag=n\r\nTo: <sip:alice@a>;tag=one\r\n\
                  Call-ID: c@a\r\nCSeq: 7 NOTIFY\r\nContact: <sip:bob@h2>\r\n\r\n";
    let dialog = Dialog::from_request(&read(notify), b"unused").unwrap();
    assert_eq!(dialog.id(), DialogId { call_id: b"c@a", local_tag: b"one", remote_tag: b"n" });
}

#[test]
fn messages_without_a_dialog_return_the_reason() {
    let mut alice = caller();
    let invite = invite(&mut alice, "");
    for status in [100, 302, 486] {
        let response = response(&invite, status, "x", "");
        assert_eq!(Dialog::from_response(&read(&response)), Err(DialogError::Status(status)));
    }
    let without = invite.replace("Contact", "X-Contact");
    let error = Dialog::from_request(&read(&without), b"x").unwrap_err();
    assert_eq!(format!("{error}"), "Contact must be in the message");
    assert_eq!(error.status(), 400);
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        contact in "[ -~]{0,40}", route in "[ -~]{0,40}",
    ) {
        let text = format!(
            "INVITE sip:b SIP/2.0\r\nFrom: <sip:a>;tag=1\r\nTo: <sip:b>\r\nCall-ID: x\r\n\
             CSeq: 1 INVITE\r\nContact: {contact}\r\nRecord-Route: {route}\r\n\r\n"
        );
        for bytes in [&bytes[..], text.as_bytes()] {
            let Ok(message) = Message::parse(bytes) else { continue };
            let _ = DialogId::of(&message);
            if let Ok(mut dialog) = Dialog::from_request(&message, b"tag") {
                let _ = dialog.check_cseq(&message);
                let bye = written(&dialog, Method::Bye);
                prop_assert!(Message::parse(bye.as_bytes()).is_ok());
                prop_assert!(!dialog.route_set().is_empty() || dialog.next_hop() == dialog.remote_target());
            }
            let _ = Dialog::from_response(&message);
        }
    }
}
