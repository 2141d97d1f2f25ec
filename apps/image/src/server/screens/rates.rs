//! Rates per second, over the last few seconds.

use super::Server;
use crate::machine::clock::nanoseconds;
use alloc::collections::VecDeque;
use sip::{Duration, Instant};

/// Sampling interval.
const STEP: Duration = Duration::from_secs(1);
/// Number of samples kept.
const KEPT: usize = 6;

/// The names of the counters.
pub(super) const NAMES: [&str; 5] =
    ["frames received", "frames sent", "frames dropped", "messages received", "messages sent"];
/// The values of the counters.
type Counts = [u64; NAMES.len()];

/// Samples of the counters.
#[derive(Debug)]
pub struct Rates {
    /// The start of the server in nanoseconds of the counter, since the clock may be set.
    start: u64,
    samples: VecDeque<(Instant, Counts)>,
}

impl Default for Rates {
    fn default() -> Self {
        Self { start: nanoseconds(), samples: VecDeque::with_capacity(KEPT) }
    }
}

impl Rates {
    /// Takes a sample if it is due.
    pub(super) fn turn(&mut self, server: &Server, now: Instant) {
        if self.samples.back().is_some_and(|(time, _)| now < *time + STEP) {
            return;
        }
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back((now, counts(server)));
    }

    /// The uptime of the server.
    pub(super) fn uptime(&self) -> Duration {
        Duration::from_micros(nanoseconds().saturating_sub(self.start) / 1000)
    }

    /// For each of [`NAMES`] the rate in tenths per second, and the total.
    pub(super) fn read(&self) -> [(u64, u64); NAMES.len()] {
        let (Some((start, first)), Some((end, last))) = (self.samples.front(), self.samples.back())
        else {
            return Default::default();
        };
        let time = end.since(*start).as_micros();
        core::array::from_fn(|at| {
            let more = u128::from(last[at] - first[at]) * 10_000_000;
            ((more / u128::from(time.max(1))) as u64, last[at])
        })
    }
}

fn counts(server: &Server) -> Counts {
    let frames = server.network.counts();
    let counters = server.engine.counters();
    let sum = |names: &[&str]| {
        counters.iter().filter(|(name, _)| names.contains(name)).map(|(_, count)| count).sum()
    };
    let messages = sum(&["requests", "responses"]);
    [frames.received, frames.sent, frames.dropped, messages, sum(&["sent"])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_last_seconds() {
        let mut rates = Rates::default();
        assert_eq!(rates.read(), [(0, 0); 5]);
        let start = Instant::from_micros(1_000_000);
        rates.samples.push_back((start, [0, 5, 0, 0, 0]));
        assert_eq!(rates.read()[1], (0, 5));
        rates.samples.push_back((start + Duration::from_secs(4), [10, 5, 1, 0, 4000]));
        assert_eq!(rates.read(), [(25, 10), (0, 5), (2, 1), (0, 0), (10_000, 4000)]);
    }
}
