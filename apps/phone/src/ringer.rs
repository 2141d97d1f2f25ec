//! Ringing and ringback tones.

use crate::call::Stage;
use media::tone::Tone;
use std::time::Duration;

/// Amplitude of both: 18 dB below full scale.
const LOUDNESS: i16 = 4_000;

/// The generator of the tones.
pub(crate) struct Ringer {
    /// Ringing here: two alternating tones.
    bell: [Tone; 2],
    /// Ringback: the remote end rings (ITU-T E.180: 425 Hz).
    ringback: Tone,
}

impl Ringer {
    /// A generator for samples at `rate` hertz.
    pub(crate) fn new(rate: u32) -> Self {
        let tone = |hertz| Tone::new(hertz, rate, LOUDNESS);
        Self { bell: [tone(440.0), tone(587.0)], ringback: tone(425.0) }
    }

    /// Adds the tone of a call that has been at `stage` for `since` to `mix`.
    pub(crate) fn ring(&mut self, stage: Stage, since: Duration, mix: &mut [i32]) {
        let millis = since.as_millis();
        let tone = match stage {
            // One second of three, in pieces of 50 ms.
            Stage::RingingHere if millis % 3000 < 1000 => {
                &mut self.bell[(millis / 50 % 2) as usize]
            }
            // One second of five.
            Stage::Ringing if millis % 5000 < 1000 => &mut self.ringback,
            _ => return,
        };
        let mut samples = Vec::with_capacity(mix.len());
        tone.fill(mix.len(), &mut samples);
        mix.iter_mut().zip(samples).for_each(|(sum, sample)| *sum += i32::from(sample));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rings_and_pauses() {
        let mut ringer = Ringer::new(16_000);
        let mut loud = |stage, millis| {
            let mut mix = [0; 320];
            ringer.ring(stage, Duration::from_millis(millis), &mut mix);
            mix.iter().any(|sample| sample.abs() > 3_000)
        };
        assert!(loud(Stage::RingingHere, 500) && !loud(Stage::RingingHere, 1500));
        assert!(loud(Stage::Ringing, 5500) && !loud(Stage::Ringing, 4500));
        assert!(!loud(Stage::Talking, 0) && !loud(Stage::Calling, 0));
    }
}
