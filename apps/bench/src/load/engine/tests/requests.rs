//! Requests that a server, or the other end, originates.

use super::super::Task;
use super::rig::{Rig, Sent, answer, only, relayed, returned};
use sip::Duration;

/// Returns the INVITE of an established call and its 200.
fn call(rig: &mut Rig) -> (Sent, Sent) {
    let invite = only(rig.start(Task::Invite));
    let ok = rig.deliver(2, &relayed(&invite.text, &[])).pop().unwrap();
    let ack = only(rig.deliver(0, &returned(&ok.text)));
    assert!(rig.deliver(2, &relayed(&ack.text, &[])).is_empty());
    (invite, ok)
}

fn held() -> Rig {
    Rig::new(|settings| settings.hold = Duration::from_secs(60))
}

/// Returns a request within the call of `ok`, to its callee (link 2) or its caller (link 0).
fn request(ok: &Sent, link: u32, method: &str, cseq: u32, more: &str) -> String {
    let (from, to) = match link {
        2 => (ok.value("From"), ok.value("To")),
        _ => (ok.value("To"), ok.value("From")),
    };
    format!(
        "{method} sip:user@192.0.2.10 SIP/2.0\r\n\
         Via: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK{method}{cseq}\r\nMax-Forwards: 70\r\n\
         From: {from}\r\nTo: {to}\r\nCall-ID: {}\r\nCSeq: {cseq} {method}\r\n\
         Contact: <sip:192.0.2.7:5090>\r\n{more}Content-Length: 0\r\n\r\n",
        ok.value("Call-ID"),
    )
}

fn status(sent: &Sent) -> u16 {
    sent.text[8..11].parse().unwrap()
}

/// Ends the call of `rig` regularly.
fn hang_up(mut rig: Rig) -> crate::record::Counts {
    let bye = only(rig.wait(60_010));
    let ended = only(rig.deliver(2, &relayed(&bye.text, &[])));
    assert_eq!(status(&ended), 200);
    rig.deliver(0, &returned(&ended.text));
    let counts = rig.finish().counts;
    assert_eq!((counts.succeeded, counts.completed_calls), (1, 1));
    counts
}

#[test]
fn both_ends_answer_a_new_invite_until_its_ack_comes() {
    for link in [2, 0] {
        let mut rig = held();
        let (_, ok) = call(&mut rig);
        let invite = request(&ok, link, "INVITE", 77, "");
        let second = only(rig.deliver(link, &invite));
        assert_eq!((status(&second), second.value("CSeq")), (200, "77 INVITE"));
        assert_eq!(second.link, link);
        let user = if link == 2 { "<sip:user2@" } else { "<sip:user0@" };
        assert!(second.value("Contact").starts_with(user));
        assert_eq!(second.value("To"), ok.value(if link == 2 { "To" } else { "From" }));
        assert!(second.text.contains("\r\n\r\nv=0\r\n"));
        // Without an ACK it is retransmitted, also for a retransmitted INVITE.
        let again = only(rig.wait(510));
        assert_eq!(again.text, second.text);
        assert_eq!(only(rig.deliver(link, &invite)).text, second.text);
        // A new re-INVITE has to wait.
        let early = only(rig.deliver(link, &request(&ok, link, "INVITE", 78, "")));
        assert_eq!((status(&early), early.value("Retry-After")), (500, "1"));
        assert!(rig.deliver(link, &request(&ok, link, "ACK", 77, "")).is_empty());
        assert!(rig.wait(32_000).is_empty(), "the ACK has come");
        let third = only(rig.deliver(link, &request(&ok, link, "INVITE", 79, "")));
        assert_eq!((status(&third), third.value("CSeq")), (200, "79 INVITE"));
        rig.deliver(link, &request(&ok, link, "ACK", 79, ""));
        // A duplicate of an acknowledged request.
        assert_eq!(rig.counts().repeated, 1);
        rig.deliver(link, &request(&ok, link, "ACK", 77, ""));
        assert_eq!(rig.counts().repeated, 2);
        let late = only(rig.deliver(link, &request(&ok, link, "INVITE", 5, "")));
        assert_eq!(status(&late), 500);
        let bye = only(rig.wait(27_700));
        let target = if link == 0 { "sip:192.0.2.7:5090" } else { "sip:user2@192.0.2.10:6002" };
        assert_eq!(bye.start_line(), format!("BYE {target} SIP/2.0"));
        let ended = only(rig.deliver(2, &relayed(&bye.text, &[])));
        assert_eq!((status(&ended), ended.value("CSeq")), (200, "2 BYE"), "whatever came between");
        rig.deliver(0, &returned(&ended.text));
        let counts = rig.finish().counts;
        assert_eq!((counts.succeeded, counts.retransmitted, counts.unexpected), (1, 1, 2));
    }
}

