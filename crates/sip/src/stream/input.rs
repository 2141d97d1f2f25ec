//! The input of a stream.

use super::{Frame, FrameError, Framer};
use alloc::vec::Vec;
use core::fmt;
use core::ops::ControlFlow;

/// A complete unit that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamItem<'a> {
    /// A complete message.
    Message(&'a [u8]),
    /// A keep-alive ping, which is answered with [`PONG`](super::PONG) (RFC 5626 section 3.5.1).
    /// This is the view of a server. A client receives the pong as line ends, which are not
    /// reported.
    Ping,
}

/// A framing error: the rest of the stream cannot be parsed, and the connection has to be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The error.
    pub error: FrameError,
    /// The unread bytes, from the first byte of the faulty message on, so that the request can be
    /// answered.
    pub rest: Vec<u8>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl core::error::Error for Fault {}

/// The result of a call to [`Input::receive`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// True if at least one message was completed.
    pub has_message: bool,
    /// True if the bytes began a message that is still incomplete.
    pub has_begun: bool,
    /// True if an incomplete message is buffered, whenever it began.
    pub is_partial: bool,
    /// True if the visitor has stopped the parsing.
    pub is_over: bool,
}

/// The reading side of a stream. It buffers at most one message, and of it only the bytes that were
/// received.
#[derive(Debug, Default)]
pub struct Input {
    framer: Framer,
    /// The beginning of an incomplete message.
    partial: Vec<u8>,
    /// Bytes of line ends since the last message or ping: a ping may arrive in pieces.
    line_ends: usize,
}

impl Input {
    /// Returns the capacity of the buffer for an incomplete message, in bytes.
    #[must_use]
    pub fn held(&self) -> usize {
        self.partial.capacity()
    }

    /// Parses the `new` bytes and calls `visit` for each completed message and ping, in order. When
    /// `visit` breaks, the remaining bytes are dropped.
    ///
    /// # Errors
    /// [`Fault`] if the framing is lost.
    pub fn receive(
        &mut self,
        new: &[u8],
        mut visit: impl FnMut(StreamItem<'_>) -> ControlFlow<()>,
    ) -> Result<Progress, Fault> {
        let was_partial = !self.partial.is_empty();
        let mut partial = core::mem::take(&mut self.partial);
        // Most messages arrive in one piece. They are not copied.
        let mut rest = match was_partial {
            false => new,
            true => {
                partial.extend_from_slice(new);
                &partial[..]
            }
        };
        let mut progress = Progress::default();
        loop {
            let heard = match self.framer.next(rest) {
                Ok(Frame::Message(length)) => {
                    let (message, after) = rest.split_at(length);
                    self.line_ends = 0;
                    progress.has_message = true;
                    rest = after;
                    StreamItem::Message(message)
                }
                Ok(Frame::LineEnds(length)) => {
                    rest = &rest[length..];
                    self.line_ends += length;
                    if self.line_ends < b"\r\n\r\n".len() {
                        continue;
                    }
                    self.line_ends = 0;
                    StreamItem::Ping
                }
                Ok(Frame::Incomplete) => break,
                Err(error) => return Err(Fault { error, rest: rest.to_vec() }),
            };
            if visit(heard).is_break() {
                progress.is_over = true;
                return Ok(progress);
            }
        }
        progress.is_partial = !rest.is_empty();
        progress.has_begun = progress.is_partial && (!was_partial || progress.has_message);
        let left = rest.len();
        if was_partial {
            partial.drain(..partial.len() - left);
        } else {
            partial = rest.to_vec();
        }
        // The memory of a long message is freed.
        self.partial = if left > 0 { partial } else { Vec::new() };
        Ok(progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::String;

    const MESSAGE: &str = "OPTIONS sip:a SIP/2.0\r\nContent-Length: 4\r\n\r\nbody";

    fn heard(input: &mut Input, bytes: &[u8], all: &mut Vec<String>) -> Result<Progress, Fault> {
        input.receive(bytes, |heard| {
            all.push(match heard {
                StreamItem::Message(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
                StreamItem::Ping => "ping".into(),
            });
            ControlFlow::Continue(())
        })
    }

    #[test]
    fn pings_and_messages_are_heard_in_their_order() {
        let text = std::format!("\r\n\r\n{MESSAGE}\r\n{MESSAGE}\r\n\r\n\r\n");
        let (mut input, mut all) = (Input::default(), Vec::new());
        let progress = heard(&mut input, text.as_bytes(), &mut all).unwrap();
        assert_eq!(all, ["ping", MESSAGE, MESSAGE, "ping"]);
        assert_eq!(progress, Progress { has_message: true, ..Progress::default() });
    }

    #[test]
    fn memory_is_held_for_a_message_that_is_not_whole() {
        let (mut input, mut all) = (Input::default(), Vec::new());
        let (first, rest) = MESSAGE.as_bytes().split_at(30);
        heard(&mut input, first, &mut all).unwrap();
        assert!(input.held() >= first.len());
        heard(&mut input, rest, &mut all).unwrap();
        assert_eq!((input.held(), all.len()), (0, 1));
    }

    #[test]
    fn it_is_told_when_a_message_begins() {
        let (mut input, mut all) = (Input::default(), Vec::new());
        let begun = heard(&mut input, b"OPTIONS ", &mut all).unwrap();
        let more = heard(&mut input, b"sip:a ", &mut all).unwrap();
        assert_eq!((begun.has_begun, begun.is_partial), (true, true));
        assert_eq!((more.has_begun, more.is_partial), (false, true));
        let whole = std::format!("{}NEXT", &MESSAGE["OPTIONS sip:a ".len()..]);
        let next = heard(&mut input, whole.as_bytes(), &mut all).unwrap();
        assert_eq!((next.has_message, next.has_begun), (true, true));
        assert_eq!(all, [MESSAGE]);
    }

    #[test]
    fn a_fault_has_what_was_not_read() {
        let (mut input, mut all) = (Input::default(), Vec::new());
        let text = std::format!("{MESSAGE}BYE sip:a SIP/2.0\r\n\r\n");
        let fault = heard(&mut input, text.as_bytes(), &mut all).unwrap_err();
        assert_eq!(fault.rest, b"BYE sip:a SIP/2.0\r\n\r\n");
        assert_eq!(fault.error, FrameError::ContentLength(fault.rest.len()));
        assert_eq!(all, [MESSAGE]);
    }

    #[test]
    fn who_has_seen_enough_sees_no_more() {
        let text = std::format!("{MESSAGE}{MESSAGE}");
        let mut count = 0;
        let progress = Input::default().receive(text.as_bytes(), |_| {
            count += 1;
            ControlFlow::Break(())
        });
        assert_eq!((count, progress.map(|progress| progress.is_over)), (1, Ok(true)));
    }

    proptest! {
        #[test]
        fn it_does_not_matter_in_what_pieces_it_comes(
            cuts in proptest::collection::vec(0..200_usize, 0..20)
        ) {
            let text = std::format!("{MESSAGE}\r\n\r\n{MESSAGE}{MESSAGE}\r\n\r\n");
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut % text.len()).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let (mut input, mut all) = (Input::default(), Vec::new());
            for pair in cuts.windows(2) {
                heard(&mut input, &text.as_bytes()[pair[0]..pair[1]], &mut all).unwrap();
            }
            prop_assert_eq!(all, [MESSAGE, "ping", MESSAGE, MESSAGE, "ping"]);
        }
    }
}
