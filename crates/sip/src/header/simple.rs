//! Header fields with simple values such as numbers and tokens.

use super::{HeaderError, HeaderName};
use crate::lex;
use crate::param::Params;
use crate::time::Duration;

/// Parses a whole number of at most `max`: Max-Forwards, Content-Length, RSeq, Max-Breadth.
///
/// # Errors
/// [`HeaderError`] if the value is not such a number.
pub fn number(name: HeaderName, value: &[u8], max: u32) -> Result<u32, HeaderError> {
    lex::decimal(lex::trim(value))
        .and_then(|number| u32::try_from(number).ok())
        .filter(|&number| number <= max)
        .ok_or(HeaderError { name, expected: "a whole number within its range" })
}

/// Parses seconds, as in Expires and Min-Expires. Values above 2^32 - 1 saturate (RFC 3261 section
/// 20.19 defines the range).
///
/// # Errors
/// [`HeaderError`] if it is not a number.
pub fn delta_seconds(name: HeaderName, value: &[u8]) -> Result<u32, HeaderError> {
    let digits = lex::trim(value);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(HeaderError { name, expected: "a number of seconds" });
    }
    Ok(lex::decimal(digits).and_then(|number| u32::try_from(number).ok()).unwrap_or(u32::MAX))
}

/// Parses a q-value from 0 to 1 with at most three decimals, in thousandths.
///
/// # Errors
/// [`HeaderError`] if it is not such a number.
pub fn q_value(name: HeaderName, value: &[u8]) -> Result<u16, HeaderError> {
    thousandths(value).ok_or(HeaderError { name, expected: "a q-value from 0 to 1" })
}

fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, fraction) = match value.iter().position(|&byte| byte == b'.') {
        Some(point) => (&value[..point], &value[point + 1..]),
        None => (value, &[][..]),
    };
    if fraction.len() > 3 {
        return None;
    }
    // ".5" violates the grammar, but phones send it and its meaning is clear.
    let whole = if whole.is_empty() && !fraction.is_empty() { 0 } else { lex::decimal(whole)? };
    let mut thousandths = whole.checked_mul(1000)?;
    let mut place = 100;
    for &digit in fraction {
        thousandths += place * u64::from(digit.is_ascii_digit().then(|| digit - b'0')?);
        place /= 10;
    }
    u16::try_from(thousandths).ok().filter(|&thousandths| thousandths <= 1000)
}

/// The tokens of a comma-separated value: Require, Supported, Allow and others. Elements that are
/// not tokens are ignored.
pub fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    lex::split_list(value).filter(|token| lex::all_token(token))
}

/// A media type with its parameters (RFC 3261 section 20.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaType<'a> {
    /// The type, such as `application`.
    pub kind: &'a [u8],
    /// The subtype, such as `sdp`.
    pub subtype: &'a [u8],
    /// The parameters.
    pub params: Params<'a>,
}

impl MediaType<'_> {
    /// Returns true if this is `kind/subtype` (case-insensitive).
    #[must_use]
    pub fn is(&self, kind: &str, subtype: &str) -> bool {
        self.kind.eq_ignore_ascii_case(kind.as_bytes())
            && self.subtype.eq_ignore_ascii_case(subtype.as_bytes())
    }
}

/// Parses the value of a Content-Type header field.
///
/// # Errors
/// [`HeaderError`] if it is not a media type.
pub fn media_type(value: &[u8]) -> Result<MediaType<'_>, HeaderError> {
    let (kind, rest) = lex::split_while(lex::trim(value), lex::is_token);
    let rest = lex::trim_start(rest).strip_prefix(b"/").map(lex::trim_start);
    let (subtype, params) = lex::split_while(rest.unwrap_or_default(), lex::is_token);
    let media_type = MediaType { kind, subtype, params: Params::new(lex::trim_start(params)) };
    if kind.is_empty() || subtype.is_empty() || !media_type.params.is_valid() {
        return Err(HeaderError { name: HeaderName::ContentType, expected: "type/subtype" });
    }
    Ok(media_type)
}

/// The value of a Retry-After header field (RFC 3261 section 20.33).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryAfter<'a> {
    /// The time to wait.
    pub delay: Duration,
    /// The parameters, for example `duration`. A comment before them is ignored.
    pub params: Params<'a>,
}

