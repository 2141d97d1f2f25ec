//! Looking at many bytes at once: what the parsers spend their time with. All of it is here, each
//! with a plain twin in the tests that says what it does. What it is worth stands beside it: how
//! many instructions more a call and a short request of the engine's benchmark take with the twin
//! in its place.

use super::Set;
use wide::u8x16;

/// The lowest bit of each of eight bytes.
const LOW: u64 = u64::from_le_bytes([1; 8]);
/// The highest bit of each.
const HIGH: u64 = LOW << 7;

/// Where the first `byte` stands. Sixteen bytes at a time, then eight: what is searched here is too
/// short for wider steps to pay. Worth 10 % of a call, 12 % of a short request.
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

/// Whether two words are the same. They are too short for a call to a general comparison to pay:
/// from eight bytes on their first and last eight are compared, which may be some of them twice.
/// Worth 4 %, of short requests 8 %.
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

/// Where CR and LF stand, in order.
pub(crate) type LineEnds<'a> = Ends<'a, true>;
/// Where LF stands, in order.
pub(crate) type LineFeeds<'a> = Ends<'a, false>;

/// Where LF stands, and CR if that is wanted: found for 64 bytes at once. Worth 21 % of a call, 33
/// % of a short request.
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

/// Where those bytes stand, in order, that are no letters, digits, hyphens or dots: all that means
/// something between the words of a header field. Found for sixteen bytes at once. Worth 5 % of a
/// call and of a short request.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// The twin of [`find`].
    fn plain_find(byte: u8, bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|&other| other == byte)
    }

    /// The twin of [`LineEnds`] and [`LineFeeds`].
    fn plain_ends(bytes: &[u8], wants_cr: bool) -> Vec<usize> {
        let is_end = |at: &usize| bytes[*at] == b'\n' || wants_cr && bytes[*at] == b'\r';
        (0..bytes.len()).filter(is_end).collect()
    }

    /// The twin of [`Marks`].
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
    fn each_finds_what_its_twin_finds_at_every_place_and_length() {
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
    fn words_are_the_same_where_all_their_bytes_are() {
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
    fn what_is_no_mark_is_in_all_sets_that_are_asked_about_marks_alone() {
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
        fn each_finds_what_its_twin_finds(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            agree(&bytes);
        }

        #[test]
        fn and_in_text(text in "[a-z0-9.:;,@<>\r\n -]{0,200}") {
            agree(text.as_bytes());
        }
    }
}
