//! Writing of new messages.

use crate::encode::Encode;
use crate::header::HeaderName;
use crate::method::Method;
use alloc::vec::Vec;

/// Writes one message, header field by header field, at the end of the caller's buffer.
///
/// Header field injection is impossible: line breaks in values become spaces.
///
/// ```
/// use barebell_sip::message::Writer;
/// use barebell_sip::{HeaderName, Method};
///
/// let mut out = Vec::new();
/// Writer::request(&mut out, Method::Options, "sip:example.com")
///     .field(HeaderName::CallId, "a84b4c76e66710")
///     .field(HeaderName::MaxForwards, 70_u32)
///     .end();
/// assert_eq!(
///     out,
///     b"OPTIONS sip:example.com SIP/2.0\r\nCall-ID: a84b4c76e66710\r\nMax-Forwards: 70\r\n\
///       Content-Length: 0\r\n\r\n"
/// );
/// ```
#[derive(Debug)]
#[must_use = "a message has to be finished with `end` or `body`"]
pub struct Writer<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> Writer<'o> {
    /// Starts a request with its start line.
    pub fn request(out: &'o mut Vec<u8>, method: Method<'_>, uri: impl Encode) -> Self {
        let start = out.len();
        (method, " ", uri).encode(out);
        keep_on_line(&mut out[start..]);
        out.extend_from_slice(b" SIP/2.0\r\n");
        Self { out }
    }

    /// Starts a response with its start line. Use [`Response`](super::Response) for the response to
    /// a request.
    pub fn response(out: &'o mut Vec<u8>, status: u16, reason: &str) -> Self {
        let start = out.len();
        ("SIP/2.0 ", status, " ", reason).encode(out);
        keep_on_line(&mut out[start..]);
        out.extend_from_slice(b"\r\n");
        Self { out }
    }

    /// Appends the header field `name`. [`HeaderName::Other`] has no name and is ignored.
    pub fn field(self, name: HeaderName, value: impl Encode) -> Self {
        match name {
            HeaderName::Other => self,
            name => self.other(name.as_str(), value),
        }
    }

    /// Appends a header field without a [`HeaderName`]. `name` must be a token.
    pub fn other(self, name: &str, value: impl Encode) -> Self {
        (name, ": ").encode(self.out);
        let start = self.out.len();
        value.encode(self.out);
        keep_on_line(&mut self.out[start..]);
        self.out.extend_from_slice(b"\r\n");
        self
    }

    /// Appends a header field `name` per item of `values`.
    pub fn each(self, name: HeaderName, values: impl IntoIterator<Item: Encode>) -> Self {
        values.into_iter().fold(self, |writer, value| writer.field(name, value))
    }

    /// Appends complete header field lines unchanged, each including its line end.
    pub fn lines(self, lines: impl Encode) -> Self {
        lines.encode(self.out);
        self
    }

    /// Finishes a message without a body.
    pub fn end(self) {
        self.body("", b"");
    }

    /// Finishes the message with a body of the media type `kind`. Content-Type is omitted for an
    /// empty body, and for an empty `kind` if it is already among the header fields.
    pub fn body(mut self, kind: &str, body: &[u8]) {
        if !body.is_empty() && !kind.is_empty() {
            self = self.field(HeaderName::ContentType, kind);
        }
        self.field(HeaderName::ContentLength, body.len() as u64).lines(("\r\n", body)).done();
    }

    fn done(self) {}
}

/// Replaces line breaks by spaces.
fn keep_on_line(bytes: &mut [u8]) {
    while let Some(at) = memchr::memchr2(b'\r', b'\n', bytes) {
        bytes[at] = b' ';
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;
    use proptest::prelude::*;

    #[test]
    fn written_messages_are_parsed() {
        let mut out = Vec::from(*b"before");
        Writer::response(&mut out, 183, "Session Progress")
            .field(HeaderName::Via, ("SIP/2.0/UDP ", "host", ";branch=z9hG4bKx"))
            .each(HeaderName::RecordRoute, ["<sip:a;lr>", "<sip:b;lr>"])
            .other("X-Own", 17_u32)
            .lines("Subject: x\r\n")
            .body("application/sdp", b"v=0\r\n");
        let message = Message::parse(&out[6..]).unwrap();
        assert_eq!((message.status(), message.framing_fault()), (Some(183), None));
        assert_eq!(message.elements(HeaderName::RecordRoute).count(), 2);
        assert_eq!(message.value(HeaderName::ContentType), Some(&b"application/sdp"[..]));
        assert_eq!(message.body(), b"v=0\r\n");
    }

    #[test]
    fn an_existing_content_type_is_not_repeated() {
        let mut out = Vec::new();
        Writer::response(&mut out, 200, "OK")
            .field(HeaderName::ContentType, "text/plain")
            .field(HeaderName::Subject, "x")
            .body("", b"hello");
        let message = Message::parse(&out).unwrap();
        assert_eq!(message.values(HeaderName::ContentType).collect::<Vec<_>>(), [b"text/plain"]);
        assert_eq!((message.framing_fault(), message.body()), (None, &b"hello"[..]));
    }

    #[test]
    fn a_field_without_a_name_is_not_written() {
        let mut out = Vec::new();
        Writer::response(&mut out, 200, "OK").field(HeaderName::Other, "x").end();
        assert_eq!(out, b"SIP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n");
    }

    proptest! {
        #[test]
        fn values_cannot_inject_header_fields(
            value in "[ -~\r\n\t]{0,40}", uri in "sip:[!-~\r\n]{0,20}", reason in "[ -~\r\n]{0,20}"
        ) {
            let mut out = Vec::new();
            Writer::request(&mut out, Method::Info, &uri).field(HeaderName::Subject, &value).end();
            let message = Message::parse(&out).unwrap();
            prop_assert_eq!(message.fields().count(), 2);
            let shown = value.replace(['\r', '\n'], " ");
            let shown = shown.trim_matches([' ', '\t']).as_bytes();
            prop_assert_eq!(message.value(HeaderName::Subject), Some(shown));
            out.clear();
            Writer::response(&mut out, 200, &reason).end();
            prop_assert_eq!(Message::parse(&out).unwrap().fields().count(), 1);
        }
    }
}
