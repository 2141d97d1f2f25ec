//! The stream framer.

use sip::Message;
use sip::message::MAX_MESSAGE;
use sip::stream::{Frame, FrameError, Framer};

/// The result of reading a stream.
#[derive(Debug, PartialEq, Eq)]
struct Reading {
    messages: Vec<Vec<u8>>,
    end: Result<Vec<u8>, FrameError>,
}

/// Reads `bytes` as a stream in one piece, in pieces of sizes chosen by the bytes, and, if short,
/// byte by byte. Each byte 0xFF stands for 4096 letters, so that short inputs reach the limits.
///
/// # Panics
/// The framer panics, finds other messages in other pieces, or exceeds its limits.
pub fn framer(bytes: &[u8]) {
    const RUN: usize = 4096;
    const MAX_RUNS: usize = 40;
    let mut runs = 0;
    let mut stream = Vec::with_capacity(bytes.len());
    for &byte in bytes {
        if byte == 0xff && runs < MAX_RUNS {
            runs += 1;
            stream.resize(stream.len() + RUN, b'x');
        } else {
            stream.push(byte);
        }
    }
    let whole = read(&stream, |_| usize::MAX);
    let key = stream.first().copied().unwrap_or_default();
    for scale in [1, 7, 1000] {
        let cut = read(&stream, |at| usize::from((stream[at] ^ key) % 64) * scale + 1);
        assert_eq!(cut, whole, "the frames depend on how the stream is cut");
    }
    if stream.len() <= 512 {
        assert_eq!(read(&stream, |_| 1), whole, "the frames depend on how the stream is cut");
    }
}

fn read(stream: &[u8], size_at: impl Fn(usize) -> usize) -> Reading {
    let (mut framer, mut buffer, mut messages) = (Framer::default(), Vec::new(), Vec::new());
    let mut at = 0;
    while at < stream.len() {
        let piece = &stream[at..at.saturating_add(size_at(at)).min(stream.len())];
        at += piece.len();
        buffer.extend_from_slice(piece);
        loop {
            match framer.next(&buffer) {
                Ok(Frame::Message(length)) => {
                    assert!((1..=MAX_MESSAGE).contains(&length));
                    let message: Vec<u8> = buffer.drain(..length).collect();
                    the_parser_agrees(&message);
                    messages.push(message);
                }
                Ok(Frame::LineEnds(length)) => {
                    assert!(length > 0);
                    assert!(buffer.drain(..length).all(|byte| matches!(byte, b'\r' | b'\n')));
                }
                Ok(Frame::Incomplete) => break,
                Err(error) => return Reading { messages, end: Err(error) },
            }
        }
        assert!(buffer.len() <= MAX_MESSAGE, "the buffer exceeds the maximum message length");
    }
    Reading { messages, end: Ok(buffer) }
}

/// Asserts that framer and parser agree on the end of a message. Otherwise a request could be
/// smuggled in the body of another.
fn the_parser_agrees(bytes: &[u8]) {
    if let Ok(message) = Message::parse(bytes)
        && message.framing_fault().is_none()
    {
        assert_eq!(message.as_bytes().len(), bytes.len(), "framer and parser see different ends");
    }
}
