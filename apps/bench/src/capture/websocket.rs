//! SIP over unencrypted WebSocket (RFC 7118, RFC 6455): the messages in one direction of a
//! connection.

/// The limit of message bytes.
const LARGEST: usize = 64 << 10;
/// The limit of bytes before the first frame.
const HANDSHAKE: usize = 16 << 10;

/// The state of the decoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the end of the HTTP request or response of the handshake.
    #[default]
    Handshake,
    Frames,
    /// The end of the data.
    Over,
}

/// The decoder of one direction of a connection.
#[derive(Debug, Default)]
pub(super) struct WebSocket {
    state: State,
    /// The bytes so far of a fragmented message; `None` between messages.
    message: Option<Vec<u8>>,
}

/// The result of a decoding step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The number of consumed bytes.
    Read(usize),
    /// The number of consumed bytes, and a message.
    Message(usize, Vec<u8>),
    /// More bytes are needed.
    Incomplete,
    /// The data is not WebSocket, or the connection was closed.
    Over,
    /// An unsupported frame: compressed (RFC 7692), too long, or out of place. Decoding cannot
    /// continue.
    Unreadable,
}

/// Returns true if the bytes may be the start of the HTTP message of a WebSocket handshake.
pub(super) fn may_begin(bytes: &[u8]) -> bool {
    [&b"GET "[..], b"HTTP/1.1 101"].iter().any(|begin| {
        let length = bytes.len().min(begin.len());
        length > 0 && bytes[..length] == begin[..length]
    })
}

impl WebSocket {
    /// Returns the number of bytes of an incomplete message.
    pub(super) fn held(&self) -> usize {
        self.message.as_ref().map_or(0, Vec::len)
    }

