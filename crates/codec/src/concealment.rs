//! Packet loss concealment (ITU-T G.711 appendix I). The constants are for 8000 samples per second.
//! At 16,000 all durations have twice as many samples.

use alloc::vec;
use alloc::vec::Vec;

/// The longest and the shortest pitch period, in samples at 8000 per second: 66 and 200 Hz.
const LONGEST: usize = 120;
const SHORTEST: usize = 40;
/// A quarter of the longest period: the length of the overlap at the beginning of a loss, and
/// therefore the delay of the output.
const SEAM: usize = LONGEST / 4;
/// The length of the signal that is compared to find the period: 20 ms.
const COMPARED: usize = 160;
/// The additional overlap at the end of a loss, for each lost frame after the first: 4 ms.
const MORE_SEAM: usize = 32;
/// The minimum divisor of a correlation.
const LEAST_POWER: f64 = 250.0;
/// The attenuation per lost frame, from the second on.
const FADES: f64 = 0.2;
/// The number of lost frames after which the output is silent.
const SILENT: usize = 6;

/// Conceals lost frames of 10 ms. All samples pass through it with a delay of 3.75 ms, so that the
/// samples before a loss can be blended into the concealment.
#[derive(Clone, Debug)]
pub(crate) struct Concealment {
    /// The sample rate divided by 8000.
    scale: usize,
    /// The last samples of the output, as many as three of the longest pitch periods, then those
    /// that are delayed for an overlap.
    history: Vec<i16>,
    /// The number of consecutive lost frames.
    lost: usize,
    /// The history at the beginning of the loss. Its last `length` samples are repeated, and `at`
    /// is the position among them.
    cycle: Vec<f64>,
    length: usize,
    at: usize,
    period: usize,
    /// The last quarter of a period, before it was blended into the beginning of the cycle.
    quarter: Vec<f64>,
}

/// Calls `weigh` with the weights of the outgoing signal (falling from `gain`) and of the incoming
/// signal, sample by sample.
fn fade(count: usize, gain: f64, mut weigh: impl FnMut(usize, f64, f64)) {
    let step = 1.0 / count as f64;
    let (mut goes, mut comes) = ((1.0 - step) * gain, step);
    for place in 0..count {
        weigh(place, goes, comes);
        goes -= step * gain;
        comes += step;
    }
}

impl Concealment {
    pub(crate) fn new(sample_rate: u32) -> Self {
        let scale = (sample_rate as usize / 8000).max(1);
        Self {
            scale,
            history: vec![0; (3 * LONGEST + SEAM) * scale],
            lost: 0,
            cycle: Vec::new(),
            length: 0,
            at: 0,
            period: 0,
            quarter: Vec::new(),
        }
    }

    /// The number of samples in 10 ms.
    const fn frame(&self) -> usize {
        80 * self.scale
    }

    /// Processes received samples in place.
    pub(crate) fn pass(&mut self, samples: &mut [i16]) {
        for piece in samples.chunks_mut(self.frame()) {
            if self.lost > 0 {
                let count = self.quarter.len() + (self.lost - 1) * MORE_SEAM * self.scale;
                let count = count.min(piece.len());
                let concealed: Vec<i16> = (0..count).map(|_| self.repeat()).collect();
                let gain = (1.0 - (self.lost - 1) as f64 * FADES).max(0.0);
                fade(count, gain, |place, goes, comes| {
                    let sum = goes * f64::from(concealed[place]) + comes * f64::from(piece[place]);
                    piece[place] = sum as i16;
                });
                self.lost = 0;
            }
            self.delay(piece);
        }
    }

