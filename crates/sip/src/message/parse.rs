//! The message parser, which makes one pass over the bytes.

use super::{FramingFault, MAX_FIELDS, MAX_MESSAGE, Message, Names, Span, StartLine};
use crate::header::{HeaderName, Via};
use crate::lex::{self, LineEnds};
use crate::method::Method;
use core::fmt;
use smallvec::SmallVec;

/// The reason why bytes are not a message, nor a request that could be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseError {
    /// Only line ends: a keep-alive (RFC 5626 section 3.5.1).
    Empty,
    /// The first line is neither a request line nor a status line of SIP.
    StartLine,
    /// The last header field line is not terminated, and no empty line follows.
    Unterminated,
    /// The message exceeds [`MAX_MESSAGE`] bytes.
    TooLong,
    /// The message exceeds [`MAX_FIELDS`] header field lines.
    TooManyFields,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("only line ends, expected a message"),
            Self::StartLine => {
                f.write_str("the first line is neither a request line nor a status line of SIP")
            }
            Self::Unterminated => f.write_str("no empty line after the header fields"),
            Self::TooLong => write!(f, "more than {MAX_MESSAGE} bytes"),
            Self::TooManyFields => write!(f, "more than {MAX_FIELDS} header field lines"),
        }
    }
}

impl core::error::Error for ParseError {}

impl<'a> Message<'a> {
    /// Parses the message in a datagram. Line ends before it are ignored, and bytes after the body
    /// are dropped (RFC 3261 section 18.3).
    ///
    /// # Errors
    /// [`ParseError`] if no response would be possible. Other faults are reported by
    /// [`Message::framing_fault`].
    pub fn parse(datagram: &'a [u8]) -> Result<Self, ParseError> {
        let bytes = skip_line_ends(datagram);
        if bytes.is_empty() {
            return Err(ParseError::Empty);
        }
        if bytes.len() > MAX_MESSAGE {
            return Err(ParseError::TooLong);
        }
        let mut flaw = None;
        let mut lines = Lines { bytes, at: 0, ends: LineEnds::new(bytes), flaw: &mut flaw };
        let (_, first_end, fields_start) = lines.next_line().ok_or(ParseError::StartLine)?;
        let (start_line, start_flaw) =
            start_line(&bytes[..first_end]).ok_or(ParseError::StartLine)?;

        let mut spans: SmallVec<[Span; 32]> = SmallVec::new();
        let mut names = Names::default();
        let (fields_end, body_start) = lines.fields(&mut spans, &mut names)?;
        let vias = spans.iter().find(|span| span.name == HeaderName::Via);
        let vias = vias.map_or(&[][..], |span| &bytes[span.value.into()..span.value_end.into()]);
        let top_via = Via::parse(lex::trim(&vias[..lex::list_element_end(vias)]));
        let mut message = Self {
            bytes,
            start_line,
            fields_start: offset(fields_start),
            fields_end: offset(fields_end),
            spans,
            names,
            body_start: offset(body_start),
            flaw: flaw.or(start_flaw),
            top_via,
        };
        match message.content_length() {
            Ok(Some(length)) if body_start + length <= bytes.len() => {
                message.bytes = &bytes[..body_start + length];
            }
            Ok(None) => {}
            Ok(Some(_)) | Err(()) => {
                message.flaw.get_or_insert(FramingFault::ContentLength);
            }
        }
        Ok(message)
    }

    /// The value of Content-Length, `None` if absent.
    fn content_length(&self) -> Result<Option<usize>, ()> {
        let mut lengths = self
            .values(HeaderName::ContentLength)
            .map(|value| lex::decimal(value).and_then(|number| usize::try_from(number).ok()));
        let Some(first) = lengths.next() else { return Ok(None) };
        if lengths.any(|other| other != first) {
            return Err(());
        }
        first.filter(|&length| length <= MAX_MESSAGE).map(Some).ok_or(())
    }
}

/// A message has at most [`MAX_MESSAGE`] bytes, so offsets fit.
fn offset(at: usize) -> u16 {
    debug_assert!(at <= MAX_MESSAGE);
    at as u16
}

pub(crate) fn skip_line_ends(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n'));
    &bytes[start.unwrap_or(bytes.len())..]
}

struct Lines<'a, 'f> {
    bytes: &'a [u8],
    at: usize,
    /// The line ends from `at` on.
    ends: LineEnds<'a>,
    flaw: &'f mut Option<FramingFault>,
}

