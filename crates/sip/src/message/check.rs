//! Validation of requests (RFC 3261 sections 8.1.1, 8.2 and 16.3).

use super::{FramingFault, Message, StartLine};
use crate::header::{CSeq, HeaderName, NameAddr, Via, number};
use crate::lex;
use crate::method::Method;
use crate::uri::{Uri, UriError};
use core::fmt;

/// The parsed mandatory header fields of a request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestHead<'a> {
    /// The method.
    pub method: Method<'a>,
    /// The request URI.
    pub uri: Uri<'a>,
    /// The Request-URI as received.
    pub uri_bytes: &'a [u8],
    /// The topmost Via.
    pub via: Via<'a>,
    /// From.
    pub from: NameAddr<'a>,
    /// The URI in From.
    pub from_uri: Uri<'a>,
    /// To.
    pub to: NameAddr<'a>,
    /// The URI in To.
    pub to_uri: Uri<'a>,
    /// Call-ID.
    pub call_id: &'a [u8],
    /// CSeq.
    pub cseq: CSeq<'a>,
    /// Max-Forwards, if present.
    pub max_forwards: Option<u8>,
}

/// The reason why a request is rejected, which determines the status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestFault {
    /// The protocol version is not SIP/2.0.
    Version,
    /// A flaw in the framing of the message.
    Frame(FramingFault),
    /// A mandatory header field is missing.
    Missing(HeaderName),
    /// A header field that may occur once is repeated.
    Repeated(HeaderName),
    /// A header field violates its grammar.
    Malformed(HeaderName),
    /// The Request-URI is malformed.
    RequestUri(UriError),
    /// The Request-URI contains header fields (RFC 3261 section 19.1.5).
    HeadersInRequestUri,
    /// The method in CSeq differs from that of the request line.
    MethodMismatch,
    /// The methods differ, and that of the request line is unknown (RFC 4475 section 3.1.2.18).
    UnknownMethodMismatch,
}

impl RequestFault {
    /// The status code of the response that rejects the request.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Version => 505,
            Self::UnknownMethodMismatch => 501,
            _ => 400,
        }
    }
}

impl fmt::Display for RequestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version => f.write_str("Version Not Supported"),
            Self::Frame(FramingFault::LineEnd) => f.write_str("Bad Line End"),
            Self::Frame(FramingFault::FieldLine) => f.write_str("Bad Header Field Line"),
            Self::Frame(FramingFault::StartLine) => f.write_str("Bad White Space in Request Line"),
            Self::Frame(FramingFault::ContentLength) => f.write_str("Bad Content-Length"),
            Self::Frame(FramingFault::EmptyLine) => f.write_str("Missing Empty Line"),
            Self::Missing(name) => write!(f, "Missing {name}"),
            Self::Repeated(name) => write!(f, "Repeated {name}"),
            Self::Malformed(name) => write!(f, "Bad {name}"),
            Self::RequestUri(_) => f.write_str("Bad Request-URI"),
            Self::HeadersInRequestUri => f.write_str("Header Fields in Request-URI"),
            Self::MethodMismatch | Self::UnknownMethodMismatch => {
                f.write_str("CSeq Method Does Not Match")
            }
        }
    }
}

impl core::error::Error for RequestFault {}

