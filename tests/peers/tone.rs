//! Detection of tones in recordings.

use std::f64::consts::TAU;
use std::path::Path;

/// The length of a window. Jitter buffers on busy machines insert and drop samples, which shifts
/// the phase of a tone. Short windows are more robust than one long transform.
const WINDOW_MS: u32 = 40;
/// The share of a window's energy from which it contains the tone.
const SHARE: f64 = 0.7;
/// The mean square below which a window is silent.
const SILENCE: f64 = 100.0 * 100.0;

/// A recording of one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The sample rate in Hz.
    pub rate: u32,
    /// The samples of one channel.
    pub samples: Vec<i16>,
}

impl Recording {
    /// Reads a WAV file, see [`from_wav`](Self::from_wav).
    #[must_use]
    pub fn read(path: &Path) -> Option<Self> {
        Self::from_wav(&std::fs::read(path).ok()?)
    }

    /// Parses a WAV file with 16-bit samples, and returns its first channel. The sizes in the
    /// header are ignored, because the file may be incomplete. Returns `None` without samples.
    #[must_use]
    pub fn from_wav(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize, size: usize| {
            let field = bytes.get(at..at + size)?;
            Some(field.iter().rev().fold(0_u32, |value, &byte| value << 8 | u32::from(byte)))
        };
        let (mut at, mut format) = (12, None);
        loop {
            let (name, size) = (bytes.get(at..at + 4)?, number(at + 4, 4)?);
            match name {
                b"fmt " => {
                    format = Some((number(at + 10, 2)?, number(at + 12, 4)?, number(at + 22, 2)?));
                }
                b"data" => break,
                _ => (),
            }
            at += 8 + usize::try_from(size).ok()?;
        }
        let (channels, rate, bits) = format?;
        if bits != 16 {
            return None;
        }
        Self::from_raw(bytes.get(at + 8..)?, usize::try_from(channels).ok()?, rate)
    }

    /// Parses raw 16-bit samples with `channels` channels, and returns the first channel.
    #[must_use]
    pub fn from_raw(bytes: &[u8], channels: usize, rate: u32) -> Option<Self> {
        let frames = bytes.chunks_exact(2 * channels.max(1));
        let samples: Vec<i16> =
            frames.map(|frame| i16::from_le_bytes([frame[0], frame[1]])).collect();
        (!samples.is_empty()).then_some(Self { rate, samples })
    }

    /// Appends `next`, at the sample rate of this recording: samples are repeated or left out.
    pub fn append(&mut self, next: &Self) {
        let [to, from] = [self.rate, next.rate].map(u64::from);
        let count = next.samples.len() as u64 * to / from.max(1);
        self.samples.extend((0..count).map(|at| next.samples[(at * from / to) as usize]));
    }

    /// The duration in milliseconds of a tone of `hertz` without other sounds.
    #[must_use]
    pub fn tone_ms(&self, hertz: u32) -> u32 {
        let held = self.windows_with(hertz).count();
        u32::try_from(held).unwrap_or(u32::MAX).saturating_mul(WINDOW_MS)
    }

    /// The duration in milliseconds of all of these tones at the same time, with little other
    /// sound.
    #[must_use]
    pub fn chord_ms(&self, hertz: &[u32]) -> u32 {
        let length = usize::try_from(self.rate * WINDOW_MS / 1000).unwrap_or(usize::MAX);
        let held = self.samples.chunks_exact(length.max(1)).filter(|window| {
            let shares = hertz.iter().map(|hertz| tone_share(window, *hertz, self.rate));
            let shares: Vec<f64> = shares.collect();
            let least = SHARE / (2.0 * shares.len() as f64);
            shares.iter().all(|share| *share > least) && shares.iter().sum::<f64>() > SHARE
        });
        u32::try_from(held.count()).unwrap_or(u32::MAX).saturating_mul(WINDOW_MS)
    }

    /// The amplitude of a tone of `hertz`: the median over all windows with it. `None` if there are
    /// none.
    #[must_use]
    pub fn loudness_of(&self, hertz: u32) -> Option<f64> {
        let mean_square = |window: &[i16]| {
            window.iter().map(|&sample| f64::from(sample).powi(2)).sum::<f64>()
                / window.len() as f64
        };
        let mut found: Vec<f64> = self.windows_with(hertz).map(mean_square).collect();
        found.sort_by(f64::total_cmp);
        found.get(found.len() / 2).map(|square| (2.0 * square).sqrt())
    }

    fn windows_with(&self, hertz: u32) -> impl Iterator<Item = &[i16]> {
        let length = usize::try_from(self.rate * WINDOW_MS / 1000).unwrap_or(usize::MAX);
        let windows = self.samples.chunks_exact(length.max(1));
        windows.filter(move |window| contains_tone(window, hertz, self.rate))
    }
}

/// The amplitude of the tones of [`write_tone`].
pub const WRITTEN_LOUDNESS: f64 = 12_000.0;

