//! Message bodies: the session description, alone or as a part of a multipart body (RFC 2046
//! section 5.1, RFC 5621).

use super::Message;
use crate::HeaderName;
use crate::header::{MediaType, media_type};
use crate::param::unquote;
use alloc::vec::Vec;

/// The maximum depth of nested multipart bodies.
const MAX_DEPTH: usize = 3;

impl<'a> Message<'a> {
    /// Returns the session description in the body, if any: alone, or as a part of a multipart
    /// body.
    #[must_use]
    pub fn session_description(&self) -> Option<&'a [u8]> {
        let kind = media_type(self.value(HeaderName::ContentType)?).ok()?;
        session_in(&kind, self.body(), MAX_DEPTH)
    }
}

/// Returns the session description in `body` of the type `kind`.
fn session_in<'b>(kind: &MediaType<'_>, body: &'b [u8], depth: usize) -> Option<&'b [u8]> {
    if kind.is("application", "sdp") {
        return (!body.is_empty()).then_some(body);
    }
    if depth == 0 || !kind.kind.eq_ignore_ascii_case(b"multipart") {
        return None;
    }
    let boundary = unquote(kind.params.value("boundary")?);
    let delimiter: Vec<u8> = b"--".iter().copied().chain(boundary).collect();
    let mut rest = after_delimiter(body, &delimiter)?.1;
    while !rest.starts_with(b"--") {
        let (part, after) = after_delimiter(rest, &delimiter)?;
        let (kind, content) = part_of(part);
        let kind = kind.and_then(|kind| media_type(kind).ok());
        if let Some(session) = kind.and_then(|kind| session_in(&kind, content, depth - 1)) {
            return Some(session);
        }
        rest = after;
    }
    None
}

/// Splits `bytes` at the line that begins with `delimiter`: returns the part in front of it,
/// without the line end, and the part after the delimiter.
fn after_delimiter<'b>(bytes: &'b [u8], delimiter: &[u8]) -> Option<(&'b [u8], &'b [u8])> {
    let is_line = |at: usize| at == 0 || bytes[at - 1] == b'\n';
    let mut places = memchr::memmem::find_iter(bytes, delimiter);
    let at = places.find(|at| is_line(*at))?;
    let before = &bytes[..at];
    let before = before.strip_suffix(b"\n").unwrap_or(before);
    let before = before.strip_suffix(b"\r").unwrap_or(before);
    Some((before, &bytes[at + delimiter.len()..]))
}

/// Returns the media type of a part, if named, and its content. The part begins with the rest of
/// its delimiter line.
fn part_of(part: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let mut kind = None;
    let mut rest = part;
    let mut is_first = true;
    while let Some(end) = memchr::memchr(b'\n', rest) {
        let line = rest[..end].trim_ascii();
        rest = &rest[end + 1..];
        if line.is_empty() && !is_first {
            break;
        }
        is_first = false;
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        if line[..colon].trim_ascii_end().eq_ignore_ascii_case(b"Content-Type") {
            kind = line.get(colon + 1..);
        }
    }
    (kind, rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use proptest::prelude::*;

    fn session(kind: &str, body: &str) -> Option<String> {
        let length = body.len();
        let text = format!(
            "INFO sip:a SIP/2.0\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let message = Message::parse(text.as_bytes()).unwrap();
        message.session_description().map(|session| String::from_utf8(session.to_vec()).unwrap())
    }

    #[test]
    fn a_session_is_found_alone_and_among_parts() {
        const SDP: &str = "Content-Type: application/sdp\r\n\r\nv=0\r\n";
        let other = "--b\r\nContent-Type: application/isup\r\n\r\n\u{1}\r\n\r\n";
        let inner = format!("--c\n\nno type\n--c\n{}--c--\n", SDP.replace('\r', ""));
        for (kind, body, expected) in [
            ("application/sdp", "v=0\r\n".into(), Some("v=0\r\n")),
            ("Application/SDP;charset=utf-8", "v=0\r\n".into(), Some("v=0\r\n")),
            (
                "multipart/mixed;boundary=b",
                format!("{other}--b\r\n{SDP}\r\n--b--\r\n"),
                Some("v=0\r\n"),
            ),
            (
                "multipart/mixed;boundary=\"b\"",
                format!("preamble\r\n--b\r\n{SDP}\r\n--b--"),
                Some("v=0\r\n"),
            ),
            (
                "multipart/related;boundary=b",
                format!(
                    "--b\r\nContent-Type: multipart/alternative;boundary=c\r\n\r\n{inner}\r\n--b--\r\n"
                ),
                Some("v=0"),
            ),
            // No final delimiter, no boundary, no session description, an empty body.
            ("multipart/mixed;boundary=b", format!("--b\r\n{SDP}"), None),
            ("multipart/mixed", format!("--b\r\n{SDP}\r\n--b--\r\n"), None),
            ("multipart/mixed;boundary=b", format!("{other}--b--\r\n"), None),
            ("application/sdp", String::new(), None),
            ("text/plain", "v=0\r\n".into(), None),
        ] {
            assert_eq!(session(kind, &body).as_deref(), expected, "{kind} {body:?}");
        }
    }

    proptest! {
        #[test]
        fn no_body_harms(body in "(--b|--|\r\n|Content-Type: |multipart/x;boundary=b|:|v=0){0,12}") {
            let _ = session("multipart/mixed;boundary=b", &body);
        }
    }
}
