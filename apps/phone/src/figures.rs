//! The media statistics of a call.

use media::Statistics;
use serde::Serialize;
use std::time::Duration;

/// Statistics of a call's media.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Media {
    pub(crate) call: u64,
    pub(crate) sent: u64,
    /// Packets that could not be written or encrypted.
    pub(crate) unsent: u64,
    pub(crate) received: u64,
    pub(crate) lost: u64,
    pub(crate) refused: u64,
    pub(crate) unknown: u64,
    pub(crate) strangers: u64,
    pub(crate) jitter_ms: f64,
    pub(crate) max_jitter_ms: f64,
    pub(crate) mean_delta_ms: f64,
    pub(crate) max_delta_ms: f64,
    /// `None` until sound was received.
    pub(crate) mos: Option<f64>,
    /// The round-trip time, and the remote end's report on our stream; `None` until it sends one.
    pub(crate) round_trip_ms: Option<f64>,
    pub(crate) far_loss_percent: Option<f64>,
    pub(crate) far_jitter_ms: Option<f64>,
    pub(crate) far_mos: Option<f64>,
    /// Half the time between a mark sent and the same mark received; `None` without marks.
    pub(crate) mouth_to_ear_ms: Option<f64>,
    /// The directions of the media that get through, as text.
    pub(crate) flow: &'static str,
}

impl Media {
    pub(crate) fn new(call: u64, statistics: &Statistics, mouth_to_ear: Option<Duration>) -> Self {
        let millis = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e3;
        let hundredths = |number: f64| (number * 100.0).round() / 100.0;
        Self {
            call,
            sent: statistics.sent,
            unsent: statistics.unsent,
            received: statistics.received,
            lost: statistics.lost(),
            refused: statistics.refused,
            unknown: statistics.unknown,
            strangers: statistics.strangers,
            jitter_ms: millis(statistics.jitter),
            max_jitter_ms: millis(statistics.max_jitter),
            mean_delta_ms: millis(statistics.mean_delta),
            max_delta_ms: millis(statistics.max_delta),
            mos: (statistics.received > 0).then(|| hundredths(statistics.mos)),
            round_trip_ms: statistics.round_trip.map(millis),
            far_loss_percent: statistics.far_loss.map(|share| hundredths(share * 100.0)),
            far_jitter_ms: statistics.far_jitter.map(millis),
            far_mos: statistics.far_mos.map(hundredths),
            mouth_to_ear_ms: mouth_to_ear.map(millis),
            flow: match statistics.flow {
                media::AudioFlow::Flowing => "both_ways",
                media::AudioFlow::NothingArrives => "nothing_arrives",
                media::AudioFlow::NothingGetsThrough => "nothing_gets_through",
                media::AudioFlow::Nothing => "none",
            },
        }
    }
}

impl std::fmt::Display for Media {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { sent, received, lost, jitter_ms, max_delta_ms, .. } = self;
        write!(
            f,
            "sent {sent}, received {received}, lost {lost}, jitter {jitter_ms} ms, longest delta {max_delta_ms} ms"
        )?;
        self.mos.map_or(Ok(()), |mos| write!(f, ", MOS {mos}"))?;
        self.mouth_to_ear_ms.map_or(Ok(()), |time| write!(f, ", mouth to ear {time} ms"))
    }
}
