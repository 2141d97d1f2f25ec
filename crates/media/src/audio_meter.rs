//! A meter of the audio of a call. It receives all played samples.
//!
//! It evaluates windows of 100 ms. Levels are in dBFS: 0 is the loudest possible sine, and lower
//! levels are negative.

use crate::tone::amplitude_of;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

/// The duration of an evaluated window.
const WINDOW: Duration = Duration::from_millis(100);
/// The level below which audio counts as silence. Comfort noise is below it, and so is encoded
/// silence of G.711.
pub const SILENCE_DBFS: f64 = -50.0;
/// The share of the power that a tone needs to be detected. A dial tone has half of its power at
/// 350 Hz and half at 440 Hz.
const TONE_SHARE: f64 = 0.25;
/// The maximum number of stored keys, which bounds the memory.
const MAX_KEYS: usize = 256;
/// The mean square of the loudest sine.
const FULL_SCALE: f64 = 32_768.0 * 32_768.0 / 2.0;

/// The duration of a condition without interruption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The current duration.
    pub now: Duration,
    /// The longest duration.
    pub longest: Duration,
}

impl Run {
    fn note(&mut self, is_heard: bool) {
        self.now = if is_heard { self.now + WINDOW } else { Duration::ZERO };
        self.longest = self.longest.max(self.now);
    }
}

/// A tone to detect, with its results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Listened {
    /// Its frequency in hertz.
    pub hertz: f64,
    /// The duration of its detection.
    pub run: Run,
    /// Its highest level in dBFS. `None` if the frequency was absent.
    pub dbfs: Option<f64>,
}

/// The meter.
#[derive(Clone, Debug, Default)]
pub struct AudioMeter {
    tones: Vec<Listened>,
    audio: Run,
    silence: Run,
    keys: String,
    rate: u32,
    window: Vec<i16>,
    windows: u64,
    /// The sum and the maximum of the mean squares of the windows.
    power: f64,
    highest: f64,
}

impl AudioMeter {
    /// Adds a tone of `hertz` to detect from now on.
    pub fn listen_for(&mut self, hertz: f64) {
        if self.tone(hertz).is_none() {
            self.tones.push(Listened { hertz, run: Run::default(), dbfs: None });
        }
    }

    /// Evaluates `samples` with a sample rate of `rate` hertz.
    pub fn hear(&mut self, rate: u32, samples: &[i16]) {
        if rate != self.rate {
            self.rate = rate;
            self.window.clear();
        }
        let length = (rate as usize / 10).max(1);
        for &sample in samples {
            self.window.push(sample);
            if self.window.len() == length {
                self.judge();
                self.window.clear();
            }
        }
    }

    fn judge(&mut self) {
        let squares = self.window.iter().map(|&sample| f64::from(sample) * f64::from(sample));
        let power = squares.sum::<f64>() / self.window.len() as f64;
        self.windows += 1;
        self.power += power;
        self.highest = self.highest.max(power);
        let is_audio = dbfs(power).is_some_and(|level| level > SILENCE_DBFS);
        self.audio.note(is_audio);
        self.silence.note(!is_audio);
        for tone in &mut self.tones {
            if tone.hertz >= f64::from(self.rate) / 2.0 {
                // A frequency above half of the sample rate would alias to another one.
                tone.run.note(false);
                continue;
            }
            let amplitude = amplitude_of(tone.hertz, self.rate, &self.window);
            let of_tone = amplitude * amplitude / 2.0;
            tone.run.note(is_audio && of_tone > TONE_SHARE * power);
            let level = dbfs(of_tone);
            if level > tone.dbfs {
                tone.dbfs = level;
            }
        }
    }

    /// Stores a key that the other end has pressed.
    pub fn hear_key(&mut self, key: char) {
        if self.keys.len() < MAX_KEYS {
            self.keys.push(key);
        }
    }

    /// Resets all results. The tones to detect stay.
    pub fn forget(&mut self) {
        let tones = core::mem::take(&mut self.tones);
        *self = Self::default();
        tones.into_iter().for_each(|tone| self.listen_for(tone.hertz));
    }

    /// Returns the results of a tone to detect.
    #[must_use]
    pub fn tone(&self, hertz: f64) -> Option<Listened> {
        self.tones.iter().copied().find(|tone| tone.hertz == hertz)
    }

    /// Returns all tones to detect.
    #[must_use]
    pub fn tones(&self) -> &[Listened] {
        &self.tones
    }

    /// Returns the duration of audio.
    #[must_use]
    pub const fn audio(&self) -> Run {
        self.audio
    }

    /// Returns the duration of silence.
    #[must_use]
    pub const fn silence(&self) -> Run {
        self.silence
    }

    /// Returns the keys that the other end has pressed.
    #[must_use]
    pub fn keys(&self) -> &str {
        &self.keys
    }

