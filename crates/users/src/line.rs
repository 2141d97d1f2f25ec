//! The grammar of a line.

use crate::name::{NameError, check_auth_name, check_name, is_password};
use alloc::borrow::ToOwned;
use alloc::string::String;
use core::error::Error;
use core::fmt;
use sip::digest::Algorithm;

/// The maximum length of a line in bytes, without its end.
pub const MAX_LINE: usize = 4096;

/// A line with a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The user name.
    pub name: &'a str,
    /// The name under which the user logs in, if it differs. Only with a password.
    pub auth_name: Option<&'a str>,
    /// The password or a hash of it.
    pub credentials: Credentials<'a>,
}

/// The password of a user, or a hash of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials<'a> {
    /// The password.
    Password(&'a [u8]),
    /// The digest hash of user name, realm and password (RFC 7616 section 3.4.2).
    Ha1 {
        /// The algorithm.
        algorithm: Algorithm,
        /// The hash. That of MD5 has 16 bytes, and zeros after it.
        hash: [u8; 32],
    },
}

/// The fault of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineError {
    /// The line is longer than [`MAX_LINE`].
    TooLong,
    /// The line is not UTF-8, or has a NUL.
    NotUtf8,
    /// The line has no colon.
    NoColon,
    /// The name or the authentication name cannot be used.
    Name(NameError),
    /// The password is empty or has control characters.
    Password,
    /// The HA1 is for another realm than this one.
    Realm(String),
    /// The HA1 has a character that is not a hexadecimal digit.
    Digits,
    /// An HA1 is given for a user with an authentication name.
    HashedAuthName,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "longer than {MAX_LINE} bytes"),
            Self::NotUtf8 => f.write_str(
                "not UTF-8; save the file in that encoding, with or without a byte order mark",
            ),
            Self::NoColon => f.write_str("expected name:password, found no colon"),
            Self::Name(error) => error.fmt(f),
            Self::Password => f.write_str(
                "the password is empty or has control characters in it; expected one line of text",
            ),
            Self::Realm(ours) => {
                write!(f, "the HA1 is for another realm; expected one for {ours}")
            }
            Self::Digits => f.write_str("the HA1 has a character that is not a hexadecimal digit"),
            Self::HashedAuthName => {
                f.write_str("a user with an authentication name needs a password, not an HA1")
            }
        }
    }
}

impl Error for LineError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Name(error) => Some(error),
            _ => None,
        }
    }
}

impl From<NameError> for LineError {
    fn from(error: NameError) -> Self {
        Self::Name(error)
    }
}

impl<'a> Line<'a> {
    /// Parses a line, without its end, of a user of `domain`. An HA1 must be for `realm`.
    pub(crate) fn parse(bytes: &'a [u8], domain: &str, realm: &str) -> Result<Self, LineError> {
        if core::str::from_utf8(bytes).is_err() || bytes.contains(&0) {
            return Err(LineError::NotUtf8);
        }
        let (name, rest) = split(bytes).ok_or(LineError::NoColon)?;
        let name = core::str::from_utf8(name).map_err(|_| LineError::NotUtf8)?;
        let (name, auth_name) = match name.strip_suffix('>').and_then(|name| name.split_once('<')) {
            Some((name, auth_name)) => (name, Some(auth_name)),
            None => (name, None),
        };
        check_name(name)?;
        if let Some(auth_name) = auth_name {
            check_auth_name(auth_name, domain)?;
        }
        let credentials = match hashed(rest) {
            None if !is_password(rest) => return Err(LineError::Password),
            None => Credentials::Password(rest),
            Some(_) if auth_name.is_some() => return Err(LineError::HashedAuthName),
            Some((other, ..)) if other != realm.as_bytes() => {
                return Err(LineError::Realm(realm.to_owned()));
            }
            Some((_, algorithm, digits)) => {
                let hash = octets(digits).ok_or(LineError::Digits)?;
                Credentials::Ha1 { algorithm, hash }
            }
        };
        Ok(Self { name, auth_name, credentials })
    }
}

/// Splits at the first colon.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = bytes.iter().position(|&byte| byte == b':')?;
    Some((&bytes[..colon], &bytes[colon + 1..]))
}

/// Realm, algorithm and digits of an HA1; `None` if `rest` is a password.
fn hashed(rest: &[u8]) -> Option<(&[u8], Algorithm, &[u8])> {
    let (realm, rest) = split(rest)?;
    let (algorithm, digits) = split(rest)?;
    let algorithm = Algorithm::parse(algorithm)?;
    (digits.len() == 2 * algorithm.output_len()).then_some((realm, algorithm, digits))
}

/// The octets of hexadecimal `digits`, at most 32.
fn octets(digits: &[u8]) -> Option<[u8; 32]> {
    let mut octets = [0; 32];
    for (octet, pair) in octets.iter_mut().zip(digits.chunks_exact(2)) {
        // The integer parser accepts a sign, which a hash does not have.
        let pair = core::str::from_utf8(pair).ok().filter(|pair| !pair.starts_with('+'))?;
        *octet = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Line<'_>, LineError> {
        Line::parse(line.as_bytes(), "a.com", "realm")
    }

    #[test]
    fn a_line_has_a_password_or_a_hash() {
        let password = |name, auth_name, password| {
            Ok(Line { name, auth_name, credentials: Credentials::Password(password) })
        };
        assert_eq!(parse("alice:se:cret"), password("alice", None, b"se:cret"));
        assert_eq!(parse("bob: with space "), password("bob", None, b" with space "));
        assert_eq!(parse("carol<c@isp.example>:p<q>:r"), {
            password("carol", Some("c@isp.example"), b"p<q>:r")
        });
        // A hash of another length is a password.
        assert_eq!(parse("a:realm:MD5:00"), password("a", None, b"realm:MD5:00"));
        let line = "a:realm:md5:000102030405060708090a0b0c0d0e0F";
        let Ok(Line { credentials: Credentials::Ha1 { algorithm, hash }, .. }) = parse(line) else {
            panic!("no hash")
        };
        assert_eq!(algorithm, Algorithm::Md5);
        assert_eq!(hash[..16], core::array::from_fn::<u8, 16, _>(|at| at as u8));
    }

    #[test]
    fn a_bad_line_has_its_error() {
        let hash = "0".repeat(32);
        let name = |name| Err(LineError::Name(name));
        assert_eq!(parse("bob"), Err(LineError::NoColon));
        assert_eq!(parse(":x"), name(NameError::Empty));
        assert_eq!(parse("a<>:x"), name(NameError::Empty));
        assert_eq!(
            parse("a b:x"),
            name(NameError::Character { name: "a b".into(), character: ' ' })
        );
        let address = NameError::Address { user: "bob".into(), domain: "a.com".into() };
        assert_eq!(parse("a<bob@a.com>:x"), name(address));
        assert_eq!(parse("a:"), Err(LineError::Password));
        assert_eq!(parse("a:b\tc"), Err(LineError::Password));
        assert_eq!(parse("a:\0"), Err(LineError::NotUtf8));
        assert_eq!(Line::parse(b"a:\xff", "a.com", "realm"), Err(LineError::NotUtf8));
        let of_realm = |realm: &str| alloc::format!("a:{realm}:MD5:{hash}");
        assert_eq!(parse(&of_realm("other")), Err(LineError::Realm("realm".into())));
        let signed = of_realm("realm").replace(":00", ":+f");
        assert_eq!(parse(&signed), Err(LineError::Digits));
        let with_auth_name = of_realm("realm").replace("a:", "a<b>:");
        assert_eq!(parse(&with_auth_name), Err(LineError::HashedAuthName));
    }
}