#[test]
fn a_new_invite_without_an_ack_ends_the_call() {
    for link in [2, 0] {
        let mut rig = held();
        let (_, ok) = call(&mut rig);
        only(rig.deliver(link, &request(&ok, link, "INVITE", 77, "")));
        assert_eq!(rig.wait(32_010).len(), 10);
        assert_eq!(rig.finish().counts.timed_out, 1);
    }
}

#[test]
fn requests_within_a_call_are_answered_at_both_ends() {
    for link in [2, 0] {
        let mut rig = held();
        let (_, ok) = call(&mut rig);
        for (cseq, (method, more, expected, field)) in (77..).zip([
            ("UPDATE", "", 200, ("Contact", "sip:")),
            ("OPTIONS", "", 200, ("Allow", "INVITE, ACK, CANCEL, BYE, OPTIONS, UPDATE, INFO")),
            ("INFO", "", 200, ("CSeq", "INFO")),
            ("INFO", "Info-Package: dtmf\r\n", 469, ("CSeq", "INFO")),
            ("PRACK", "RAck: 1 1 INVITE\r\n", 481, ("CSeq", "PRACK")),
            ("REFER", "", 405, ("Allow", "UPDATE")),
            ("NOTIFY", "", 405, ("Allow", "UPDATE")),
            ("DANCE", "", 501, ("CSeq", "DANCE")),
        ]) {
            let answer = only(rig.deliver(link, &request(&ok, link, method, cseq, more)));
            assert_eq!((status(&answer), answer.link), (expected, link), "{method}");
            assert!(answer.value(field.0).contains(field.1), "{}", answer.text);
            assert!(!answer.text.contains("v=0"), "{method}");
        }
        let offer = request(&ok, link, "UPDATE", 90, "Content-Type: application/sdp\r\n");
        let offer = offer.replace("Content-Length: 0\r\n\r\n", "Content-Length: 5\r\n\r\nv=0\r\n");
        let answer = only(rig.deliver(link, &offer));
        assert!(answer.text.contains("\r\n\r\nv=0\r\n"), "an offer is answered");
        assert_eq!(rig.counts().repeated, 0);
        assert_eq!(only(rig.deliver(link, &offer)).text, answer.text);
        assert_eq!((rig.counts().repeated, rig.counts().unexpected), (1, 4));
        // A request of another call with the same Call-ID.
        let other = request(&ok, link, "INFO", 91, "").replace("To: ", "To: \"x\" ");
        let tag = ok.value(if link == 2 { "To" } else { "From" }).rsplit_once("tag=").unwrap().1;
        let other = other.replace(tag, "else");
        assert_eq!(status(&only(rig.deliver(link, &other))), 481);
        hang_up(rig);
    }
}

#[test]
fn a_call_that_the_server_ends_has_failed() {
    let mut rig = held();
    let (_, ok) = call(&mut rig);
    for link in [2, 0] {
        let ended = only(rig.deliver(link, &request(&ok, link, "BYE", 77, "")));
        assert_eq!(status(&ended), 200);
    }
    let counts = rig.finish().counts;
    assert_eq!((counts.refused, counts.unexpected, counts.completed_calls), (1, 1, 0));
}

