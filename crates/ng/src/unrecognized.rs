//! Keys and flags that have no meaning here, and their counts.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

/// The maximum number of bytes of a key, and of a value, that is shown.
const MAX_SHOWN: usize = 40;

/// A key or a flag, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag<'a> {
    /// The key, or the flag.
    pub key: &'a [u8],
    /// The value, if it is a text.
    pub value: Option<&'a [u8]>,
}

/// Text without control characters, of a bounded length.
impl fmt::Display for Flag<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &[u8]| text[..text.len().min(MAX_SHOWN)].escape_ascii().to_string();
        f.write_str(&shown(self.key))?;
        match self.value {
            Some(value) => write!(f, "={}", shown(value)),
            None => Ok(()),
        }
    }
}

/// The keys and flags of a request that have no meaning here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unrecognized<'a> {
    flags: Vec<Flag<'a>>,
    omitted: usize,
}

impl<'a> Unrecognized<'a> {
    /// The maximum number of kept flags.
    pub const MAX: usize = 16;

    /// Adds a flag. After [`Self::MAX`] of them it is only counted.
    pub fn push(&mut self, key: &'a [u8], value: Option<&'a [u8]>) {
        if self.flags.len() < Self::MAX {
            self.flags.push(Flag { key, value });
        } else {
            self.omitted += 1;
        }
    }

    /// The first flags, at most [`Self::MAX`], in the order of the request.
    #[must_use]
    pub fn flags(&self) -> &[Flag<'a>] {
        &self.flags
    }

    /// The number of all flags.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.flags.len() + self.omitted
    }
}

/// Counts of unrecognized flags by their text, limited in number.
#[derive(Clone, Debug, Default)]
pub struct FlagCounts {
    counts: BTreeMap<String, u64>,
    others: u64,
}

impl FlagCounts {
    /// The maximum number of counted texts.
    pub const MAX: usize = 64;

    /// Counts the flags of a request, and calls `first` for each text that is counted the first
    /// time.
    pub fn add(&mut self, unrecognized: &Unrecognized<'_>, mut first: impl FnMut(&str)) {
        self.others += unrecognized.omitted as u64;
        for flag in &unrecognized.flags {
            let text = flag.to_string();
            if let Some(count) = self.counts.get_mut(&text) {
                *count += 1;
            } else if self.counts.len() < Self::MAX {
                first(&text);
                self.counts.insert(text, 1);
            } else {
                self.others += 1;
            }
        }
    }

    /// The texts with their counts, in the order of the texts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(text, &count)| (text.as_str(), count))
    }

    /// The number of flags that are in no count of [`Self::iter`].
    #[must_use]
    pub const fn others(&self) -> u64 {
        self.others
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn the_text_of_a_flag_is_short_and_printable() {
        let flag = |key, value| Flag { key, value }.to_string();
        assert_eq!(flag(b"record-call", None), "record-call");
        assert_eq!(flag(b"T.38", Some(b"de\x1b[31mcode")), "T.38=de\\x1b[31mcode");
        assert_eq!(flag(&[0xff; 60_000], Some(&[0; 60_000])).len(), 2 * 4 * MAX_SHOWN + 1);
    }

    #[test]
    fn counts_are_bounded() {
        let names: Vec<_> = (0..100).map(|number| format!("flag{number:02}")).collect();
        let mut counts = FlagCounts::default();
        let mut seen = 0;
        for _ in 0..2 {
            for some in names.chunks(Unrecognized::MAX + 1) {
                let mut unrecognized = Unrecognized::default();
                some.iter().for_each(|name| unrecognized.push(name.as_bytes(), None));
                assert_eq!(unrecognized.count(), some.len());
                counts.add(&unrecognized, |_| seen += 1);
            }
        }
        assert_eq!(seen, FlagCounts::MAX);
        assert!(counts.iter().all(|(_, count)| count == 2));
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>() + counts.others(), 200);
    }
}
