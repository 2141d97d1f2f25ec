//! The lexical ground that all parsers of header fields stand on (RFC 3261 section 25.1).
//!
//! Header field values may hold folded lines: CR and LF in them are white space, since the message
//! parser lets them through only where a fold is.

/// White space within a header field value, folds included.
pub(crate) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// The characters of a `token`.
pub(crate) const fn is_token(byte: u8) -> bool {
    matches!(byte,
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9'
        | b'-' | b'.' | b'!' | b'%' | b'*' | b'_' | b'+' | b'`' | b'\'' | b'~')
}

/// Whether `bytes` is a `token`.
pub(crate) fn all_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| is_token(byte))
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

/// Splits after the quoted string that `bytes` begins with, quotes included. `None` if it has no
/// end.
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
/// strings and in angle brackets do not separate. Elements are trimmed and may be empty, which the
/// parser of the element refuses.
pub(crate) fn split_list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    core::iter::from_fn(move || {
        let value = rest?;
        let end = list_element_end(value);
        rest = value.get(end + 1..);
        Some(trim(&value[..end]))
    })
}

/// Where the first element of a comma-separated value ends.
pub(crate) fn list_element_end(value: &[u8]) -> usize {
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

/// An unsigned decimal number that fills `bytes`; `None` for anything else and for what exceeds
/// `u64`.
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

/// `bytes` with every `%HH` replaced by the byte it stands for, once (RFC 3261 section 19.1.2). A
/// `%` that no two hexadecimal digits follow stands for itself.
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
    fn numbers_do_not_wrap() {
        assert_eq!(decimal(b"0068"), Some(68));
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(decimal(b"18446744073709551616"), None);
        assert_eq!(decimal(b"-1"), None);
        assert_eq!(decimal(b""), None);
    }

    #[test]
    fn escapes_are_undone_once() {
        let plain: Vec<u8> = unescape(b"%61%2541%Z%4").collect();
        assert_eq!(plain, b"a%41%Z%4");
    }
}
