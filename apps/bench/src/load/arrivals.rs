//! The schedule of operation starts. It is an open loop: responses of the server do not change it
//! (the session attempt rate of RFC 7502).

use serde::{Deserialize, Serialize};
use sip::Duration;

/// A period with a linear change of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Segment {
    /// The length in seconds.
    pub(crate) seconds: f64,
    /// Operations per second at the start.
    pub(crate) from: f64,
    /// Operations per second at the end.
    pub(crate) to: f64,
}

impl Segment {
    /// Returns a segment of `seconds` with the constant rate `rate`.
    pub(crate) const fn constant(rate: f64, seconds: f64) -> Self {
        Self { seconds, from: rate, to: rate }
    }

    /// Splits the segment after `operations`; it must hold more than that.
    pub(crate) fn split(self, operations: f64) -> (Self, Self) {
        let at = self.time_of(operations);
        let rate = self.from + (self.to - self.from) * at / self.seconds;
        (
            Self { seconds: at, from: self.from, to: rate },
            Self { seconds: self.seconds - at, from: rate, to: self.to },
        )
    }

    /// Returns the number of operations in the segment.
    fn area(&self) -> f64 {
        self.seconds * (self.from + self.to) / 2.0
    }

    /// Returns the time in seconds after which `area` operations have started.
    fn time_of(&self, area: f64) -> f64 {
        let slope = (self.to - self.from) / self.seconds;
        // The root of from*t + slope*t*t/2 = area, in the form that is accurate for small slopes.
        let root = (self.from * self.from + 2.0 * slope * area).max(0.0).sqrt();
        2.0 * area / (self.from + root)
    }
}

/// The distribution of arrivals around their mean rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
pub(crate) enum Spacing {
    /// At equal distances
    #[default]
    Fixed,
    /// As a Poisson process: independent of each other
    Poisson,
}

/// The start times of operations as offsets from the beginning, in order: the share of one worker
/// among several.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    segments: Vec<Segment>,
    /// The index of the segment with the next arrival.
    current: usize,
    /// Seconds, and operations, before the current segment.
    seconds: f64,
    operations: f64,
    /// The next arrival, counted in operations of all workers.
    next: f64,
    step: f64,
    random: Option<fastrand::Rng>,
}

impl Arrivals {
    /// Returns the arrivals of worker `index` among `count`. `seed` makes Poisson arrivals
    /// repeatable.
    pub(crate) fn new(
        segments: Vec<Segment>,
        spacing: Spacing,
        index: usize,
        count: usize,
        seed: u64,
    ) -> Self {
        let mut arrivals = Self {
            segments,
            current: 0,
            seconds: 0.0,
            operations: 0.0,
            next: index as f64,
            step: count as f64,
            random: match spacing {
                Spacing::Fixed => None,
                Spacing::Poisson => Some(fastrand::Rng::with_seed(seed ^ index as u64)),
            },
        };
        if arrivals.random.is_some() {
            arrivals.next = arrivals.gap();
        }
        arrivals
    }

    /// Returns the highest rate of this worker, per second.
    pub(crate) fn peak(&self) -> f64 {
        let rates = self.segments.iter().map(|segment| segment.from.max(segment.to));
        rates.fold(0.0, f64::max) / self.step
    }

    fn gap(&mut self) -> f64 {
        match &mut self.random {
            None => self.step,
            // 1 - f64() is above 0, so its logarithm is finite.
            Some(random) => -(1.0 - random.f64()).ln() * self.step,
        }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        loop {
            let segment = self.segments.get(self.current)?;
            let within = self.next - self.operations;
            // The tolerance for rounding keeps the first arrival of a segment out of the one
            // before.
            if within < segment.area() - 1e-9 {
                let offset =
                    self.seconds + if within > 0.0 { segment.time_of(within) } else { 0.0 };
                self.next += self.gap();
                return Some(Duration::from_micros((offset * 1e6).round() as u64));
            }
            self.seconds += segment.seconds;
            self.operations += segment.area();
            self.current += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(segments: &[Segment], spacing: Spacing, workers: usize) -> Vec<u64> {
        let mut all: Vec<u64> = (0..workers)
            .flat_map(|index| Arrivals::new(segments.to_vec(), spacing, index, workers, 7))
            .map(Duration::as_micros)
            .collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn fixed_arrivals_lie_at_equal_distances_however_many_workers_share_them() {
        let expected: Vec<u64> = (0..40).map(|index| index * 50_000).collect();
        for workers in 1..5 {
            let segments = [Segment::constant(20.0, 2.0)];
            assert_eq!(all(&segments, Spacing::Fixed, workers), expected, "{workers}");
        }
    }

    #[test]
    fn a_ramp_has_as_many_arrivals_as_its_mean_rate_says() {
        let arrivals = all(&[Segment { seconds: 10.0, from: 0.0, to: 100.0 }], Spacing::Fixed, 2);
        assert_eq!(arrivals.len(), 500);
        let first_half = arrivals.iter().filter(|&&at| at < 5_000_000).count();
        assert!((124..=126).contains(&first_half), "{first_half}");
    }

    #[test]
    fn bursts_and_steps_are_segments() {
        let burst = [
            Segment::constant(100.0, 1.0),
            Segment::constant(0.0, 2.0),
            Segment::constant(300.0, 0.5),
        ];
        let arrivals = all(&burst, Spacing::Fixed, 3);
        assert_eq!(arrivals.len(), 250);
        assert!(arrivals[..100].iter().all(|&at| at < 1_000_000));
        assert!(arrivals[100..].iter().all(|&at| (3_000_000..3_500_000).contains(&at)));
    }

    #[test]
    fn poisson_arrivals_have_the_mean_and_deviation_of_a_poisson_process() {
        let arrivals = all(&[Segment::constant(1000.0, 20.0)], Spacing::Poisson, 2);
        let count = arrivals.len() as f64;
        assert!((count - 20_000.0).abs() < 4.0 * 20_000f64.sqrt(), "{count}");
        let gaps: Vec<f64> = arrivals.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "exponential gaps");
    }
}
