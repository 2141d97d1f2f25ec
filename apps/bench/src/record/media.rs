//! The observations of calls with media.

use super::Histogram;
use serde::{Deserialize, Serialize};

/// The media of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Media {
    /// The codecs of the caller and of the callee.
    pub(crate) codecs: [String; 2],
    /// The protection of packets: a value of `--srtp`.
    pub(crate) protection: String,
    /// The simultaneous calls that the load aims at.
    pub(crate) calls: u64,
    /// The length of the audio of a call in seconds.
    pub(crate) audio: f64,
    /// The faults that the ends applied to their own packets: those of callers, those of callees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) faults: Option<[String; 2]>,
    /// The mean number of simultaneous calls with audio in the measured time.
    pub(crate) held: f64,
    #[serde(flatten)]
    pub(crate) figures: MediaFigures,
    /// The proof of the generator's own capacity; absent if it was switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) headroom: Option<Headroom>,
}

impl Media {
    /// Returns the codecs and the protection in words.
    pub(crate) fn kind(&self) -> String {
        let [caller, callee] = &self.codecs;
        let codecs =
            if caller == callee { caller.clone() } else { format!("{caller} to {callee}") };
        match &self.protection[..] {
            "off" => codecs,
            protection => format!("{codecs}, SRTP {protection}"),
        }
    }
}

/// The figures of the media of a load: those of a thread, of a machine, or of all.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct MediaFigures {
    /// The streams to the callees; absent if the callees are another program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) forward: Option<Streams>,
    /// The streams that came back to the callers.
    pub(crate) echo: Streams,
    /// The comparison of the audio that came back with what was sent.
    pub(crate) sound: Sound,
    /// The delay of the generator's packets from their due time to the sending, and that of its
    /// echoes from the arrival to the sending.
    pub(crate) lag: Histogram,
    pub(crate) turnaround: Histogram,
    /// The DTLS handshakes of both ends that ended in the measured time: the time of each from the
    /// answer of the call to the keys, and the number of those that failed.
    #[serde(default)]
    pub(crate) handshakes: Histogram,
    #[serde(default)]
    pub(crate) handshakes_failed: u64,
    /// RTCP.
    pub(crate) reports: Reports,
    /// Datagrams that SRTP rejected or that are not of the stream.
    pub(crate) refused: u64,
    /// One call in detail; absent if none began in the measured time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) observed: Option<Observed>,
}

impl MediaFigures {
    /// Adds the figures of another thread or machine.
    pub(crate) fn merge(&mut self, other: Self) {
        if let Some(forward) = &other.forward {
            self.forward.get_or_insert_default().merge(forward);
        }
        self.echo.merge(&other.echo);
        self.sound.merge(other.sound);
        self.lag.merge(&other.lag);
        self.turnaround.merge(&other.turnaround);
        self.handshakes.merge(&other.handshakes);
        self.handshakes_failed += other.handshakes_failed;
        self.reports.merge(&other.reports);
        self.refused += other.refused;
        self.observed = self.observed.take().or(other.observed);
    }
}

/// The figures of the streams of one direction.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Streams {
    /// The number of streams.
    pub(crate) streams: u64,
    /// Packets that were to come, and those that came, copies excluded.
    pub(crate) expected: u64,
    pub(crate) received: u64,
    /// Packets that came after a later one.
    pub(crate) late: u64,
    /// Copies.
    pub(crate) duplicates: u64,
    /// New sources, and jumps of sequence numbers.
    pub(crate) restarts: u64,
    /// Streams that stopped a second or more before their end.
    pub(crate) stopped: u64,
    /// The time between packets, of all packets.
    pub(crate) delta: Histogram,
    /// The mean jitter of each stream.
    pub(crate) jitter: Histogram,
    /// The highest jitter, and the longest time between two packets, of each stream.
    pub(crate) max_jitter: Histogram,
    pub(crate) max_delta: Histogram,
    /// The delay of packets from their due time to the kernel's time of arrival: to the callee one
    /// way, back at the caller the round trip without the time in the callee.
    pub(crate) delay: Histogram,
    /// The sum and the lowest of the mean opinion scores of the streams (ITU-T G.107), and their
    /// number.
    pub(crate) mos_sum: f64,
    pub(crate) mos_min: f64,
    pub(crate) mos_count: u64,
}

