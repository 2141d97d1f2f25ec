//! The ports of a relay, in pairs, and the pairs in use.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;
use core::ops::RangeInclusive;
use core::str::FromStr;
use lock_api::{Mutex, RawMutex};

/// The ports of a stream: one for RTP and one for RTCP on each side.
pub const PORTS_PER_STREAM: usize = 4;

/// A range of UDP ports, in pairs of an even port and the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// An even number.
    first: u16,
    pairs: u16,
}

impl PortRange {
    /// The number of pairs.
    #[must_use]
    pub fn pairs(self) -> usize {
        self.pairs.into()
    }

    /// The even port of the pair at `index`.
    #[must_use]
    pub const fn port(self, index: usize) -> u16 {
        self.first + 2 * index as u16
    }

    /// The index of the pair of `port`, if it is in the range.
    #[must_use]
    pub fn pair_of(self, port: u16) -> Option<usize> {
        let pair = usize::from(port.checked_sub(self.first)? / 2);
        (pair < self.pairs()).then_some(pair)
    }

    /// All ports.
    #[must_use]
    pub const fn ports(self) -> RangeInclusive<u16> {
        self.first..=self.first + (2 * self.pairs - 1)
    }
}

impl Default for PortRange {
    /// 20000 to 29999.
    fn default() -> Self {
        Self { first: 20_000, pairs: 5_000 }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ports().start(), self.ports().end())
    }
}

impl FromStr for PortRange {
    type Err = PortRangeError;

    fn from_str(text: &str) -> Result<Self, PortRangeError> {
        let ports = || {
            let (first, last) = text.split_once('-')?;
            let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            // Pairs begin at an even port (RFC 3550 section 11).
            let first = first.checked_next_multiple_of(2)?;
            let pairs = last.checked_sub(first)?.checked_add(1)? / 2;
            let is_usable = first >= 1024 && usize::from(pairs) * 2 >= PORTS_PER_STREAM;
            is_usable.then_some(Self { first, pairs })
        };
        ports().ok_or_else(|| PortRangeError { text: text.into() })
    }
}

/// A text that is not a range of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortRangeError {
    /// The text.
    pub text: String,
}

impl fmt::Display for PortRangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no range of ports; expected one such as 20000-29999, from 1024 on, with at \
             least {PORTS_PER_STREAM} ports",
            self.text
        )
    }
}

impl core::error::Error for PortRangeError {}

/// The pairs of a range of ports.
pub struct Pairs<R> {
    range: PortRange,
    /// The maximum number of pairs in use.
    most: usize,
    used: Mutex<R, Used>,
}

struct Used {
    is_used: Box<[bool]>,
    count: usize,
    /// The pair that is looked at next. It moves on, so that a port is not used again at once:
    /// late packets of one call would come to another.
    next: usize,
}

impl<R> fmt::Debug for Pairs<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { range, most, .. } = self;
        f.debug_struct("Pairs").field("range", range).field("most", most).finish_non_exhaustive()
    }
}

impl<R: RawMutex> Pairs<R> {
    /// The pairs of `range`, at most `most` in use. The first one is chosen by `random`.
    #[must_use]
    pub fn new(range: PortRange, most: usize, random: usize) -> Self {
        let is_used = alloc::vec![false; range.pairs()].into();
        let used = Used { is_used, count: 0, next: random % range.pairs() };
        Self { range, most, used: Mutex::new(used) }
    }

    /// Takes the next free pair. Returns its index; `None` if the most are in use.
    pub fn take(&self) -> Option<usize> {
        let mut used = self.used.lock();
        if used.count >= self.most {
            return None;
        }
        let all = used.is_used.len();
        let index = (used.next..all).chain(0..used.next).find(|&index| !used.is_used[index])?;
        used.is_used[index] = true;
        used.count += 1;
        used.next = (index + 1) % all;
        Some(index)
    }

    /// Gives back the pair at `index`, which was taken.
    pub fn give_back(&self, index: usize) {
        let mut used = self.used.lock();
        used.is_used[index] = false;
        used.count -= 1;
    }

    /// The even port of the pair at `index`.
    #[must_use]
    pub const fn port(&self, index: usize) -> u16 {
        self.range.port(index)
    }

    /// The range, and the maximum number of ports in use.
    #[must_use]
    pub fn extent(&self) -> (PortRange, usize) {
        (self.range, 2 * self.most.min(self.range.pairs()))
    }

    /// The number of pairs in use.
    pub fn count(&self) -> usize {
        self.used.lock().count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::RawMutex;
    use std::string::ToString;
    use std::vec::Vec;

    type Pairs = super::Pairs<RawMutex>;

    #[test]
    fn a_range_has_pairs_that_begin_at_an_even_port() {
        let read = |text: &str| text.parse::<PortRange>().ok().map(|range| range.to_string());
        assert_eq!(read("20000-29999").as_deref(), Some("20000-29999"));
        assert_eq!(read("20001 - 20010").as_deref(), Some("20002-20009"));
        assert_eq!(read("1024-65535").as_deref(), Some("1024-65535"));
        for text in
            ["", "20000", "20000-20002", "20001-20004", "29999-20000", "1022-2000", "1-70000"]
        {
            assert_eq!(read(text), None, "{text}");
        }
        let range: PortRange = "20001-20010".parse().unwrap();
        assert_eq!((range.pairs(), range.port(0), range.port(3)), (4, 20002, 20008));
        let pairs = [20001, 20002, 20003, 20009, 20010].map(|port| range.pair_of(port));
        assert_eq!(pairs, [None, Some(0), Some(0), Some(3), None]);
    }

    #[test]
    fn a_pair_is_used_again_after_all_others() {
        let pairs = Pairs::new("20000-20007".parse().unwrap(), usize::MAX, 6);
        let mut taken: Vec<_> = (0..4).map(|_| pairs.take().unwrap()).collect();
        assert_eq!(taken, [2, 3, 0, 1]);
        assert_eq!(pairs.take(), None);
        taken.drain(..).for_each(|index| pairs.give_back(index));
        assert_eq!((pairs.take(), pairs.port(2)), (Some(2), 20004));
        pairs.give_back(2);
        assert_eq!((pairs.take(), pairs.take()), (Some(3), Some(0)));
        assert_eq!(pairs.count(), 2);
    }

    #[test]
    fn fewer_pairs_are_used_if_fewer_files_may_be_open() {
        let pairs = Pairs::new("20000-20007".parse().unwrap(), 1, 0);
        assert_eq!((pairs.take(), pairs.take(), pairs.extent().1), (Some(0), None, 2));
        pairs.give_back(0);
        assert!(pairs.take().is_some());
    }
}
