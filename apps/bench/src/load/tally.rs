//! The counts of a worker, and their merging over several workers.

mod written;

pub(crate) use written::Written;

use crate::record::{self, Counts, Delay, Histogram, Second, tells};
use hdrhistogram::Histogram as Hdr;
use sip::{Duration, Instant, Method};
use std::collections::BTreeMap;
use std::ops::Range;

/// The methods whose final responses are counted.
const METHODS: [Method<'static>; 4] =
    [Method::Register, Method::Invite, Method::Bye, Method::Options];
/// One more than the highest status code.
const STATUSES: usize = 700;

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The expected result.
    Succeeded,
    /// An unexpected final response.
    Refused,
    /// A timeout by timer B, F or H.
    TimedOut,
    /// No end before the generator stopped waiting.
    Lost,
}

/// The counts of one worker over one load.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// The start of the load.
    origin: Instant,
    /// The scheduled times of measured operations.
    measured: Range<Instant>,
    counts: Counts,
    finals: Vec<[u64; STATUSES]>,
    delays: Vec<Histogram>,
    lag: Histogram,
    seconds: Vec<SecondTally>,
    /// All successful operations of the load, measured or not, as the divisor of costs.
    pub(crate) operations: u64,
}

/// One second of a load.
#[derive(Clone, Debug)]
struct SecondTally {
    second: Second,
    response: Hdr<u64>,
}

impl SecondTally {
    fn new() -> Self {
        // Two digits save memory: there are many seconds.
        Self { second: Second::default(), response: record::growing(2) }
    }
}

impl Tally {
    /// Returns the tally of a load that begins at `origin`. Operations scheduled in `measured` are
    /// measured.
    pub(crate) fn new(origin: Instant, measured: Range<Instant>) -> Self {
        Self {
            origin,
            measured,
            counts: Counts::default(),
            finals: vec![[0; STATUSES]; METHODS.len()],
            delays: vec![Histogram::default(); Delay::ALL.len()],
            lag: Histogram::default(),
            seconds: Vec::new(),
            operations: 0,
        }
    }

    /// Returns true if an operation scheduled at `when` is measured.
    pub(crate) fn measures(&self, when: Instant) -> bool {
        self.measured.contains(&when)
    }

    /// Returns the counts, for events of measured operations.
    pub(crate) fn counts(&mut self) -> &mut Counts {
        &mut self.counts
    }

    fn second(&mut self, at: Instant) -> &mut SecondTally {
        let index = at.since(self.origin).as_secs() as usize;
        while self.seconds.len() <= index {
            self.seconds.push(SecondTally::new());
        }
        &mut self.seconds[index]
    }

    /// Counts an operation that was scheduled at `scheduled`.
    pub(crate) fn offered(&mut self, scheduled: Instant) {
        self.second(scheduled).second.offered += 1;
        if self.measures(scheduled) {
            self.counts.offered += 1;
        }
    }

    /// Counts the first message of an operation, scheduled at `scheduled` and sent at `sent`.
    pub(crate) fn started(&mut self, scheduled: Instant, sent: Instant) {
        if self.measures(scheduled) {
            self.counts.started += 1;
            self.lag.record(sent.since(scheduled));
        }
    }

    /// Counts a retransmission at `now`.
    pub(crate) fn retransmitted(&mut self, is_measured: bool, now: Instant) {
        self.second(now).second.retransmitted += 1;
        self.counts.retransmitted += u64::from(is_measured);
    }

    /// Counts the final response `status` to a request of a measured operation; 0 for no response.
    pub(crate) fn finished(&mut self, method: Method<'_>, status: u16) {
        let Some(index) = METHODS.iter().position(|&known| known == method) else { return };
        if let Some(count) = self.finals[index].get_mut(usize::from(status)) {
            *count += 1;
        }
    }

    /// Records a delay of a measured operation.
    pub(crate) fn delay(&mut self, which: Delay, span: Duration) {
        self.delays[which as usize].record(span);
    }

    /// Records the delay of an operation in the time series.
    pub(crate) fn response(&mut self, now: Instant, span: Duration) {
        // The histogram resizes itself, so recording cannot fail.
        let _ = self.second(now).response.record(span.as_micros());
    }

