//! The results of a worker.

use super::comparison::Verified;
use super::reception::StreamFigures;
use crate::cpu::Cpu;
use crate::record::{Counts, Histogram, MediaFigures, Streams};
use media::Codec;
use rtp::quality::{CodecQuality, mean_opinion_score, rating};
use serde::{Deserialize, Serialize};

/// The packet time, as a part of the delay from mouth to ear.
const FRAME: std::time::Duration = std::time::Duration::from_millis(20);

/// The results of a worker, or of all.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) counts: Counts,
    /// The time from the INVITE to the 200.
    pub(crate) response: Histogram,
    /// The time from the scheduled time of the INVITE to the 200.
    pub(crate) from_schedule: Histogram,
    /// The time from the INVITE to the first 180 or 200.
    pub(crate) request: Histogram,
    /// The first REGISTER of a caller to the 200.
    pub(crate) registration: Histogram,
    pub(crate) media: MediaFigures,
    /// The sum and the number of the samples of simultaneous calls with audio.
    pub(crate) held: (u64, u64),
    /// Calls that failed outside of the measured time, and the reason of the first failed call.
    pub(crate) early_failures: u64,
    pub(crate) first_failure: Option<String>,
    pub(crate) cpu: Cpu,
    /// The busy share of the busiest thread.
    pub(crate) busy: f64,
    pub(crate) sockets: u64,
    /// Datagrams that the kernel dropped, and those that it did not send.
    pub(crate) drops: u64,
    pub(crate) unsent: u64,
    /// True if the load was ended early.
    pub(crate) is_stopped: bool,
    /// The calls that completed, also outside of the measured time.
    pub(crate) operations: u64,
}

/// Adds a stream of an end to the figures of its direction, and returns its score. `delay` is the
/// mean delay of its packets one way.
pub(crate) fn add_stream(
    streams: &mut Streams,
    figures: &StreamFigures,
    codec: Codec,
    delay: std::time::Duration,
    is_stopped: bool,
) -> f64 {
    streams.streams += 1;
    streams.expected += figures.expected;
    streams.received += figures.received;
    streams.late += figures.late;
    streams.duplicates += figures.duplicates;
    streams.restarts += figures.restarts;
    streams.stopped += u64::from(is_stopped);
    streams.jitter.record(figures.mean_jitter.into());
    streams.max_jitter.record(figures.max_jitter.into());
    streams.max_delta.record(figures.max_delta.into());
    let loss = figures.lost() as f64 / figures.expected.max(1) as f64;
    let heard = delay + FRAME + 2 * figures.mean_jitter;
    let mos = mean_opinion_score(rating(quality_of(codec), heard, loss, 1.0));
    streams.mos_min = if streams.mos_count == 0 { mos } else { streams.mos_min.min(mos) };
    streams.mos_sum += mos;
    streams.mos_count += 1;
    mos
}

/// Returns the quality of the codec. The scale ends at that of G.711, so wideband codecs are rated
/// like it.
const fn quality_of(codec: Codec) -> CodecQuality {
    match codec {
        Codec::Gsm => CodecQuality::GSM_FR,
        Codec::G726 | Codec::Aal2G726 => CodecQuality::G726_32,
        _ => CodecQuality::G711_CONCEALED,
    }
}

impl Found {
    /// Adds the comparison of the audio of a call that came back.
    pub(crate) fn add_sound(&mut self, verified: Verified, is_heard: bool) {
        let sound = &mut self.media.sound;
        match is_heard {
            true => sound.heard += 1,
            false => sound.unheard += 1,
        }
        sound.exact += verified.exact;
        sound.wrong += verified.wrong;
        sound.windows += verified.windows;
        sound.failed += verified.failed;
    }

    /// Adds the results of another worker.
    pub(crate) fn merge(&mut self, other: Self) {
        let (own, more) = (&mut self.counts, &other.counts);
        for (own, more) in [
            (&mut own.offered, more.offered),
            (&mut own.started, more.started),
            (&mut own.succeeded, more.succeeded),
            (&mut own.refused, more.refused),
            (&mut own.timed_out, more.timed_out),
            (&mut own.lost, more.lost),
            (&mut own.sent, more.sent),
            (&mut own.received, more.received),
            (&mut own.completed_calls, more.completed_calls),
            (&mut self.held.0, other.held.0),
            (&mut self.early_failures, other.early_failures),
            (&mut self.cpu.user_us, other.cpu.user_us),
            (&mut self.cpu.system_us, other.cpu.system_us),
            (&mut self.sockets, other.sockets),
            (&mut self.drops, other.drops),
            (&mut self.unsent, other.unsent),
            (&mut self.operations, other.operations),
        ] {
            *own += more;
        }
        for (method, statuses) in other.counts.finals {
            let own = self.counts.finals.entry(method).or_default();
            for (status, count) in statuses {
                *own.entry(status).or_default() += count;
            }
        }
        for (own, more) in [
            (&mut self.response, &other.response),
            (&mut self.from_schedule, &other.from_schedule),
            (&mut self.request, &other.request),
            (&mut self.registration, &other.registration),
        ] {
            own.merge(more);
        }
        self.media.merge(other.media);
        // The samples of all workers are of the same times.
        self.held.1 = self.held.1.max(other.held.1);
        self.first_failure = self.first_failure.take().or(other.first_failure);
        self.busy = self.busy.max(other.busy);
        self.is_stopped |= other.is_stopped;
    }

    /// Returns the mean number of simultaneous calls with audio.
    pub(crate) fn held(&self) -> f64 {
        self.held.0 as f64 / self.held.1.max(1) as f64
    }
}