impl Lines<'_, '_> {
    /// The start of the next line, its end without the line end, and the start of the line after
    /// it.
    #[inline(always)]
    fn next_line(&mut self) -> Option<(usize, usize, usize)> {
        let start = self.at;
        let end = self.ends.next()?;
        if let [b'\r', b'\n', ..] = self.bytes[end..] {
            self.ends.next();
            self.at = end + 2;
            return Some((start, end, self.at));
        }
        self.next_flawed_line(end)
    }

    /// As `next_line`, for a line that does not end with CR LF. There is a CR or a LF at `end`.
    #[cold]
    fn next_flawed_line(&mut self, mut end: usize) -> Option<(usize, usize, usize)> {
        let start = self.at;
        // The line ends with the next LF.
        self.flaw.get_or_insert(FramingFault::LineEnd);
        while self.bytes[end] != b'\n' {
            end = self.ends.next()?;
        }
        self.at = end + 1;
        if end > start && self.bytes[end - 1] == b'\r' {
            end -= 1;
        }
        Some((start, end, self.at))
    }

    /// As `next_line`, including the continuation lines (RFC 3261 section 7.3.1).
    #[inline(always)]
    fn next_folded(&mut self) -> Option<(usize, usize, usize)> {
        let (start, end, next) = self.next_line()?;
        if end > start && self.is_continued() {
            return self.fold(start);
        }
        Some((start, end, next))
    }

    /// Parses the header fields. Returns the end of the last one and the start of the body.
    #[inline(always)]
    fn fields(
        &mut self,
        spans: &mut SmallVec<[Span; 32]>,
        names: &mut Names,
    ) -> Result<(usize, usize), ParseError> {
        loop {
            if self.at == self.bytes.len() && !spans.is_empty() {
                self.flaw.get_or_insert(FramingFault::EmptyLine);
                return Ok((self.at, self.at));
            }
            let (line, line_end, next) = self.next_folded().ok_or(ParseError::Unterminated)?;
            if line_end == line {
                return Ok((line, next));
            }
            if spans.len() == MAX_FIELDS {
                return Err(ParseError::TooManyFields);
            }
            match field_span(self.bytes, line, line_end) {
                Some(span) => {
                    names.add(span.name);
                    spans.push(span);
                }
                None => {
                    // Stored as a field without a name, so that the lines are contiguous.
                    let (line, value_end) = (offset(line), offset(line_end));
                    names.add(HeaderName::Other);
                    spans.push(Span { name: HeaderName::Other, line, value: line, value_end });
                    self.flaw.get_or_insert(FramingFault::FieldLine);
                }
            }
        }
    }

    fn is_continued(&self) -> bool {
        matches!(self.bytes.get(self.at), Some(b' ' | b'\t'))
    }

    /// The rest of a continued line that started at `start`.
    #[cold]
    fn fold(&mut self, start: usize) -> Option<(usize, usize, usize)> {
        loop {
            let (_, end, next) = self.next_line()?;
            if !self.is_continued() {
                return Some((start, end, next));
            }
        }
    }
}

fn field_span(bytes: &[u8], line: usize, line_end: usize) -> Option<Span> {
    let text = &bytes[line..line_end];
    let colon = lex::find(b':', text)?;
    let name_text = &text[..colon];
    let mut name = HeaderName::new(name_text);
    if name == HeaderName::Other {
        // The name may have white space before the colon. This is tried second, because it is rare.
        let trimmed = lex::trim_end(name_text);
        if trimmed.len() < name_text.len() {
            name = HeaderName::new(trimmed);
        }
        if name == HeaderName::Other && !lex::all_token(trimmed) {
            return None;
        }
    }
    let value = lex::trim_start(&text[colon + 1..]);
    let value_start = line_end - value.len();
    let value_end = value_start + lex::trim_end(value).len();
    Some(Span {
        name,
        line: offset(line),
        value: offset(value_start),
        value_end: offset(value_end),
    })
}

