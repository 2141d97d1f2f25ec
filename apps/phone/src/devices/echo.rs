//! Acoustic echo cancellation: removes the speaker's sound from the microphone's signal, so that
//! the other end does not hear itself.

use super::frame::RATE;
use sonora::config::EchoCanceller;
use sonora::{AudioProcessing, Config, StreamConfig};

/// Samples in a piece of 10 ms.
const PIECE: usize = RATE as usize / 100;

/// The echo canceller. It estimates the delay of the echo, up to half a second, and adapts to a
/// room within some seconds of sound.
pub(super) struct Canceller {
    engine: AudioProcessing,
    piece: [i16; PIECE],
}

impl Canceller {
    pub(super) fn new() -> Self {
        let config = Config { echo_canceller: Some(EchoCanceller::default()), ..Config::default() };
        let stream = StreamConfig::new(RATE, 1);
        let engine = AudioProcessing::builder()
            .config(config)
            .capture_config(stream)
            .render_config(stream)
            .build();
        Self { engine, piece: [0; PIECE] }
    }

    /// Passes `samples` that the speaker plays, in whole pieces of 10 ms.
    pub(super) fn plays(&mut self, samples: &[i16]) {
        for played in samples.as_chunks::<PIECE>().0 {
            // The processed output equals the input.
            let _ = self.engine.process_render_i16(played, &mut self.piece);
        }
    }

    /// Removes the echo from the microphone's samples, in whole pieces of 10 ms.
    pub(super) fn clean(&mut self, samples: &mut [i16]) {
        for heard in samples.as_chunks_mut::<PIECE>().0 {
            if self.engine.process_capture_i16(heard, &mut self.piece).is_ok() {
                *heard = self.piece;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// A speech-like signal: noise that comes and goes a few times a second.
    struct Voice {
        state: u32,
        at: usize,
        /// Bursts per second.
        pace: f64,
        last: f64,
    }

    impl Voice {
        fn new(seed: u32, pace: f64) -> Self {
            Self { state: seed, at: 0, pace, last: 0.0 }
        }

        fn frame(&mut self, loudness: f64) -> Vec<i16> {
            let sample = |_| {
                self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let noise = f64::from(self.state >> 16) / 32_768.0 - 1.0;
                // Low-pass filtered, as voices are.
                self.last = 0.7 * self.last + 0.3 * noise;
                self.at += 1;
                let time = self.at as f64 / f64::from(RATE);
                let swell = (std::f64::consts::TAU * self.pace * time).sin().max(0.0);
                (loudness * swell * self.last) as i16
            };
            (0..2 * PIECE).map(sample).collect()
        }
    }

    /// The echo path from a speaker to a microphone.
    struct Room {
        line: VecDeque<i16>,
    }

    impl Room {
        fn new(millis: usize) -> Self {
            Self { line: vec![0; millis * RATE as usize / 1000].into() }
        }

        /// A third as loud, with a reflection 7 ms later.
        fn echo(&mut self, played: &[i16]) -> Vec<i16> {
            let later = 7 * RATE as usize / 1000;
            self.line.extend(played);
            let echo = (0..played.len())
                .map(|at| {
                    let first = i32::from(self.line[at + later]);
                    ((first + i32::from(self.line[at]) / 2) / 3) as i16
                })
                .collect();
            self.line.drain(..played.len());
            echo
        }
    }

    fn power(samples: &[i16]) -> f64 {
        samples.iter().map(|&sample| f64::from(sample).powi(2)).sum()
    }

    /// In a room with an echo delay of `millis`: the attenuation of the echo in decibels of power,
    /// and that of a local speaker while nothing is played.
    fn losses(millis: usize) -> (f64, f64) {
        let (mut canceller, mut room) = (Canceller::new(), Room::new(millis));
        let (mut far, mut near) = (Voice::new(1, 3.0), Voice::new(7, 2.2));
        let decibels = |heard: f64, left: f64| 10.0 * (heard / left.max(1.0)).log10();
        let (mut heard, mut left) = (0.0, 0.0);
        for frame in 0..50 * 12 {
            let played = far.frame(20_000.0);
            let mut samples = room.echo(&played);
            // In the order of a phone: capture first, then play.
            let echo = power(&samples);
            canceller.clean(&mut samples);
            canceller.plays(&played);
            if frame >= 50 * 6 {
                (heard, left) = (heard + echo, left + power(&samples));
            }
        }
        let of_echo = decibels(heard, left);
        let (mut heard, mut left) = (0.0, 0.0);
        for frame in 0..50 * 4 {
            let played = [0; 2 * PIECE];
            let said = near.frame(12_000.0);
            let pairs = room.echo(&played).into_iter().zip(said);
            let mut samples: Vec<i16> = pairs.map(|(echo, said)| echo + said).collect();
            let before = power(&samples);
            canceller.clean(&mut samples);
            canceller.plays(&played);
            if frame >= 50 {
                (heard, left) = (heard + before, left + power(&samples));
            }
        }
        (of_echo, decibels(heard, left))
    }

    #[test]
    fn an_echo_is_removed_and_near_speech_is_kept() {
        for millis in [40, 150] {
            let (of_echo, of_speech) = losses(millis);
            assert!(of_echo > 20.0, "{millis} ms: the echo is {of_echo} dB quieter");
            assert!(of_speech < 3.0, "{millis} ms: speech is {of_speech} dB quieter");
        }
    }
}
