//! The cookie before the dictionary of a datagram.

/// The maximum length of a cookie in bytes.
pub const MAX_COOKIE: usize = 128;

/// Splits a datagram at the space behind its cookie. A cookie has 1 to [`MAX_COOKIE`] visible
/// characters of ASCII.
pub(crate) fn split(datagram: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = datagram.iter().take(MAX_COOKIE + 1).position(|byte| !byte.is_ascii_graphic())?;
    let (cookie, rest) = datagram.split_at(length);
    let document = rest.strip_prefix(b" ")?;
    (!cookie.is_empty()).then_some((cookie, document))
}