impl<'a> Message<'a> {
    /// Parses the mandatory header fields of a request.
    ///
    /// # Errors
    /// The first [`RequestFault`] found. A response yields [`RequestFault::Version`].
    pub fn validate_request(&self) -> Result<RequestHead<'a>, RequestFault> {
        let StartLine::Request { method, uri: uri_bytes, version } = self.start_line() else {
            return Err(RequestFault::Version);
        };
        if !version.eq_ignore_ascii_case(b"SIP/2.0") {
            return Err(RequestFault::Version);
        }
        if let Some(flaw) = self.framing_fault() {
            return Err(RequestFault::Frame(flaw));
        }
        let malformed = |name| move |_| RequestFault::Malformed(name);
        if self.value(HeaderName::Via).is_none() {
            return Err(RequestFault::Missing(HeaderName::Via));
        }
        let via = self.top_via().map_err(malformed(HeaderName::Via))?;
        let from = self.address(HeaderName::From)?;
        let from_uri = from.uri().map_err(|_| RequestFault::Malformed(HeaderName::From))?;
        let to = self.address(HeaderName::To)?;
        let to_uri = to.uri().map_err(|_| RequestFault::Malformed(HeaderName::To))?;
        let call_id = self.only(HeaderName::CallId)?;
        // Wider than the grammar: some user agents send base64 here, including `=`.
        if call_id.is_empty() || !lex::all_graphic(call_id) {
            return Err(RequestFault::Malformed(HeaderName::CallId));
        }
        let cseq =
            CSeq::parse(self.only(HeaderName::CSeq)?).map_err(malformed(HeaderName::CSeq))?;
        let max_forwards = match self.at_most_one(HeaderName::MaxForwards)? {
            Some(value) => Some(
                number(HeaderName::MaxForwards, value, 255)
                    .map_err(malformed(HeaderName::MaxForwards))? as u8,
            ),
            None => None,
        };
        let uri = Uri::parse(uri_bytes).map_err(RequestFault::RequestUri)?;
        if uri.as_sip().is_some_and(|uri| !uri.headers.is_empty()) {
            return Err(RequestFault::HeadersInRequestUri);
        }
        if cseq.method != method {
            return Err(match method {
                Method::Other(_) => RequestFault::UnknownMethodMismatch,
                _ => RequestFault::MethodMismatch,
            });
        }
        Ok(RequestHead {
            method,
            uri,
            uri_bytes,
            via,
            from,
            from_uri,
            to,
            to_uri,
            call_id,
            cseq,
            max_forwards,
        })
    }

    fn address(&self, name: HeaderName) -> Result<NameAddr<'a>, RequestFault> {
        NameAddr::parse(name, self.only(name)?).map_err(|_| RequestFault::Malformed(name))
    }

    fn only(&self, name: HeaderName) -> Result<&'a [u8], RequestFault> {
        self.at_most_one(name)?.ok_or(RequestFault::Missing(name))
    }

    fn at_most_one(&self, name: HeaderName) -> Result<Option<&'a [u8]>, RequestFault> {
        if self.is_repeated(name) {
            Err(RequestFault::Repeated(name))
        } else {
            Ok(self.value(name))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    const GOOD: &str = "BYE sip:b@c SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\n\
        Max-Forwards: 9\r\nFrom: <sip:a@b>;tag=1\r\nTo: sip:b@c\r\nCall-ID: x@y\r\n\
        CSeq: 7 BYE\r\n\r\n";

    fn fault(from: &str, to: &str) -> Option<RequestFault> {
        let changed: String = GOOD.replacen(from, to, 1);
        assert_ne!(changed, GOOD, "{from} is not in the message");
        Message::parse(changed.as_bytes()).unwrap().validate_request().err()
    }

    #[test]
    fn a_valid_request_is_parsed() {
        let message = Message::parse(GOOD.as_bytes()).unwrap();
        let head = message.validate_request().unwrap();
        assert_eq!(head.method, Method::Bye);
        assert_eq!(head.call_id, b"x@y");
        assert_eq!(head.max_forwards, Some(9));
        assert_eq!(head.from.tag(), Some(&b"1"[..]));
        assert_eq!(head.to.tag(), None);
        assert_eq!(head.cseq.number, 7);
    }

    #[test]
    fn each_fault_is_reported() {
        use HeaderName::{CSeq, CallId, From, MaxForwards, To, Via};
        for (from, to, expected) in [
            ("SIP/2.0", "SIP/7.0", RequestFault::Version),
            ("BYE sip", "BYE  sip", RequestFault::Frame(FramingFault::StartLine)),
            ("Via", "X", RequestFault::Missing(Via)),
            ("From", "X", RequestFault::Missing(From)),
            ("To", "X", RequestFault::Missing(To)),
            ("Call-ID", "X", RequestFault::Missing(CallId)),
            ("CSeq", "X", RequestFault::Missing(CSeq)),
            ("To", "i: z\r\nTo", RequestFault::Repeated(CallId)),
            ("To", "Max-Forwards: 9\r\nTo", RequestFault::Repeated(MaxForwards)),
            ("h;branch", "h;;branch", RequestFault::Malformed(Via)),
            (": 9", ": 256", RequestFault::Malformed(MaxForwards)),
            ("<sip:a@b>", "\"x <sip:a@b>", RequestFault::Malformed(From)),
            ("sip:b@c\r\nC", "< sip:b@c>\r\nC", RequestFault::Malformed(To)),
            ("x@y", "", RequestFault::Malformed(CallId)),
            ("x@y", "x y", RequestFault::Malformed(CallId)),
            ("7", "4294967296", RequestFault::Malformed(CSeq)),
            ("7 BYE", "7 ACK", RequestFault::MethodMismatch),
            ("BYE sip", "NEW sip", RequestFault::UnknownMethodMismatch),
            ("\r\n\r\n", "\r\n", RequestFault::Frame(FramingFault::EmptyLine)),
            ("sip:b@c SIP", "sip:b@c?Route=x SIP", RequestFault::HeadersInRequestUri),
            ("sip:b@c SIP", "<sip:b@c> SIP", RequestFault::RequestUri(UriError::Character(b'<'))),
        ] {
            assert_eq!(fault(from, to), Some(expected), "{from} -> {to}");
            let status = match expected {
                RequestFault::Version => 505,
                RequestFault::UnknownMethodMismatch => 501,
                _ => 400,
            };
            assert_eq!(expected.status(), status);
        }
    }
}
