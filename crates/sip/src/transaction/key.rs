//! The matching of messages to transactions.

use crate::header::{CSeq, HeaderName, NameAddr};
use crate::message::{Message, StartLine};
use crate::method::Method;

/// Passes the key of the server transaction of `request` to `hash` (RFC 3261 section 17.2.3). The
/// key is the same for a retransmission, for the ACK of a non-2xx response, and for a CANCEL. A
/// peer chooses the contents, so the hash should be keyed.
pub fn server_key<T>(request: &Message<'_>, hash: impl FnOnce(&[&[u8]]) -> T) -> T {
    let (method, uri) = match request.start_line() {
        StartLine::Request { method: Method::Ack | Method::Cancel, uri, .. } => {
            (Method::Invite, uri)
        }
        StartLine::Request { method, uri, .. } => (method, uri),
        StartLine::Response { .. } => (Method::Other(b""), &b""[..]),
    };
    if let Ok(via) = request.top_via()
        && let Some(branch) = via.transaction_branch()
    {
        let (host, port) = (via.host.canonical(), via.port_or_default());
        return hash(&[branch, &host, &port.to_be_bytes(), method.as_bytes()]);
    }
    // The matching of RFC 2543. The ACK may have another To tag, so the tag is omitted.
    let value = |name| request.value(name).unwrap_or_default();
    let from = NameAddr::parse(HeaderName::From, value(HeaderName::From)).ok();
    let tag = from.and_then(|from| from.tag()).unwrap_or_default();
    let number = CSeq::parse(value(HeaderName::CSeq)).map_or(0, |cseq| cseq.number);
    let (via, call_id) = (value(HeaderName::Via), value(HeaderName::CallId));
    hash(&[uri, via, call_id, tag, &number.to_be_bytes(), method.as_bytes()])
}

/// The branch and method that identify the client transaction of `response` (RFC 3261 section
/// 17.1.3).
#[must_use]
pub fn client_key<'a>(response: &Message<'a>) -> Option<(&'a [u8], Method<'a>)> {
    let branch = response.top_via().ok()?.transaction_branch()?;
    Some((branch, CSeq::parse(response.value(HeaderName::CSeq)?).ok()?.method))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use std::format;
    use std::string::String;

    fn key(request: &str) -> Vec<u8> {
        server_key(&Message::parse(request.as_bytes()).unwrap(), |parts| parts.join(&b'|'))
    }

    fn request(method: &str, via: &str, to_tag: &str) -> String {
        format!(
            "{method} sip:b@c SIP/2.0\r\nVia: SIP/2.0/UDP {via}\r\nFrom: <sip:a@b>;tag=1\r\n\
             To: <sip:b@c>{to_tag}\r\nCall-ID: x\r\nCSeq: 7 {method}\r\n\r\n"
        )
    }

    #[test]
    fn an_invite_its_cancel_and_its_ack_have_the_same_key() {
        for via in ["h;branch=z9hG4bK1", "h;branch=1", "h"] {
            let invite = key(&request("INVITE", via, ""));
            assert_eq!(invite, key(&request("CANCEL", via, "")), "{via}");
            assert_eq!(invite, key(&request("ACK", via, ";tag=9")), "{via}");
            assert_ne!(invite, key(&request("BYE", via, "")), "{via}");
        }
    }

    #[test]
    fn the_same_branch_of_another_host_or_port_is_another_transaction() {
        let one = key(&request("INVITE", "h;branch=z9hG4bK1", ""));
        assert_eq!(one, key(&request("INVITE", "H:5060;branch=z9hG4bK1", "")));
        for other in ["g;branch=z9hG4bK1", "h:5061;branch=z9hG4bK1", "h;branch=z9hG4bK2"] {
            assert_ne!(one, key(&request("INVITE", other, "")), "{other}");
        }
    }

    #[test]
    fn a_response_identifies_its_request() {
        let text = "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nCSeq: 1 BYE\r\n\r\n";
        let response = Message::parse(text.as_bytes()).unwrap();
        assert_eq!(client_key(&response), Some((&b"z9hG4bK1"[..], Method::Bye)));
    }
}
