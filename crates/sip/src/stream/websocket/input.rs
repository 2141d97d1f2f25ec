//! The input of a WebSocket connection.

use super::frame::{Event, Frames};
use super::{Kind, MAX_HEAD, Role};
use crate::stream::frame::is_tls;
use crate::stream::{Fault, FrameError, Progress};
use alloc::vec::Vec;
use core::ops::ControlFlow;
use memchr::memmem;

/// A complete unit that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebSocketItem<'a> {
    /// The head of an HTTP message, with the empty line: the first unit, once.
    Head(&'a [u8]),
    /// A complete message.
    Message(&'a [u8]),
    /// A control frame with its payload.
    Control(Kind, &'a [u8]),
}

/// The reading side of a connection: first an HTTP head, then frames. It buffers at most one
/// message, and of it only the bytes that were received.
#[derive(Debug)]
pub struct Input {
    frames: Frames,
    /// The beginning of an incomplete frame or head.
    partial: Vec<u8>,
    is_open: bool,
}

impl Input {
    /// Returns the input of an end with this role.
    #[must_use]
    pub const fn new(role: Role) -> Self {
        Self { frames: Frames::new(role), partial: Vec::new(), is_open: false }
    }

    /// Parses the `new` bytes and calls `visit` for each complete unit, in order. When `visit`
    /// breaks, the remaining bytes are dropped.
    ///
    /// # Errors
    /// [`Fault`] if the connection has to be closed.
    pub fn receive(
        &mut self,
        new: &[u8],
        mut visit: impl FnMut(WebSocketItem<'_>) -> ControlFlow<()>,
    ) -> Result<Progress, Fault> {
        let was_partial = self.is_partial();
        let mut bytes = core::mem::take(&mut self.partial);
        bytes.extend_from_slice(new);
        let mut progress = Progress::default();
        let mut read = 0;
        loop {
            let rest = &bytes[read..];
            let fault = |error| Fault { error, rest: rest.to_vec() };
            let control: Vec<u8>;
            let (length, said) = if !self.is_open {
                if is_tls(rest) {
                    return Err(fault(FrameError::Tls));
                }
                let Some(end) = memmem::find(rest, b"\r\n\r\n").filter(|end| *end < MAX_HEAD)
                else {
                    if rest.len() >= MAX_HEAD {
                        return Err(fault(FrameError::TooLong));
                    }
                    break;
                };
                self.is_open = true;
                (end + 4, Some(WebSocketItem::Head(&rest[..end + 4])))
            } else {
                match self.frames.next(rest).map_err(fault)? {
                    None => break,
                    Some((length, Some(Event::Message))) => {
                        progress.has_message = true;
                        (length, Some(WebSocketItem::Message(self.frames.message())))
                    }
                    Some((length, Some(Event::Control(kind, payload)))) => {
                        control = payload;
                        (length, Some(WebSocketItem::Control(kind, &control)))
                    }
                    Some((length, None)) => (length, None),
                }
            };
            read += length;
            if said.is_some_and(|said| visit(said).is_break()) {
                progress.is_over = true;
                return Ok(progress);
            }
        }
        bytes.drain(..read);
        // The memory of a long message is freed.
        self.partial = if bytes.is_empty() { Vec::new() } else { bytes };
        self.frames.forget();
        progress.is_partial = self.is_partial();
        progress.has_begun = progress.is_partial && (!was_partial || progress.has_message);
        Ok(progress)
    }

    fn is_partial(&self) -> bool {
        !self.partial.is_empty() || self.frames.is_unfinished()
    }
}

#[cfg(test)]
mod tests {
    use super::super::write_frame;
    use super::*;
    use proptest::prelude::*;
    use std::string::String;
    use std::vec;

    fn stream() -> Vec<u8> {
        let mut out = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
        let mask = Some([9, 8, 7, 6]);
        write_frame(&mut out, Kind::Text, mask, b"one");
        write_frame(&mut out, Kind::Ping, mask, b"?");
        let first = out.len();
        write_frame(&mut out, Kind::Text, mask, b"two ");
        out[first] &= 0x7f;
        write_frame(&mut out, Kind::Pong, mask, b"");
        write_frame(&mut out, Kind::Continuation, mask, &[b'x'; 300]);
        out
    }

    fn read(sizes: &[usize]) -> Vec<String> {
        let (stream, mut input, mut heard) = (stream(), Input::new(Role::Server), Vec::new());
        let mut rest = &stream[..];
        let mut sizes = sizes.iter().copied().chain(core::iter::repeat(1));
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(sizes.next().unwrap().clamp(1, rest.len()));
            rest = after;
            let progress = input.receive(piece, |said| {
                heard.push(std::format!("{said:?}"));
                ControlFlow::Continue(())
            });
            assert_eq!(progress.unwrap().is_partial, input.is_partial());
        }
        assert!(!input.is_partial());
        heard
    }

    #[test]
    fn the_head_comes_first_and_then_frames() {
        let heard = read(&[1000]);
        let kinds: Vec<&str> =
            heard.iter().map(|said| said.split(['(', ',']).next().unwrap()).collect();
        assert_eq!(kinds, ["Head", "Message", "Control", "Control", "Message"]);
    }

    #[test]
    fn what_is_no_frame_is_given_back() {
        let mut input = Input::new(Role::Server);
        let all = |_: WebSocketItem<'_>| ControlFlow::Continue(());
        input.receive(b"GET / HTTP/1.1\r\n\r\n", all).unwrap();
        let fault = input.receive(b"OPTIONS", all).unwrap_err();
        assert_eq!(fault.rest, b"OPTIONS");
        let mut input = Input::new(Role::Server);
        assert!(input.receive(&vec![b'a'; MAX_HEAD - 1], all).is_ok());
        assert_eq!(input.receive(b"a", all).unwrap_err().error, FrameError::TooLong);
    }

    proptest! {
        #[test]
        fn what_is_heard_does_not_depend_on_how_the_stream_is_cut(
            sizes in proptest::collection::vec(1usize..60, 0..80),
        ) {
            prop_assert_eq!(read(&sizes), read(&[1000]));
        }

        #[test]
        fn no_bytes_make_it_panic(
            is_client: bool,
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..9),
        ) {
            let mut input = Input::new(if is_client { Role::Client } else { Role::Server });
            input.is_open = true;
            for piece in pieces {
                if input.receive(&piece, |_| ControlFlow::Continue(())).is_err() {
                    break;
                }
            }
        }
    }
}
