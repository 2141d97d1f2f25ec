//! Framing of messages on a stream (RFC 3261 section 18.3).

use crate::header::HeaderName;
use crate::lex::{self, LineFeeds};
use crate::message::{MAX_MESSAGE, skip_line_ends};
use core::{fmt, mem};
use memchr::memmem;

/// The end of the header fields.
const EMPTY_LINE: &[u8] = b"\r\n\r\n";

/// The framing is lost: no further message can be found, and the stream has to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The message is longer than [`MAX_MESSAGE`], or its header fields do not end within it.
    TooLong,
    /// Content-Length is missing, not a number, or present twice with different values. The header
    /// fields of the message are the first bytes of the buffer, of this length, with the empty
    /// line, so that the request can be answered.
    ContentLength(usize),
    /// The bytes are a TLS record.
    Tls,
    /// The bytes are not a valid WebSocket frame, for this reason.
    WebSocket(&'static str),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => {
                write!(f, "a message on the stream is longer than {MAX_MESSAGE} bytes")
            }
            Self::ContentLength(_) => {
                f.write_str("a message on a stream needs one Content-Length that is a number")
            }
            Self::Tls => f.write_str(
                "the other end speaks TLS, and this connection is one without: one of the two has \
                 the wrong port or transport",
            ),
            Self::WebSocket(what) => f.write_str(what),
        }
    }
}

impl core::error::Error for FrameError {}

/// Finds messages in the bytes of a stream. It stores its search position, so that a message that
/// arrives in small pieces is not searched again from its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Framer {
    /// The number of bytes already searched for the end of the header fields.
    searched: usize,
    /// The length of the message if only its body is incomplete.
    wanted: usize,
}

/// The unit at the start of the bytes given to [`Framer::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A message of this many bytes.
    Message(usize),
    /// Line ends of this many bytes, which the caller drops. Two or more are a ping that is
    /// answered with one CR LF (RFC 5626 section 3.5.1).
    LineEnds(usize),
    /// An incomplete message.
    Incomplete,
}

impl Framer {
    /// Returns the unit that `bytes`, the unread part of the stream, begin with. The caller removes
    /// the bytes of a frame before the next call.
    ///
    /// # Errors
    /// [`FrameError`] if the stream has to be closed.
    pub fn next(&mut self, bytes: &[u8]) -> Result<Frame, FrameError> {
        if bytes.len() < self.wanted {
            return Ok(Frame::Incomplete);
        }
        if self.wanted > 0 {
            return Ok(Frame::Message(mem::take(self).wanted));
        }
        let message = skip_line_ends(bytes);
        if message.len() < bytes.len() {
            self.searched = 0;
            return Ok(Frame::LineEnds(bytes.len() - message.len()));
        }
        if is_tls(message) {
            return Err(FrameError::Tls);
        }
        let from = self.searched.saturating_sub(EMPTY_LINE.len() - 1).min(bytes.len());
        // Only the last piece is searched until it contains the end.
        let may_end = from == 0 || memmem::find(&bytes[from..], EMPTY_LINE).is_some();
        let Some(head) = may_end.then(|| Head::find(bytes)).flatten() else {
            if bytes.len() > MAX_MESSAGE {
                return Err(FrameError::TooLong);
            }
            self.searched = bytes.len();
            return Ok(Frame::Incomplete);
        };
        let Head { length: head, body } = head;
        if head > MAX_MESSAGE {
            return Err(FrameError::TooLong);
        }
        let body = body.ok_or(FrameError::ContentLength(head))?;
        let length = head.saturating_add(body);
        if length > MAX_MESSAGE {
            return Err(FrameError::TooLong);
        }
        if bytes.len() < length {
            self.wanted = length;
            return Ok(Frame::Incomplete);
        }
        self.searched = 0;
        Ok(Frame::Message(length))
    }
}

/// Returns true if `bytes` begin like a TLS handshake or alert (RFC 8446 section 5.1). No SIP
/// message begins like that.
pub(super) fn is_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [0x15 | 0x16, 0x03, ..])
}

/// The header fields of a message.
struct Head {
    /// Their length in bytes, with the empty line.
    length: usize,
    /// The only value of Content-Length, if the field is present and a number.
    body: Option<usize>,
}

impl Head {
    /// Returns the header fields that `bytes` begin with, if they are complete.
    fn find(bytes: &[u8]) -> Option<Self> {
        let mut body = None;
        let mut start = 0;
        for at in LineFeeds::new(bytes) {
            let (line, length) = (&bytes[start..at], at + 1);
            if line == b"\r" && bytes[..start].ends_with(b"\r\n") {
                return Some(Self { length, body: body.flatten() });
            }
            if is_content_length(line) {
                let value = content_length(&bytes[start..]);
                let is_other = body.is_some_and(|earlier| earlier != value);
                body = Some(value.filter(|_| !is_other));
            }
            start = length;
        }
        None
    }
}