/// Writes a WAV file with `seconds` of a tone of `hertz` at 8000 samples per second.
///
/// # Panics
/// The file cannot be written.
pub fn write_tone(path: &Path, hertz: u32, seconds: u32) {
    let samples = sine(hertz, 8000, seconds * 1000, WRITTEN_LOUDNESS);
    std::fs::write(path, wav(8000, 1, &samples))
        .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

/// Writes a WAV file with `seconds` of noise that varies in level three times per second, like
/// speech, at 8000 samples per second.
///
/// # Panics
/// The file cannot be written.
pub fn write_swelling_noise(path: &Path, seconds: u32) {
    let mut state = 1_u32;
    let sample = |at: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let swell = (TAU * 3.0 * f64::from(at) / 8000.0).sin().max(0.0);
        let noise = f64::from(state >> 16) / 32_768.0 - 1.0;
        (WRITTEN_LOUDNESS * swell * noise) as i16
    };
    let samples: Vec<i16> = (0..8000 * seconds).map(sample).collect();
    std::fs::write(path, wav(8000, 1, &samples))
        .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

fn sine(hertz: u32, rate: u32, ms: u32, loudness: f64) -> Vec<i16> {
    (0..rate * ms / 1000)
        .map(|n| f64::from(n) * f64::from(hertz) / f64::from(rate) * TAU)
        .map(|phase| (loudness * phase.sin()) as i16)
        .collect()
}

fn wav(rate: u32, channels: u16, samples: &[i16]) -> Vec<u8> {
    let data: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    let size = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut bytes = b"RIFF".to_vec();
    bytes.extend((size + 36).to_le_bytes());
    bytes.extend(b"WAVEfmt \x10\0\0\0\x01\0");
    bytes.extend(channels.to_le_bytes());
    bytes.extend(rate.to_le_bytes());
    bytes.extend((rate * u32::from(channels) * 2).to_le_bytes());
    bytes.extend((channels * 2).to_le_bytes());
    bytes.extend(b"\x10\0data");
    bytes.extend(size.to_le_bytes());
    bytes.extend(data);
    bytes
}

/// Returns true if most of the energy of `window` is at `hertz`.
fn contains_tone(window: &[i16], hertz: u32, rate: u32) -> bool {
    tone_share(window, hertz, rate) > SHARE
}

/// The share of the energy of `window` that is at `hertz` (Goertzel's algorithm). Zero for a silent
/// window.
fn tone_share(window: &[i16], hertz: u32, rate: u32) -> f64 {
    let factor = 2.0 * (TAU * f64::from(hertz) / f64::from(rate)).cos();
    let (mut last, mut before, mut energy) = (0.0, 0.0, 0.0);
    for &sample in window {
        let sample = f64::from(sample);
        energy += sample * sample;
        (last, before) = (sample + factor * last - before, last);
    }
    let length = window.len() as f64;
    let at_tone = 2.0 * (last * last + before * before - factor * last * before) / length;
    if energy / length > SILENCE { at_tone / energy } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_is_distinguished_from_others() {
        let recording = Recording { rate: 8000, samples: sine(440, 8000, 2000, 8000.0) };
        assert_eq!(recording.tone_ms(440), 2000);
        assert_eq!(recording.tone_ms(1000), 0);
    }

    #[test]
    fn two_tones_at_the_same_time_are_found_and_a_third_one_disturbs() {
        let mix = |tones: &[u32]| {
            let mut samples = sine(tones[0], 8000, 2000, 4000.0);
            for hertz in &tones[1..] {
                let other = sine(*hertz, 8000, 2000, 4000.0);
                samples.iter_mut().zip(other).for_each(|(sum, sample)| *sum += sample);
            }
            Recording { rate: 8000, samples }
        };
        assert_eq!(mix(&[440, 1000]).chord_ms(&[440, 1000]), 2000);
        assert_eq!(mix(&[440]).chord_ms(&[440, 1000]), 0);
        assert_eq!(mix(&[440, 1000, 620]).chord_ms(&[440, 1000]), 0);
    }

    #[test]
    fn the_amplitude_of_a_tone_is_measured() {
        let mut samples = sine(440, 8000, 1000, 8000.0);
        samples.extend(sine(440, 8000, 200, 1000.0));
        let recording = Recording { rate: 8000, samples };
        let loudness = recording.loudness_of(440).expect("the recording contains the tone");
        assert!((loudness - 8000.0).abs() < 200.0, "{loudness}");
        assert_eq!(recording.loudness_of(1000), None);
    }

    #[test]
    fn silence_contains_no_tone() {
        let recording = Recording { rate: 8000, samples: sine(440, 8000, 2000, 20.0) };
        assert_eq!(recording.tone_ms(440), 0);
    }

    #[test]
    fn a_tone_in_half_of_a_recording_is_found() {
        let mut samples = sine(1000, 16000, 1000, 3000.0);
        samples.extend(sine(440, 16000, 1000, 3000.0));
        assert_eq!(Recording { rate: 16000, samples }.tone_ms(440), 1000);
    }

    #[test]
    fn a_tone_is_found_after_a_recording_of_another_rate() {
        let recording = |rate| Recording { rate, samples: sine(620, rate, 1000, 8000.0) };
        for rates in [[8000, 16_000], [16_000, 8000], [8000, 48_000], [48_000, 44_100]] {
            let [mut first, second] = rates.map(recording);
            first.append(&second);
            assert_eq!(first.tone_ms(620), 2000, "{rates:?}");
        }
    }

    #[test]
    fn a_file_with_an_incomplete_header_is_read() {
        let samples = sine(440, 8000, 100, 8000.0);
        let mut bytes = wav(8000, 1, &samples);
        bytes.splice(36..36, *b"LIST\x02\0\0\0xx");
        bytes[50..54].fill(0);
        let read = Recording::from_wav(&bytes).expect("the file has samples");
        assert_eq!(read, Recording { rate: 8000, samples });
    }

    #[test]
    fn the_first_channel_is_read() {
        let read =
            Recording::from_wav(&wav(8000, 2, &[1, -1, 2, -2, 3])).expect("the file has samples");
        assert_eq!(read.samples, [1, 2]);
    }

    #[test]
    fn a_file_without_samples_is_rejected() {
        let whole = wav(8000, 1, &[7]);
        for end in 0..whole.len() {
            assert_eq!(Recording::from_wav(&whole[..end]), None, "{end} bytes");
        }
    }
}