    /// Counts the end of an operation at `now`.
    pub(crate) fn ended(&mut self, outcome: Outcome, is_measured: bool, now: Instant) {
        self.operations += u64::from(outcome == Outcome::Succeeded);
        let second = &mut self.second(now).second;
        match outcome {
            Outcome::Succeeded => second.succeeded += 1,
            _ => second.failed += 1,
        }
        if is_measured {
            let counts = &mut self.counts;
            *match outcome {
                Outcome::Succeeded => &mut counts.succeeded,
                Outcome::Refused => &mut counts.refused,
                Outcome::TimedOut => &mut counts.timed_out,
                Outcome::Lost => &mut counts.lost,
            } += 1;
        }
    }

    /// Records the number of operations under way at `now`.
    pub(crate) fn in_flight(&mut self, now: Instant, count: usize) {
        self.second(now).second.in_flight = count as u64;
    }

    /// Returns the counts of a second of the load, and the delays of its operations.
    pub(crate) fn at_second(&self, number: u64) -> (Second, Hdr<u64>) {
        let tally = self.seconds.get(number as usize).cloned().unwrap_or_else(SecondTally::new);
        (tally.second, tally.response)
    }

    /// Adds the counts of another worker, or of this worker at another time of the same series.
    pub(crate) fn merge(&mut self, other: &Self) {
        add(&mut self.counts, &other.counts);
        for (ours, theirs) in self.finals.iter_mut().zip(&other.finals) {
            for (our, their) in ours.iter_mut().zip(theirs) {
                *our += their;
            }
        }
        for (ours, theirs) in self.delays.iter_mut().zip(&other.delays) {
            ours.merge(theirs);
        }
        self.lag.merge(&other.lag);
        self.operations += other.operations;
        for (index, theirs) in other.seconds.iter().enumerate() {
            while self.seconds.len() <= index {
                self.seconds.push(SecondTally::new());
            }
            let ours = &mut self.seconds[index];
            ours.second.offered += theirs.second.offered;
            ours.second.succeeded += theirs.second.succeeded;
            ours.second.failed += theirs.second.failed;
            ours.second.retransmitted += theirs.second.retransmitted;
            ours.second.in_flight += theirs.second.in_flight;
            // The histogram resizes itself, so adding cannot fail.
            let _ = ours.response.add(&theirs.response);
        }
    }

    /// Returns the number of operations scheduled in the measured time, and the histogram of their
    /// lag.
    pub(crate) const fn offered_and_lag(&self) -> (u64, &Histogram) {
        (self.counts.offered, &self.lag)
    }

    /// Returns the number of successful operations, measured or not, and the final responses in
    /// words.
    pub(crate) fn verdict(&self) -> (u64, String) {
        let succeeded = self.seconds.iter().map(|tally| tally.second.succeeded).sum();
        let mut said = Vec::new();
        for (method, statuses) in METHODS.iter().zip(&self.finals) {
            for (status, &count) in (0..).zip(statuses).filter(|&(_, &count)| count > 0) {
                let method = String::from_utf8_lossy(method.as_bytes());
                said.push(match status {
                    0 => format!("{count} {method} without an answer"),
                    _ => format!("{count} {method} answered {status}"),
                });
            }
        }
        (succeeded, said.join(", "))
    }

    /// Converts the counts to the form of the record. `measured` is the measured time from the
    /// start of the series.
    pub(crate) fn into_parts(self, measured: Range<Duration>) -> Parts {
        let mut counts = self.counts;
        counts.finals = METHODS
            .iter()
            .zip(&self.finals)
            .map(|(method, statuses)| {
                let name = String::from_utf8_lossy(method.as_bytes()).into_owned();
                let nonzero = (0..).zip(statuses).filter(|&(_, &count)| count > 0);
                (name, nonzero.map(|(status, &count)| (status, count)).collect())
            })
            .filter(|(_, statuses): &(String, BTreeMap<u16, u64>)| !statuses.is_empty())
            .collect();
        let delays = Delay::ALL
            .into_iter()
            .zip(self.delays)
            .filter(|(_, histogram)| !histogram.is_empty())
            .collect();
        let (from, to) = (measured.start.as_micros(), measured.end.as_micros());
        let series = (0..)
            .zip(self.seconds)
            .map(|(index, tally): (u64, _)| Second {
                at: index as i64 - (from / 1_000_000) as i64,
                measured: index * 1_000_000 >= from && index * 1_000_000 < to,
                p50_us: told(&tally.response, 50.0),
                p99_us: told(&tally.response, 99.0),
                max_us: tally.response.max(),
                ..tally.second
            })
            .collect();
        Parts { counts, delays, lag: self.lag, series, operations: self.operations }
    }
}