/// Returns true if the name of `line` is Content-Length or its compact form.
#[inline]
fn is_content_length(line: &[u8]) -> bool {
    // Two letters of the name exclude most other fields.
    let may_be = matches!(line.first(), Some(b'L' | b'l'))
        || matches!(line, [b'C' | b'c', _, _, _, _, _, _, _, b'L' | b'l', ..]);
    may_be && HeaderName::new(lex::split_while(line, lex::is_token).0) == HeaderName::ContentLength
}

/// Returns the value of the header field that `bytes` begin with, with its continuation lines, if
/// it is a number.
fn content_length(bytes: &[u8]) -> Option<usize> {
    let mut lines = bytes.split(|&byte| byte == b'\n');
    let (_, rest) = lex::split_while(lines.next()?, lex::is_token);
    let mut value = lex::trim(lex::trim_start(rest).strip_prefix(b":")?);
    for fold in lines.take_while(|line| matches!(line.first(), Some(b' ' | b'\t'))) {
        match (value, lex::trim(fold)) {
            ([], fold) => value = fold,
            (_, []) => {}
            _ => return None,
        }
    }
    usize::try_from(lex::decimal(value)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const STREAM: &[u8] = b"\r\n\r\nOPTIONS sip:a SIP/2.0\r\nContent-Length : 4\r\n\r\n\r\n\r\n\
        BYE sip:a SIP/2.0\r\nl:\r\n 0\r\n\t\r\n\r\n\
        SIP/2.0 200 OK\r\nL:\t2\r\n\r\nok";

    /// Reads `STREAM` in pieces of the given sizes and returns the messages.
    fn read_in_pieces(sizes: &[usize]) -> Vec<Vec<u8>> {
        let (mut framer, mut buffer, mut messages) = (Framer::default(), Vec::new(), Vec::new());
        let mut rest = STREAM;
        let mut sizes = sizes.iter().copied().chain(core::iter::repeat(1));
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(sizes.next().unwrap().clamp(1, rest.len()));
            rest = after;
            buffer.extend_from_slice(piece);
            loop {
                match framer.next(&buffer).unwrap() {
                    Frame::Message(length) => messages.push(buffer.drain(..length).collect()),
                    Frame::LineEnds(length) => drop(buffer.drain(..length)),
                    Frame::Incomplete => break,
                }
            }
        }
        assert!(buffer.is_empty());
        messages
    }

    #[test]
    fn a_body_of_line_ends_belongs_to_its_message() {
        let messages = read_in_pieces(&[STREAM.len()]);
        assert_eq!(messages.len(), 3);
        assert!(messages[0].ends_with(b"\r\n\r\n\r\n\r\n"));
        assert!(messages[2].ends_with(b"ok"));
    }

    #[test]
    fn a_stream_that_lost_its_frame_is_an_error() {
        for bad in [
            &b"OPTIONS sip:a SIP/2.0\r\n\r\n"[..],
            b"OPTIONS sip:a SIP/2.0\r\nl: -1\r\n\r\n",
            b"OPTIONS sip:a SIP/2.0\r\nl: 1\r\nContent-Length: 2\r\n\r\n",
            b"OPTIONS sip:a SIP/2.0\r\nl: 1\r\n 2\r\n\r\n",
        ] {
            assert_eq!(Framer::default().next(bad), Err(FrameError::ContentLength(bad.len())));
        }
        let huge = b"OPTIONS sip:a SIP/2.0\r\nl: 65535\r\n\r\n";
        assert_eq!(Framer::default().next(huge), Err(FrameError::TooLong));
        assert_eq!(Framer::default().next(&[b'a'; MAX_MESSAGE + 1]), Err(FrameError::TooLong));
        let long_head = [&[b'a'; MAX_MESSAGE][..], b"\r\n\r\n"].concat();
        assert_eq!(Framer::default().next(&long_head), Err(FrameError::TooLong));
    }

    proptest! {
        #[test]
        fn messages_do_not_depend_on_how_the_stream_is_cut(
            sizes in proptest::collection::vec(1usize..40, 0..80),
        ) {
            prop_assert_eq!(read_in_pieces(&sizes), read_in_pieces(&[STREAM.len()]));
        }

        #[test]
        fn no_bytes_make_the_framer_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Framer::default().next(&bytes);
        }
    }
}
