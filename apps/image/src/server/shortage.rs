//! What is done where memory gets short: what has begun goes on, and nothing new begins.

use crate::machine::memory::Heap;
use alloc::vec::Vec;
use sip::message::Response;
use sip::{Flow, Message, Method, Status};
use sip_server::overload::BEGUN;

/// The part of memory that is kept for what has begun.
const RESERVE: usize = 8;
/// When whoever was refused may ask again.
const RETRY_AFTER: &[u8] = b"Retry-After: 10\r\n";

/// Whether memory is short.
pub(super) const fn is_short(heap: Heap) -> bool {
    heap.claimed - heap.used < heap.claimed / RESERVE
}

/// What answers `bytes`, if that is a request which would begin something: 503. `Some` and empty
/// where it is dropped. `None` where it belongs to what has begun.
pub(super) fn refusal(flow: &Flow, bytes: &[u8]) -> Option<Vec<u8>> {
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
    fn what_is_new_is_refused_and_what_has_begun_goes_on() {
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
        assert!(is_short(Heap { used: 90, claimed: 100 }));
        assert!(!is_short(Heap { used: 80, claimed: 100 }));
    }
}
