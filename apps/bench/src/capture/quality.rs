//! The estimated speech quality of a stream (E-model, ITU-T G.107 with its default values).
//!
//! A capture does not contain playout times. The assumptions are: 100 ms from mouth to ear plus a
//! playout buffer of twice the mean jitter; random losses; no received packet is too late for the
//! buffer; and loss concealment of G.711 (G.711 appendix I).

use super::sequence::SequenceCounts;
use rtp::quality::{self, CodecQuality};
use std::time::Duration;

/// The assumed delay without the playout buffer: the longest without impairment (ITU-T G.107
/// section 3.5).
const DELAY: Duration = Duration::from_millis(100);

/// Returns the rating of a stream of this encoding. `None` if ITU-T G.113 appendix I has no values
/// for it, such as wideband codecs, or its name does not give the codec's rate.
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
