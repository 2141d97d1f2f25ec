//! A SIP message with its time and addresses in the capture.

use super::multipart::session_description;
use sip::header::{CSeq, HeaderName, NameAddr};
use sip::{Message, Method, StartLine, Uri};
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::net::SocketAddr;

/// A captured message with frequently used fields.
#[derive(Clone, Debug)]
pub(super) struct Captured<'a> {
    /// The time in microseconds since the Unix epoch.
    pub(super) time: u64,
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) message: &'a Message<'a>,
    /// The status of a response; `None` for a request.
    pub(super) status: Option<u16>,
    /// The method of the request line, or of the CSeq of a response.
    pub(super) method: Method<'a>,
    pub(super) cseq: u32,
    pub(super) call_id: &'a [u8],
    pub(super) branch: &'a [u8],
    /// The number of Via values: 1 on the hop of the originator of the request.
    pub(super) vias: u16,
    pub(super) to_tag: Option<&'a [u8]>,
    /// The session description in the body.
    pub(super) sdp: Option<&'a [u8]>,
}

impl<'a> Captured<'a> {
    /// Returns `None` if the message has no valid Via, CSeq or Call-ID: it belongs to no
    /// transaction.
    pub(super) fn new(
        time: u64,
        source: SocketAddr,
        destination: SocketAddr,
        message: &'a Message<'a>,
    ) -> Option<Self> {
        let via = message.top_via().ok()?;
        let cseq = CSeq::parse(message.value(HeaderName::CSeq)?).ok()?;
        let (method, status) = match message.start_line() {
            StartLine::Request { method, .. } => (method, None),
            StartLine::Response { status, .. } => (cseq.method, Some(status)),
        };
        let content_type = message.value(HeaderName::ContentType).unwrap_or_default();
        let to = message.value(HeaderName::To).unwrap_or_default();
        Some(Self {
            time,
            source,
            destination,
            message,
            status,
            method,
            cseq: cseq.number,
            call_id: message.value(HeaderName::CallId).filter(|value| !value.is_empty())?,
            branch: via.branch().unwrap_or_default(),
            // A message has at most 512 header fields, but a list in one may be longer.
            vias: message.elements(HeaderName::Via).count().min(999) as u16,
            to_tag: NameAddr::parse(HeaderName::To, to).ok().and_then(|to| to.tag()),
            sdp: session_description(content_type, message.body()),
        })
    }

    /// Returns the user, `@` and the host of the URI in From or To; empty without a valid URI.
    pub(super) fn address_of_record(&self, name: HeaderName) -> String {
        let value = self.message.value(name).unwrap_or_default();
        let Some(Ok(uri)) = NameAddr::parse(name, value).ok().map(|address| address.uri()) else {
            return String::new();
        };
        match uri {
            Uri::Sip(uri) => {
                let user = uri.user.map(text).unwrap_or_default();
                format!("{user}@{}", uri.host)
            }
            _ => text(value),
        }
    }

    /// Returns a key of the transaction on its hop that an offer and its answer share; an ACK has
    /// the key of its INVITE.
    pub(super) fn exchange(&self, keys: &Keys) -> u128 {
        let from = self.message.value(HeaderName::From).unwrap_or_default();
        let from_tag = NameAddr::parse(HeaderName::From, from).ok().and_then(|from| from.tag());
        let (one, other) = (self.source.ip(), self.destination.ip());
        let hosts = (one.min(other), one.max(other));
        keys.of((self.call_id, from_tag, self.cseq, hosts, self.vias))
    }

    /// Returns the label: `INVITE`, or `180 INVITE`.
    pub(super) fn label(&self) -> String {
        let method = method_label(self.method);
        self.status.map_or(method.clone(), |status| format!("{status} {method}"))
    }
}

/// Returns the name of a method, shortened for a table.
pub(super) fn method_label(method: Method<'_>) -> String {
    let bytes = method.as_bytes();
    String::from_utf8_lossy(&bytes[..bytes.len().min(16)]).into_owned()
}

/// Returns at most 128 bytes as text.
pub(super) fn text(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(128)];
    bytes.escape_ascii().to_string()
}

/// Keys of objects in a capture: a hash under two random keys. Keys have a fixed length for any
/// Call-ID, and collisions cannot be constructed.
#[derive(Default)]
pub(super) struct Keys(RandomState, RandomState);

impl Keys {
    pub(super) fn of(&self, value: impl Hash) -> u128 {
        u128::from(self.0.hash_one(&value)) << 64 | u128::from(self.1.hash_one(&value))
    }
}
