//! Requests derived from a sent request: CANCEL, and the ACK of a non-2xx response.

use super::{Message, StartLine};
use crate::encode::Encode;
use crate::header::{CSeq, HeaderName};
use crate::method::Method;
use alloc::vec::Vec;

impl Message<'_> {
    /// Appends the CANCEL of this sent request (RFC 3261 section 9.1), with the complete header
    /// field lines `more`, such as a Reason. Appends nothing for a response.
    pub fn write_cancel(&self, more: &[u8], out: &mut Vec<u8>) {
        self.write_companion(Method::Cancel, None, more, out);
    }

    /// Appends the ACK of the non-2xx response `response` to this sent INVITE (RFC 3261 section
    /// 17.1.1.3). Appends nothing if this is a response.
    pub fn write_ack(&self, response: &Message<'_>, out: &mut Vec<u8>) {
        self.write_companion(Method::Ack, response.value(HeaderName::To), &[], out);
    }

    /// Both have only the request's own Via, which identifies the transaction, and its Route.
    fn write_companion(
        &self,
        method: Method<'_>,
        to: Option<&[u8]>,
        more: &[u8],
        out: &mut Vec<u8>,
    ) {
        let StartLine::Request { uri, .. } = self.start_line() else { return };
        (method, " ", uri, " SIP/2.0\r\n").encode(out);
        let mut is_top_via = true;
        for field in self.fields() {
            match field.name {
                HeaderName::Via if core::mem::take(&mut is_top_via) => {
                    out.extend_from_slice(field.line);
                }
                HeaderName::From
                | HeaderName::CallId
                | HeaderName::Route
                | HeaderName::MaxForwards => out.extend_from_slice(field.line),
                HeaderName::To => match to {
                    Some(to) => ("To: ", to, "\r\n").encode(out),
                    None => out.extend_from_slice(field.line),
                },
                HeaderName::CSeq => {
                    let number = CSeq::parse(field.value).map_or(0, |cseq| cseq.number);
                    ("CSeq: ", CSeq { number, method }, "\r\n").encode(out);
                }
                _ => {}
            }
        }
        (more, "Content-Length: 0\r\n\r\n").encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    const INVITE: &[u8] = b"INVITE sip:b@c SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\n\
        Via: SIP/2.0/UDP before\r\nMax-Forwards: 69\r\nRoute: <sip:p;lr>\r\nFrom: <sip:a@b>;tag=1\r\n\
        To: <sip:b@c>\r\nCall-ID: x\r\nCSeq: 7 INVITE\r\nContact: <sip:a@h>\r\n\
        Content-Length: 3\r\n\r\nv=0";

    #[test]
    fn a_cancel_has_the_branch_and_the_route_of_the_invite() {
        let mut out = Vec::new();
        Message::parse(INVITE).unwrap().write_cancel(b"Reason: SIP;cause=200\r\n", &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "CANCEL sip:b@c SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nMax-Forwards: 69\r\n\
             Route: <sip:p;lr>\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:b@c>\r\nCall-ID: x\r\n\
             CSeq: 7 CANCEL\r\nReason: SIP;cause=200\r\nContent-Length: 0\r\n\r\n"
        );
    }

    #[test]
    fn the_ack_of_a_final_response_has_its_to_tag() {
        let response = b"SIP/2.0 486 Busy Here\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\n\
            From: <sip:a@b>;tag=1\r\nTo: <sip:b@c>;tag=2\r\nCall-ID: x\r\nCSeq: 7 INVITE\r\n\r\n";
        let mut out = Vec::new();
        let invite = Message::parse(INVITE).unwrap();
        invite.write_ack(&Message::parse(response).unwrap(), &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("ACK sip:b@c SIP/2.0\r\n"), "{text}");
        assert!(text.contains("\r\nTo: <sip:b@c>;tag=2\r\n"), "{text}");
        assert!(text.contains("\r\nCSeq: 7 ACK\r\n"), "{text}");
        assert!(!text.contains("before"), "{text}");
    }
}
