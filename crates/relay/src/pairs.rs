//! The pairs of ports in use.

use crate::media::PortRange;
use parking_lot::Mutex;

/// The pairs of a range of ports.
pub(super) struct Pairs {
    range: PortRange,
    /// The maximum number of pairs in use.
    most: usize,
    used: Mutex<Used>,
}

struct Used {
    is_used: Box<[bool]>,
    count: usize,
    /// The pair that is looked at next. It moves on, so that a port is not used again at once:
    /// late packets of one call would come to another.
    next: usize,
}

impl Pairs {
    /// The pairs of `range`, at most `most` in use. The first one is chosen by `random`.
    pub(super) fn new(range: PortRange, most: usize, random: usize) -> Self {
        let is_used = vec![false; range.pairs()].into();
        let used = Used { is_used, count: 0, next: random % range.pairs() };
        Self { range, most, used: Mutex::new(used) }
    }

    /// Takes the next free pair. Returns its index; `None` if the most are in use.
    pub(super) fn take(&self) -> Option<usize> {
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
    pub(super) fn give_back(&self, index: usize) {
        let mut used = self.used.lock();
        used.is_used[index] = false;
        used.count -= 1;
    }

    /// The even port of the pair at `index`.
    pub(super) const fn port(&self, index: usize) -> u16 {
        self.range.port(index)
    }

    /// The range, and the maximum number of ports in use.
    pub(super) fn extent(&self) -> (PortRange, usize) {
        (self.range, 2 * self.most.min(self.range.pairs()))
    }

    /// The number of pairs in use.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.used.lock().count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
