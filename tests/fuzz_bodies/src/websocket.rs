//! The WebSocket upgrade request and frames, and what a proxy sends ahead of them.

use sip::message::MAX_MESSAGE;
use sip::stream::FrameError;
use sip::stream::proxy_protocol::{MAX_LENGTH, Start};
use sip::stream::websocket::{
    ClientField, Input, Kind, Role, Upgrade, WebSocketItem, accept, write_frame,
};
use std::ops::ControlFlow;

/// The result of reading a stream.
#[derive(Debug, PartialEq, Eq)]
struct Reading {
    said: Vec<String>,
    messages: Vec<Vec<u8>>,
    end: Result<(), FrameError>,
}

/// Reads `bytes` as a stream in one piece, and in pieces of sizes chosen by the bytes. The first
/// byte selects the role, and whether HTTP is complete. Found messages are written and read again.
///
/// # Panics
/// The reader panics, finds other messages in other pieces, or exceeds its limits.
pub fn websocket(bytes: &[u8]) {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let start = Start::parse(rest);
    if let Ok(Start::Header { length, .. }) = start {
        assert!(length <= rest.len().min(MAX_LENGTH));
        assert_eq!(Start::parse(&rest[..length]), start, "what follows is no part of it");
        assert_eq!(Start::parse(&rest[..length - 1]), Ok(Start::Partial));
    }
    if let Ok(upgrade) = Upgrade::parse(rest) {
        for field in [ClientField::XForwardedFor, ClientField::Forwarded] {
            let _ = field.client(upgrade.hops(field), |address| address.is_loopback());
        }
        assert!(accept(&upgrade).starts_with(b"HTTP/1.1 101 "));
        assert!(upgrade.origin.is_some() || upgrade.is_of_same_host());
    }
    let role = if first & 1 == 0 { Role::Server } else { Role::Client };
    let mut stream = if first & 2 == 0 { b"GET / HTTP/1.1\r\n\r\n".to_vec() } else { Vec::new() };
    stream.extend_from_slice(rest);
    let whole = read(role, &stream, |_| usize::MAX);
    for scale in [1, 7, 1000] {
        let cut = read(role, &stream, |at| usize::from((stream[at] ^ first) % 64) * scale + 1);
        assert_eq!(cut, whole, "the messages depend on how the stream is split");
    }
    let mut written = b"GET / HTTP/1.1\r\n\r\n".to_vec();
    let mask = (role == Role::Server).then_some([first, 2, 3, 4]);
    for message in &whole.messages {
        write_frame(&mut written, Kind::Binary, mask, message);
    }
    assert_eq!(read(role, &written, |_| usize::MAX).messages, whole.messages);
}

fn read(role: Role, stream: &[u8], size_at: impl Fn(usize) -> usize) -> Reading {
    let (mut input, mut said, mut messages) = (Input::new(role), Vec::new(), Vec::new());
    let mut at = 0;
    while at < stream.len() {
        let piece = &stream[at..at.saturating_add(size_at(at)).min(stream.len())];
        at += piece.len();
        let received = input.receive(piece, |what| {
            match what {
                WebSocketItem::Message(bytes) => {
                    assert!(bytes.len() <= MAX_MESSAGE);
                    messages.push(bytes.to_vec());
                }
                WebSocketItem::Control(_, payload) => assert!(payload.len() <= 125),
                WebSocketItem::Head(head) => assert!(head.ends_with(b"\r\n\r\n")),
            }
            said.push(format!("{what:?}"));
            ControlFlow::Continue(())
        });
        if let Err(fault) = received {
            return Reading { said, messages, end: Err(fault.error) };
        }
    }
    Reading { said, messages, end: Ok(()) }
}
