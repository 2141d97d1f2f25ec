//! Messages on a stream (RFC 3261 section 18.3).

use super::MAX_MESSAGE;
use super::parse::skip_line_ends;
use crate::header::HeaderName;
use crate::lex;
use core::{fmt, mem};
use memchr::memmem;

/// A stream on which no further message can be found: it has to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// A message is longer than [`MAX_MESSAGE`], or its header fields do not end within it.
    TooLong,
    /// Content-Length is missing, no number, or there twice with different values. The header
    /// fields of the message are the first bytes of the buffer, of this length, with the empty
    /// line, so that the request can be answered.
    ContentLength(usize),
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
        }
    }
}

impl core::error::Error for FrameError {}

/// Finds messages in what has been read of a stream. It remembers how far it has looked, so that a
/// message that comes in small pieces is not searched again and again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Framer {
    searched: usize,
}

/// What stands at the start of the bytes given to [`Framer::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A message of this many bytes.
    Message(usize),
    /// Line ends of this many bytes, to be dropped. Two or more are a ping that wants one CR LF for
    /// an answer (RFC 5626 section 3.5.1).
    LineEnds(usize),
    /// Not yet a whole message.
    Incomplete,
}

impl Framer {
    /// Says what `bytes`, the unread part of the stream, begins with. The caller takes the bytes of
    /// a frame away before the next call.
    ///
    /// # Errors
    /// [`FrameError`] where the stream has to be closed.
    pub fn next(&mut self, bytes: &[u8]) -> Result<Frame, FrameError> {
        const EMPTY_LINE: &[u8] = b"\r\n\r\n";
        let message = skip_line_ends(bytes);
        if message.len() < bytes.len() {
            self.searched = 0;
            return Ok(Frame::LineEnds(bytes.len() - message.len()));
        }
        let from = self.searched.saturating_sub(EMPTY_LINE.len() - 1).min(bytes.len());
        let Some(found) = memmem::find(&bytes[from..], EMPTY_LINE) else {
            if bytes.len() > MAX_MESSAGE {
                return Err(FrameError::TooLong);
            }
            self.searched = bytes.len();
            return Ok(Frame::Incomplete);
        };
        let head = from + found + EMPTY_LINE.len();
        if head > MAX_MESSAGE {
            return Err(FrameError::TooLong);
        }
        let body = content_length(&bytes[..head]).ok_or(FrameError::ContentLength(head))?;
        let length = head.saturating_add(body);
        if length > MAX_MESSAGE {
            return Err(FrameError::TooLong);
        }
        if bytes.len() < length {
            // The next search finds the same empty line at once.
            self.searched = head - 1;
            return Ok(Frame::Incomplete);
        }
        self.searched = 0;
        Ok(Frame::Message(length))
    }
}

/// The one value of Content-Length in `head`, if it is there and a number.
fn content_length(head: &[u8]) -> Option<usize> {
    let mut length = None;
    let mut lines = lines(head).peekable();
    while let Some(line) = lines.next() {
        // Most are told apart by their first letter.
        if !matches!(line.first(), Some(b'C' | b'c' | b'L' | b'l')) {
            continue;
        }
        let (name, rest) = lex::split_while(line, lex::is_token);
        if HeaderName::new(name) != HeaderName::ContentLength {
            continue;
        }
        let mut value = lex::trim(lex::trim_start(rest).strip_prefix(b":")?);
        while let Some(fold) = lines.next_if(|line| matches!(line.first(), Some(b' ' | b'\t'))) {
            match (value, lex::trim(fold)) {
                ([], fold) => value = fold,
                (_, []) => {}
                _ => return None,
            }
        }
        let number = usize::try_from(lex::decimal(value)?).ok()?;
        if length.is_some_and(|earlier| earlier != number) {
            return None;
        }
        length = Some(number);
    }
    length
}

/// The lines of `head`, without their line feeds.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    memchr::memchr_iter(b'\n', head).map(move |end| &head[mem::replace(&mut start, end + 1)..end])
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