/// Returns the percentile of the response times of a second, if there are enough operations for it.
fn told(response: &Hdr<u64>, percent: f64) -> Option<u64> {
    tells(response.len(), percent).then(|| response.value_at_percentile(percent))
}

/// The parts of a [`Tally`] in the form of the record.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) counts: Counts,
    pub(crate) delays: BTreeMap<Delay, Histogram>,
    pub(crate) lag: Histogram,
    pub(crate) series: Vec<Second>,
    pub(crate) operations: u64,
}

/// Adds `other` to `counts`. The final responses of a tally are merged separately.
fn add(counts: &mut Counts, other: &Counts) {
    let Counts {
        offered,
        started,
        succeeded,
        refused,
        timed_out,
        lost,
        sent,
        received,
        retransmitted,
        repeated,
        unexpected,
        late,
        malformed,
        challenged,
        reused,
        refreshed,
        connections,
        finals: _,
        completed_calls,
    } = other;
    for (ours, theirs) in [
        (&mut counts.offered, offered),
        (&mut counts.started, started),
        (&mut counts.succeeded, succeeded),
        (&mut counts.refused, refused),
        (&mut counts.timed_out, timed_out),
        (&mut counts.lost, lost),
        (&mut counts.sent, sent),
        (&mut counts.received, received),
        (&mut counts.retransmitted, retransmitted),
        (&mut counts.repeated, repeated),
        (&mut counts.unexpected, unexpected),
        (&mut counts.late, late),
        (&mut counts.malformed, malformed),
        (&mut counts.challenged, challenged),
        (&mut counts.reused, reused),
        (&mut counts.refreshed, refreshed),
        (&mut counts.connections, connections),
        (&mut counts.completed_calls, completed_calls),
    ] {
        *ours += theirs;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_micros(1_000_000_000 + millis * 1000)
    }

    #[test]
    fn an_operation_belongs_to_the_time_when_it_was_scheduled() {
        let mut tally = Tally::new(at(0), at(1000)..at(2000));
        for scheduled in [at(500), at(1500), at(1999), at(2000)] {
            tally.offered(scheduled);
            let measured = tally.measures(scheduled);
            tally.ended(Outcome::Succeeded, measured, scheduled + Duration::from_millis(700));
        }
        tally.finished(Method::Register, 200);
        tally.finished(Method::Register, 0);
        tally.delay(Delay::Rrd, Duration::from_millis(7));
        let other = tally.clone();
        tally.merge(&other);
        let parts = tally.into_parts(Duration::from_secs(1)..Duration::from_secs(2));
        assert_eq!((parts.counts.offered, parts.counts.succeeded), (4, 4));
        assert_eq!(parts.operations, 8);
        assert_eq!(parts.counts.finals["REGISTER"], BTreeMap::from([(0, 2), (200, 2)]));
        assert_eq!(parts.delays[&Delay::Rrd].count(), 2);
        let of = |second: &Second| (second.at, second.measured, second.offered, second.succeeded);
        let series: Vec<_> = parts.series.iter().map(of).collect();
        assert_eq!(series, [(-1, false, 2, 0), (0, true, 4, 2), (1, false, 2, 6)]);
    }

    #[test]
    fn percentiles_of_a_second_are_told_of_as_many_responses_as_it_takes() {
        let mut tally = Tally::new(at(0), at(0)..at(4000));
        for (second, count) in [0, 1, 99, 100].into_iter().enumerate() {
            for _ in 0..count {
                tally.response(at(second as u64 * 1000 + 500), Duration::from_millis(1));
            }
        }
        let parts = tally.into_parts(Duration::ZERO..Duration::from_secs(4));
        let told: Vec<_> = parts
            .series
            .iter()
            .map(|second| (second.p50_us.is_some(), second.p99_us.is_some()))
            .collect();
        assert_eq!(told, [(false, false), (true, false), (true, false), (true, true)]);
    }
}
