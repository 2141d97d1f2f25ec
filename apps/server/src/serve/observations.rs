//! Distributions for monitoring: delays of registrations and of the journal, and the duration and
//! quality of calls.

use sip::Duration;
use sip_server::CallRecord;
use sip_server::histogram::{Distribution, Histogram};
use sip_server::traffic::DELAYS;

/// Observed values for one second of a duration, and for the unit of a share.
pub(super) const MICROS: u32 = 1_000_000;
/// Observed values for one point of a mean opinion score.
pub(super) const HUNDREDTHS: u32 = 100;

/// The upper bounds of the duration of calls, in microseconds: 5 s to 4 h.
const DURATIONS: &[u64] = &[
    5_000_000,
    15_000_000,
    30_000_000,
    60_000_000,
    120_000_000,
    300_000_000,
    600_000_000,
    1_800_000_000,
    3_600_000_000,
    14_400_000_000,
];
/// The upper bounds of the share of lost packets, in millionths: 0 to 20 %.
const LOSSES: &[u64] = &[0, 1_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000];
/// The upper bounds of jitter, in microseconds: 1 ms to 200 ms.
const JITTERS: &[u64] = &[1_000, 5_000, 10_000, 20_000, 30_000, 50_000, 100_000, 200_000];
/// The upper bounds of mean opinion scores, in hundredths.
const SCORES: &[u64] = &[200, 250, 310, 360, 400, 430, 450];

/// The distributions of all threads.
pub(crate) struct Observations {
    /// The delays that each thread adds to.
    threads: Box<[Delays]>,
    durations: Histogram,
    losses: Histogram,
    jitters: Histogram,
    scores: Histogram,
}

/// The delays that one thread observes.
struct Delays {
    registration: Histogram,
    journal: Histogram,
}

/// The values at one time, in microseconds, millionths and hundredths.
pub(super) struct Observed {
    /// From the arrival of a REGISTER until its 200 has been sent.
    pub(super) registration: Distribution,
    /// The time to append the registrations of a batch of messages to the journal.
    pub(super) journal: Distribution,
    /// The duration of calls that ended.
    pub(super) durations: Distribution,
    /// The share of lost packets in each direction of a stream of those calls.
    pub(super) losses: Distribution,
    /// The maximum jitter in each direction.
    pub(super) jitters: Distribution,
    /// The mean opinion score of each direction.
    pub(super) scores: Distribution,
}

impl Observations {
    /// Empty distributions, for the number of `threads`.
    pub(super) fn new(threads: usize) -> Self {
        let delays =
            |_| Delays { registration: Histogram::new(DELAYS), journal: Histogram::new(DELAYS) };
        Self {
            threads: (0..threads.max(1)).map(delays).collect(),
            durations: Histogram::new(DURATIONS),
            losses: Histogram::new(LOSSES),
            jitters: Histogram::new(JITTERS),
            scores: Histogram::new(SCORES),
        }
    }

    fn thread(&self, index: usize) -> &Delays {
        &self.threads[index % self.threads.len()]
    }

    /// Adds the delay of a registration, from the thread at `index`.
    pub(super) fn registered(&self, index: usize, delay: Duration) {
        self.thread(index).registration.observe(delay.as_micros());
    }

    /// Adds a time that the journal took, from the thread at `index`.
    pub(super) fn stored(&self, index: usize, time: std::time::Duration) {
        self.thread(index).journal.observe(time.as_micros() as u64);
    }

    /// Adds a call that has ended, if it was answered.
    pub(super) fn call_ended(&self, record: &CallRecord) {
        let Some(answered) = record.answered else { return };
        self.durations.observe(record.ended.since(answered).as_micros());
        for direction in record.report.streams.iter().flatten() {
            if let (Some(lost), Some(expected @ 1..)) = (direction.lost, direction.expected) {
                self.losses.observe(lost.saturating_mul(u64::from(MICROS)) / expected);
            }
            if let Some(jitter) = direction.jitter {
                self.jitters.observe(jitter.as_micros() as u64);
            }
            if let Some(score) = direction.mean_opinion_score {
                self.scores.observe((score * f64::from(HUNDREDTHS)).round() as u64);
            }
        }
    }

    /// The present values.
    pub(super) fn read(&self) -> Observed {
        let sum = |of: fn(&Delays) -> &Histogram| {
            let mut sum = Distribution::new(DELAYS);
            self.threads.iter().for_each(|thread| sum.add(&of(thread).read()));
            sum
        };
        Observed {
            registration: sum(|thread| &thread.registration),
            journal: sum(|thread| &thread.journal),
            durations: self.durations.read(),
            losses: self.losses.read(),
            jitters: self.jitters.read(),
            scores: self.scores.read(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delays_of_all_threads_are_added_up() {
        let observations = Observations::new(2);
        for index in 0..3 {
            observations.registered(index, Duration::from_micros(300));
        }
        observations.stored(1, std::time::Duration::from_micros(20));
        let read = observations.read();
        assert_eq!((read.registration.count(), read.registration.sum), (3, 900));
        assert_eq!((read.journal.count(), read.journal.sum), (1, 20));
    }
}
