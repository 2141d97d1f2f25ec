//! Messages as the phones write and read them.

use sip::header::{CSeq, NameAddr};
use sip::{HeaderName, Message};
use std::fmt::Write;

/// The header fields of a request that differ from one to the other.
pub(crate) struct Draft<'a> {
    pub(crate) method: &'a str,
    pub(crate) uri: &'a str,
    /// Value of From, with its tag.
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    pub(crate) call_id: &'a str,
    pub(crate) cseq: u32,
    pub(crate) routes: &'a [String],
    /// Whole lines.
    pub(crate) lines: &'a str,
}

impl Draft<'_> {
    /// The request with `via` on top.
    pub(crate) fn write(&self, via: &str) -> Vec<u8> {
        let Self { method, uri, from, to, call_id, cseq, routes, lines } = self;
        let mut text = format!("{method} {uri} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\n");
        for route in *routes {
            let _ = write!(text, "Route: {route}\r\n");
        }
        let _ = write!(
            text,
            "From: {from}\r\nTo: {to}\r\nCall-ID: {call_id}\r\nCSeq: {cseq} {method}\r\n{lines}\
             Content-Length: 0\r\n\r\n"
        );
        text.into_bytes()
    }
}

/// `text` of a message, which the phones keep within ASCII.
pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the messages here are ASCII")
}

/// The value of a header field.
pub(crate) fn value<'m>(message: &Message<'m>, name: HeaderName) -> &'m str {
    text(message.value(name).unwrap_or_else(|| panic!("{name} is missing")))
}

pub(crate) fn cseq<'m>(message: &Message<'m>) -> CSeq<'m> {
    CSeq::parse(message.value(HeaderName::CSeq).expect("CSeq is missing")).expect("CSeq is wrong")
}

pub(crate) fn tag<'m>(message: &Message<'m>, name: HeaderName) -> Option<&'m str> {
    NameAddr::parse(name, message.value(name)?).ok()?.tag().map(text)
}

/// What identifies the transaction of a message: branch and method, those of the INVITE for ACK
/// and CANCEL if `of_invite`.
pub(crate) fn key(message: &Message<'_>, of_invite: bool) -> String {
    let branch = message.top_via().expect("Via is wrong").branch().expect("no branch");
    let method = text(cseq(message).method.as_bytes());
    let method = if of_invite { "INVITE" } else { method };
    format!("{} {method}", text(branch))
}

/// The request that goes the way of `sent`: its CANCEL, or the ACK of a refusal with the To `to`.
pub(crate) fn companion(method: &str, sent: &[u8], to: Option<&str>) -> Vec<u8> {
    let message = Message::parse(sent).expect("an own request");
    let sip::StartLine::Request { uri, .. } = message.start_line() else { panic!("no request") };
    let mut companion = format!("{method} {} SIP/2.0\r\n", text(uri));
    for field in message.fields() {
        match field.name {
            HeaderName::Via
            | HeaderName::MaxForwards
            | HeaderName::Route
            | HeaderName::From
            | HeaderName::CallId => companion.push_str(text(field.line)),
            HeaderName::To => {
                let _ = write!(companion, "To: {}\r\n", to.unwrap_or(text(field.value)));
            }
            HeaderName::CSeq => {
                let _ = write!(companion, "CSeq: {} {method}\r\n", cseq(&message).number);
            }
            _ => {}
        }
    }
    companion.push_str("Content-Length: 0\r\n\r\n");
    companion.into_bytes()
}

/// A response to `request` with the To tag `tag` and further `lines`.
pub(crate) fn response(request: &[u8], status: u16, tag: Option<&str>, lines: &str) -> Vec<u8> {
    let request = Message::parse(request).expect("a request that was read before");
    let mut response = format!("SIP/2.0 {status} {}\r\n", sip::message::reason_phrase(status));
    for field in request.fields() {
        match field.name {
            HeaderName::Via | HeaderName::From | HeaderName::CallId | HeaderName::CSeq => {
                response.push_str(text(field.line));
            }
            HeaderName::RecordRoute if status < 300 => response.push_str(text(field.line)),
            HeaderName::To => match tag {
                Some(tag) if !text(field.value).contains(";tag=") => {
                    let _ = write!(response, "To: {};tag={tag}\r\n", text(field.value));
                }
                _ => response.push_str(text(field.line)),
            },
            _ => {}
        }
    }
    response.push_str(lines);
    response.push_str("Content-Length: 0\r\n\r\n");
    response.into_bytes()
}
