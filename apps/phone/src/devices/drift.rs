//! Two clocks for one sound: that of a sound card and that of the network are never the same. What
//! waits between them is kept at its level by frames that are a sample longer or shorter.

/// What may wait in a direction, in milliseconds, before it is corrected, and what it is corrected
/// to.
const SLACK: usize = 10;

/// Keeps what waits at its level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drift {
    /// What is to wait, in samples.
    target: usize,
    slack: usize,
    /// What has waited, on the average of some seconds.
    average: f64,
}

impl Drift {
    /// One that keeps `millis` of sound of `rate` waiting.
    pub(super) const fn new(rate: u32, millis: usize) -> Self {
        let target = millis * rate as usize / 1000;
        Self { target, slack: SLACK * rate as usize / 1000, average: target as f64 }
    }

    /// How many samples are to be taken away (or, below 0, put in) with the next frame, where
    /// `waiting` wait.
    pub(super) fn correction(&mut self, waiting: usize) -> i32 {
        self.average += (waiting as f64 - self.average) / 64.0;
        let over = self.average - self.target as f64;
        if over.abs() <= self.slack as f64 {
            return 0;
        }
        // One sample in a frame changes pitch by less than anybody hears.
        if over > 0.0 { 1 } else { -1 }
    }
}

/// Appends `samples` to `out` with `more` samples more, or fewer: on a straight line between
/// neighbours.
pub(super) fn stretch(samples: &[i16], more: i32, out: &mut Vec<i16>) {
    let count = samples.len().saturating_add_signed(more as isize);
    if more == 0 || samples.len() < 2 || count < 2 {
        return out.extend_from_slice(samples);
    }
    let step = (samples.len() - 1) as f64 / (count - 1) as f64;
    out.extend((0..count).map(|place| {
        let at = place as f64 * step;
        let (whole, part) = (at as usize, at.fract());
        let (here, next) = (samples[whole], samples[(whole + 1).min(samples.len() - 1)]);
        (f64::from(here) + (f64::from(next) - f64::from(here)) * part).round() as i16
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use media::tone::{Tone, amplitude_of};

    /// What waits after a long time between a card and a network whose clocks differ by
    /// `millionths`.
    fn level_after(millionths: f64) -> (f64, i32) {
        let mut drift = Drift::new(8000, 40);
        let (mut waiting, mut most) = (320.0_f64, 0_i32);
        for _ in 0..50 * 3600 {
            let correction = drift.correction(waiting as usize);
            most = most.max(correction.abs());
            waiting += 160.0 * millionths / 1e6 - f64::from(correction);
        }
        (waiting, most)
    }

    #[test]
    fn clocks_that_differ_keep_their_level_for_hours() {
        for millionths in [-300.0, 0.0, 50.0, 300.0] {
            let (waiting, most) = level_after(millionths);
            assert!((200.0..440.0).contains(&waiting), "{millionths}: {waiting}");
            assert_eq!(most, i32::from(millionths != 0.0));
        }
    }

    #[test]
    fn a_frame_is_stretched_without_a_gap() {
        let mut tone = Tone::new(400.0, 8000, 10_000);
        let mut frames = Vec::new();
        for number in 0..50 {
            let mut frame = Vec::new();
            tone.fill(160, &mut frame);
            stretch(&frame, [1, 0, -1][number % 3], &mut frames);
        }
        let length = frames.len();
        assert!((7990..8010).contains(&length), "{length}");
        // Nearly all of it is still the tone.
        assert!(amplitude_of(400.0, 8000, &frames[..4000]) > 9_000.0);
        let mut short = Vec::new();
        stretch(&[5], 1, &mut short);
        assert_eq!(short, [5]);
    }
}
