//! Compensation of clock drift: the clocks of a sound card and of the network always differ. Frames
//! that are a sample longer or shorter keep the queue between them at its level.

/// Tolerated deviation from the target level in milliseconds, before it is corrected.
const SLACK: usize = 10;

/// Keeps the level of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drift {
    /// Target level in samples.
    target: usize,
    slack: usize,
    /// Mean level over some seconds, in samples.
    average: f64,
}

impl Drift {
    /// A controller for a target level of `millis` at `rate` hertz.
    pub(super) const fn new(rate: u32, millis: usize) -> Self {
        let target = millis * rate as usize / 1000;
        Self { target, slack: SLACK * rate as usize / 1000, average: target as f64 }
    }

    /// The number of samples to remove from the next frame (below 0: to insert) at a level of
    /// `waiting` samples.
    pub(super) fn correction(&mut self, waiting: usize) -> i32 {
        self.average += (waiting as f64 - self.average) / 64.0;
        let over = self.average - self.target as f64;
        if over.abs() <= self.slack as f64 {
            return 0;
        }
        // One sample per frame changes the pitch inaudibly.
        if over > 0.0 { 1 } else { -1 }
    }
}

/// Appends `samples` to `out` with `more` additional samples (below 0: fewer), by linear
/// interpolation.
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

    /// The level and the largest correction after an hour between a card and a network with clocks
    /// that differ by `millionths`.
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
        // Nearly all energy is still in the tone.
        assert!(amplitude_of(400.0, 8000, &frames[..4000]) > 9_000.0);
        let mut short = Vec::new();
        stretch(&[5], 1, &mut short);
        assert_eq!(short, [5]);
    }
}