#[test]
fn a_call_that_rings_can_be_cancelled_and_one_that_is_answered_cannot() {
    let mut rig = Rig::new(|settings| {
        settings.ring = Duration::from_secs(5);
        settings.hold = Duration::from_secs(60);
    });
    let invite = only(rig.start(Task::Invite));
    let relayed_invite = relayed(&invite.text, &[]);
    let ringing = only(rig.deliver(2, &relayed_invite));
    rig.deliver(0, &returned(&ringing.text));
    let cancel = relayed_invite.replace("INVITE", "CANCEL");
    let sent = rig.deliver(2, &cancel);
    let [cancelled, refused] = &sent[..] else { panic!("{sent:#?}") };
    assert_eq!((status(cancelled), cancelled.value("CSeq")), (200, "1 CANCEL"));
    assert_eq!((status(refused), refused.value("CSeq")), (487, "1 INVITE"));
    assert_eq!(refused.values("Via").len(), 2);
    assert_eq!(only(rig.wait(510)).text, refused.text, "until its ACK comes");
    let ack = relayed_invite.replace("INVITE", "ACK");
    let ack = ack.replace(invite.value("To"), refused.value("To"));
    assert!(rig.deliver(2, &ack).is_empty());
    assert!(rig.wait(3000).is_empty());
    rig.deliver(0, &returned(&refused.text));
    let counts = rig.finish().counts;
    assert_eq!((counts.refused, counts.unexpected), (1, 1));

    let mut rig = held();
    let (invite, _) = call(&mut rig);
    let cancel = relayed(&invite.text, &[]).replace("INVITE", "CANCEL");
    assert_eq!(status(&only(rig.deliver(2, &cancel))), 200);
    hang_up(rig);
    let mut rig = held();
    let invite = only(rig.start(Task::Invite));
    let cancel = relayed(&invite.text, &[]).replace("INVITE", "CANCEL");
    assert_eq!(status(&only(rig.deliver(2, &cancel))), 481);
}

#[test]
fn requests_outside_of_calls_are_answered_as_by_a_phone() {
    let mut rig = held();
    let (_, ok) = call(&mut rig);
    let foreign = |method, to_tag| {
        let request = request(&ok, 2, method, 1, "").replace(ok.value("Call-ID"), "foreign@x");
        match to_tag {
            true => request,
            false => {
                let tag = ok.value("To").split_once(";tag").unwrap().1;
                request.replace(&format!(";tag{tag}"), "")
            }
        }
    };
    for (method, has_tag, expected) in [
        ("OPTIONS", false, 200),
        ("INVITE", false, 486),
        ("INVITE", true, 481),
        ("BYE", true, 481),
        ("CANCEL", false, 481),
        ("UPDATE", true, 481),
        ("INFO", false, 481),
        ("NOTIFY", false, 405),
        ("MESSAGE", false, 405),
        ("REGISTER", false, 405),
        ("DANCE", false, 501),
    ] {
        let answer = only(rig.deliver(2, &foreign(method, has_tag)));
        assert_eq!(status(&answer), expected, "{method}");
        assert_eq!(answer.values("Allow").len(), usize::from([200, 405].contains(&expected)));
    }
    assert!(rig.deliver(2, &foreign("ACK", true)).is_empty());
    let counts = hang_up(rig);
    assert_eq!((counts.unexpected, counts.malformed), (10, 0), "all but OPTIONS");
}

#[test]
fn a_new_invite_that_meets_the_callers_own_has_to_wait() {
    let mut rig = held();
    let invite = only(rig.start(Task::Invite));
    let ringing = &rig.deliver(2, &relayed(&invite.text, &[]))[0];
    let crossing = request(ringing, 0, "INVITE", 1, "");
    assert_eq!(status(&only(rig.deliver(0, &crossing))), 491);
    let trying = answer(&invite.text, "100 Trying", "");
    rig.deliver(0, &trying);
}

