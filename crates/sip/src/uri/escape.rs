//! Escapes in user parts and parameters of URIs (RFC 3261 section 19.1.2).

use crate::lex::{self, Set};
use alloc::borrow::Cow;
use alloc::vec::Vec;

/// Replaces every `%HH` of a user part by its byte, once (RFC 3261 section 19.1.2). A `%` without
/// two hexadecimal digits is kept.
#[must_use]
pub fn unescape(user: &[u8]) -> Cow<'_, [u8]> {
    match lex::find(b'%', user) {
        Some(_) => lex::unescape(user).collect(),
        None => Cow::Borrowed(user),
    }
}

/// Escapes `name` as a user part: characters not allowed there become `%HH` (RFC 3261 section
/// 19.1.2). The inverse of [`unescape`].
#[must_use]
pub fn escape_user(name: &[u8]) -> Cow<'_, [u8]> {
    // A percent sign is only allowed in an escape, and a colon ends the user part.
    escape(name, |byte| Set::USER.has(byte) && !matches!(byte, b'%' | b':'))
}

/// Escapes `value` as the value of a URI parameter (`pvalue` of RFC 3261 section 25.1).
#[must_use]
pub fn escape_param(value: &[u8]) -> Cow<'_, [u8]> {
    escape(value, |byte| byte.is_ascii_alphanumeric() || b"-_.!~*'()[]/:&+$".contains(&byte))
}

fn escape(bytes: &[u8], stays: impl Fn(u8) -> bool) -> Cow<'_, [u8]> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    if bytes.iter().all(|&byte| stays(byte)) {
        return Cow::Borrowed(bytes);
    }
    let mut escaped = Vec::with_capacity(bytes.len() + 6);
    for &byte in bytes {
        match stays(byte) {
            true => escaped.push(byte),
            false => escaped.extend([
                b'%',
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]),
        }
    }
    escaped.into()
}
