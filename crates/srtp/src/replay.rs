//! The replay list of a source (RFC 3711 section 3.3.2).

use smallvec::{SmallVec, smallvec};

/// The minimum size of a window in packets (RFC 3711 section 3.3.2).
pub(crate) const MIN_SIZE: u64 = 64;
/// The maximum size: half the range of sequence numbers.
pub(crate) const MAX_SIZE: u64 = 1 << 15;

/// The reason why an index is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replay {
    /// The index was accepted before.
    Seen,
    /// The index is older than the window.
    TooOld,
}

/// The replay window: a bitmap of the newest indices, in a ring of words.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    size: u64,
    highest: Option<u64>,
    /// The number of words is a power of two, and at least one more than the window spans. Empty
    /// before the first index.
    words: SmallVec<[u64; 4]>,
}

impl Window {
    pub(crate) fn new(size: u64) -> Self {
        Self { size, highest: None, words: SmallVec::new() }
    }

    /// The highest accepted index.
    #[inline]
    pub(crate) fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// Returns an error if an index has to be rejected.
    #[inline]
    pub(crate) fn check(&self, index: u64) -> Result<(), Replay> {
        let Some(behind) = self.highest.and_then(|highest| highest.checked_sub(index)) else {
            return Ok(());
        };
        if behind >= self.size {
            return Err(Replay::TooOld);
        }
        let words = &self.words[..];
        let seen = words[place(words, index)] >> (index % 64) & 1 == 1;
        if seen { Err(Replay::Seen) } else { Ok(()) }
    }

    /// Records an accepted index. An index older than the window is ignored.
    #[inline]
    pub(crate) fn take(&mut self, index: u64) {
        let highest = self.highest.unwrap_or(index);
        if self.words.is_empty() {
            let words = (self.size.div_ceil(64) + 1).next_power_of_two();
            // At most 2^15 / 64, doubled: see `Policy`.
            self.words = smallvec![0; words as usize];
        }
        let words = &mut self.words[..];
        if index >= highest {
            let moved = (index / 64 - highest / 64).min(words.len() as u64);
            for word in 0..moved {
                words[place(words, index - 64 * word)] = 0;
            }
            self.highest = Some(index);
        }
        if highest.saturating_sub(index) < self.size {
            words[place(words, index)] |= 1 << (index % 64);
        }
    }
}

/// The position of the word with the bit of an index.
#[inline]
fn place(words: &[u64], index: u64) -> usize {
    (index / 64) as usize & (words.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn results_equal_those_of_a_complete_list(
            size in 64u64..300,
            start in 0u64..1 << 40,
            steps in proptest::collection::vec((0i64..3, -400i64..400), 1..400),
        ) {
            let mut window = Window::new(size);
            let mut taken = BTreeSet::new();
            let mut near = start + 1000;
            for (far, step) in steps {
                // Occasionally a jump far ahead, beyond all words.
                near = near.saturating_add_signed(step + if far == 2 { far * 5_000 } else { 0 });
                let highest = taken.last().copied().unwrap_or(0);
                let expected = if taken.contains(&near) && near + size > highest {
                    Err(Replay::Seen)
                } else if !taken.is_empty() && near + size <= highest {
                    Err(Replay::TooOld)
                } else {
                    Ok(())
                };
                prop_assert_eq!(window.check(near), expected);
                if expected.is_ok() {
                    window.take(near);
                    taken.insert(near);
                }
                prop_assert_eq!(window.highest(), taken.last().copied());
            }
        }
    }
}
