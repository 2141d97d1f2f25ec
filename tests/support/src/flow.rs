//! Flows of messages as text, such as `A>B INVITE, B>A 180`, and scripted responses.

use sip::message::{Response, reason_phrase};
use sip::{HeaderName, Message, StartLine};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Returns `flow` relayed by `proxies`, which are named in the order from A on.
///
/// # Panics
/// A step of the flow is malformed.
#[must_use]
pub fn relayed(proxies: &str, flow: &str) -> String {
    let steps = flow.split(',').flat_map(|step| {
        let (ends, what) = step.trim().split_once(' ').expect("a step");
        let (from, to) = ends.split_once('>').expect("two ends");
        let mut hops: Vec<char> = proxies.chars().collect();
        if from > to {
            hops.reverse();
        }
        let places: Vec<char> = from.chars().chain(hops).chain(to.chars()).collect();
        let hop = |pair: &[char]| format!("{}>{} {what}", pair[0], pair[1]);
        places.windows(2).map(hop).collect::<Vec<_>>()
    });
    steps.collect::<Vec<_>>().join(", ")
}

/// Returns the step of a flow that the message `bytes` is.
///
/// # Panics
/// The bytes are not a message.
#[must_use]
pub fn step(from: char, to: char, bytes: &[u8]) -> String {
    let message = Message::parse(bytes).expect("a message");
    let what = match message.start_line() {
        StartLine::Request { method, .. } => String::from_utf8_lossy(method.as_bytes()).into(),
        StartLine::Response { status, .. } => status.to_string(),
    };
    format!("{from}>{to} {what}")
}

/// Asserts that the steps `seen` are those of `flow`: between each two ends the same messages in
/// the same order.
///
/// # Panics
/// They differ.
pub fn assert_same(seen: impl Iterator<Item = String>, flow: &str) {
    let lanes = |flow: &mut dyn Iterator<Item = String>| {
        let mut lanes = BTreeMap::new();
        for step in flow {
            let mut ends = [step.as_bytes()[0], step.as_bytes()[2]];
            ends.sort_unstable();
            lanes.entry(ends).or_insert_with(Vec::new).push(step);
        }
        lanes
    };
    let steps = flow.split(',').map(|step| step.trim().to_owned());
    let expected = lanes(&mut steps.filter(|step| !step.is_empty()));
    assert_eq!(lanes(&mut { seen }), expected, "the messages between two ends");
}

/// Returns the response to `request`, with complete header field lines and a session description.
///
/// # Panics
/// The bytes are not a message.
#[must_use]
pub fn response(
    request: &[u8],
    source: SocketAddr,
    status: u16,
    tag: &str,
    lines: &str,
    session: &str,
) -> Vec<u8> {
    let request = Message::parse(request).expect("a request");
    let reason = reason_phrase(status);
    let to_tag = Some(tag.as_bytes()).filter(|tag| !tag.is_empty());
    let response = Response { request: &request, source, status, reason, to_tag };
    let mut out = Vec::new();
    let fields = |out: &mut Vec<u8>| {
        out.extend_from_slice(lines.as_bytes());
        if !session.is_empty() {
            out.extend_from_slice(b"Content-Type: application/sdp\r\n");
        }
    };
    response.write_with_body(&mut out, fields, session.as_bytes());
    out
}

/// Returns the value of a header field of `message`, or an empty one.
///
/// # Panics
/// The bytes are not a message.
#[must_use]
pub fn value(message: &[u8], name: HeaderName) -> String {
    let message = Message::parse(message).expect("a message");
    let value = message.value(name).unwrap_or_default();
    String::from_utf8_lossy(value).into_owned()
}

/// Returns the body of `message`.
///
/// # Panics
/// The bytes are not a message.
#[must_use]
pub fn body(message: &[u8]) -> Vec<u8> {
    Message::parse(message).expect("a message").body().to_vec()
}