#[test]
fn requests_with_an_unknown_extension_are_refused_with_its_name() {
    let require = "Require: 100rel, x-dance\r\nRequire: timer\r\n";
    for link in [2, 0] {
        let mut rig = held();
        let (_, ok) = call(&mut rig);
        for (cseq, (method, expected)) in (77..).zip([
            ("INVITE", 420),
            ("UPDATE", 420),
            ("INFO", 420),
            ("OPTIONS", 420),
            ("BYE", 420),
            // The method is checked first.
            ("REFER", 405),
            ("DANCE", 501),
        ]) {
            let refused = only(rig.deliver(link, &request(&ok, link, method, cseq, require)));
            assert_eq!((status(&refused), refused.link), (expected, link), "{method}");
            let unsupported: &[&str] =
                if expected == 420 { &["100rel, x-dance, timer"] } else { &[] };
            assert_eq!(refused.values("Unsupported"), unsupported, "{method}");
        }
        assert_eq!(rig.counts().unexpected, 7);
        let plain = request(&ok, link, "OPTIONS", 90, "Require: \r\nSupported: timer\r\n");
        assert_eq!(status(&only(rig.deliver(link, &plain))), 200);
        // An ACK has no response, and belongs to the INVITE whatever its content.
        let invite = request(&ok, link, "INVITE", 91, "");
        assert_eq!(status(&only(rig.deliver(link, &invite))), 200);
        assert!(rig.deliver(link, &request(&ok, link, "ACK", 91, require)).is_empty());
        assert!(rig.wait(32_000).is_empty());
        let bye = only(rig.wait(28_010));
        rig.deliver(0, &answer(&bye.text, "200 OK", ""));
        assert_eq!(rig.finish().counts.succeeded, 1, "none of that has ended the call");
    }
}

#[test]
fn a_call_that_requires_an_unknown_extension_has_failed() {
    let mut rig = held();
    let invite = only(rig.start(Task::Invite));
    let with = |text: &str| text.replace("Max-Forwards", "Require: x-dance\r\nMax-Forwards");
    let refused = only(rig.deliver(2, &with(&relayed(&invite.text, &[]))));
    assert_eq!((status(&refused), refused.value("Unsupported")), (420, "x-dance"));
    let ack = only(rig.deliver(0, &returned(&refused.text)));
    assert!(ack.start_line().starts_with("ACK "));
    let counts = rig.finish().counts;
    assert_eq!((counts.refused, counts.unexpected), (1, 1));
    assert_eq!(counts.finals["INVITE"], [(420, 1)].into());
    // A CANCEL cannot require extensions.
    let mut rig = Rig::new(|settings| settings.ring = Duration::from_secs(5));
    let invite = only(rig.start(Task::Invite));
    rig.deliver(2, &relayed(&invite.text, &[]));
    let cancel = with(&relayed(&invite.text, &[])).replace("INVITE", "CANCEL");
    assert_eq!(status(&rig.deliver(2, &cancel)[0]), 200);
}

#[test]
fn requests_outside_of_calls_with_an_unknown_extension_are_refused() {
    let mut rig = held();
    let (_, ok) = call(&mut rig);
    let tag = format!(";tag{}", ok.value("To").split_once(";tag").unwrap().1);
    for (method, has_tag, expected) in [
        ("INVITE", false, 420),
        ("OPTIONS", false, 420),
        ("INFO", false, 420),
        ("BYE", true, 481),
        ("NOTIFY", false, 405),
        ("CANCEL", false, 481),
    ] {
        let text = request(&ok, 2, method, 1, "Require: x-dance\r\n");
        let text = text.replace(ok.value("Call-ID"), "foreign@x");
        let text = if has_tag { text } else { text.replace(&tag, "") };
        let refused = only(rig.deliver(2, &text));
        assert_eq!(status(&refused), expected, "{method}");
        assert_eq!(refused.values("Unsupported").len(), usize::from(expected == 420), "{method}");
    }
    assert_eq!(hang_up(rig).unexpected, 5, "all but OPTIONS");
}