impl Streams {
    /// Returns the share of lost packets.
    pub(crate) fn loss(&self) -> f64 {
        self.expected.saturating_sub(self.received) as f64 / self.expected.max(1) as f64
    }

    /// Returns the mean opinion score.
    pub(crate) fn mos(&self) -> Option<f64> {
        (self.mos_count > 0).then(|| self.mos_sum / self.mos_count as f64)
    }

    /// Adds the streams of another thread.
    pub(crate) fn merge(&mut self, other: &Self) {
        let counts = [
            (&mut self.streams, other.streams),
            (&mut self.expected, other.expected),
            (&mut self.received, other.received),
            (&mut self.late, other.late),
            (&mut self.duplicates, other.duplicates),
            (&mut self.restarts, other.restarts),
            (&mut self.stopped, other.stopped),
        ];
        counts.into_iter().for_each(|(own, other)| *own += other);
        self.delta.merge(&other.delta);
        self.jitter.merge(&other.jitter);
        self.max_jitter.merge(&other.max_jitter);
        self.max_delta.merge(&other.max_delta);
        self.delay.merge(&other.delay);
        self.mos_min = match (self.mos_count, other.mos_count) {
            (_, 0) => self.mos_min,
            (0, _) => other.mos_min,
            _ => self.mos_min.min(other.mos_min),
        };
        self.mos_sum += other.mos_sum;
        self.mos_count += other.mos_count;
    }
}

/// The comparison of audio with what was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sound {
    /// Calls with audio that came back, and calls without.
    pub(crate) heard: u64,
    pub(crate) unheard: u64,
    /// Payloads that are those of the frame that was sent, and those that are not.
    pub(crate) exact: u64,
    pub(crate) wrong: u64,
    /// Windows of decoded audio that were found in the signal, and those that were not.
    pub(crate) windows: u64,
    pub(crate) failed: u64,
}

impl Sound {
    /// Adds the comparisons of another thread.
    const fn merge(&mut self, other: Self) {
        self.heard += other.heard;
        self.unheard += other.unheard;
        self.exact += other.exact;
        self.wrong += other.wrong;
        self.windows += other.windows;
        self.failed += other.failed;
    }
}

/// RTCP of both ends.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Reports {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// The round-trip time by reports (RFC 3550 section 6.4.1).
    pub(crate) round_trip: Histogram,
    /// The highest share of lost packets in a report.
    pub(crate) max_loss: f64,
}

impl Reports {
    /// Adds the reports of another thread.
    fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.round_trip.merge(&other.round_trip);
        self.max_loss = self.max_loss.max(other.max_loss);
    }
}

/// The packets of one call that came back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Observed {
    /// Its number.
    pub(crate) call: u64,
    /// The arrival of each packet in seconds from the beginning of its audio.
    pub(crate) at: Vec<f64>,
    /// The time since the packet before, in microseconds.
    pub(crate) delta_us: Vec<u64>,
    /// The jitter after the packet, in microseconds.
    pub(crate) jitter_us: Vec<u64>,
    /// The round trip, in microseconds; `None` if the frame is not known.
    pub(crate) delay_us: Vec<Option<u64>>,
    /// Its figures.
    pub(crate) expected: u64,
    pub(crate) received: u64,
    pub(crate) late: u64,
    pub(crate) duplicates: u64,
    pub(crate) mean_jitter_us: u64,
    pub(crate) max_delta_us: u64,
    pub(crate) mos: f64,
}

/// The capacity of the generator, measured between its own ends without a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Headroom {
    /// The simultaneous calls, each with a stream in both directions.
    pub(crate) calls: u64,
    /// The 99th percentile of the time between packets, in microseconds; less than 21 ms is
    /// required.
    pub(crate) delta_p99_us: u64,
    /// The share of lost packets.
    pub(crate) loss: f64,
    /// The busy share of the busiest thread.
    pub(crate) busy: f64,
    /// True if these figures are within the limits.
    pub(crate) is_enough: bool,
}
