//! The reception of one stream: order, losses, spacing.

use super::signal::FRAME_MILLIS;
use crate::capture::sequence::Sequence;
use rtp::ReceptionStats;
use rtp::ntp::NtpTime;
use rtp::packet::Header;
use rtp::rtcp::ReportBlock;
use sip::{Duration, Instant};

/// A number farther from the highest than this belongs to a source that has restarted.
const MAX_JUMP: u16 = 3000;

/// A received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// The sequence number, extended by its cycles.
    pub(crate) number: i64,
    /// The time since the packet before; `None` for the first.
    pub(crate) delta: Option<Duration>,
}

/// The reception of a stream.
#[derive(Debug, Default)]
pub(crate) struct Reception {
    source: Option<Source>,
    last: Option<Instant>,
}

#[derive(Debug)]
struct Source {
    sequence: Sequence,
    stats: ReceptionStats,
    highest: i64,
}

/// The figures of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct StreamFigures {
    pub(crate) expected: u64,
    pub(crate) received: u64,
    pub(crate) late: u64,
    pub(crate) duplicates: u64,
    pub(crate) restarts: u64,
    pub(crate) mean_jitter: std::time::Duration,
    pub(crate) max_jitter: std::time::Duration,
    pub(crate) max_delta: std::time::Duration,
}

impl StreamFigures {
    /// Returns the number of lost packets.
    pub(crate) const fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.received)
    }
}

/// Returns `at` as the time of the statistics.
fn span(at: Instant) -> std::time::Duration {
    at.since(Instant::ZERO).into()
}

impl Reception {
    /// Counts a packet that arrived at `at`. A copy counts as one, and its delta does not.
    pub(crate) fn receive(&mut self, header: &Header<'_>, clock_rate: u32, at: Instant) -> Arrived {
        let number = header.sequence_number();
        let is_same = |source: &&mut Source| source.stats.ssrc() == header.ssrc();
        let Some(source) = self.source.as_mut().filter(is_same) else {
            let before = self.source.take();
            let sequence = match before {
                None => Sequence::new(number),
                Some(Source { mut sequence, .. }) => {
                    sequence.restart(number);
                    sequence
                }
            };
            let mut stats = ReceptionStats::new(header, clock_rate);
            stats.receive(header, span(at));
            self.source = Some(Source { sequence, stats, highest: i64::from(number) });
            return Arrived { number: i64::from(number), delta: self.delta(at) };
        };
        let ahead = number.wrapping_sub(source.highest as u16);
        let extended = source.highest + i64::from(ahead.cast_signed());
        if ahead.cast_signed().unsigned_abs() > MAX_JUMP {
            source.sequence.restart(number);
        } else if ahead < 1 << 15 {
            source.sequence.advance(number);
        } else {
            source.sequence.fall_back(number);
        }
        source.highest = source.highest.max(extended);
        source.stats.receive(header, span(at));
        Arrived { number: extended, delta: self.delta(at) }
    }

    fn delta(&mut self, at: Instant) -> Option<Duration> {
        self.last.replace(at).map(|last| at.since(last))
    }

    /// Returns the time of the last packet.
    pub(crate) const fn last(&self) -> Option<Instant> {
        self.last
    }

    /// Returns the current jitter.
    pub(crate) fn jitter(&self) -> std::time::Duration {
        self.source.as_ref().map_or_else(Default::default, |it| it.stats.spacing().jitter())
    }

    /// Records a sender report.
    pub(crate) fn report_received(&mut self, time: NtpTime, at: Instant) {
        if let Some(source) = &mut self.source {
            source.stats.receive_sender_report(time, span(at));
        }
    }

    /// Returns the report block for the sender.
    pub(crate) fn report(&mut self, at: Instant) -> Option<ReportBlock> {
        self.source.as_mut().map(|source| source.stats.report(span(at)))
    }

    /// Returns the figures so far. A stream that was to be sent until `until` and has stopped lacks
    /// the packets since; `None` if its end is not known.
    pub(crate) fn figures(&self, until: Option<Instant>) -> StreamFigures {
        let Some(source) = &self.source else { return StreamFigures::default() };
        let (counts, spacing) = (source.sequence.counts(), source.stats.spacing());
        let silence = until.zip(self.last).map(|(until, last)| until.since(last));
        let missing = silence.map_or(0, |silence| silence.as_millis() / FRAME_MILLIS);
        StreamFigures {
            // A last packet that is late by less than an interval is not missing.
            expected: counts.expected + missing.saturating_sub(1),
            received: counts.distinct,
            late: counts.late,
            duplicates: counts.duplicates,
            restarts: counts.restarts,
            mean_jitter: spacing.mean_jitter(),
            max_jitter: spacing.max_jitter(),
            max_delta: spacing.max_delta(),
        }
    }
}
