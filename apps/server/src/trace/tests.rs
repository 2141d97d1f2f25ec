use super::*;
use sip::Transport;

const HOUR: Duration = Duration::from_secs(3600);

fn flow(port: u16) -> Flow {
    Flow {
        transport: Transport::Udp,
        local: ([127, 0, 0, 1], 5060).into(),
        remote: ([127, 0, 0, 1], port).into(),
        connection: None,
    }
}

/// A message of a call of alice to bob.
fn message(start: &str, call_id: &str, to_tag: &str) -> Vec<u8> {
    let method = if start.starts_with("SIP/2.0") { "INVITE" } else { &start[..3] };
    let method = if method == "INV" { "INVITE" } else { method };
    format!(
        "{start}\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
         From: <sip:alice@Example.com>;tag=1\r\nTo: <sip:bob@example.com>{to_tag}\r\n\
         Call-ID: {call_id}\r\nCSeq: 1 {method}\r\nAuthorization: Digest SECRET\r\n\
         Content-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

fn invite(call_id: &str) -> Vec<u8> {
    message("INVITE sip:bob@example.com SIP/2.0", call_id, "")
}

#[test]
fn nothing_is_kept_without_a_mark() {
    let tracer = Tracer::new(1, 0);
    tracer.received(0, &flow(1), &invite("x"));
    assert!(!tracer.is_on() && tracer.calls().is_empty());
}

#[test]
fn the_calls_of_a_user_are_kept_from_their_first_message_on() {
    for (user, is_traced) in [
        ("alice", true),
        ("bob@example.com", true),
        ("alice@example.com", true),
        ("alic", false),
        ("alice@example.org", false),
    ] {
        let tracer = Tracer::new(1, 0);
        tracer.mark(Target::User(user.to_owned()), HOUR, false).unwrap();
        // A call that stands.
        tracer.received(0, &flow(1), &message("BYE sip:bob@example.com SIP/2.0", "old", ";tag=2"));
        tracer.received(0, &flow(1), &invite("x"));
        let response = message("SIP/2.0 200 OK", "x", ";tag=2");
        tracer.sent(0, [(&flow(1), &response[..])].into_iter());
        tracer.received(0, &flow(1), b"no message");
        let calls = tracer.calls();
        assert_eq!(calls.len(), usize::from(is_traced), "{user}: {calls:?}");
        let messages = tracer.messages("x");
        assert_eq!(messages.len(), if is_traced { 2 } else { 0 });
        for (message, is_sent) in messages.iter().zip([false, true]) {
            assert_eq!(message.is_sent, is_sent);
            assert!(!message.bytes.windows(6).any(|part| part == b"SECRET"));
        }
    }
}

#[test]
fn a_call_that_stands_can_be_marked_and_secrets_kept() {
    let tracer = Tracer::new(1, 0);
    tracer.mark(Target::Call("old".to_owned()), HOUR, true).unwrap();
    let bye = message("BYE sip:bob@example.com SIP/2.0", "old", ";tag=2");
    tracer.received(0, &flow(1), &bye);
    assert_eq!(tracer.messages("old")[0].bytes, bye);
    tracer.clear();
    assert!(tracer.messages("old").is_empty() && !tracer.is_on());
}

#[test]
fn both_legs_of_a_joined_call_are_one() {
    let tracer = Tracer::new(1, 0);
    tracer.mark(Target::Call("a".to_owned()), HOUR, false).unwrap();
    tracer.received(0, &flow(1), &invite("a"));
    tracer.join(0, &flow(1), &invite("a"), [&invite("a")[..], &invite("b")[..]].into_iter());
    tracer.join(0, &flow(1), &invite("c"), [&invite("d")[..]].into_iter());
    tracer.sent(0, [(&flow(2), &invite("b")[..]), (&flow(2), &invite("d")[..])].into_iter());
    let calls = tracer.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].call_ids, ["a", "b"]);
    let legs: Vec<usize> = tracer.messages("b").iter().map(|message| message.leg).collect();
    assert_eq!(legs, [0, 1]);
}

#[test]
fn marks_end_by_themselves() {
    let tracer = Tracer::new(1, 0);
    tracer.mark(Target::User("alice".to_owned()), Duration::ZERO, false).unwrap();
    tracer.received(0, &flow(1), &invite("x"));
    assert!(!tracer.is_on() && tracer.marks().is_empty() && tracer.calls().is_empty());
    let mark = tracer.mark(Target::User("alice".to_owned()), Duration::MAX, false).unwrap();
    assert!(mark.until <= wall_clock().as_micros() + MAX_TIME.as_micros() as u64);
}

#[test]
fn marks_calls_and_bytes_are_limited() {
    let tracer = Tracer::new(1, 0);
    for number in 0..MAX_MARKS {
        tracer.mark(Target::User(number.to_string()), HOUR, false).unwrap();
    }
    assert!(tracer.mark(Target::User("alice".to_owned()), HOUR, false).is_err());
    tracer.clear();
    tracer.mark(Target::User("alice".to_owned()), HOUR, false).unwrap();
    for number in 0..=MAX_CALLS {
        tracer.received(0, &flow(1), &invite(&number.to_string()));
    }
    assert_eq!(tracer.calls().len(), MAX_CALLS);
    assert_eq!(tracer.calls()[0].call_ids, ["1"]);
    let long = |call_id: &str| {
        let text = String::from_utf8(invite(call_id)).unwrap();
        text.replace("Digest SECRET", &format!("Digest {}", "x".repeat(60_000))).into_bytes()
    };
    for _ in 0..100 {
        tracer.received(0, &flow(1), &long("long"));
    }
    let calls = tracer.calls();
    let call = calls.last().unwrap();
    assert!(call.messages < 20 && call.omitted > 80, "{call:?}");
    for number in 0..20 {
        (0..20).for_each(|_| tracer.received(0, &flow(1), &long(&format!("other {number}"))));
    }
    let kept = tracer.kept.lock();
    assert!(kept.calls.iter().map(|call| call.bytes).sum::<usize>() <= MAX_BYTES[0]);
    assert!(kept.calls.len() < 20);
}
