//! SIMD searches, which dominate the parsers' time. The tests compare each with a scalar reference
//! implementation. The comment of each names its benefit: the additional instructions of a call and
//! of a short request in the engine's benchmark with the scalar implementation.

use super::Set;
use wide::u8x16;

/// The lowest bit of each of eight bytes.
const LOW: u64 = u64::from_le_bytes([1; 8]);
/// The highest bit of each of eight bytes.
const HIGH: u64 = LOW << 7;

/// The position of the first `byte`. Searches sixteen bytes at a time, then eight: the inputs are
/// too short for wider steps. Benefit: 10 % of a call, 12 % of a short request.
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
        // The lowest set bit belongs to the first zero byte.
        let zero = word.wrapping_sub(LOW) & !word & HIGH;
        if zero != 0 {
            return Some(at + zero.trailing_zeros() as usize / 8);
        }
        at += 8;
        rest = after;
    }
    rest.iter().position(|&other| other == byte).map(|found| at + found)
}

/// Returns true if two words are equal. They are too short for a general comparison call: from
/// eight bytes on the first and the last eight are compared, which may overlap. Benefit: 4 % of a
/// call, 8 % of a short request.
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

/// The positions of CR and LF, in order.
pub(crate) type LineEnds<'a> = Ends<'a, true>;
/// The positions of LF, in order.
pub(crate) type LineFeeds<'a> = Ends<'a, false>;

/// The positions of LF, and of CR if `CR` is true, found in blocks of 64 bytes. Benefit: 21 % of a
/// call, 33 % of a short request.
pub(crate) struct Ends<'a, const CR: bool> {
    bytes: &'a [u8],
    /// The start of the current block.
    start: usize,
    /// A bit for each position of the block that is still to be returned.
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

/// The bits of LF, and of CR if `CR` is true, in the first 64 bytes.
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

/// The positions of bytes that are not letters, digits, hyphens or dots, in order: all delimiters
/// of a header field. Found in blocks of sixteen bytes. Benefit: 5 % of a call and of a short
/// request.
pub(crate) struct Marks<'a> {
    bytes: &'a [u8],
    /// The start of the current block.
    start: usize,
    /// A bit for each mark of the block that is still to be returned.
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

/// The bits of the marks among at most sixteen bytes from `start` on.
#[inline]
fn marks_from(bytes: &[u8], start: usize) -> u32 {
    let rest = &bytes[start..];
    if let Some(sixteen) = rest.first_chunk() {
        return marks_in(sixteen);
    }
    if let Some(last) = bytes.last_chunk() {
        // The first bits belong to earlier bytes.
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
    // Between hyphen and nine, the slash is the only other character.
    let digits = at_most(sixteen - u8x16::splat(b'-'), b'9' - b'-');
    let slashes = sixteen.simd_eq(u8x16::splat(b'/'));
    (!(letters | digits) | slashes).to_bitmask()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// The reference implementation of [`find`].
    fn plain_find(byte: u8, bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|&other| other == byte)
    }

    /// The reference implementation of [`LineEnds`] and [`LineFeeds`].
    fn plain_ends(bytes: &[u8], wants_cr: bool) -> Vec<usize> {
        let is_end = |at: &usize| bytes[*at] == b'\n' || wants_cr && bytes[*at] == b'\r';
        (0..bytes.len()).filter(is_end).collect()
    }

    /// The reference implementation of [`Marks`].
    fn plain_marks(bytes: &[u8]) -> Vec<usize> {
        let is_mark =
            |at: &usize| !(bytes[*at].is_ascii_alphanumeric() || matches!(bytes[*at], b'-' | b'.'));
        (0..bytes.len()).filter(is_mark).collect()
    }

    fn agree(bytes: &[u8]) {
        assert_eq!(LineEnds::new(bytes).collect::<Vec<_>>(), plain_ends(bytes, true));
        assert_eq!(LineFeeds::new(bytes).collect::<Vec<_>>(), plain_ends(bytes, false));
        assert_eq!(Marks::new(bytes).collect::<Vec<_>>(), plain_marks(bytes));
        for byte in [b':', b',', 0xba, 0] {
            assert_eq!(find(byte, bytes), plain_find(byte, bytes));
        }
    }

    #[test]
    fn searches_match_the_reference_at_every_position_and_length() {
        for length in 0..200 {
            let mut text: Vec<u8> = (0..length).map(|at| b"\t\x00\x8d\x0e z-"[at % 7]).collect();
            agree(&text);
            for at in (0..length).filter(|at| at * at % 7 == 1) {
                text[at] = [b'\r', b'\n', b':'][at % 3];
            }
            agree(&text);
        }
        let all: Vec<u8> = (0..=255).collect();
        (0..all.len()).for_each(|start| agree(&all[start..]));
    }

    #[test]
    fn words_are_equal_if_all_bytes_are() {
        for length in 0..40 {
            let word: Vec<u8> = (0..length).collect();
            assert!(is_same_word(&word, &word.clone()), "{length}");
            assert!(!is_same_word(&word, &[&word[..], b"x"].concat()), "{length}");
            for at in 0..word.len() {
                let mut other = word.clone();
                other[at] ^= 0x20;
                assert_eq!(is_same_word(&word, &other), word == other, "{length} {at}");
            }
        }
    }

    #[test]
    fn bytes_that_are_not_marks_are_in_the_searched_sets() {
        let sets = [
            Set::TOKEN,
            Set::VALUE,
            Set::DISPLAY,
            Set::URI,
            Set::USER,
            Set::HOST_NAME,
            Set::PLAIN,
            Set::DIGEST_VALUE,
        ];
        for byte in (0..=255).filter(|&byte| plain_marks(&[byte]).is_empty()) {
            assert!(sets.iter().all(|set| set.has(byte)), "{byte}");
        }
    }

    proptest! {
        #[test]
        fn searches_match_the_reference(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            agree(&bytes);
        }

        #[test]
        fn searches_match_the_reference_in_text(text in "[a-z0-9.:;,@<>\r\n -]{0,200}") {
            agree(text.as_bytes());
        }
    }
}
