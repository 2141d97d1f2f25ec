//! The lexical ground that all parsers of header fields stand on (RFC 3261 section 25.1).
//!
//! Header field values may hold folded lines: CR and LF in them are white space, since the message
//! parser lets them through only where a fold is.

use wide::u8x16;

/// A set of bytes.
#[derive(Clone, Copy)]
pub(crate) struct Set(u16);

/// The sets that bytes are in, all of those that were looked at.
#[derive(Clone, Copy)]
pub(crate) struct Common(u16);

impl Set {
    /// The characters of a `token`.
    pub(crate) const TOKEN: Self = Self(1 << 0);
    /// What an unquoted parameter value may be made of: a token or a host, IPv6 references included.
    /// Phones in the field put URIs and base64 here, which no parser mistakes for anything else.
    pub(crate) const VALUE: Self = Self(1 << 1);
    /// What ends a parameter, or a part of it.
    pub(crate) const PARAM_STOP: Self = Self(1 << 2);
    /// A display name without quotes. Bytes beyond ASCII come from phones that forgot the quotes.
    pub(crate) const DISPLAY: Self = Self(1 << 3);
    /// What may stand in a URI.
    pub(crate) const URI: Self = Self(1 << 4);
    /// What phones put in a user part: all that is printable but what would end it. `#` and the like
    /// should be escaped, but dialled feature codes come without.
    pub(crate) const USER: Self = Self(1 << 5);
    /// The characters of a domain name.
    pub(crate) const HOST_NAME: Self = Self(1 << 6);
    /// What stands for itself in a quoted string, and is no line end.
    pub(crate) const PLAIN: Self = Self(1 << 7);
    /// What separates the parts of a SIP URI.
    pub(crate) const URI_STOP: Self = Self(1 << 8);
    /// All but letters, digits, hyphens and dots.
    const MARK: Self = Self(1 << 9);
    /// What a parameter of Digest may be made of that has no quotes.
    pub(crate) const DIGEST_VALUE: Self = Self(1 << 10);

    /// Whether `byte` is in it.
    pub(crate) fn has(self, byte: u8) -> bool {
        SETS[usize::from(byte)] & self.0 != 0
    }

    /// Whether all of `bytes` are in it, which is a set that letters, digits, hyphens and dots are in.
    pub(crate) fn has_all(self, bytes: &[u8]) -> bool {
        Marks::new(bytes).all(|at| self.has(bytes[at]))
    }
}

impl Common {
    /// Of no bytes yet.
    pub(crate) const ALL: Self = Self(u16::MAX);

    /// The sets that `byte` is in.
    pub(crate) fn of(byte: u8) -> Self {
        Self(SETS[usize::from(byte)])
    }

    /// Those that are in both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether `set` is among them.
    pub(crate) fn has(self, set: Set) -> bool {
        self.0 & set.0 != 0
    }
}

/// Which sets each byte is in.
static SETS: [u16; 256] = {
    let mut sets = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        sets[byte] = sets_of(byte as u8);
        byte += 1;
    }
    sets
};

const fn sets_of(byte: u8) -> u16 {
    let is_token = byte.is_ascii_alphanumeric()
        || matches!(byte, b'-' | b'.' | b'!' | b'%' | b'*' | b'_' | b'+' | b'`' | b'\'' | b'~');
    let is_value = is_token
        || matches!(byte, b'[' | b']' | b':' | b'/' | b'@' | b'=' | b'$' | b'&' | b'(' | b')')
        || byte >= 0x80;
    let is_uri = byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>');
    let mut sets = 0;
    if is_token {
        sets |= Set::TOKEN.0;
    }
    if is_value {
        sets |= Set::VALUE.0;
    }
    if matches!(byte, b';' | b'=' | b'"') {
        sets |= Set::PARAM_STOP.0;
    }
    if is_token || is_space(byte) || byte >= 0x80 {
        sets |= Set::DISPLAY.0;
    }
    if is_uri {
        sets |= Set::URI.0;
    }
    if is_uri && !matches!(byte, b'"' | b'@' | b'\\' | b'^') {
        sets |= Set::USER.0;
    }
    if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_') {
        sets |= Set::HOST_NAME.0;
    }
    if matches!(byte, b'@' | b':' | b';' | b'?') {
        sets |= Set::URI_STOP.0;
    }
    if !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.')) {
        sets |= Set::MARK.0;
    }
    if byte > b' ' && !matches!(byte, b',' | b'"' | b'\\' | 0x7f) {
        sets |= Set::DIGEST_VALUE.0;
    }
    if !matches!(byte, b'"' | b'\\' | b'\r' | b'\n' | 0) {
        sets |= Set::PLAIN.0;
    }
    sets
}

