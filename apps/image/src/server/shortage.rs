//! The server's behaviour when memory is short: transactions under way continue, and new requests
//! are refused. When memory is exhausted, messages are dropped unread.

use crate::machine::heap::{Heap, RESERVE};
use alloc::vec::Vec;
use sip::message::Response;
use sip::{Flow, Message, Method, Status};
use sip_server::overload::BEGUN;

/// The part of the memory that is free before new requests are refused: one eighth.
const SHORT: usize = 8;
/// The part of the memory that is free before messages are dropped, and its minimum in bytes.
const EXHAUSTED: usize = 64;
const LEAST: usize = 256 << 10;
/// The Retry-After header field of a refusal.
const RETRY_AFTER: &[u8] = b"Retry-After: 10\r\n";

/// The state of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// There is enough.
    Plenty,
    /// New requests are refused, and connections have less memory.
    Short,
    /// Messages are dropped.
    Exhausted,
}

impl Level {
    /// The state of `heap`.
    pub(super) fn of(heap: Heap) -> Self {
        let free = heap.free();
        let is_exhausted = free < (heap.claimed / EXHAUSTED).max(LEAST)
            || heap.used_reserve > heap.claimed / RESERVE / 2;
        match is_exhausted {
            true => Self::Exhausted,
            false if free < heap.claimed / SHORT => Self::Short,
            false => Self::Plenty,
        }
    }
}

/// The answer to `bytes` at `level`, as [`refusal`] returns it.
pub(super) fn refusal_at(level: Level, flow: &Flow, bytes: &[u8]) -> Option<Vec<u8>> {
    if level == Level::Plenty { None } else { refusal(flow, bytes) }
}

/// The answer to `bytes`: 503 for a request that would start new work, an empty one if the message
/// is dropped, and `None` if it belongs to work under way.
fn refusal(flow: &Flow, bytes: &[u8]) -> Option<Vec<u8>> {
    if BEGUN.iter().any(|begun| bytes.starts_with(begun)) {
        return None;
    }
    let mut answer = Vec::new();
    let Ok(request) = Message::parse(bytes) else { return Some(answer) };
    if request.method().is_none_or(|method| method == Method::Ack) {
        return Some(answer);
    }
    let Status(status) = Status::SERVICE_UNAVAILABLE;
    let response = Response {
        request: &request,
        source: flow.remote,
        status,
        reason: "Out Of Memory",
        to_tag: Some(b"memory"),
    };
    response.write(&mut answer, |out| out.extend_from_slice(RETRY_AFTER));
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip::{HeaderName, Transport};

    #[test]
    fn new_requests_are_refused_and_dialogs_continue() {
        let (local, remote) = (([192, 0, 2, 1], 5060).into(), ([192, 0, 2, 9], 5060).into());
        let flow = Flow { transport: Transport::Udp, local, remote, connection: None };
        let request = |method: &str| {
            alloc::format!(
                "{method} sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK1\r\n\
                 From: <sip:a@b>;tag=1\r\nTo: <sip:a@b>\r\nCall-ID: 1\r\nCSeq: 1 {method}\r\n\r\n"
            )
        };
        let answer = refusal(&flow, request("REGISTER").as_bytes()).expect("refused");
        let answer = Message::parse(&answer).expect("a response");
        assert_eq!(answer.status(), Some(503));
        assert_eq!(answer.value(HeaderName::RetryAfter), Some(&b"10"[..]));
        assert_eq!(refusal(&flow, request("BYE").as_bytes()), None);
        assert_eq!(refusal(&flow, b"nonsense"), Some(Vec::new()));
    }

    #[test]
    fn messages_are_dropped_before_the_reserve_is_used_up() {
        let heap = Heap { used: 0, claimed: 64 << 20, used_reserve: 0 };
        let level = |used: usize| Level::of(Heap { used: used << 20, ..heap });
        assert_eq!([level(0), level(50)], [Level::Plenty; 2]);
        assert_eq!([level(53), level(58)], [Level::Short; 2]);
        assert_eq!([level(60), level(64)], [Level::Exhausted; 2]);
        let reserve = |used: usize| Level::of(Heap { used, used_reserve: used, ..heap });
        assert_eq!([reserve(1 << 20), reserve(3 << 20)], [Level::Plenty, Level::Exhausted]);
    }
}
