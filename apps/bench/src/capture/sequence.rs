//! RTP sequence numbers: what came, what did not, and in which order (RFC 3550 appendix A.1).

/// A jump forwards of at most so many is loss; a longer one is a new beginning.
const MAX_DROPOUT: u16 = 3000;
/// A number at most so far back is late or a copy; one farther back is a new beginning.
const WINDOW: u16 = 1024;

/// How a packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// So many after the highest before; 1 is the very next.
    Next(u16),
    /// Behind the highest, for the first time.
    Late,
    /// Once more.
    Duplicate,
    /// Somewhere else.
    Restart,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SequenceCounts {
    pub(super) expected: u64,
    pub(super) distinct: u64,
    pub(super) late: u64,
    pub(super) duplicates: u64,
    pub(super) restarts: u64,
}

impl SequenceCounts {
    pub(super) fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.distinct)
    }
}

/// The sequence numbers of a stream.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    highest: u16,
    /// How many numbers there are from the lowest to the highest since the last new beginning.
    span: u64,
    /// Which of the last [`WINDOW`] numbers came; the lowest bit of the first is the highest number.
    came: [u64; WINDOW as usize / 64],
    /// `expected` is that of before the last new beginning.
    counts: SequenceCounts,
}

impl Sequence {
    /// Begins with the number of the first packet.
    pub(super) fn new(first: u16) -> Self {
        let mut came = [0; WINDOW as usize / 64];
        came[0] = 1;
        let counts = SequenceCounts { distinct: 1, ..SequenceCounts::default() };
        Self { highest: first, span: 1, came, counts }
    }

    /// Takes the number of another packet.
    pub(super) fn take(&mut self, number: u16) -> Arrival {
        let ahead = number.wrapping_sub(self.highest);
        let behind = self.highest.wrapping_sub(number);
        if ahead == 0 {
            self.counts.duplicates += 1;
            return Arrival::Duplicate;
        }
        if ahead <= MAX_DROPOUT {
            self.shift(ahead);
            self.highest = number;
            self.span += u64::from(ahead);
            self.came[0] |= 1;
            self.counts.distinct += 1;
            return Arrival::Next(ahead);
        }
        if behind < WINDOW {
            let (word, bit) = (usize::from(behind / 64), behind % 64);
            if self.came[word] >> bit & 1 == 1 {
                self.counts.duplicates += 1;
                return Arrival::Duplicate;
            }
            self.came[word] |= 1 << bit;
            // The packet that came first need not be the first that was sent.
            self.span = self.span.max(u64::from(behind) + 1);
            self.counts.distinct += 1;
            self.counts.late += 1;
            return Arrival::Late;
        }
        let mut counts = self.counts();
        counts.restarts += 1;
        counts.distinct += 1;
        *self = Self { counts, ..Self::new(number) };
        Arrival::Restart
    }

    pub(super) fn counts(&self) -> SequenceCounts {
        SequenceCounts { expected: self.counts.expected + self.span, ..self.counts }
    }

    fn shift(&mut self, by: u16) {
        let (words, bits) = (usize::from(by / 64), by % 64);
        let length = self.came.len();
        for index in (0..length).rev() {
            let word = |at: Option<usize>| at.map_or(0, |at| self.came[at]);
            let low = word(index.checked_sub(words));
            let carried = match bits {
                0 => 0,
                _ => word(index.checked_sub(words + 1)) >> (64 - bits),
            };
            self.came[index] = low << bits | carried;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn counts(numbers: &[u16]) -> SequenceCounts {
        let mut sequence = Sequence::new(numbers[0]);
        for &number in &numbers[1..] {
            sequence.take(number);
        }
        sequence.counts()
    }

    #[test]
    fn losses_copies_and_late_packets_are_told_apart() {
        let counts = counts(&[65_533, 65_534, 1, 0, 0, 65_534, 4, 65_532]);
        let expected =
            SequenceCounts { expected: 9, distinct: 6, late: 2, duplicates: 2, restarts: 0 };
        assert_eq!(counts, expected);
        assert_eq!(counts.lost(), 3);
    }

    #[test]
    fn a_far_jump_is_no_loss() {
        let counts = counts(&[10, 12, 30_000, 30_001]);
        let expected =
            SequenceCounts { expected: 5, distinct: 4, late: 0, duplicates: 0, restarts: 1 };
        assert_eq!(counts, expected);
    }

    proptest! {
        /// Against a set of all numbers, with steps that stay within the window.
        #[test]
        fn nothing_is_counted_twice(
            first: u16,
            steps in proptest::collection::vec(-40i32..80, 1..300),
        ) {
            let mut sequence = Sequence::new(first);
            let mut highest = i64::from(first);
            let mut all = BTreeSet::from([highest]);
            let (mut late, mut duplicates) = (0, 0);
            for step in steps {
                let number = highest + i64::from(step);
                if !all.insert(number) {
                    duplicates += 1;
                } else if number < highest {
                    late += 1;
                }
                highest = highest.max(number);
                sequence.take(number.rem_euclid(65_536) as u16);
            }
            let expected = (highest - all.first().unwrap() + 1) as u64;
            let distinct = all.len() as u64;
            let counted = SequenceCounts { expected, distinct, late, duplicates, restarts: 0 };
            prop_assert_eq!(sequence.counts(), counted);
        }
    }
}