/// White space within a header field value, folds included.
pub(crate) const fn is_space(byte: u8) -> bool {
    // Most bytes are above, and so cost one comparison.
    byte <= b' ' && matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// The characters of a `token`.
pub(crate) fn is_token(byte: u8) -> bool {
    Set::TOKEN.has(byte)
}

/// Whether `bytes` is a `token`.
pub(crate) fn all_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && Set::TOKEN.has_all(bytes)
}

/// Whether all of `bytes` are printable and no space.
pub(crate) fn all_graphic(bytes: &[u8]) -> bool {
    // To the end in any case: so the compiler looks at many of them at once.
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

/// Splits after the leading run of bytes that are in `set`, which is one that letters, digits, hyphens and dots
/// are in.
pub(crate) fn split_set(bytes: &[u8], set: Set) -> (&[u8], &[u8]) {
    bytes.split_at(Marks::new(bytes).find(|&at| !set.has(bytes[at])).unwrap_or(bytes.len()))
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

/// Whether two words are the same. They are too short for a call to a general comparison to pay: from eight bytes on their
/// first and last eight are compared, which may be some of them twice.
#[inline]
pub(crate) fn is_same_word(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let ends = |word: &[u8]| Some((*word.first_chunk::<8>()?, *word.last_chunk::<8>()?));
    match (ends(one), ends(other)) {
        (Some(one_ends), Some(other_ends)) if one.len() <= 16 => one_ends == other_ends,
        (None, None) => one.iter().zip(other).all(|(one, other)| one == other),
        _ => one == other,
    }
}

/// Splits before the first `byte`; all of `bytes` stands before it where there is none.
pub(crate) fn split_before(byte: u8, bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(find(byte, bytes).unwrap_or(bytes.len()))
}

/// The lowest bit of each of eight bytes.
const LOW: u64 = u64::from_le_bytes([1; 8]);
/// The highest bit of each.
const HIGH: u64 = LOW << 7;

/// Where the first `byte` stands. Sixteen bytes at a time, then eight: what is searched here is too short
/// for wider steps to pay.
pub(crate) fn find(byte: u8, bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut rest = bytes;
    while let Some((&sixteen, after)) = rest.split_first_chunk() {
        let found = u8x16::new(sixteen).simd_eq(u8x16::splat(byte)).to_bitmask();
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize);
        }
        at += 16;
        rest = after;
    }
    while let Some((&eight, after)) = rest.split_first_chunk() {
        let word = u64::from_le_bytes(eight) ^ (LOW * u64::from(byte));
        // The lowest bit that is set belongs to the first byte that is zero now.
        let zero = word.wrapping_sub(LOW) & !word & HIGH;
        if zero != 0 {
            return Some(at + zero.trailing_zeros() as usize / 8);
        }
        at += 8;
        rest = after;
    }
    rest.iter().position(|&other| other == byte).map(|found| at + found)
}

/// Where CR and LF stand, in order.
pub(crate) type LineEnds<'a> = Ends<'a, true>;
/// Where LF stands, in order.
pub(crate) type LineFeeds<'a> = Ends<'a, false>;

/// Where LF stands, and CR if that is wanted: found for 64 bytes at once.
pub(crate) struct Ends<'a, const CR: bool> {
    bytes: &'a [u8],
    /// Where the 64 bytes begin.
    start: usize,
    /// A bit for each of them that was not given yet.
    ends: u64,
}

impl<'a, const CR: bool> Ends<'a, CR> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, start: 0, ends: ends_in::<CR>(bytes) }
    }
}

impl<const CR: bool> Iterator for Ends<'_, CR> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.ends == 0 {
            let next = self.start + 64;
            self.ends = ends_in::<CR>(self.bytes.get(next..)?);
            self.start = next;
        }
        let end = self.start + self.ends.trailing_zeros() as usize;
        self.ends &= self.ends - 1;
        Some(end)
    }
}

/// Bits for those of the first 64 bytes that are LF, or CR if that is wanted.
fn ends_in<const CR: bool>(bytes: &[u8]) -> u64 {
    let Some(bytes) = bytes.first_chunk::<64>() else {
        let mut padded = [0; 64];
        padded[..bytes.len()].copy_from_slice(bytes);
        return ends_in::<CR>(&padded);
    };
    bytes.as_chunks::<16>().0.iter().rev().fold(0, |ends, &sixteen| {
        let sixteen = u8x16::new(sixteen);
        let mut are_ends = sixteen.simd_eq(u8x16::splat(b'\n'));
        if CR {
            are_ends |= sixteen.simd_eq(u8x16::splat(b'\r'));
        }
        ends << 16 | u64::from(are_ends.to_bitmask())
    })
}

/// Where those bytes stand, in order, that are no letters, digits, hyphens or dots: all that means something between
/// the words of a header field. Found for sixteen bytes at once.
pub(crate) struct Marks<'a> {
    bytes: &'a [u8],
    /// Where the sixteen bytes begin.
    start: usize,
    /// A bit for each of them that is a mark and was not given yet.
    marks: u32,
}

