//! What a listener would say of a stream (E-model, ITU-T G.107 with its default values).
//!
//! A capture does not show when a packet is played. Assumed are: 100 ms from mouth to ear besides a
//! playout buffer of twice the mean jitter; losses at random; that no packet which came is too late
//! for the buffer; and that G.711 conceals what is lost (G.711 appendix I).

use super::sequence::SequenceCounts;
use rtp::quality::{self, CodecQuality};
use std::time::Duration;

/// The delay that is assumed besides the playout buffer: the longest that costs nothing (ITU-T
/// G.107 section 3.5).
const DELAY: Duration = Duration::from_millis(100);

/// The rating of a stream of this encoding; `None` where ITU-T G.113 appendix I has no figures of
/// it, as for wide band, or the codec's rate cannot be told from its name.
pub(super) fn rating(encoding: &str, counts: &SequenceCounts, jitter: Duration) -> Option<f64> {
    let codec = match encoding.to_ascii_uppercase().as_str() {
        "PCMU" | "PCMA" => CodecQuality::G711_CONCEALED,
        "G729" | "G729A" => CodecQuality::G729A,
        "G723" => CodecQuality::G723_1,
        "GSM-EFR" => CodecQuality::GSM_EFR,
        _ => return None,
    };
    let loss = counts.lost() as f64 / counts.expected.max(1) as f64;
    let delay = DELAY.saturating_add(jitter.saturating_mul(2));
    Some(quality::rating(codec, delay, loss, 1.0))
}
