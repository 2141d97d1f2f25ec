//! The estimated quality of a call from loss and delay, by the E-model of ITU-T G.107 with its
//! default values.

use core::time::Duration;

/// The impairment of a codec and its robustness against loss (ITU-T G.113 appendix I).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CodecQuality {
    /// The equipment impairment factor Ie.
    pub impairment: f64,
    /// The packet-loss robustness factor Bpl.
    pub loss_robustness: f64,
}

impl CodecQuality {
    /// G.711 without concealment: a lost packet is silence.
    pub const G711: Self = Self { impairment: 0.0, loss_robustness: 4.3 };
    /// G.711 with packet loss concealment (G.711 appendix I).
    pub const G711_CONCEALED: Self = Self { impairment: 0.0, loss_robustness: 25.1 };
    /// G.729A with voice activity detection.
    pub const G729A: Self = Self { impairment: 11.0, loss_robustness: 19.0 };
    /// G.723.1 at 6.3 kbit/s with voice activity detection.
    pub const G723_1: Self = Self { impairment: 15.0, loss_robustness: 16.1 };
    /// G.726 at 32 kbit/s. G.113 gives no robustness; the value of G.711 with concealment is used.
    pub const G726_32: Self = Self { impairment: 7.0, loss_robustness: 25.1 };
    /// GSM full rate. G.113 gives no robustness; the value of GSM enhanced full rate is used.
    pub const GSM_FR: Self = Self { impairment: 20.0, loss_robustness: 10.0 };
    /// GSM enhanced full rate.
    pub const GSM_EFR: Self = Self { impairment: 5.0, loss_robustness: 10.0 };
}

/// The rating without delay and loss, with the default values of G.107: the basic signal-to-noise
/// ratio less the simultaneous impairment.
const BASE: f64 = 93.2;

/// The transmission rating factor R, 0 to 93.2, from the mouth-to-ear delay, the share of packets
/// not played (0 to 1), and the burst ratio (1 for random loss, more for bursts; ITU-T G.107
/// section 3.5).
#[must_use]
pub fn rating(codec: CodecQuality, delay: Duration, loss: f64, burst_ratio: f64) -> f64 {
    let percent = 100.0 * loss.clamp(0.0, 1.0);
    let bursts = burst_ratio.max(1.0);
    let loss_impairment = if percent > 0.0 {
        (95.0 - codec.impairment) * percent / (percent / bursts + codec.loss_robustness)
    } else {
        0.0
    };
    (BASE - delay_impairment(delay) - codec.impairment - loss_impairment).clamp(0.0, BASE)
}

/// The delay impairment Idd of a delay that is long enough to be noticed.
fn delay_impairment(delay: Duration) -> f64 {
    let millis = delay.as_secs_f64() * 1e3;
    if millis <= 100.0 {
        return 0.0;
    }
    let x = libm::log2(millis / 100.0);
    let root = |base: f64| libm::pow(1.0 + libm::pow(base, 6.0), 1.0 / 6.0);
    25.0 * (root(x) - 3.0 * root(x / 3.0) + 2.0)
}

/// The mean opinion score of a rating, 1 to 4.5 (ITU-T G.107 annex B).
#[must_use]
pub fn mean_opinion_score(rating: f64) -> f64 {
    match rating {
        ..=0.0 => 1.0,
        100.0.. => 4.5,
        r => (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0),
    }
}

/// Separates bursts of loss from single losses (RFC 3611 section 4.7.2 and appendix A.2).
#[derive(Clone, Debug, Default)]
pub struct LossPattern {
    /// Packets since the last lost packet.
    since_lost: u32,
    /// Losses since the last gap.
    losses: u32,
    /// Packets in gaps, and single losses in gaps.
    gap_packets: u64,
    gap_losses: u64,
    /// The number of gaps that ended in a burst.
    bursts: u64,
    /// Transitions within bursts: received to received, received to lost, lost to lost.
    burst_received: u64,
    received_to_lost: u64,
    lost_to_lost: u64,
}

/// The burst and gap metrics of a loss pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BurstMetrics {
    /// The share of packets lost within bursts, 0 to 1.
    pub burst_density: f64,
    /// The share of packets lost within gaps, 0 to 1.
    pub gap_density: f64,
    /// The mean length of a burst in packets.
    pub burst_length: f64,
    /// The mean length of a gap in packets.
    pub gap_length: f64,
}

impl LossPattern {
    /// The number of consecutive packets received that ends a burst.
    pub const MINIMUM_GAP: u32 = 16;