impl<'a> Marks<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, start: 0, marks: marks_from(bytes, 0) }
    }
}

impl Iterator for Marks<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.marks == 0 {
            self.start += 16;
            if self.start >= self.bytes.len() {
                return None;
            }
            self.marks = marks_from(self.bytes, self.start);
        }
        let mark = self.start + self.marks.trailing_zeros() as usize;
        self.marks &= self.marks - 1;
        Some(mark)
    }
}

/// Bits for the marks among the sixteen bytes from `start` on, or as many as there are.
#[inline]
fn marks_from(bytes: &[u8], start: usize) -> u32 {
    let rest = &bytes[start..];
    if let Some(sixteen) = rest.first_chunk() {
        return marks_in(sixteen);
    }
    if let Some(last) = bytes.last_chunk() {
        // Some of these came before.
        return marks_in(last) >> (16 - rest.len());
    }
    if let (Some(first), Some(last)) = (rest.first_chunk::<8>(), rest.last_chunk::<8>()) {
        let mut both = [0; 16];
        both[..8].copy_from_slice(first);
        both[8..].copy_from_slice(last);
        let marks = marks_in(&both);
        return marks & 0xff | marks >> 8 << (rest.len() - 8);
    }
    rest.iter().rev().fold(0, |marks, &byte| marks << 1 | u32::from(Set::MARK.has(byte)))
}

#[inline]
fn marks_in(sixteen: &[u8; 16]) -> u32 {
    let sixteen = u8x16::new(*sixteen);
    let at_most = |bytes: u8x16, most: u8| bytes.min(u8x16::splat(most)).simd_eq(bytes);
    let letters = at_most((sixteen | u8x16::splat(0x20)) - u8x16::splat(b'a'), 25);
    // From hyphen to nine there is, beside what counts, only the slash.
    let digits = at_most(sixteen - u8x16::splat(b'-'), b'9' - b'-');
    let slashes = sixteen.simd_eq(u8x16::splat(b'/'));
    (!(letters | digits) | slashes).to_bitmask()
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
    fn line_ends_are_found_wherever_they_stand() {
        for length in 0..200 {
            let mut text: Vec<u8> = (0..length).map(|at| b"\t\x00\x8d\x0e "[at % 5]).collect();
            assert_eq!(LineEnds::new(&text).next(), None);
            let expected: Vec<usize> = (0..length).filter(|at| at * at % 7 == 1).collect();
            for &at in &expected {
                text[at] = if at % 2 == 0 { b'\r' } else { b'\n' };
            }
            assert_eq!(LineEnds::new(&text).collect::<Vec<_>>(), expected);
            let feeds: Vec<usize> = expected.into_iter().filter(|at| text[*at] == b'\n').collect();
            assert_eq!(LineFeeds::new(&text).collect::<Vec<_>>(), feeds);
        }
    }

    #[test]
    fn a_byte_is_found_where_it_stands_first() {
        for length in 0..40 {
            let mut text = std::vec![b';'; length];
            assert_eq!(find(b':', &text), None);
            for at in (0..length).rev() {
                text[at] = b':';
                assert_eq!(find(b':', &text), Some(at), "{length}");
                assert_eq!(find(0xba, &text), None);
            }
        }
    }

    #[test]
    fn words_are_the_same_where_all_their_bytes_are() {
        for length in 0..40 {
            let word: Vec<u8> = (0..length).collect();
            assert!(is_same_word(&word, &word.clone()), "{length}");
            assert!(!is_same_word(&word, &[&word[..], b"x"].concat()), "{length}");
            for at in 0..word.len() {
                let mut other = word.clone();
                other[at] ^= 0x20;
                assert!(!is_same_word(&word, &other), "{length} {at}");
            }
        }
    }

    #[test]
    fn marks_are_all_but_letters_digits_hyphens_and_dots() {
        let bytes: Vec<u8> = (0..=255).collect();
        let is_mark = |byte: u8| !(byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
        for start in 0..bytes.len() {
            for length in [1, 2, 15, 16, 17, 31, 32, 100] {
                let part = &bytes[start..(start + length).min(bytes.len())];
                let expected: Vec<usize> =
                    (0..part.len()).filter(|&at| is_mark(part[at])).collect();
                assert_eq!(Marks::new(part).collect::<Vec<_>>(), expected);
            }
        }
        assert_eq!(Marks::new(b"").next(), None);
        for byte in (0..=255).filter(|&byte| !is_mark(byte)) {
            // What is no mark is not even looked at by these.
            let all = Set::TOKEN.0 | Set::VALUE.0 | Set::DISPLAY.0 | Set::URI.0 | Set::USER.0;
            let all = all | Set::HOST_NAME.0 | Set::PLAIN.0 | Set::DIGEST_VALUE.0;
            assert_eq!(sets_of(byte), all, "{byte}");
        }
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
