//! Writing of responses, and of forwarded header fields.

use super::{Field, Message};
use crate::encode::{write_decimal, write_ip};
use crate::header::{HeaderName, NameAddr};
use crate::lex;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// A response to a request, built from its header fields (RFC 3261 section 8.2.6).
#[derive(Clone, Copy, Debug)]
pub struct Response<'r, 'a> {
    /// The request. Missing header fields of a faulty request are omitted.
    pub request: &'r Message<'a>,
    /// The source address of the request, for its topmost Via.
    pub source: SocketAddr,
    /// The status code.
    pub status: u16,
    /// The reason phrase.
    pub reason: &'r str,
    /// The To tag, if the request has none. Not for 100 (RFC 3261 section 8.2.6.2).
    pub to_tag: Option<&'r [u8]>,
}

/// The header fields copied from the request. Timestamp is copied only into a 100.
const COPIED: [HeaderName; 6] = [
    HeaderName::Via,
    HeaderName::From,
    HeaderName::To,
    HeaderName::CallId,
    HeaderName::CSeq,
    HeaderName::Timestamp,
];

impl Response<'_, '_> {
    /// Appends the response, without a body, to `out`. `fields` appends further header field lines.
    pub fn write(&self, out: &mut Vec<u8>, fields: impl FnOnce(&mut Vec<u8>)) {
        self.write_with_body(out, fields, b"");
    }

    /// Writes the response with `body`. `fields` has to append its Content-Type.
    pub fn write_with_body(
        &self,
        out: &mut Vec<u8>,
        fields: impl FnOnce(&mut Vec<u8>),
        body: &[u8],
    ) {
        out.extend_from_slice(b"SIP/2.0 ");
        write_decimal(out, self.status.into());
        out.push(b' ');
        out.extend_from_slice(self.reason.as_bytes());
        out.extend_from_slice(b"\r\n");
        let mut is_top_via = true;
        for field in self.request.fields_of(&COPIED) {
            match field.name {
                HeaderName::Via if is_top_via => {
                    is_top_via = false;
                    self.request.write_top_via(&field, self.source, out);
                }
                HeaderName::Timestamp if self.status != 100 => {}
                HeaderName::To => self.write_to(out, &field),
                _ => out.extend_from_slice(field.line),
            }
        }
        fields(out);
        out.extend_from_slice(b"Content-Length: ");
        write_decimal(out, body.len() as u64);
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(body);
    }

    fn write_to(&self, out: &mut Vec<u8>, field: &Field<'_>) {
        // A value that ends with the bracket of the URI has no parameters.
        let has_tag = !field.value.ends_with(b">")
            && NameAddr::parse(HeaderName::To, field.value)
                .is_ok_and(|address| address.params.has("tag"));
        match self.to_tag {
            Some(tag) if !has_tag => {
                out.extend_from_slice(b"To: ");
                // A trailing semicolon is used as the separator of the tag.
                out.extend_from_slice(field.value.strip_suffix(b";").unwrap_or(field.value));
                out.extend_from_slice(b";tag=");
                out.extend_from_slice(tag);
                out.extend_from_slice(b"\r\n");
            }
            _ => out.extend_from_slice(field.line),
        }
    }
}

impl Message<'_> {
    /// Appends the topmost Via `field` of this request, received from `source`, with `received` and
    /// `rport` as in RFC 3261 section 18.2.1 and RFC 3581 section 4. `rport` is also added if
    /// [`Via::requires_rport`](crate::header::Via::requires_rport) requires it.
    pub fn write_top_via(&self, field: &Field<'_>, source: SocketAddr, out: &mut Vec<u8>) {
        let Ok(via) = self.top_via() else {
            out.extend_from_slice(field.line);
            return;
        };
        let has_rport = via.rport().is_some();
        let needs_port = via.requires_rport(source);
        if !has_rport && !needs_port && !via.has_received() {
            out.extend_from_slice(field.line);
            return;
        }
        let (element, rest) = field.value.split_at(lex::list_element_end(field.value));
        let (sent_by, _) = lex::split_before(b';', element);
        out.extend_from_slice(b"Via: ");
        out.extend_from_slice(lex::trim_end(sent_by));
        out.extend_from_slice(b";received=");
        write_ip(source.ip(), out);
        if has_rport || needs_port {
            out.extend_from_slice(b";rport=");
            write_decimal(out, source.port().into());
        }
        via.params_without_source().for_each(|params| out.extend_from_slice(params));
        // A fold before the removed parameters would have no continuation.
        out.truncate(lex::trim_end(out).len());
        out.extend_from_slice(rest);
        out.extend_from_slice(b"\r\n");
    }
}

