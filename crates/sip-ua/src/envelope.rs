//! Bodies with more than a session description (RFC 5621), such as multipart/mixed, and bodies
//! without one.

use alloc::string::String;
use alloc::vec::Vec;
use sip::{Encode, HeaderName, Message};

/// A body of another type than that of a session description, which may have one as a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The value of Content-Type.
    pub body_type: String,
    /// Further complete header field lines about the body, such as MIME-Version.
    pub lines: Vec<u8>,
    /// The bytes in front of the session description. Without one these are all bytes.
    pub before: Vec<u8>,
    /// The bytes behind the session description.
    pub after: Vec<u8>,
}

impl Envelope {
    /// Returns the envelope of the body of `message`, without `lines`. `None` if it has no body, or
    /// only a session description.
    #[must_use]
    pub fn of(message: &Message<'_>) -> Option<Self> {
        let body = message.body();
        let (start, length) = match message.session_description() {
            Some(session) if session.len() == body.len() => return None,
            Some(session) => (session.as_ptr() as usize - body.as_ptr() as usize, session.len()),
            None if body.is_empty() => return None,
            None => (body.len(), 0),
        };
        let body_type = message.value(HeaderName::ContentType)?;
        Some(Self {
            body_type: core::str::from_utf8(body_type).ok()?.into(),
            lines: Vec::new(),
            before: body[..start].to_vec(),
            after: body[start + length..].to_vec(),
        })
    }

    /// Returns true if a session description is a part of the body.
    #[must_use]
    pub const fn has_session(&self) -> bool {
        // The last part is followed by a delimiter.
        !self.after.is_empty()
    }

    /// Returns the length of the body without the session description.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// Returns the header field lines about the body, with Content-Type.
    pub(crate) fn fields(&self) -> Vec<u8> {
        let mut lines = self.lines.clone();
        ("Content-Type: ", &self.body_type, "\r\n").encode(&mut lines);
        lines
    }

    /// Returns the body with `session` as the session description.
    #[must_use]
    pub fn around(&self, session: &[u8]) -> Vec<u8> {
        [&self.before, session, &self.after].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    fn envelope(kind: &str, body: &str) -> Option<Envelope> {
        let length = body.len();
        let text = format!(
            "INVITE sip:a SIP/2.0\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        Envelope::of(&Message::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn the_session_description_is_replaced_and_other_parts_stay() {
        let body = |session: &str| {
            format!(
                "--b\r\nContent-Type: application/isup\r\n\r\n\0\u{1}\r\n--b\r\n\
                 Content-Type: application/sdp\r\n\r\n{session}\r\n--b--\r\n"
            )
        };
        let found = envelope("multipart/mixed;boundary=b", &body("v=0\r\n")).unwrap();
        assert_eq!(found.body_type, "multipart/mixed;boundary=b");
        assert_eq!(found.around(b"v=1\r\nx\r\n"), body("v=1\r\nx\r\n").as_bytes());
        let found = envelope("application/isup", "abc").unwrap();
        assert_eq!((found.around(b""), found.length()), (b"abc".to_vec(), 3));
        assert_eq!(envelope("application/sdp", "v=0\r\n"), None);
        assert_eq!(envelope("application/isup", ""), None);
    }
}