    /// Returns the mean level in dBFS. `None` if all samples were zero.
    #[must_use]
    pub fn mean_dbfs(&self) -> Option<f64> {
        dbfs(self.power / self.windows.max(1) as f64)
    }

    /// Returns the level of the loudest window in dBFS. `None` if all samples were zero.
    #[must_use]
    pub fn loudest_dbfs(&self) -> Option<f64> {
        dbfs(self.highest)
    }
}

fn dbfs(power: f64) -> Option<f64> {
    (power > 0.0).then(|| 10.0 * libm::log10(power / FULL_SCALE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tone::Tone;

    fn tone(hertz: f64, rate: u32, amplitude: i16, millis: u32) -> Vec<i16> {
        let mut samples = Vec::new();
        Tone::new(hertz, rate, amplitude).fill((rate * millis / 1000) as usize, &mut samples);
        samples
    }

    #[test]
    fn a_tone_is_heard_at_its_level_and_for_as_long_as_it_sounds() {
        for rate in [8000, 16_000, 48_000] {
            let mut ear = AudioMeter::default();
            ear.listen_for(1000.0);
            ear.listen_for(440.0);
            for samples in [tone(1000.0, rate, 16_384, 500), [0; 160].repeat(50)] {
                samples.chunks(160).for_each(|chunk| ear.hear(rate, chunk));
            }
            let heard = ear.tone(1000.0).unwrap();
            assert_eq!(heard.run.longest, Duration::from_millis(500), "{rate}");
            assert_eq!(heard.run.now, Duration::ZERO);
            let level = heard.dbfs.unwrap();
            assert!((level + 6.02).abs() < 0.1, "{level}");
            assert_eq!(ear.tone(440.0).unwrap().run.longest, Duration::ZERO);
            assert_eq!(ear.audio().longest, Duration::from_millis(500));
            assert!(ear.silence().now >= Duration::from_millis(100));
            assert!((ear.loudest_dbfs().unwrap() + 6.02).abs() < 0.1);
            assert!(ear.mean_dbfs() < ear.loudest_dbfs());
        }
    }

    #[test]
    fn both_tones_of_a_dial_tone_are_heard_and_none_in_noise() {
        let (low, high) = (tone(350.0, 8000, 8000, 1000), tone(440.0, 8000, 8000, 1000));
        let both: Vec<i16> = low.iter().zip(&high).map(|(low, high)| low + high).collect();
        let mut state = 1_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 18) as i16
        };
        let noise: Vec<i16> = (0..8000).map(|_| noise() - 8192).collect();
        for (samples, is_there) in [(both, true), (noise, false)] {
            let mut ear = AudioMeter::default();
            [350.0, 440.0].into_iter().for_each(|hertz| ear.listen_for(hertz));
            ear.hear(8000, &samples);
            for heard in ear.tones() {
                assert_eq!(heard.run.longest >= Duration::from_millis(200), is_there, "{heard:?}");
            }
            assert_eq!(ear.audio().longest, Duration::from_secs(1));
        }
    }

    #[test]
    fn a_tone_that_the_rate_does_not_carry_is_not_heard() {
        for (rate, is_there) in [(8000, false), (16_000, true)] {
            let mut ear = AudioMeter::default();
            ear.listen_for(5000.0);
            // The alias of 5000 Hz at 8000 samples a second, and 5000 Hz itself.
            let hertz = if is_there { 5000.0 } else { 3000.0 };
            ear.hear(rate, &tone(hertz, rate, 16_384, 500));
            assert_eq!(ear.tones()[0].run.longest > Duration::ZERO, is_there, "{rate}");
            assert_eq!(ear.tones()[0].dbfs.is_some(), is_there, "{rate}");
        }
    }

    #[test]
    fn what_is_nearly_nothing_is_silence() {
        let mut ear = AudioMeter::default();
        ear.hear(8000, &[8; 8000]);
        assert_eq!(ear.silence().now, Duration::from_secs(1));
        assert_eq!(ear.audio(), Run::default());
        assert!(ear.loudest_dbfs().unwrap() < -65.0);
        let mut deaf = AudioMeter::default();
        deaf.hear(8000, &[0; 8000]);
        assert_eq!((deaf.loudest_dbfs(), deaf.mean_dbfs()), (None, None));
    }

    #[test]
    fn keys_are_remembered_until_they_are_forgotten() {
        let mut ear = AudioMeter::default();
        ear.listen_for(440.0);
        (0..2 * MAX_KEYS).for_each(|_| ear.hear_key('1'));
        assert_eq!(ear.keys().len(), MAX_KEYS);
        ear.forget();
        assert_eq!((ear.keys(), ear.tones().len()), ("", 1));
    }
}