impl Message<'_> {
    /// Appends the header field lines. Those of `names` for which `is_rewritten` is true are
    /// replaced by the output of `rewrite`.
    pub fn write_fields(
        &self,
        names: &[HeaderName],
        mut is_rewritten: impl FnMut(&Field<'_>) -> bool,
        mut rewrite: impl FnMut(&Field<'_>, &mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        // Unchanged lines are copied in the longest possible runs.
        let mut copied = usize::from(self.fields_start);
        for field in self.fields_of(names) {
            if !is_rewritten(&field) {
                continue;
            }
            out.extend_from_slice(&self.bytes[copied..field.offset]);
            copied = field.offset + field.line.len();
            rewrite(&field, out);
        }
        out.extend_from_slice(&self.bytes[copied..self.fields_end()]);
    }

    /// Appends the Record-Route lines of this request, for a response that creates a dialog (RFC
    /// 3261 section 12.1.1).
    pub fn write_record_routes(&self, out: &mut Vec<u8>) {
        for field in self.fields_of(&[HeaderName::RecordRoute]) {
            out.extend_from_slice(field.line);
        }
    }
}

/// The reason phrase of the RFCs for a status code.
#[must_use]
pub const fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Trying",
        180 => "Ringing",
        181 => "Call Is Being Forwarded",
        182 => "Queued",
        183 => "Session Progress",
        199 => "Early Dialog Terminated",
        200 => "OK",
        202 => "Accepted",
        204 => "No Notification",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Moved Temporarily",
        305 => "Use Proxy",
        380 => "Alternative Service",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        410 => "Gone",
        412 => "Conditional Request Failed",
        413 => "Request Entity Too Large",
        414 => "Request-URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Unsupported URI Scheme",
        420 => "Bad Extension",
        421 => "Extension Required",
        422 => "Session Interval Too Small",
        423 => "Interval Too Brief",
        428 => "Use Identity Header",
        430 => "Flow Failed",
        433 => "Anonymity Disallowed",
        439 => "First Hop Lacks Outbound Support",
        440 => "Max-Breadth Exceeded",
        469 => "Bad Info Package",
        480 => "Temporarily Unavailable",
        481 => "Call/Transaction Does Not Exist",
        482 => "Loop Detected",
        483 => "Too Many Hops",
        484 => "Address Incomplete",
        485 => "Ambiguous",
        486 => "Busy Here",
        487 => "Request Terminated",
        488 => "Not Acceptable Here",
        489 => "Bad Event",
        491 => "Request Pending",
        493 => "Undecipherable",
        494 => "Security Agreement Required",
        500 => "Server Internal Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Server Time-out",
        505 => "Version Not Supported",
        513 => "Message Too Large",
        580 => "Precondition Failure",
        600 => "Busy Everywhere",
        603 => "Decline",
        604 => "Does Not Exist Anywhere",
        606 => "Not Acceptable",
        607 => "Unwanted",
        608 => "Rejected",
        _ => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    fn respond(via: &str, source: &str) -> String {
        let request = std::format!(
            "OPTIONS sip:b@c SIP/2.0\r\nVia: {via}\r\nX-Not-Copied: 1\r\nFrom: <sip:a@b>;tag=1\r\n\
             t: <sip:b@c>\r\nTimestamp: 5\r\nCall-ID: x\r\nCSeq: 1 OPTIONS\r\n\r\n"
        );
        let message = Message::parse(request.as_bytes()).unwrap();
        let mut out = Vec::new();
        let response = Response {
            request: &message,
            source: source.parse().unwrap(),
            status: 200,
            reason: "OK",
            to_tag: Some(b"ours"),
        };
        response.write(&mut out, |out| out.extend_from_slice(b"Server: us\r\n"));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_response_copies_only_the_header_fields_of_rfc_3261() {
        assert_eq!(
            respond("SIP/2.0/UDP 192.0.2.1:5070;branch=z9hG4bK1, SIP/2.0/TCP h", "192.0.2.1:5070"),
            "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 192.0.2.1:5070;branch=z9hG4bK1, SIP/2.0/TCP h\r\n\
             From: <sip:a@b>;tag=1\r\nTo: <sip:b@c>;tag=ours\r\nCall-ID: x\r\nCSeq: 1 OPTIONS\r\n\
             Server: us\r\nContent-Length: 0\r\n\r\n"
        );
    }

    #[test]
    fn other_lines_are_copied_unchanged() {
        let fields = "Via: a\r\nVia: b\r\nX-Odd :  1\r\n  2\r\nMax-Forwards: 9\r\nReason: x\r\n";
        let request = std::format!("OPTIONS sip:b@c SIP/2.0\r\n{fields}\r\n");
        let message = Message::parse(request.as_bytes()).unwrap();
        let names = [HeaderName::Via, HeaderName::MaxForwards, HeaderName::Reason];
        let rewritten = |is_rewritten: fn(&Field<'_>) -> bool| {
            let mut out = Vec::new();
            let rewrite = |field: &Field<'_>, out: &mut Vec<u8>| {
                if field.name == HeaderName::MaxForwards {
                    out.extend_from_slice(b"Max-Forwards: 8\r\n");
                }
            };
            message.write_fields(&names, is_rewritten, rewrite, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(rewritten(|_| false), fields);
        assert_eq!(rewritten(|_| true), "X-Odd :  1\r\n  2\r\nMax-Forwards: 8\r\n");
        assert_eq!(rewritten(|field| field.value == b"b"), fields.replace("Via: b\r\n", ""));
    }

    #[test]
    fn the_topmost_via_has_the_source_of_the_request() {
        for (via, source, expected) in [
            (
                "SIP/2.0/UDP 10.1.1.1:4540;rport;branch=z9hG4bKkjshdyff, SIP/2.0/UDP h",
                "192.0.2.1:9988",
                "Via: SIP/2.0/UDP 10.1.1.1:4540;received=192.0.2.1;rport=9988;\
                 branch=z9hG4bKkjshdyff, SIP/2.0/UDP h\r\n",
            ),
            (
                "SIP/2.0/TCP host.example;branch=z9hG4bKk",
                "[2001:db8::9]:7",
                "Via: SIP/2.0/TCP host.example;received=2001:db8::9;rport=7;branch=z9hG4bKk\r\n",
            ),
            (
                "SIP/2.0/TCP 192.0.2.1;branch=z9hG4bKk",
                "192.0.2.1:7",
                "Via: SIP/2.0/TCP 192.0.2.1;received=192.0.2.1;rport=7;branch=z9hG4bKk\r\n",
            ),
            (
                "SIP/2.0/TCP 192.0.2.1:7;branch=z9hG4bKk",
                "192.0.2.1:7",
                "Via: SIP/2.0/TCP 192.0.2.1:7;branch=z9hG4bKk\r\n",
            ),
            (
                "SIP/2.0/UDP 192.0.2.1;received=203.0.113.5;branch=z9hG4bKk",
                "192.0.2.1:7",
                "Via: SIP/2.0/UDP 192.0.2.1;received=192.0.2.1;branch=z9hG4bKk\r\n",
            ),
            (
                "SIP/2.0/UDP h;a=1;rport=6;branch=z9hG4bKk;received=x;b",
                "192.0.2.1:7",
                "Via: SIP/2.0/UDP h;received=192.0.2.1;rport=7;a=1;branch=z9hG4bKk;b\r\n",
            ),
            (
                "SIP/2.0/UDP h ; received=192.0.2.7;branch=z9hG4bKk\r\n ; rport\r\n , SIP/2.0/UDP g",
                "192.0.2.1:7",
                "Via: SIP/2.0/UDP h;received=192.0.2.1;rport=7;branch=z9hG4bKk, SIP/2.0/UDP g\r\n",
            ),
        ] {
            let response = respond(via, source);
            assert!(response.contains(expected), "{response}");
        }
    }
}