    /// Decodes the next step.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Next {
        let next = match self.state {
            State::Handshake => self.handshake(bytes),
            State::Frames => self.frame(bytes),
            State::Over => Next::Over,
        };
        if matches!(next, Next::Over | Next::Unreadable) {
            (self.state, self.message) = (State::Over, None);
        }
        next
    }

    fn handshake(&mut self, bytes: &[u8]) -> Next {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            return if bytes.len() > HANDSHAKE { Next::Over } else { Next::Incomplete };
        };
        let header = bytes[..end].to_ascii_lowercase();
        let field = |name: &[u8]| {
            let mut lines = header.split(|&byte| byte == b'\n');
            lines.find_map(|line| line.strip_prefix(name).map(<[u8]>::trim_ascii))
        };
        if field(b"upgrade:") != Some(b"websocket") {
            return Next::Over;
        }
        self.state = State::Frames;
        Next::Read(end + 4)
    }

    /// Decodes a frame (RFC 6455 section 5.2).
    fn frame(&mut self, bytes: &[u8]) -> Next {
        let &[first, second, ..] = bytes else { return Next::Incomplete };
        let (length, header) = match second & 0x7f {
            126 => match bytes.get(2..4) {
                Some(two) => (usize::from(two[0]) << 8 | usize::from(two[1]), 4),
                None => return Next::Incomplete,
            },
            // Longer than 64 KiB.
            127 => return Next::Unreadable,
            length => (usize::from(length), 2),
        };
        // An extension bit: the message is compressed.
        if first & 0x70 != 0 {
            return Next::Unreadable;
        }
        let mask = if second & 0x80 != 0 { 4 } else { 0 };
        let Some(payload) = bytes.get(header + mask..header + mask + length) else {
            return Next::Incomplete;
        };
        let mask = &bytes[header..header + mask];
        let mut payload = payload.to_vec();
        if !mask.is_empty() {
            payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        }
        let read = header + mask.len() + length;
        let message = match (first & 0x0f, self.message.take()) {
            (0, Some(mut message)) => {
                message.extend(payload);
                message
            }
            (1 | 2, None) => payload,
            // Ping and pong may come between the frames of a message.
            (9 | 10, message) => {
                self.message = message;
                return Next::Read(read);
            }
            (8, _) => return Next::Over,
            _ => return Next::Unreadable,
        };
        if message.len() > LARGEST {
            return Next::Unreadable;
        }
        if first & 0x80 != 0 {
            return Next::Message(read, message);
        }
        self.message = Some(message);
        Next::Read(read)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(in super::super) const UPGRADE: &[u8] =
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: WebSocket\r\nSec-WebSocket-Protocol: sip\r\n\r\n";
    pub(in super::super) const AGREED: &[u8] =
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade:websocket\r\n\r\n";

    /// Returns a frame with these first four and last four bits of its first byte.
    pub(in super::super) fn frame(
        flags: u8,
        opcode: u8,
        mask: Option<[u8; 4]>,
        payload: &[u8],
    ) -> Vec<u8> {
        let masked = u8::from(mask.is_some()) << 7;
        let mut bytes = vec![flags << 4 | opcode];
        match payload.len() {
            length @ 0..126 => bytes.push(masked | length as u8),
            length => {
                bytes.push(masked | 126);
                bytes.extend((length as u16).to_be_bytes());
            }
        }
        let mask = mask.inspect(|mask| bytes.extend(mask)).unwrap_or_default();
        bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        bytes
    }

    /// Decodes `bytes` in pieces of `at_a_time`. Returns the messages and the end.
    fn messages(bytes: &[u8], at_a_time: usize) -> (Vec<Vec<u8>>, Next) {
        let (mut socket, mut messages, mut waiting) =
            (WebSocket::default(), Vec::new(), Vec::new());
        for piece in bytes.chunks(at_a_time) {
            waiting.extend(piece);
            loop {
                match socket.next(&waiting) {
                    Next::Read(length) => drop(waiting.drain(..length)),
                    Next::Message(length, message) => {
                        waiting.drain(..length);
                        messages.push(message);
                    }
                    Next::Incomplete => break,
                    end => return (messages, end),
                }
            }
        }
        (messages, Next::Incomplete)
    }

    #[test]
    fn messages_are_read_however_they_are_cut() {
        let long = vec![b'a'; 1000];
        let mask = Some([1, 2, 3, 4]);
        let bytes = [
            UPGRADE.to_vec(),
            frame(8, 1, mask, b"one"),
            frame(8, 9, None, b"ping"),
            frame(0, 2, mask, b"in "),
            frame(8, 10, mask, b""),
            frame(0, 0, mask, b"three "),
            frame(8, 0, mask, b"parts"),
            frame(8, 2, None, &long),
        ];
        for at_a_time in [1, 2, 7, 100_000] {
            let (found, end) = messages(&bytes.concat(), at_a_time);
            assert_eq!(found, [b"one".to_vec(), b"in three parts".to_vec(), long.clone()]);
            assert_eq!(end, Next::Incomplete);
        }
    }

    #[test]
    fn unreadable_frames_end_the_connection() {
        for bytes in [
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
            [b"GET /".to_vec(), vec![b'x'; HANDSHAKE]].concat(),
            [AGREED.to_vec(), frame(8, 8, None, b"")].concat(),
        ] {
            assert_eq!(messages(&bytes, 1 << 20), (Vec::new(), Next::Over));
        }
        let too_long = [frame(0, 1, None, &[0; 60_000]), frame(0, 0, None, &[0; 60_000])].concat();
        for frames in [
            frame(12, 1, None, b"packed"),
            frame(8, 0, None, b"the rest of none"),
            vec![0x81, 127, 0, 0, 0, 0, 1, 0, 0, 0],
            too_long,
        ] {
            let bytes = [AGREED, &frames].concat();
            assert_eq!(messages(&bytes, 1 << 20), (Vec::new(), Next::Unreadable));
        }
        assert!(may_begin(b"G") && may_begin(b"HTTP/1.1 101 x") && !may_begin(b"GETS"));
        assert!(!may_begin(b"") && !may_begin(b"HTTP/1.1 200"));
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes: Vec<u8>) {
            messages(&[AGREED, &bytes].concat(), 1 << 20);
        }
    }
}
