//! WebSocket frames (RFC 6455 section 5).

use crate::message::MAX_MESSAGE;
use crate::stream::FrameError;
use alloc::vec::Vec;

/// The maximum payload of a control frame in bytes (RFC 6455 section 5.5).
const MAX_CONTROL: usize = 125;

/// The role of the local end. A client masks its frames, a server does not (RFC 6455 section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The end that opened the connection.
    Client,
    /// The end that accepted the connection.
    Server,
}

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A fragment of a message after the first.
    Continuation,
    /// A text message, or its first fragment.
    Text,
    /// A binary message, or its first fragment.
    Binary,
    /// The end of the connection.
    Close,
    /// A keep-alive request.
    Ping,
    /// The answer to a ping.
    Pong,
}

impl Kind {
    const fn of(opcode: u8) -> Option<Self> {
        Some(match opcode {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    const fn opcode(self) -> u8 {
        match self {
            Self::Continuation => 0,
            Self::Text => 1,
            Self::Binary => 2,
            Self::Close => 8,
            Self::Ping => 9,
            Self::Pong => 10,
        }
    }

    const fn is_control(self) -> bool {
        self.opcode() >= 8
    }
}

/// Appends a control frame, or a frame that is a complete message, to `out`. A client passes an
/// unpredictable `mask`.
pub fn write_frame(out: &mut Vec<u8>, kind: Kind, mask: Option<[u8; 4]>, payload: &[u8]) {
    const FIN: u8 = 0x80;
    out.push(FIN | kind.opcode());
    let masked = if mask.is_some() { 0x80 } else { 0 };
    match payload.len() {
        length @ ..=125 => out.push(masked | length as u8),
        length @ 126..=0xffff => {
            out.push(masked | 126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(masked | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    let start = out.len() + mask.map_or(0, |mask| mask.len());
    out.extend_from_slice(mask.as_ref().map_or(&[][..], |mask| mask));
    out.extend_from_slice(payload);
    if let Some(mask) = mask {
        apply(mask, &mut out[start..]);
    }
}

/// Masks or unmasks `payload`.
fn apply(mask: [u8; 4], payload: &mut [u8]) {
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
}

/// The result of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A complete message, which is in [`Frames::message`].
    Message,
    /// A control frame with this payload.
    Control(Kind, Vec<u8>),
}

/// The parser of frames.
#[derive(Debug)]
pub(super) struct Frames {
    role: Role,
    /// The received part of the message.
    message: Vec<u8>,
    /// True if further fragments are missing.
    is_unfinished: bool,
    /// True if the message was returned, so that the next one starts in an empty buffer.
    is_taken: bool,
}

impl Frames {
    pub(super) const fn new(role: Role) -> Self {
        Self { role, message: Vec::new(), is_unfinished: false, is_taken: false }
    }

    /// The last message.
    pub(super) fn message(&self) -> &[u8] {
        &self.message
    }

    /// Returns true if a message is incomplete.
    pub(super) const fn is_unfinished(&self) -> bool {
        self.is_unfinished
    }

    /// Frees the memory of a message that was read.
    pub(super) fn forget(&mut self) {
        if self.is_taken {
            self.message = Vec::new();
            self.is_taken = false;
        }
    }

    /// Parses the frame that `bytes` begin with. Returns its length, and its event if it completes
    /// one. `None` if the frame is incomplete.
    ///
    /// # Errors
    /// If the frame is not allowed.
    pub(super) fn next(
        &mut self,
        bytes: &[u8],
    ) -> Result<Option<(usize, Option<Event>)>, FrameError> {
        let wrong = |what| Err(FrameError::WebSocket(what));
        let &[first, second, ref rest @ ..] = bytes else { return Ok(None) };
        let (is_last, length) = (first & 0x80 != 0, second & 0x7f);
        if first & 0x70 != 0 {
            return wrong("a frame of an extension that was not agreed on");
        }
        let Some(kind) = Kind::of(first & 0x0f) else { return wrong("a frame of no known kind") };
        let is_masked = second & 0x80 != 0;
        if is_masked != (self.role == Role::Server) {
            return wrong("a frame with a mask from a server, or without one from a client");
        }
        let (length, rest) = match length {
            126 => match rest.split_first_chunk::<2>() {
                Some((length, rest)) => (u64::from(u16::from_be_bytes(*length)), rest),
                None => return Ok(None),
            },
            127 => match rest.split_first_chunk::<8>() {
                Some((length, rest)) => (u64::from_be_bytes(*length), rest),
                None => return Ok(None),
            },
            length => (length.into(), rest),
        };
        let before = if kind == Kind::Continuation { self.message.len() } else { 0 };
        let most = if kind.is_control() { MAX_CONTROL } else { MAX_MESSAGE - before };
        let Some(length) = usize::try_from(length).ok().filter(|length| *length <= most) else {
            return Err(FrameError::TooLong);
        };
        match kind {
            _ if kind.is_control() && !is_last => return wrong("a control frame in parts"),
            Kind::Continuation if !self.is_unfinished => return wrong("a part of no message"),
            Kind::Text | Kind::Binary if self.is_unfinished => {
                return wrong("a message within another one");
            }
            _ => {}
        }
        let (mask, rest) = match is_masked {
            true => match rest.split_first_chunk::<4>() {
                Some((mask, rest)) => (Some(*mask), rest),
                None => return Ok(None),
            },
            false => (None, rest),
        };
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        let whole = bytes.len() - rest.len() + length;
        Ok(Some((whole, self.take(kind, is_last, mask, payload))))
    }

    fn take(
        &mut self,
        kind: Kind,
        is_last: bool,
        mask: Option<[u8; 4]>,
        payload: &[u8],
    ) -> Option<Event> {
        if kind.is_control() {
            let mut payload = payload.to_vec();
            apply(mask.unwrap_or_default(), &mut payload);
            return Some(Event::Control(kind, payload));
        }
        if kind != Kind::Continuation {
            self.message.clear();
        }
        let start = self.message.len();
        self.message.extend_from_slice(payload);
        apply(mask.unwrap_or_default(), &mut self.message[start..]);
        self.is_unfinished = !is_last;
        self.is_taken = is_last;
        is_last.then_some(Event::Message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: Kind, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_frame(&mut out, kind, Some([1, 2, 3, 4]), payload);
        out
    }

    fn part(kind: Kind, is_last: bool, payload: &[u8]) -> Vec<u8> {
        let mut frame = frame(kind, payload);
        frame[0] &= if is_last { 0xff } else { 0x7f };
        frame
    }

    #[test]
    fn what_is_written_is_read() {
        for length in [0, 1, 125, 126, 65_535] {
            let payload: Vec<u8> = (0..length).map(|number| number as u8).collect();
            for (role, mask) in [(Role::Server, Some([7, 0, 255, 9])), (Role::Client, None)] {
                let mut out = Vec::new();
                write_frame(&mut out, Kind::Binary, mask, &payload);
                let mut frames = Frames::new(role);
                for cut in [0, 1, 2, 5, out.len() - 1] {
                    assert_eq!(frames.next(&out[..cut.min(out.len() - 1)]), Ok(None));
                }
                assert_eq!(frames.next(&out), Ok(Some((out.len(), Some(Event::Message)))));
                assert_eq!(frames.message(), payload);
            }
        }
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        // RFC 6455 section 5.7.
        let masked = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        let mut frames = Frames::new(Role::Server);
        assert_eq!(frames.next(&masked), Ok(Some((11, Some(Event::Message)))));
        assert_eq!(frames.message(), b"Hello");
        let mut frames = Frames::new(Role::Client);
        assert_eq!(frames.next(&[0x01, 0x03, 0x48, 0x65, 0x6c]), Ok(Some((5, None))));
        let ping = [0x89, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f];
        let control = Event::Control(Kind::Ping, b"Hello".to_vec());
        assert_eq!(frames.next(&ping), Ok(Some((7, Some(control)))), "between the parts");
        assert_eq!(frames.next(&[0x80, 0x02, 0x6c, 0x6f]), Ok(Some((4, Some(Event::Message)))));
        assert_eq!(frames.message(), b"Hello");
    }

    #[test]
    fn what_may_not_come_is_refused() {
        let text = Kind::Text;
        let mut unmasked = Vec::new();
        write_frame(&mut unmasked, text, None, b"a");
        let long = [0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0];
        let parts = [part(text, false, &[0; 40_000]), part(Kind::Continuation, true, &[0; 40_000])];
        for (frames, is_too_long) in [
            (&[unmasked][..], false),
            (&[part(Kind::Ping, false, b"")], false),
            (&[part(Kind::Continuation, true, b"")], false),
            (&[part(text, false, b""), part(text, true, b"")], false),
            (&[[&[0xc1][..], &frame(text, b"")[1..]].concat()], false),
            (&[[&[0x83][..], &frame(text, b"")[1..]].concat()], false),
            (&[frame(Kind::Ping, &[0; 126])], true),
            (&[long.to_vec()], true),
            (&parts, true),
        ] {
            let (last, before) = frames.split_last().unwrap();
            let mut reader = Frames::new(Role::Server);
            before
                .iter()
                .for_each(|frame| assert_eq!(reader.next(frame).unwrap().unwrap().1, None));
            let error = reader.next(last).unwrap_err();
            assert_eq!(error == FrameError::TooLong, is_too_long, "{last:?} {error}");
        }
    }
}