    /// Adds the next packet in sequence.
    pub fn add(&mut self, was_lost: bool) {
        if !was_lost {
            self.since_lost = self.since_lost.saturating_add(1);
            return;
        }
        if self.since_lost >= Self::MINIMUM_GAP {
            // The gap has ended: the losses before it can be classified.
            match self.losses {
                0 => {}
                1 => self.gap_losses += 1,
                _ => self.bursts += 1,
            }
            self.losses = 1;
            self.gap_packets += u64::from(self.since_lost);
        } else {
            self.losses += 1;
            if self.since_lost == 0 {
                self.lost_to_lost += 1;
            } else {
                self.received_to_lost += 1;
                self.burst_received += u64::from(self.since_lost) - 1;
            }
        }
        self.since_lost = 0;
    }

    /// The metrics of the pattern so far.
    #[must_use]
    pub fn burst_metrics(&self) -> BurstMetrics {
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let [gap_packets, gap_losses, bursts, burst_received, received_to_lost, lost_to_lost] = [
            self.gap_packets + u64::from(self.since_lost),
            self.gap_losses + u64::from(self.losses == 1),
            self.bursts + u64::from(self.losses > 1),
            self.burst_received,
            self.received_to_lost,
            self.lost_to_lost,
        ]
        .map(|count| count as f64);
        let losses = received_to_lost + lost_to_lost + bursts;
        let lost_ends = share(received_to_lost, losses);
        let received_ends = if burst_received + received_to_lost > 0.0 {
            1.0 - share(burst_received, burst_received + received_to_lost)
        } else {
            1.0
        };
        let total = gap_packets + gap_losses + bursts + losses + burst_received + received_to_lost;
        let gap_length = share(gap_packets + gap_losses + bursts, bursts);
        BurstMetrics {
            burst_density: if bursts > 0.0 {
                share(received_ends, received_ends + lost_ends)
            } else {
                0.0
            },
            gap_density: share(gap_losses, gap_losses + gap_packets),
            burst_length: if bursts > 0.0 { share(total, bursts) - gap_length } else { 0.0 },
            gap_length: if bursts > 0.0 { gap_length } else { gap_packets + gap_losses },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{found}, expected {expected}");
    }

    #[test]
    fn ratings_match_the_e_model() {
        let rate =
            |millis, loss| rating(CodecQuality::G711, Duration::from_millis(millis), loss, 1.0);
        about(rate(0, 0.0), 93.2, 1e-9);
        about(rate(100, 0.0), 93.2, 1e-9);
        // The formula of Idd at 200 ms: 25 ((1 + 1)^(1/6) - 3 (1 + 3^-6)^(1/6) + 2).
        about(rate(200, 0.0), 93.2 - 3.04, 0.02);
        about(rate(400, 0.0), 93.2 - 24.1, 0.3);
        // 95 * 1 / (1 + 4.3) at a loss of 1 %.
        about(rate(0, 0.01), 93.2 - 17.92, 0.01);
        assert_eq!(rate(5000, 1.0), 0.0);
        let concealed = rating(CodecQuality::G711_CONCEALED, Duration::ZERO, 0.05, 1.0);
        about(concealed, 93.2 - 95.0 * 5.0 / 30.1, 1e-9);
        let bursts = rating(CodecQuality::G711_CONCEALED, Duration::ZERO, 0.05, 2.0);
        assert!(bursts < concealed);
    }

    #[test]
    fn scores_match_annex_b() {
        about(mean_opinion_score(93.2), 4.41, 0.005);
        about(mean_opinion_score(80.0), 4.024, 0.001);
        about(mean_opinion_score(50.0), 2.575, 0.001);
        assert_eq!(mean_opinion_score(-1.0), 1.0);
        assert_eq!(mean_opinion_score(100.0), 4.5);
        // The polynomial dips below 1 near 0.
        assert_eq!(mean_opinion_score(3.0), 1.0);
    }

    fn pattern(text: &[&str]) -> BurstMetrics {
        let mut pattern = LossPattern::default();
        let bytes = text.iter().flat_map(|part| part.bytes());
        bytes.for_each(|byte| pattern.add(byte == b'x'));
        pattern.burst_metrics()
    }

    const GAP: &str = "....................";

    #[test]
    fn isolated_losses_are_not_a_burst() {
        let found = pattern(&[GAP, "x", GAP, "x", GAP]);
        assert_eq!((found.burst_density, found.burst_length), (0.0, 0.0));
        assert!(found.gap_density > 0.0);
        assert_eq!(pattern(&[GAP]).gap_density, 0.0);
    }

    #[test]
    fn dense_losses_are_a_burst() {
        let found = pattern(&[GAP, "x.xx.x", GAP, "x", GAP, "xxx", GAP, "x"]);
        assert!(found.burst_density > 0.6 && found.burst_density < 0.95, "{found:?}");
        assert!(found.gap_density < 0.05, "{found:?}");
        assert!(found.burst_length > 2.0 && found.burst_length < 8.0, "{found:?}");
        assert!(found.gap_length > 20.0 && found.gap_length < 45.0, "{found:?}");
    }
}