/// Parses a start line. White space beyond the grammar is a flaw instead of an error, so that the
/// request can be answered.
fn start_line(line: &[u8]) -> Option<(StartLine<'_>, Option<FramingFault>)> {
    const VERSION: &[u8] = b"SIP/2.0";
    if let Some((version, rest)) = line.split_at_checked(VERSION.len())
        && version.eq_ignore_ascii_case(VERSION)
    {
        return status_line(rest).map(|start| (start, None));
    }
    let first = line.iter().position(|&byte| byte == b' ')?;
    let trimmed = lex::trim_end(line);
    let last = trimmed.iter().rposition(|&byte| byte == b' ').filter(|&last| last > first)?;
    let (method, version) = (&line[..first], &trimmed[last + 1..]);
    let uri = lex::trim(&line[first + 1..last]);
    let is_sip = version.len() > 4 && version[..4].eq_ignore_ascii_case(b"SIP/");
    if !lex::all_token(method) || !is_sip || uri.is_empty() {
        return None;
    }
    let exact = first + 1 + uri.len() + 1 + version.len() == line.len();
    let start = StartLine::Request { method: Method::new(method), uri, version };
    Some((start, (!exact).then_some(FramingFault::StartLine)))
}

/// The space after the status code may be missing without a reason phrase.
fn status_line(rest: &[u8]) -> Option<StartLine<'_>> {
    let rest = rest.strip_prefix(b" ")?;
    let (code, reason) = lex::split_while(rest, |byte| byte.is_ascii_digit());
    let status = lex::decimal(code)
        .filter(|status| code.len() == 3 && (100..700).contains(status))
        .and_then(|status| u16::try_from(status).ok())?;
    let reason = match reason {
        [] => reason,
        [b' ', reason @ ..] => reason,
        _ => return None,
    };
    Some(StartLine::Response { status, reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const OPTIONS: &[u8] = b"\r\n\r\nOPTIONS sip:b@c SIP/2.0\r\n\
        v: SIP/2.0/UDP h;branch=z9hG4bK1,\r\n SIP/2.0/TCP g\r\n\
        Subject:\r\n\
        X-Y : \xff\x00\r\n\
        l: 3\r\n\
        \r\nabcdef";

    #[test]
    fn fields_keep_order_and_bytes() {
        let message = Message::parse(OPTIONS).unwrap();
        assert_eq!(message.framing_fault(), None);
        assert_eq!(
            message.start_line(),
            StartLine::Request { method: Method::Options, uri: b"sip:b@c", version: b"SIP/2.0" }
        );
        let names: Vec<_> = message.fields().map(|field| field.name).collect();
        use HeaderName::{ContentLength, Other, Subject, Via};
        assert_eq!(names, [Via, Subject, Other, ContentLength]);
        let lines: Vec<u8> = message.fields().flat_map(|field| field.line.to_vec()).collect();
        assert_eq!(lines, message.fields_bytes());
        assert_eq!(message.value(Subject), Some(&b""[..]));
        let unknown = message.first(Other).unwrap();
        assert_eq!((unknown.raw_name(), unknown.value), (&b"X-Y"[..], &b"\xff\x00"[..]));
        assert_eq!(message.elements(Via).count(), 2);
        assert_eq!(message.top_via().unwrap().branch(), Some(&b"z9hG4bK1"[..]));
        assert_eq!(message.body(), b"abc");
        assert_eq!(message.as_bytes(), &OPTIONS[4..OPTIONS.len() - 3]);
    }

    #[test]
    fn status_codes_have_three_digits() {
        let status = |line: &[u8]| {
            Message::parse(&[line, b"\r\n\r\n"].concat()).map(|message| message.status())
        };
        assert_eq!(status(b"SIP/2.0 180 Ringing now"), Ok(Some(180)));
        assert_eq!(status(b"SIP/2.0 100 "), Ok(Some(100)));
        assert_eq!(status(b"SIP/2.0 100"), Ok(Some(100)));
        for bad in [
            &b"SIP/2.0 4294967301 better not"[..],
            b"SIP/2.0 099 x",
            b"SIP/2.0 700 x",
            b"SIP/2.0  200 OK",
            b"SIP/2.0 200OK",
            b"SIP/2.0",
            b"HTTP/1.1 200 OK",
            b"GET / HTTP/1.1",
            b"hello",
        ] {
            assert_eq!(status(bad), Err(ParseError::StartLine), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn faults_that_can_be_answered_are_flaws() {
        for (bytes, flaw) in [
            (&b"INVITE  sip:a@b SIP/2.0\r\nVia: x\r\n\r\n"[..], FramingFault::StartLine),
            (b"INVITE sip:a@b SIP/2.0  \r\nVia: x\r\n\r\n", FramingFault::StartLine),
            (b"INVITE sip:a@b SIP/2.0\nVia: x\r\n\r\n", FramingFault::LineEnd),
            (b"INVITE sip:a@b SIP/2.0\r\nVia: x\ry\r\n\r\n", FramingFault::LineEnd),
            (b"INVITE sip:a@b SIP/2.0\r\nVia\r\n\r\n", FramingFault::FieldLine),
            (b"INVITE sip:a@b SIP/2.0\r\n: x\r\n\r\n", FramingFault::FieldLine),
            (b"INVITE sip:a@b SIP/2.0\r\nl: 9\r\n\r\nbody", FramingFault::ContentLength),
            (b"INVITE sip:a@b SIP/2.0\r\nl: -9\r\n\r\nbody", FramingFault::ContentLength),
            (b"INVITE sip:a@b SIP/2.0\r\nl: 1\r\nl: 2\r\n\r\nbody", FramingFault::ContentLength),
            (
                b"INVITE sip:a@b SIP/2.0\r\nl: 99999999999999999999\r\n\r\nbody",
                FramingFault::ContentLength,
            ),
        ] {
            let message = Message::parse(bytes).unwrap();
            assert_eq!(message.framing_fault(), Some(flaw), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn lines_end_at_lf_and_continue_after_folds() {
        // The CR is the last byte of a block of 64 bytes, and the LF the first of the next.
        let padded = [b"Subject: ".to_vec(), b"x".repeat(29), b"\r\nA: 1\r\n".to_vec()].concat();
        for (fields, values, flaw) in [
            (&b"A: 1\r\r\nB: 2\r\n"[..], &[&b"1"[..], b"2"][..], Some(FramingFault::LineEnd)),
            (b"A: 1\r2\nB: 2\r\n", &[b"1\r2", b"2"], Some(FramingFault::LineEnd)),
            (b"A: 1\nB: 2\n", &[b"1", b"2"], Some(FramingFault::LineEnd)),
            (b"A: 1\r\n 2\r\n\t3\r\nB: 2\r\n", &[b"1\r\n 2\r\n\t3", b"2"], None),
            (b"A:\r\n 1\r\nB : 2\r\n", &[b"1", b"2"], None),
            (&padded, &[&[b'x'; 29], b"1"], None),
        ] {
            let bytes = [b"OPTIONS sip:b@c SIP/2.0\r\n", fields, b"\r\n"].concat();
            let message = Message::parse(&bytes).unwrap();
            let found: Vec<_> = message.fields().map(|field| field.value).collect();
            assert_eq!(found, values, "{}", fields.escape_ascii());
            assert_eq!(message.framing_fault(), flaw, "{}", fields.escape_ascii());
            let lines: Vec<u8> = message.fields().flat_map(|field| field.line.to_vec()).collect();
            assert_eq!(lines, fields);
        }
    }

    #[test]
    fn exceeded_limits_are_errors() {
        assert_eq!(Message::parse(b"\r\n\r\n").err(), Some(ParseError::Empty));
        assert_eq!(Message::parse(b"").err(), Some(ParseError::Empty));
        let cut = &OPTIONS[..OPTIONS.len() - 9];
        assert_eq!(Message::parse(cut).err(), Some(ParseError::Unterminated));
        assert_eq!(Message::parse(&[b'a'; MAX_MESSAGE + 1]).err(), Some(ParseError::TooLong));
        let mut many = b"OPTIONS sip:b@c SIP/2.0\r\n".to_vec();
        for _ in 0..=MAX_FIELDS {
            many.extend_from_slice(b"a:b\r\n");
        }
        many.extend_from_slice(b"\r\n");
        assert_eq!(Message::parse(&many).err(), Some(ParseError::TooManyFields));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Message::parse(&bytes);
        }

        #[test]
        fn parsing_again_gives_the_same_message(
            cut in 0..OPTIONS.len(),
            bytes in proptest::collection::vec(any::<u8>(), 0..8),
        ) {
            let mut changed = OPTIONS[..cut].to_vec();
            changed.extend_from_slice(&bytes);
            changed.extend_from_slice(&OPTIONS[cut..]);
            if let Ok(message) = Message::parse(&changed) {
                let again = Message::parse(message.as_bytes()).unwrap();
                prop_assert_eq!(again.as_bytes(), message.as_bytes());
                prop_assert_eq!(again.framing_fault(), message.framing_fault());
                prop_assert!(again.fields().eq(message.fields()));
            }
        }
    }
}
