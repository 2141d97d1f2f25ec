//! Header fields: their names, and the typed values that a proxy, a registrar and a user agent
//! read.

mod cseq;
mod date;
mod name_addr;
mod simple;
mod via;

pub use cseq::{CSeq, RAck};
pub use date::write_date;
pub use name_addr::NameAddr;
pub use simple::{
    MediaType, RetryAfter, SessionExpires, Timestamp, delta_seconds, media_type, number, q_value,
    retry_after, session_expires, timestamp, tokens,
};
pub use via::{MAGIC_COOKIE, Via};

use crate::lex;
use core::fmt;

/// A header field value that has not the form of its grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeaderError {
    /// Which header field.
    pub name: HeaderName,
    /// What was expected.
    pub expected: &'static str,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} must be {}", self.name, self.expected)
    }
}

impl core::error::Error for HeaderError {}

/// The elements of a comma-separated header field value (RFC 3261 section 7.3.1), trimmed. Commas
/// in quoted strings and angle brackets do not separate. An element may be empty, which its parser
/// refuses.
pub fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    lex::split_list(value)
}

/// How many places there are to look a name up in.
const PLACES: usize = 256;

/// Where to look a name up, in any case: by what tells the known ones apart, with factors that give
/// each of them a place of its own.
const fn place(name: &[u8]) -> usize {
    let [first, .., last] = name else { return 0 };
    // Upper and lower case of a letter differ in one bit.
    let (first, last) = ((*first | 0x20) as usize, (*last | 0x20) as usize);
    (name.len() + first * 7 + last * 21) % PLACES
}

macro_rules! header_names {
    ($($(#[$doc:meta])* $name:ident = $text:literal $(, $compact:literal)?;)*) => {
        /// The header fields that have a meaning here. The others are carried as they are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum HeaderName {
            $(
                #[doc = concat!("`", $text, "`")]
                $(#[$doc])*
                $name,
            )*
            /// Any other header field.
            Other,
        }

        /// The names, each at its [`place`].
        static NAMES: [(&[u8], HeaderName); PLACES] = {
            let mut names: [(&[u8], HeaderName); PLACES] = [(b"", HeaderName::Other); PLACES];
            $(
                let name = $text.as_bytes();
                assert!(names[place(name)].0.is_empty(), "two names have one place: other factors are needed");
                names[place(name)] = (name, HeaderName::$name);
            )*
            names
        };

        impl HeaderName {
            /// The header field that `bytes` names, in any case, in full or in compact form.
            #[must_use]
            pub fn new(bytes: &[u8]) -> Self {
                match bytes {
                    [] => Self::Other,
                    [letter] => match letter.to_ascii_lowercase() {
                        $($($compact => Self::$name,)?)*
                        _ => Self::Other,
                    },
                    _ => {
                        let (known, name) = NAMES[place(bytes)];
                        // Most are written as here, which is quicker to see.
                        if lex::is_same_word(bytes, known) || bytes.eq_ignore_ascii_case(known) {
                            name
                        } else {
                            Self::Other
                        }
                    }
                }
            }

            /// The name in full, in the case that the RFCs write; empty for `Other`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                    Self::Other => "",
                }
            }
        }
    };
}

header_names! {
    Via = "Via", b'v';
    From = "From", b'f';
    To = "To", b't';
    CallId = "Call-ID", b'i';
    CSeq = "CSeq";
    MaxForwards = "Max-Forwards";
    Contact = "Contact", b'm';
    ContentLength = "Content-Length", b'l';
    ContentType = "Content-Type", b'c';
    Route = "Route";
    RecordRoute = "Record-Route";
    Authorization = "Authorization";
    ProxyAuthorization = "Proxy-Authorization";
    WwwAuthenticate = "WWW-Authenticate";
    ProxyAuthenticate = "Proxy-Authenticate";
    Expires = "Expires";
    MinExpires = "Min-Expires";
    Require = "Require";
    ProxyRequire = "Proxy-Require";
    Supported = "Supported", b'k';
    Unsupported = "Unsupported";
    Allow = "Allow";
    Accept = "Accept";
    ContentEncoding = "Content-Encoding", b'e';
    UserAgent = "User-Agent";
    Server = "Server";
    Date = "Date";
    RetryAfter = "Retry-After";
    Warning = "Warning";
    Timestamp = "Timestamp";
    Subject = "Subject", b's';
    /// (RFC 5393)
    MaxBreadth = "Max-Breadth";
    /// (RFC 3327)
    Path = "Path";
    /// (RFC 3608)
    ServiceRoute = "Service-Route";
    /// (RFC 3262)
    RSeq = "RSeq";
    /// (RFC 3262)
    RAck = "RAck";
    /// (RFC 6665)
    Event = "Event", b'o';
    /// (RFC 4028)
    SessionExpires = "Session-Expires", b'x';
    /// (RFC 4028)
    MinSe = "Min-SE";
    /// (RFC 3515)
    ReferTo = "Refer-To", b'r';
    /// (RFC 3891)
    Replaces = "Replaces";
    /// (RFC 3326)
    Reason = "Reason";
    /// (RFC 6665)
    SubscriptionState = "Subscription-State";
    /// (RFC 3325)
    PAssertedIdentity = "P-Asserted-Identity";
    /// (RFC 3325)
    PPreferredIdentity = "P-Preferred-Identity";
    /// An older form of P-Asserted-Identity, which was never an RFC.
    RemotePartyId = "Remote-Party-ID";
    AlertInfo = "Alert-Info";
    CallInfo = "Call-Info";
    /// (RFC 5806)
    Diversion = "Diversion";
    /// (RFC 7044)
    HistoryInfo = "History-Info";
    /// (RFC 3892)
    ReferredBy = "Referred-By", b'b';
    /// (RFC 5373)
    AnswerMode = "Answer-Mode";
    /// (RFC 5373)
    PrivAnswerMode = "Priv-Answer-Mode";
    /// (RFC 3323)
    Privacy = "Privacy";
}

impl HeaderName {
    /// A bit of its own.
    pub(crate) const fn bit(self) -> u64 {
        1 << self as u64
    }
}

impl fmt::Display for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Other { "header field" } else { self.as_str() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_in_any_case_and_in_compact_form() {
        assert_eq!(HeaderName::new(b"call-id"), HeaderName::CallId);
        assert_eq!(HeaderName::new(b"I"), HeaderName::CallId);
        assert_eq!(HeaderName::new(b"CONTENT-LENGTH"), HeaderName::ContentLength);
        assert_eq!(HeaderName::new(b"k"), HeaderName::Supported);
        assert_eq!(HeaderName::new(b"X-Call-ID"), HeaderName::Other);
        assert_eq!(HeaderName::new(b""), HeaderName::Other);
        assert_eq!(HeaderName::new(b"z"), HeaderName::Other);
    }
}
