//! The distribution of interarrival times of a stream, in little memory, since there may be many
//! streams.

use crate::record::tells;
use std::collections::BTreeMap;
use std::time::Duration;

/// The significant bits of a time: a resolution of 1/128.
const BITS: u32 = 7;
/// The longest distinct time in microseconds. It limits a stream to 1,800 different values.
const LONGEST: u32 = (1 << 20) - 1;

/// The count of each time.
#[derive(Default)]
pub(super) struct Spread {
    counts: BTreeMap<u16, u32>,
}

/// Returns the step of a time in microseconds.
const fn step(micros: u32) -> u16 {
    let surplus = (u32::BITS - micros.leading_zeros()).saturating_sub(BITS + 1);
    ((surplus << BITS) + (micros >> surplus)) as u16
}

/// Returns the longest time of a step, in microseconds.
const fn top(step: u16) -> u32 {
    let step = step as u32;
    let surplus = (step >> BITS).saturating_sub(1);
    ((step - (surplus << BITS) + 1) << surplus) - 1
}

impl Spread {
    /// Counts a time.
    pub(super) fn take(&mut self, time: Duration) {
        let micros = u32::try_from(time.as_micros()).unwrap_or(LONGEST).min(LONGEST);
        let count = self.counts.entry(step(micros)).or_default();
        *count = count.saturating_add(1);
    }

    /// Returns the percentile of the times, if there are enough of them.
    pub(super) fn told(&self, percent: f64) -> Option<Duration> {
        let all: u64 = self.counts.values().map(|&count| u64::from(count)).sum();
        if !tells(all, percent) {
            return None;
        }
        let wanted = (all as f64 * percent / 100.0).ceil() as u64;
        let mut seen = 0;
        let mut steps = self.counts.iter();
        let found = steps.find(|&(_, &count)| {
            seen += u64::from(count);
            seen >= wanted
        });
        found.map(|(&step, _)| Duration::from_micros(top(step).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_known_to_a_part_in_128() {
        for micros in (0..70_000).chain([500_000, LONGEST]) {
            let known = top(step(micros));
            assert!((micros..=micros + micros / 128).contains(&known), "{micros} is {known}");
        }
    }

    #[test]
    fn few_long_times_are_beyond_the_percentile() {
        let mut spread = Spread::default();
        (0..999).for_each(|_| spread.take(Duration::from_millis(20)));
        assert_eq!(spread.told(99.9), None);
        spread.take(Duration::from_secs(7));
        let told = spread.told(99.9).unwrap();
        assert!(told >= Duration::from_millis(20) && told < Duration::from_micros(20_200));
        spread.take(Duration::from_secs(7));
        assert_eq!(spread.told(99.9), Some(Duration::from_micros(LONGEST.into())));
    }
}
