//! RTP sequence numbers: losses, duplicates and order (RFC 3550 appendix A.1).
//!
//! The decision between loss and restart for a distant number is in [`super::continuity`].

/// A number less than this far back is late or a duplicate, unless its stream has restarted.
pub(crate) const WINDOW: u16 = 1024;

/// The arrival of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The distance after the highest number before; 1 is the next in sequence.
    Next(u16),
    /// Behind the highest number, for the first time.
    Late,
    /// A duplicate.
    Duplicate,
    /// A single packet too far from the others.
    Stray,
    /// The first packet after a restart.
    Restart,
}

/// The counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SequenceCounts {
    pub(crate) expected: u64,
    pub(crate) distinct: u64,
    pub(crate) late: u64,
    pub(crate) duplicates: u64,
    pub(crate) strays: u64,
    pub(crate) restarts: u64,
}

impl SequenceCounts {
    pub(crate) fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.distinct)
    }
}

/// The sequence numbers of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    highest: u16,
    /// The span from the lowest to the highest number since the last restart.
    span: u64,
    /// A bit map of the last [`WINDOW`] numbers; the lowest bit of the first word is the highest
    /// number.
    came: [u64; WINDOW as usize / 64],
    /// The counts; `expected` excludes the numbers since the last restart.
    counts: SequenceCounts,
}

impl Sequence {
    /// Returns the state after the first packet.
    pub(crate) fn new(first: u16) -> Self {
        let mut came = [0; WINDOW as usize / 64];
        came[0] = 1;
        let counts = SequenceCounts { distinct: 1, ..SequenceCounts::default() };
        Self { highest: first, span: 1, came, counts }
    }

    /// Returns the distance from the highest number; 0 for the same, more than 32,767 for a number
    /// behind it.
    pub(crate) fn ahead(&self, number: u16) -> u16 {
        number.wrapping_sub(self.highest)
    }

    /// Records the number of a packet that continues the stream; skipped numbers are lost. The
    /// highest number itself is a duplicate.
    pub(crate) fn advance(&mut self, number: u16) -> Arrival {
        let ahead = self.ahead(number);
        if ahead == 0 {
            return self.fall_back(number);
        }
        self.shift(ahead);
        self.highest = number;
        self.span += u64::from(ahead);
        self.came[0] |= 1;
        self.counts.distinct += 1;
        Arrival::Next(ahead)
    }

    /// Records the number of a packet that does not continue the stream.
    pub(crate) fn fall_back(&mut self, number: u16) -> Arrival {
        let behind = self.highest.wrapping_sub(number);
        if behind >= WINDOW {
            self.counts.strays += 1;
            return Arrival::Stray;
        }
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
        Arrival::Late
    }

    /// Records a restart.
    pub(crate) fn restart(&mut self, number: u16) -> Arrival {
        let mut counts = self.counts();
        counts.restarts += 1;
        counts.distinct += 1;
        *self = Self { counts, ..Self::new(number) };
        Arrival::Restart
    }

    pub(crate) fn counts(&self) -> SequenceCounts {
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

    /// A number at most 32,767 ahead continues the stream.
    fn take(sequence: &mut Sequence, number: u16) {
        if sequence.ahead(number) < 1 << 15 {
            sequence.advance(number);
        } else {
            sequence.fall_back(number);
        }
    }

    fn counts(numbers: &[u16]) -> SequenceCounts {
        let mut sequence = Sequence::new(numbers[0]);
        numbers[1..].iter().for_each(|&number| take(&mut sequence, number));
        sequence.counts()
    }

    #[test]
    fn losses_copies_and_late_packets_are_told_apart() {
        let counts = counts(&[65_533, 65_534, 1, 0, 0, 65_534, 4, 65_532]);
        let expected = SequenceCounts {
            expected: 9,
            distinct: 6,
            late: 2,
            duplicates: 2,
            ..SequenceCounts::default()
        };
        assert_eq!(counts, expected);
        assert_eq!(counts.lost(), 3);
    }

    #[test]
    fn nothing_is_lost_between_two_beginnings() {
        let mut sequence = Sequence::new(10);
        sequence.advance(12);
        sequence.restart(30_000);
        sequence.advance(30_001);
        assert_eq!(sequence.fall_back(5), Arrival::Stray);
        let expected = SequenceCounts {
            expected: 5,
            distinct: 4,
            strays: 1,
            restarts: 1,
            ..SequenceCounts::default()
        };
        assert_eq!(sequence.counts(), expected);
    }

    proptest! {
        /// A comparison with a set of all numbers, with steps within the window.
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
                take(&mut sequence, number.rem_euclid(65_536) as u16);
            }
            let expected = (highest - all.first().unwrap() + 1) as u64;
            let distinct = all.len() as u64;
            let counted = SequenceCounts {
                expected,
                distinct,
                late,
                duplicates,
                ..SequenceCounts::default()
            };
            prop_assert_eq!(sequence.counts(), counted);
        }
    }
}