    /// Appends a concealed frame.
    pub(crate) fn conceal(&mut self, out: &mut Vec<i16>) {
        let (start, count) = (out.len(), self.frame());
        match self.lost {
            0 => {
                self.begin();
                out.extend((0..count).map(|_| self.repeat()));
            }
            1 | 2 => {
                let going = self.at..self.at + self.quarter.len();
                let before: Vec<i16> = going.map(|at| self.sample(at % self.length)).collect();
                self.lengthen();
                out.extend((0..count).map(|_| self.repeat()));
                let out = &mut out[start..];
                fade(before.len(), 1.0, |place, goes, comes| {
                    let sum = goes * f64::from(before[place]) + comes * f64::from(out[place]);
                    out[place] = sum as i16;
                });
            }
            3..SILENT => out.extend((0..count).map(|_| self.repeat())),
            _ => out.resize(start + count, 0),
        }
        if (1..SILENT).contains(&self.lost) {
            let mut gain = 1.0 - (self.lost - 1) as f64 * FADES;
            for sample in &mut out[start..] {
                *sample = (f64::from(*sample) * gain) as i16;
                gain -= FADES / count as f64;
            }
        }
        self.lost = self.lost.saturating_add(1).min(SILENT);
        self.delay(&mut out[start..]);
    }

    /// Moves `samples` into the history, and replaces them by the delayed output.
    fn delay(&mut self, samples: &mut [i16]) {
        let count = samples.len();
        let end = self.history.len();
        self.history.copy_within(count.., 0);
        self.history[end - count..].copy_from_slice(samples);
        let heard = end - count - SEAM * self.scale;
        samples.copy_from_slice(&self.history[heard..][..count]);
    }

    fn sample(&self, at: usize) -> i16 {
        self.cycle[self.cycle.len() - self.length + at] as i16
    }

    /// The next sample of the cycle.
    fn repeat(&mut self) -> i16 {
        let sample = self.sample(self.at);
        self.at = (self.at + 1) % self.length;
        sample
    }

    /// Finds the period, and builds the cycle from the last one. The delayed end of the history is
    /// blended into it.
    fn begin(&mut self) {
        self.cycle.clear();
        self.cycle.extend(self.history.iter().map(|&sample| f64::from(sample)));
        self.period = self.find_period();
        let seam = self.cycle.len() - self.period / 4;
        self.quarter.clear();
        self.quarter.extend_from_slice(&self.cycle[seam..]);
        self.length = self.period;
        self.at = 0;
        self.sew();
        for (heard, &sample) in self.history[seam..].iter_mut().zip(&self.cycle[seam..]) {
            *heard = sample as i16;
        }
    }

    /// Extends the cycle by a period, which avoids a tonal sound.
    fn lengthen(&mut self) {
        while self.at > self.period {
            self.at -= self.period;
        }
        self.length += self.period;
        self.sew();
    }

    /// Blends the end of the cycle into its beginning.
    fn sew(&mut self) {
        let count = self.quarter.len();
        let end = self.cycle.len() - count;
        let before = self.cycle.len() - self.length - count;
        fade(count, 1.0, |place, goes, comes| {
            let sum = goes * self.quarter[place] + comes * self.cycle[before + place];
            self.cycle[end + place] = sum.clamp(i16::MIN.into(), i16::MAX.into());
        });
    }

    /// Finds the pitch period: the lag at which the last 20 ms correlate best with the history.
    /// Coarse search with every second sample of 8000 per second, then every lag near the best.
    fn find_period(&self) -> usize {
        let coarse = 2 * self.scale;
        let lags = (LONGEST - SHORTEST) * self.scale;
        let best = self.best_match((0, lags), coarse, |found, best| found >= best);
        let near = (best.saturating_sub(coarse - 1), (best + coarse - 1).min(lags));
        LONGEST * self.scale - self.best_match(near, 1, |found, best| found > best)
    }

