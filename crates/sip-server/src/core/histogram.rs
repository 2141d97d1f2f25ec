//! Histograms with fixed bounds. Any thread may add to them, and any may read them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

/// A histogram of whole numbers.
#[derive(Debug)]
pub struct Histogram {
    /// The upper bounds of the buckets, inclusive and ascending.
    bounds: &'static [u64],
    /// The number of observations of each bucket, and of those above the last bound.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// The values of a [`Histogram`] at one time, or the sum of several with the same bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    /// The upper bounds of the buckets, inclusive and ascending.
    pub bounds: &'static [u64],
    /// The number of observations of each bucket alone. The last one has those above all bounds.
    pub counts: Vec<u64>,
    /// The sum of the observations.
    pub sum: u64,
}

impl Histogram {
    /// An empty histogram with these inclusive upper bounds, which ascend.
    #[must_use]
    pub fn new(bounds: &'static [u64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    /// Adds an observation.
    pub fn observe(&self, value: u64) {
        let bucket = self.bounds.partition_point(|&bound| bound < value);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// The present values. They may lack parts of observations that are added meanwhile.
    #[must_use]
    pub fn read(&self) -> Distribution {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Distribution { bounds: self.bounds, counts, sum: self.sum.load(Ordering::Relaxed) }
    }
}

impl Distribution {
    /// An empty distribution with these bounds.
    #[must_use]
    pub fn new(bounds: &'static [u64]) -> Self {
        Histogram::new(bounds).read()
    }

    /// Adds the observations of `other`, which has the same bounds.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.wrapping_add(*more);
        }
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// The number of observations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observations_are_in_the_first_bucket_with_a_bound_not_below() {
        let histogram = Histogram::new(&[10, 20]);
        for value in [0, 10, 11, 20, 21, 1000] {
            histogram.observe(value);
        }
        let mut read = histogram.read();
        assert_eq!((&read.counts[..], read.sum, read.count()), (&[2, 2, 2][..], 1062, 6));
        histogram.observe(5);
        read.add(&histogram.read());
        assert_eq!((&read.counts[..], read.sum), (&[5, 4, 4][..], 2129));
    }
}
