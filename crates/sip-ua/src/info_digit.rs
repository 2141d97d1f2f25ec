//! Digits in the body of an INFO. No RFC has their formats: they are those that phones use.

use alloc::vec::Vec;
use sip::header::media_type;
use sip::{Duration, Encode, HeaderName, Message};

/// The duration of a digit whose body tells none.
const DURATION: Duration = Duration::from_millis(160);

/// The longest duration that is read.
const LONGEST: u64 = 60_000;

/// A pressed key, as an INFO carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfoDigit {
    /// `0` to `9`, `*`, `#`, `A` to `D`.
    pub key: char,
    /// The time for which it was pressed.
    pub duration: Duration,
}

/// The reason why an INFO is no digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoDigit {
    /// The media type of the body is another one.
    Type,
    /// The body has no key, or several.
    Content,
}

impl InfoDigit {
    /// The media type of [`InfoDigit::relay_body`].
    pub const RELAY_TYPE: &str = "application/dtmf-relay";

    /// The media type of [`InfoDigit::plain_body`].
    pub const PLAIN_TYPE: &str = "application/dtmf";

    /// Reads the digit in the body of `info`.
    ///
    /// # Errors
    /// [`NoDigit`].
    pub fn read(info: &Message<'_>) -> Result<Self, NoDigit> {
        let kind = info.value(HeaderName::ContentType).and_then(|value| media_type(value).ok());
        let kind = kind.ok_or(NoDigit::Type)?;
        let is = |sub: &str| kind.is("application", sub);
        let body = info.body();
        // Some phones send lines under both types.
        let key = if is("dtmf-relay") || is("vnd.nortelnetworks.digits") {
            signal_of(body)
        } else if is("dtmf") {
            key_of(body.trim_ascii()).or_else(|| signal_of(body))
        } else {
            return Err(NoDigit::Type);
        };
        let key = key.ok_or(NoDigit::Content)?;
        Ok(Self { key, duration: duration_of(body).unwrap_or(DURATION) })
    }

    /// Returns the body with the signal and its duration in milliseconds.
    #[must_use]
    pub fn relay_body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let signal = self.plain_body();
        let milliseconds = self.duration.as_millis();
        ("Signal=", &signal, "\r\nDuration=", milliseconds, "\r\n").encode(&mut body);
        body
    }

    /// Returns the body with the key alone.
    #[must_use]
    pub fn plain_body(&self) -> Vec<u8> {
        self.key.encode_utf8(&mut [0; 4]).as_bytes().to_vec()
    }
}

/// Returns the value of the first line with one of these names.
fn value_of<'b>(body: &'b [u8], names: &[&str]) -> Option<&'b [u8]> {
    let mut lines = body.split(|byte| matches!(byte, b'\r' | b'\n'));
    lines.find_map(|line| {
        let at = line.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (line[..at].trim_ascii(), line[at + 1..].trim_ascii());
        let is_it = |known: &&str| name.eq_ignore_ascii_case(known.as_bytes());
        names.iter().any(is_it).then_some(value)
    })
}

/// Returns the key in a line such as `Signal=5`, or `d=5` of Nortel.
fn signal_of(body: &[u8]) -> Option<char> {
    key_of(value_of(body, &["Signal", "d"])?)
}

/// Returns the duration in a line such as `Duration=160`.
fn duration_of(body: &[u8]) -> Option<Duration> {
    let text = core::str::from_utf8(value_of(body, &["Duration", "dd"])?).ok()?;
    let milliseconds = text.parse::<u64>().ok()?;
    Some(Duration::from_millis(milliseconds.min(LONGEST)))
}

/// Returns a key by its character, or by its number in RFC 4733.
fn key_of(text: &[u8]) -> Option<char> {
    match text {
        [b'0'..=b'9' | b'*' | b'#' | b'A'..=b'D' | b'a'..=b'd'] => {
            Some(char::from(text[0].to_ascii_uppercase()))
        }
        b"10" => Some('*'),
        b"11" => Some('#'),
        b"12" => Some('A'),
        b"13" => Some('B'),
        b"14" => Some('C'),
        b"15" => Some('D'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    fn read(kind: &str, body: &str) -> Result<(char, u64), NoDigit> {
        let length = body.len();
        let text = format!(
            "INFO sip:a SIP/2.0\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let digit = InfoDigit::read(&Message::parse(text.as_bytes()).unwrap())?;
        Ok((digit.key, digit.duration.as_millis()))
    }

    #[test]
    fn digits_are_read_as_phones_write_them() {
        let relay = InfoDigit::RELAY_TYPE;
        assert_eq!(read(relay, "Signal=5\r\nDuration=250\r\n"), Ok(('5', 250)));
        assert_eq!(read(relay, "Duration=100\nsignal = # \n"), Ok(('#', 100)));
        assert_eq!(read(relay, "Signal= *\r\nDuration= 9999999\r\n"), Ok(('*', 60_000)));
        assert_eq!(read("application/dtmf", "11"), Ok(('#', 160)));
        assert_eq!(read("Application/DTMF", " d\r\n"), Ok(('D', 160)));
        assert_eq!(read("application/dtmf", "Signal=7\r\nDuration=80"), Ok(('7', 80)));
        let nortel = "p=Digit-Collection\r\ny=Digits\r\nd=5\r\n";
        assert_eq!(read("application/vnd.nortelnetworks.digits", nortel), Ok(('5', 160)));
        for body in ["", "55", "Signal=x", "Signal=16\r\n", "Duration=160\r\n"] {
            assert_eq!(read(relay, body), Err(NoDigit::Content), "{body}");
        }
        assert_eq!(read("application/dtmf", "123"), Err(NoDigit::Content));
        assert_eq!(read("text/plain", "5"), Err(NoDigit::Type));
        assert_eq!(read("x", "5"), Err(NoDigit::Type));
    }

    #[test]
    fn a_written_digit_is_read_again() {
        for key in "0123456789*#ABCD".chars() {
            let digit = InfoDigit { key, duration: Duration::from_millis(120) };
            let text = |body: Vec<u8>| alloc::string::String::from_utf8(body).unwrap();
            let relay = read(InfoDigit::RELAY_TYPE, &text(digit.relay_body()));
            assert_eq!(relay, Ok((key, 120)));
            let plain = read(InfoDigit::PLAIN_TYPE, &text(digit.plain_body()));
            assert_eq!(plain, Ok((key, 160)));
        }
    }
}
