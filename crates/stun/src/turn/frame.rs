//! Channel data, and the boundaries of messages on a stream (RFC 8656 section 12.4 and 12.5).

use crate::WriteError;
use crate::message::{HEADER, MAGIC};
use alloc::vec::Vec;

/// The length of the header of channel data in bytes.
const CHANNEL_HEADER: usize = 4;

/// A stream has octets that are no message of TURN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotTurn;

/// The number and the contents of channel data. `None` for something else.
pub(crate) fn channel_data(datagram: &[u8]) -> Option<(u16, &[u8])> {
    let &[high @ 0x40..=0x4f, low, length_high, length_low, ref rest @ ..] = datagram else {
        return None;
    };
    let length = usize::from(u16::from_be_bytes([length_high, length_low]));
    Some((u16::from_be_bytes([high, low]), rest.get(..length)?))
}

/// Writes channel data. On a stream they are padded to four octets.
pub(crate) fn write_channel_data(
    number: u16,
    data: &[u8],
    is_on_stream: bool,
    out: &mut Vec<u8>,
) -> Result<(), WriteError> {
    let length = u16::try_from(data.len()).map_err(|_| WriteError::TooLong)?;
    out.clear();
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(data);
    if is_on_stream {
        out.resize(out.len().next_multiple_of(4), 0);
    }
    Ok(())
}

/// The length of the message at the begin of a stream, with its padding; `None` if its header is
/// not complete.
///
/// # Errors
/// [`NotTurn`]: neither STUN nor channel data.
pub(crate) fn length(stream: &[u8]) -> Result<Option<usize>, NotTurn> {
    let Some(&[first, _, high, low]) = stream.first_chunk() else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([high, low]));
    match first {
        0..0x40 => match stream.get(4..8) {
            Some(cookie) if cookie != MAGIC.to_be_bytes() => Err(NotTurn),
            _ => Ok(Some(HEADER + length)),
        },
        0x40..=0x4f => Ok(Some(CHANNEL_HEADER + length.next_multiple_of(4))),
        _ => Err(NotTurn),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn channel_data_are_padded_on_a_stream_only() {
        let mut out = Vec::new();
        write_channel_data(0x4001, b"12345", false, &mut out).unwrap();
        assert_eq!(out, b"\x40\x01\x00\x0512345");
        assert_eq!(channel_data(&out), Some((0x4001, &b"12345"[..])));
        write_channel_data(0x4001, b"12345", true, &mut out).unwrap();
        assert_eq!(out, b"\x40\x01\x00\x0512345\0\0\0");
        assert_eq!(channel_data(&out), Some((0x4001, &b"12345"[..])));
        assert_eq!(length(&out), Ok(Some(12)));
        assert!(write_channel_data(0x4001, &[0; 65_536], true, &mut out).is_err());
    }

    #[test]
    fn a_stream_has_messages_and_channel_data_only() {
        assert_eq!(length(&[0, 1, 0]), Ok(None));
        assert_eq!(length(&[0, 1, 0, 8]), Ok(Some(28)));
        assert_eq!(length(b"\x00\x01\x00\x08\x21\x12\xa4\x42"), Ok(Some(28)));
        assert_eq!(length(b"\x00\x01\x00\x08\x21\x12\xa4\x43"), Err(NotTurn));
        assert_eq!(length(b"HTTP/1.1 400"), Ok(Some(4 + 0x5450)), "the number of a channel");
        assert_eq!(length(&[0x50, 0, 0, 0]), Err(NotTurn));
        assert_eq!(length(&[0x80, 0, 0, 0]), Err(NotTurn));
    }

    proptest! {
        #[test]
        fn no_octets_disturb(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some((number, data)) = channel_data(&bytes) {
                prop_assert!((0x4000..0x5000).contains(&number) && data.len() + 4 <= bytes.len());
            }
            if let Ok(Some(length)) = length(&bytes) {
                prop_assert!((4..=4 + 65_536 + 16).contains(&length));
            }
        }
    }
}
