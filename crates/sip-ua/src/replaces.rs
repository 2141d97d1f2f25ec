//! The Replaces header field (RFC 3891): the call that another call replaces.

use alloc::vec::Vec;
use core::fmt;
use sip::Encode;
use sip::uri::unescape;

/// The value of a Replaces header field (RFC 3891 section 6.1): a dialog, as its recipient sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaces {
    /// The Call-ID.
    pub call_id: Vec<u8>,
    /// The tag of the recipient.
    pub to_tag: Vec<u8>,
    /// The tag of the other end.
    pub from_tag: Vec<u8>,
    /// True if it applies only before the call is answered.
    pub early_only: bool,
}

/// The reason why a Replaces header field is rejected (400, RFC 3891 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplacesError {
    /// The Call-ID is missing or malformed.
    CallId,
    /// `to-tag` is missing or malformed.
    ToTag,
    /// `from-tag` is missing or malformed.
    FromTag,
}

impl fmt::Display for ReplacesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Replaces: expected ")?;
        f.write_str(match self {
            Self::CallId => "a Call-ID",
            Self::ToTag => "to-tag with a tag",
            Self::FromTag => "from-tag with a tag",
        })
    }
}

impl core::error::Error for ReplacesError {}

impl Replaces {
    /// Parses the value of the header field.
    ///
    /// # Errors
    /// The Call-ID or a tag is missing or malformed.
    pub fn parse(value: &[u8]) -> Result<Self, ReplacesError> {
        let mut parts = value.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let call_id = parts.next().filter(|id| is_word(id)).ok_or(ReplacesError::CallId)?;
        let (mut to_tag, mut from_tag, mut early_only) = (None, None, false);
        for part in parts {
            let (name, value) = match part.iter().position(|byte| *byte == b'=') {
                Some(at) => (&part[..at], part[at + 1..].trim_ascii()),
                None => (part, &b""[..]),
            };
            match name.trim_ascii().to_ascii_lowercase().as_slice() {
                b"to-tag" => to_tag = Some(value),
                b"from-tag" => from_tag = Some(value),
                b"early-only" => early_only = true,
                _ => {}
            }
        }
        let tag = |tag: Option<&[u8]>| tag.filter(|tag| is_word(tag)).map(<[u8]>::to_vec);
        Ok(Self {
            call_id: call_id.to_vec(),
            to_tag: tag(to_tag).ok_or(ReplacesError::ToTag)?,
            from_tag: tag(from_tag).ok_or(ReplacesError::FromTag)?,
            early_only,
        })
    }

    /// The Replaces field among the header fields of a URI (RFC 3261 section 19.1.1). `None` if
    /// there is no valid one.
    #[must_use]
    pub fn of_headers(headers: &[u8]) -> Option<Self> {
        let mut fields = headers.split(|byte| *byte == b'&').filter_map(|field| {
            let at = field.iter().position(|byte| *byte == b'=')?;
            Some((&field[..at], &field[at + 1..]))
        });
        let (_, value) = fields.find(|(name, _)| name.eq_ignore_ascii_case(b"Replaces"))?;
        Self::parse(&unescape(value)).ok()
    }

    /// Returns the escaped form for a URI.
    #[must_use]
    pub fn escaped(&self) -> Vec<u8> {
        let mut plain = Vec::new();
        self.encode(&mut plain);
        let mut escaped = Vec::with_capacity(plain.len() + 16);
        for byte in plain {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    escaped.push(byte);
                }
                _ => {
                    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                    let [high, low] = [byte >> 4, byte & 15].map(|half| DIGITS[usize::from(half)]);
                    escaped.extend([b'%', high, low]);
                }
            }
        }
        escaped
    }
}

impl Encode for Replaces {
    fn encode(&self, out: &mut Vec<u8>) {
        let early = self.early_only.then_some(";early-only");
        (&self.call_id, ";to-tag=", &self.to_tag, ";from-tag=", &self.from_tag, early).encode(out);
    }
}

/// Returns true if `text` can be a Call-ID or a tag: printable, without a delimiter.
fn is_word(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| byte.is_ascii_graphic() && !b",;=".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_value_is_parsed_unchanged() {
        let value = b"a%b@host;to-tag=1;from-tag=2;early-only";
        let replaces = Replaces::parse(value).unwrap();
        let mut out = Vec::new();
        replaces.encode(&mut out);
        assert_eq!(out, value);
        let headers = [b"Subject=x&replaces=", &replaces.escaped()[..]].concat();
        assert_eq!(Replaces::of_headers(&headers), Some(replaces));
    }

    #[test]
    fn a_value_without_a_call_id_and_both_tags_is_refused() {
        for (value, expected) in [
            (&b""[..], ReplacesError::CallId),
            (b";to-tag=1;from-tag=2", ReplacesError::CallId),
            (b"a b;to-tag=1;from-tag=2", ReplacesError::CallId),
            (b"a;to-tag=;from-tag=2", ReplacesError::ToTag),
            (b"a;to-tag=1", ReplacesError::FromTag),
        ] {
            assert_eq!(Replaces::parse(value), Err(expected));
        }
        // An escape cannot inject a header field.
        assert_eq!(Replaces::of_headers(b"Replaces=a%0d%0aX:y;to-tag=1;from-tag=2"), None);
    }
}
