//! Digest authentication (RFC 7616, RFC 8760), compatible with RFC 2617 and RFC 2069.
//!
//! A server writes a [`Challenge`] per [`Algorithm`], parses the returned [`Credentials`] and
//! checks them with [`Credentials::verify`]. A client parses the challenges, chooses one and calls
//! [`Challenge::credentials_for`]. The caller manages nonces and nonce counts, and compares the
//! `uri` parameter with the Request-URI.

mod algorithm;
mod challenge;
mod credentials;
mod hash;
mod params;
#[cfg(test)]
mod tests;

pub use algorithm::Algorithm;
pub use challenge::{Challenge, QopOptions};
pub use credentials::{Credentials, DigestInput, DigestResponse};
pub use hash::{Ha1Set, Hex, response_matches};
pub use params::{next_nonce, quote, realms, unquote};

use core::fmt;

/// The quality of protection: the parts of a request that the response covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Qop {
    /// `auth`: method and URI.
    Auth,
    /// `auth-int`: method, URI and body.
    AuthInt,
}

impl Qop {
    /// The name in the `qop` parameter.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::AuthInt => "auth-int",
        }
    }

    /// The quality with this name (case-insensitive).
    #[must_use]
    pub fn parse(name: &[u8]) -> Option<Self> {
        [Self::Auth, Self::AuthInt]
            .into_iter()
            .find(|q| q.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

/// The `nc` parameter: eight hexadecimal digits, kept as sent because the hash covers them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NonceCount([u8; 8]);

impl NonceCount {
    /// Formats `count` in lower case.
    #[must_use]
    pub fn new(count: u32) -> Self {
        let mut text = [0; 8];
        hash::write_hex(&count.to_be_bytes(), &mut text);
        Self(text)
    }

    /// Parses `text`.
    ///
    /// # Errors
    /// [`Error::Invalid`]: it has not eight hexadecimal digits.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        let digits: Option<[u8; 8]> = text.try_into().ok();
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        digits.map(Self).ok_or(Error::Invalid("nc"))
    }

    /// The number of requests sent with this nonce, including this one.
    #[must_use]
    pub fn value(self) -> u32 {
        self.0
            .iter()
            .filter_map(|&digit| char::from(digit).to_digit(16))
            .fold(0, |value, digit| value << 4 | digit)
    }

    /// The eight digits.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for NonceCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NonceCount({})", self.value())
    }
}

/// The reason why a Digest header field is rejected. A server answers with 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No `name=value` or `name="value"` follows this offset.
    Syntax {
        /// Octets from the start of the value.
        at: usize,
    },
    /// The parameter is repeated.
    Duplicate(&'static str),
    /// A required parameter is missing.
    Missing(&'static str),
    /// The value of the parameter is malformed.
    Invalid(&'static str),
    /// The `algorithm` is not supported. A client ignores such a challenge.
    UnknownAlgorithm,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { at } => {
                write!(f, "digest parameters: expected name=value at offset {at}")
            }
            Self::Duplicate(name) => write!(f, "digest parameter {name} is repeated"),
            Self::Missing(name) => write!(f, "digest parameter {name} is missing"),
            Self::Invalid(name) => write!(f, "digest parameter {name} has an invalid value"),
            Self::UnknownAlgorithm => {
                f.write_str("digest algorithm is not MD5, SHA-256 or SHA-512-256")
            }
        }
    }
}

impl core::error::Error for Error {}