    /// The offset between `first` and `last`, after the longest period, at which the signal
    /// correlates best with the last 20 ms.
    fn best_match(
        &self,
        (first, last): (usize, usize),
        step: usize,
        is_better: impl Fn(f64, f64) -> bool,
    ) -> usize {
        let compared = COMPARED * self.scale;
        let end = &self.cycle[self.cycle.len() - compared..];
        let before = &self.cycle[self.cycle.len() - compared - LONGEST * self.scale..];
        let square = |place: usize| before[place] * before[place];
        let mut power: f64 = (first..first + compared).step_by(step).map(square).sum();
        let mut best = (first, f64::NEG_INFINITY);
        for place in (first..=last).step_by(step) {
            if place > first {
                power -= square(place - step);
                power += square(place - step + compared);
            }
            let pairs = end.iter().zip(&before[place..]).step_by(step);
            let likeness: f64 = pairs.map(|(one, other)| one * other).sum();
            let likeness = likeness / libm::sqrt(power.max(LEAST_POWER));
            if is_better(likeness, best.1) {
                best = (place, likeness);
            }
        }
        best.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus;
    use crate::tests::voice;

    fn words(name: &str) -> Option<Vec<i16>> {
        let bytes = corpus(&std::format!("codecs/itu-stl/g711iplc/test_data/{name}"))?;
        Some(bytes.as_chunks().0.iter().map(|&word| i16::from_le_bytes(word)).collect())
    }

    #[test]
    fn concealed_speech_equals_that_of_the_itu() {
        const LOST: i16 = 0x6b20;
        for (mask, output) in [("fe10.g192", "f2_10.raw"), ("fe10_2.g192", "f2_10_2.raw")] {
            let Some(input) = words("f2.le") else { return };
            let (mask, told) = (words(mask).unwrap(), words(output).unwrap());
            assert_eq!(mask.iter().filter(|&&word| word == LOST).count() * 10, mask.len());
            let mut concealment = Concealment::new(8000);
            let mut out = Vec::new();
            for (frame, &word) in input.chunks_exact(80).zip(mask.iter().cycle()) {
                if word == LOST {
                    concealment.conceal(&mut out);
                } else {
                    let mut frame = frame.to_vec();
                    concealment.pass(&mut frame);
                    out.extend(frame);
                }
            }
            let mut rest = [0; 80];
            concealment.pass(&mut rest);
            out.extend(rest);
            assert_eq!(out.len(), told.len() + 80);
            let differs = told.iter().zip(&out[SEAM..]).position(|(told, made)| told != made);
            assert_eq!(differs, None, "{output}");
        }
    }

    #[test]
    fn a_voice_continues_through_losses_and_recovers() {
        for rate in [8000, 16_000] {
            let input = voice(rate, 2.0);
            let mut concealment = Concealment::new(rate);
            let (frame, delay) = (concealment.frame(), SEAM * concealment.scale);
            let (mut out, mut wrong, mut lost) = (Vec::new(), 0.0, 0.0);
            let pairs = |one: &[i16], other: &[i16]| -> f64 {
                let pairs = one.iter().zip(other);
                pairs.map(|(&one, &other)| (f64::from(one) - f64::from(other)).powi(2)).sum()
            };
            for (number, samples) in input.chunks_exact(frame).enumerate() {
                if number % 10 == 9 {
                    concealment.conceal(&mut out);
                } else {
                    let mut samples = samples.to_vec();
                    concealment.pass(&mut samples);
                    out.extend(samples);
                }
            }
            assert_eq!(out.len(), input.len());
            for number in (9..190).step_by(10) {
                let right = &input[number * frame..][..frame];
                wrong += pairs(right, &out[number * frame + delay..]);
                lost += pairs(right, &vec![0; frame]);
                // Half a frame later the output equals the input.
                let after = (number + 1) * frame + frame / 2;
                assert_eq!(input[after..][..frame], out[after + delay..][..frame], "{rate}");
            }
            assert!(wrong < 0.3 * lost, "{rate}: {wrong} {lost}");
        }
    }

    #[test]
    fn a_long_loss_becomes_silent() {
        let mut concealment = Concealment::new(8000);
        concealment.pass(&mut voice(8000, 1.0));
        let mut out = Vec::new();
        (0..1000).for_each(|_| concealment.conceal(&mut out));
        assert!(out[..400].iter().any(|&sample| sample != 0));
        assert!(out[600..].iter().all(|&sample| sample == 0));
    }
}
