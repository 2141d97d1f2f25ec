//! The names of header fields, and the error of a malformed value.

use crate::lex;
use core::fmt;

/// The error of a malformed header field value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeaderError {
    /// The header field.
    pub name: HeaderName,
    /// The expected form.
    pub expected: &'static str,
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} must be {}", self.name, self.expected)
    }
}

impl core::error::Error for HeaderError {}

/// The size of the table of names.
const PLACES: usize = 256;

/// A perfect hash of the known names (case-insensitive), with factors chosen to give each name a
/// different slot.
const fn place(name: &[u8]) -> usize {
    let [first, .., last] = name else { return 0 };
    // Upper and lower case of a letter differ in one bit.
    let (first, last) = ((*first | 0x20) as usize, (*last | 0x20) as usize);
    (name.len() + first * 7 + last * 21) % PLACES
}

macro_rules! header_names {
    ($($(#[$doc:meta])* $name:ident = $text:literal $(, $compact:literal)?;)*) => {
        /// The known header fields. Others are passed through unchanged.
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
            /// The header field with this name (case-insensitive), in full or compact form.
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
                        // Names usually have this case, and the exact comparison is faster.
                        if lex::is_same_word(bytes, known) || bytes.eq_ignore_ascii_case(known) {
                            name
                        } else {
                            Self::Other
                        }
                    }
                }
            }

            /// The full name in the case of the RFCs; empty for `Other`.
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
    /// The non-standard predecessor of P-Asserted-Identity.
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
    /// The bit of the name in a set.
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
    fn names_are_case_insensitive_and_may_be_compact() {
        assert_eq!(HeaderName::new(b"call-id"), HeaderName::CallId);
        assert_eq!(HeaderName::new(b"I"), HeaderName::CallId);
        assert_eq!(HeaderName::new(b"CONTENT-LENGTH"), HeaderName::ContentLength);
        assert_eq!(HeaderName::new(b"k"), HeaderName::Supported);
        assert_eq!(HeaderName::new(b"X-Call-ID"), HeaderName::Other);
        assert_eq!(HeaderName::new(b""), HeaderName::Other);
        assert_eq!(HeaderName::new(b"z"), HeaderName::Other);
    }
}