/// Parses the value of a Retry-After header field.
///
/// # Errors
/// [`HeaderError`] if it does not start with a number below 2^32.
pub fn retry_after(value: &[u8]) -> Result<RetryAfter<'_>, HeaderError> {
    let (digits, rest) = lex::split_while(lex::trim(value), |byte| byte.is_ascii_digit());
    let delay = number(HeaderName::RetryAfter, digits, u32::MAX)?;
    let rest = lex::trim_start(rest);
    let rest = match rest.first() {
        Some(b'(') => rest.iter().rposition(|&byte| byte == b')').map(|end| &rest[end + 1..]),
        _ => Some(rest),
    };
    let params = Params::new(lex::trim_start(rest.unwrap_or_default()));
    Ok(RetryAfter { delay: Duration::from_secs(delay.into()), params })
}

/// The value of a Session-Expires header field (RFC 4028 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionExpires<'a> {
    /// The session interval.
    pub interval: Duration,
    /// The parameters, for example `refresher`.
    pub params: Params<'a>,
}

/// Parses the value of a Session-Expires header field.
///
/// # Errors
/// [`HeaderError`] if it does not start with a number of seconds.
pub fn session_expires(value: &[u8]) -> Result<SessionExpires<'_>, HeaderError> {
    let (digits, params) = lex::split_while(lex::trim(value), |byte| byte.is_ascii_digit());
    let seconds = delta_seconds(HeaderName::SessionExpires, digits)?;
    let params = Params::new(lex::trim_start(params));
    Ok(SessionExpires { interval: Duration::from_secs(seconds.into()), params })
}

/// The value of a Timestamp header field (RFC 3261 section 20.38).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp<'a> {
    /// The time of sending as written by the client: digits with at most one point.
    pub sent: &'a [u8],
    /// The delay added by the server.
    pub delay: Option<&'a [u8]>,
}

/// Parses the value of a Timestamp header field.
///
/// # Errors
/// [`HeaderError`] if it is not one or two decimal numbers.
pub fn timestamp(value: &[u8]) -> Result<Timestamp<'_>, HeaderError> {
    let is_number = |bytes: &[u8]| {
        bytes.first().is_some_and(u8::is_ascii_digit)
            && bytes.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
            && bytes.iter().filter(|&&byte| byte == b'.').count() <= 1
    };
    let (sent, rest) = lex::split_while(lex::trim(value), |byte| !lex::is_space(byte));
    let delay = match lex::trim(rest) {
        [] => None,
        delay => Some(delay),
    };
    if is_number(sent) && delay.is_none_or(is_number) {
        return Ok(Timestamp { sent, delay });
    }
    Err(HeaderError { name: HeaderName::Timestamp, expected: "a decimal number of seconds" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn numbers_have_a_range() {
        assert_eq!(number(HeaderName::MaxForwards, b" 0068 ", 255), Ok(68));
        assert!(number(HeaderName::MaxForwards, b"256", 255).is_err());
        assert!(number(HeaderName::ContentLength, b"-999", u32::MAX).is_err());
        assert!(number(HeaderName::ContentLength, b"five", u32::MAX).is_err());
        assert_eq!(delta_seconds(HeaderName::Expires, b"1000000000000000"), Ok(u32::MAX));
        assert!(delta_seconds(HeaderName::Expires, b"soon").is_err());
    }

    #[test]
    fn q_values_are_thousandths() {
        for (text, expected) in [
            ("1", Some(1000)),
            ("1.0", Some(1000)),
            ("0.5", Some(500)),
            ("0.125", Some(125)),
            (".7", Some(700)),
            ("0", Some(0)),
            ("1.001", None),
            ("2", None),
            ("0.1234", None),
            ("0.x", None),
            (".", None),
            ("", None),
        ] {
            let q = q_value(HeaderName::Contact, text.as_bytes());
            assert_eq!(q.ok(), expected, "{text}");
        }
    }

    #[test]
    fn tokens_media_types_and_times_are_parsed() {
        assert_eq!(tokens(b"path, gruu,,\"x\"").collect::<Vec<_>>(), [&b"path"[..], &b"gruu"[..]]);
        let sdp = media_type(b"Application / SDP;charset=\"x\"").unwrap();
        assert!(sdp.is("application", "sdp"));
        assert!(media_type(b"application").is_err());
        let retry = retry_after(b"120 (I'm in a (long) meeting) ;duration=60").unwrap();
        assert_eq!(retry.delay, Duration::from_secs(120));
        assert_eq!(retry.params.value("duration"), Some(&b"60"[..]));
        let session = session_expires(b"1800;refresher=uac").unwrap();
        assert_eq!(session.interval, Duration::from_secs(1800));
        assert_eq!(session.params.value("refresher"), Some(&b"uac"[..]));
        assert_eq!(timestamp(b"54 1.5"), Ok(Timestamp { sent: b"54", delay: Some(b"1.5") }));
        assert!(timestamp(b"now").is_err());
    }
}
