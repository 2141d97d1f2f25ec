//! Session descriptions in multipart bodies (RFC 5621, RFC 2046 section 5.1).

use sip::header::media_type;
use sip::param::unquote;

/// The deepest nesting of bodies.
const DEPTH: usize = 4;
/// The most parts of a body.
const PARTS: usize = 64;
/// The longest boundary (RFC 2046 section 5.1.1).
const BOUNDARY: usize = 70;

/// Returns the first session description in a body of this content type: the body itself, or one of
/// its parts.
pub(super) fn session_description<'a>(content_type: &[u8], body: &'a [u8]) -> Option<&'a [u8]> {
    find(content_type, body, DEPTH).filter(|found| !found.is_empty())
}

fn find<'a>(content_type: &[u8], body: &'a [u8], depth: usize) -> Option<&'a [u8]> {
    let kind = media_type(content_type).ok()?;
    if kind.is("application", "sdp") {
        return Some(body);
    }
    if depth == 0 || !kind.kind.eq_ignore_ascii_case(b"multipart") {
        return None;
    }
    let boundary: Vec<u8> = unquote(kind.params.value("boundary")?).take(BOUNDARY + 1).collect();
    if boundary.is_empty() || boundary.len() > BOUNDARY {
        return None;
    }
    Parts { rest: body, boundary: &boundary }.take(PARTS).find_map(|part| {
        let (fields, content) = split_header(part);
        find(header_field(fields)?, content, depth - 1)
    })
}

/// The parts of a body.
struct Parts<'a, 'b> {
    rest: &'a [u8],
    boundary: &'b [u8],
}

impl<'a> Iterator for Parts<'a, '_> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        // Text before the first delimiter is not a part.
        let (_, begin) = delimiter(self.rest, self.boundary)?;
        let begin = begin?;
        let part = &self.rest[begin..];
        // The last part of a truncated body extends to its end.
        let end = delimiter(part, self.boundary).map_or(part.len(), |(end, _)| end);
        self.rest = &part[end..];
        Some(&part[..end])
    }
}

/// Returns the end of the text before the next delimiter, and the start of the part after it, if
/// there is one.
fn delimiter(text: &[u8], boundary: &[u8]) -> Option<(usize, Option<usize>)> {
    let mut at = 0;
    loop {
        let line_end = text[at..].iter().position(|&byte| byte == b'\n').map(|end| at + end);
        let line = &text[at..line_end.unwrap_or(text.len())];
        if let Some(after) = line.strip_prefix(b"--")
            && let Some(after) = after.strip_prefix(boundary)
            && matches!(after.trim_ascii(), b"" | b"--")
        {
            // The line end before the delimiter belongs to it.
            let before = text[..at].strip_suffix(b"\n").unwrap_or(&text[..at]);
            let before = before.strip_suffix(b"\r").unwrap_or(before);
            let is_last = after.starts_with(b"--");
            return Some((before.len(), line_end.map(|end| end + 1).filter(|_| !is_last)));
        }
        at = line_end? + 1;
    }
}

/// Splits a part into header fields and content.
fn split_header(part: &[u8]) -> (&[u8], &[u8]) {
    let mut at = 0;
    while let Some(length) = part[at..].iter().position(|&byte| byte == b'\n') {
        if part[at..at + length].trim_ascii().is_empty() {
            return (&part[..at], &part[at + length + 1..]);
        }
        at += length + 1;
    }
    (part, &[])
}

/// Returns the value of Content-Type among header fields; folded lines are not needed.
fn header_field(fields: &[u8]) -> Option<&[u8]> {
    fields.split(|&byte| byte == b'\n').find_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        let name = line[..colon].trim_ascii();
        let is_content_type =
            name.eq_ignore_ascii_case(b"content-type") || name.eq_ignore_ascii_case(b"c");
        is_content_type.then(|| line[colon + 1..].trim_ascii())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_description_is_found_among_parts() {
        let body = b"a preamble\r\n--b 1\r\nContent-Type: application/isup;version=x\r\n\r\n\x01\x02--b\r\n\r\n--b 1\r\n\
            Content-Disposition: session\r\ncontent-type : Application/SDP\r\n\r\nv=0\r\ns=--b 1x\r\n\r\n--b 1--\r\nan epilogue";
        let kind = b"multipart/mixed; boundary=\"b 1\"";
        let found = b"v=0\r\ns=--b 1x\r\n";
        assert_eq!(session_description(kind, body), Some(&found[..]));
        // Bare line ends, and a truncated body.
        let bare = b"--x\nContent-Type: application/sdp\n\nv=0\n";
        assert_eq!(session_description(b"multipart/related;boundary=x", bare), Some(&b"v=0\n"[..]));
        assert_eq!(session_description(b"application/sdp", b"v=0"), Some(&b"v=0"[..]));
        assert_eq!(session_description(b"application/sdp", b""), None);
        for kind in [&b"text/plain"[..], b"multipart/mixed", b"multipart/mixed;boundary=y"] {
            assert_eq!(session_description(kind, bare), None);
        }
        let last = b"--x--\nContent-Type: application/sdp\n\nv=0\n";
        assert_eq!(session_description(b"multipart/mixed;boundary=x", last), None);
    }

    #[test]
    fn parts_stand_in_parts_to_a_depth() {
        let nested = |levels: usize| {
            let (mut kind, mut body) = ("application/sdp".to_owned(), "v=0".to_owned());
            for level in 0..levels {
                body =
                    format!("--{level}\r\nContent-Type: {kind}\r\n\r\n{body}\r\n--{level}--\r\n");
                kind = format!("multipart/mixed;boundary={level}");
            }
            session_description(kind.as_bytes(), body.as_bytes()).is_some()
        };
        assert!(nested(1) && nested(DEPTH));
        assert!(!nested(DEPTH + 1));
    }

    proptest! {
        #[test]
        fn nothing_panics(body in "(--b(--)?|\r?\n|Content-Type: |application/sdp|multipart/mixed;boundary=b|[a-z: ]{0,5}){0,30}") {
            session_description(b"multipart/mixed;boundary=b", body.as_bytes());
        }
    }
}
