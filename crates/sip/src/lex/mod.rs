//! Lexical functions of the header field parsers (RFC 3261 section 25.1).
//!
//! Header field values may contain folded lines. CR and LF in a value are white space, because the
//! message parser allows them only in a fold.

mod scan;
mod set;

pub(crate) use scan::{LineEnds, LineFeeds, Marks, find, is_same_word};
pub(crate) use set::{Common, Set, is_space};

impl Set {
    /// Returns true if all `bytes` are in the set. The set has to include letters, digits, hyphens
    /// and dots.
    pub(crate) fn has_all(self, bytes: &[u8]) -> bool {
        Marks::new(bytes).all(|at| self.has(bytes[at]))
    }
}

/// Returns true for the characters of a `token`.
pub(crate) fn is_token(byte: u8) -> bool {
    Set::TOKEN.has(byte)
}

/// Returns true if `bytes` is a `token`.
pub(crate) fn all_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && Set::TOKEN.has_all(bytes)
}

/// Returns true if all `bytes` are printable and not spaces.
pub(crate) fn all_graphic(bytes: &[u8]) -> bool {
    // Without early exit the compiler vectorizes the loop.
    bytes.iter().fold(true, |all, byte| all & byte.is_ascii_graphic())
}

/// `bytes` without white space at its ends.
pub(crate) fn trim(bytes: &[u8]) -> &[u8] {
    trim_start(trim_end(bytes))
}

/// `bytes` without white space at its start.
pub(crate) fn trim_start(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes {
        if !is_space(*first) {
            break;
        }
        bytes = rest;
    }
    bytes
}

/// `bytes` without white space at its end.
pub(crate) fn trim_end(mut bytes: &[u8]) -> &[u8] {
    while let [rest @ .., last] = bytes {
        if !is_space(*last) {
            break;
        }
        bytes = rest;
    }
    bytes
}

/// Splits after the leading run of bytes for which `test` holds.
pub(crate) fn split_while(bytes: &[u8], test: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|&byte| !test(byte)).unwrap_or(bytes.len());
    bytes.split_at(end)
}

/// Splits after the leading run of bytes in `set`, which has to include letters, digits, hyphens
/// and dots.
pub(crate) fn split_set(bytes: &[u8], set: Set) -> (&[u8], &[u8]) {
    bytes.split_at(Marks::new(bytes).find(|&at| !set.has(bytes[at])).unwrap_or(bytes.len()))
}

/// Splits after a leading quoted string, including its quotes. Returns `None` if it is not
/// terminated.
pub(crate) fn split_quoted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    debug_assert_eq!(bytes.first(), Some(&b'"'));
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return Some(bytes.split_at(at + 1)),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

/// The elements of a comma-separated header field value (RFC 3261 section 7.3.1). Commas in quoted
/// strings and in angle brackets do not separate. Elements are trimmed and may be empty; the parser
/// of the element rejects empty ones.
pub(crate) fn split_list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    core::iter::from_fn(move || {
        let value = rest?;
        let end = list_element_end(value);
        rest = value.get(end + 1..);
        Some(trim(&value[..end]))
    })
}

/// The end of the first element of a comma-separated value.
pub(crate) fn list_element_end(value: &[u8]) -> usize {
    if find(b',', value).is_none() {
        return value.len();
    }
    let mut at = 0;
    let mut in_brackets = false;
    while let Some(&byte) = value.get(at) {
        match byte {
            b'"' if !in_brackets => match split_quoted(&value[at..]) {
                Some((quoted, _)) => at += quoted.len(),
                None => return value.len(),
            },
            b',' if !in_brackets => return at,
            b'<' => {
                in_brackets = true;
                at += 1;
            }
            b'>' => {
                in_brackets = false;
                at += 1;
            }
            _ => at += 1,
        }
    }
    value.len()
}

/// Splits before the first `byte`, or at the end if there is no such byte.
pub(crate) fn split_before(byte: u8, bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(find(byte, bytes).unwrap_or(bytes.len()))
}

/// Parses `bytes` as an unsigned decimal number. Returns `None` for other text and on overflow.
pub(crate) fn decimal(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// The value of a hexadecimal digit.
pub(crate) const fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Replaces every `%HH` by its byte, once (RFC 3261 section 19.1.2). A `%` without two hexadecimal
/// digits is kept.
pub(crate) fn unescape(bytes: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut at = 0;
    core::iter::from_fn(move || {
        let byte = *bytes.get(at)?;
        at += 1;
        if byte == b'%' {
            let high = bytes.get(at).copied().and_then(hex_digit);
            let low = bytes.get(at + 1).copied().and_then(hex_digit);
            if let (Some(high), Some(low)) = (high, low) {
                at += 2;
                return Some(high << 4 | low);
            }
        }
        Some(byte)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn lists_split_at_commas_outside_quotes_and_brackets() {
        let value = b"\"a, \\\"b\" <sip:x,y@z>;p , <sip:q@r>,, last";
        let elements: Vec<_> = split_list(value).collect();
        let expected: [&[u8]; 4] = [b"\"a, \\\"b\" <sip:x,y@z>;p", b"<sip:q@r>", b"", b"last"];
        assert_eq!(elements, expected);
    }

    #[test]
    fn a_quoted_string_ends_at_its_own_quote() {
        assert_eq!(split_quoted(b"\"a\\\"b\"c"), Some((&b"\"a\\\"b\""[..], &b"c"[..])));
        assert_eq!(split_quoted(b"\"a\\\""), None);
        assert_eq!(split_quoted(b"\"a\\"), None);
    }

    #[test]
    fn numbers_do_not_overflow() {
        assert_eq!(decimal(b"0068"), Some(68));
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(decimal(b"18446744073709551616"), None);
        assert_eq!(decimal(b"-1"), None);
        assert_eq!(decimal(b""), None);
    }

    #[test]
    fn escapes_are_decoded_once() {
        let plain: Vec<u8> = unescape(b"%61%2541%Z%4").collect();
        assert_eq!(plain, b"a%41%Z%4");
    }
}
