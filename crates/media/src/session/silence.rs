//! Silence suppression: comfort noise descriptions replace silent frames (RFC 3389).
//!
//! A loud frame never counts as silence, be it speech, music or a tone. A quieter frame is silence
//! if it is at most slightly louder than the quietest recent frame, which is the background noise.

use alloc::collections::VecDeque;

/// Levels, as mean squares. A frame above -35 dBFS is always sound, a frame below -65 dBFS always
/// silence.
const LOUD: f64 = 170_000.0;
const QUIET: f64 = 170.0;
/// The ratio of sound to background noise: 6 dB.
const ABOVE: f64 = 4.0;
/// The number of frames from which the background noise is taken: 2 s.
const MEMORY: usize = 100;
/// The number of frames sent after the last sound, so that the end of a word is not cut: 200 ms.
const HANGOVER: usize = 10;
/// The interval of the noise descriptions in frames: 400 ms.
const REPEAT: usize = 20;
/// The mean square of 0 dBov, the reference of the levels in RFC 3389.
const OVERLOAD: f64 = 32_768.0 * 32_768.0;

/// The classifier of silence and sound.
#[derive(Clone, Debug, Default)]
pub(super) struct Silence {
    /// The powers of the last frames, the newest last.
    powers: VecDeque<f64>,
    /// Frames since the last sound.
    since: usize,
}

/// The treatment of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The frame is sent.
    Sound,
    /// A description of comfort noise is sent instead, with this level in -dBov.
    ComfortNoise(u8),
    /// Nothing is sent.
    Nothing,
}

impl Silence {
    /// Returns the treatment of a frame with these samples.
    pub(super) fn judge(&mut self, samples: &[i16]) -> Verdict {
        let squares = samples.iter().map(|&sample| f64::from(sample) * f64::from(sample));
        let power = squares.sum::<f64>() / samples.len().max(1) as f64;
        if self.powers.len() == MEMORY {
            self.powers.pop_front();
        }
        self.powers.push_back(power);
        let quietest = self.powers.iter().copied().fold(f64::INFINITY, f64::min);
        let is_sound = power > LOUD || power > ABOVE * quietest.max(QUIET);
        self.since = if is_sound { 0 } else { self.since.saturating_add(1) };
        match self.since.checked_sub(HANGOVER + 1) {
            None => Verdict::Sound,
            Some(silent) if silent % REPEAT == 0 => Verdict::ComfortNoise(self.level()),
            Some(_) => Verdict::Nothing,
        }
    }

    /// Returns the level of the last frames, in -dBov.
    fn level(&self) -> u8 {
        let last = self.powers.iter().rev().take(HANGOVER);
        let power = last.sum::<f64>() / HANGOVER as f64;
        let below = -10.0 * libm::log10(power.max(1e-9) / OVERLOAD);
        libm::round(below).clamp(0.0, 127.0) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{address, at, sessions};
    use super::*;
    use crate::negotiation::Security;
    use crate::session::FRAME;
    use crate::tone::{Tone, amplitude_of};
    use alloc::vec;
    use alloc::vec::Vec;

    /// Frames of noise with a highest sample of `highest`.
    fn noise(highest: i32) -> impl FnMut() -> Vec<i16> {
        let mut state = 1_u32;
        move || {
            let sample = |_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (((state >> 16) as i32 - 32_768) * highest / 32_768) as i16
            };
            (0..160).map(sample).collect()
        }
    }

    #[test]
    fn what_is_loud_or_louder_than_the_place_is_sound() {
        let mut silence = Silence::default();
        // Background noise, 51 dB below the loudest.
        let mut place = noise(160);
        let mut verdicts: Vec<_> = (0..100).map(|_| silence.judge(&place())).collect();
        assert!(verdicts[..HANGOVER].iter().all(|verdict| *verdict == Verdict::Sound));
        verdicts.drain(..HANGOVER);
        let told =
            verdicts.iter().filter(|verdict| matches!(verdict, Verdict::ComfortNoise(50..=52)));
        assert_eq!(told.count(), 5, "{verdicts:?}");
        assert!(!verdicts.contains(&Verdict::Sound));
        // Soft speech is sent, and some frames after it.
        let mut speech = noise(500);
        assert_eq!(silence.judge(&speech()), Verdict::Sound);
        let after: Vec<_> = (0..HANGOVER + 1).map(|_| silence.judge(&place())).collect();
        assert!(after[..HANGOVER].iter().all(|verdict| *verdict == Verdict::Sound));
        assert!(matches!(after[HANGOVER], Verdict::ComfortNoise(_)), "{after:?}");
        // A tone is sent for its whole duration.
        let mut tone = Tone::new(440.0, 8000, 4000);
        for _ in 0..1000 {
            let mut samples = Vec::new();
            tone.fill(160, &mut samples);
            assert_eq!(silence.judge(&samples), Verdict::Sound);
        }
    }

    #[test]
    fn silence_is_not_sent_and_is_heard_as_soft_noise() {
        let mut sessions = sessions(Security::Required);
        sessions[0].suppress_silence();
        let (mut place, mut tone) = (noise(300), Tone::new(1000.0, 8000, 8000));
        let (mut played, mut sent) = (Vec::new(), Vec::new());
        for frame in 0..300 {
            let (mut samples, mut packet) = (Vec::new(), Vec::new());
            match frame {
                0..100 | 250.. => tone.fill(160, &mut samples),
                _ => samples = place(),
            }
            if let Some(to) = sessions[0].send(&samples, &mut packet).unwrap() {
                assert_eq!(to, address(1));
                sent.push(frame);
                sessions[1].receive(at(frame), address(0), &mut packet);
            }
            sessions[1].play(at(frame) + FRAME * 3 / 4, &mut played);
        }
        let silent = sent.iter().filter(|frame| (110..250).contains(*frame)).count();
        assert_eq!(silent, 7, "{sent:?}");
        assert_eq!(sent.iter().filter(|frame| !(110..250).contains(*frame)).count(), 160);
        let level = |from: usize, to: usize| {
            let part = &played[from * 160..to * 160];
            let power = part.iter().map(|&sample| f64::from(sample).powi(2)).sum::<f64>();
            (power / part.len() as f64).sqrt()
        };
        let expected = 300.0 / 3.0_f64.sqrt();
        let heard = level(150, 240);
        assert!((heard / expected - 1.0).abs() < 0.2, "{heard} for {expected}");
        for part in [20..100, 270..300] {
            let samples = &played[part.start * 160..part.end * 160];
            let level = amplitude_of(1000.0, 8000, samples);
            assert!((level - 8000.0).abs() < 600.0, "{part:?}: {level}");
        }
        let statistics = sessions[1].statistics();
        assert_eq!((statistics.lost(), statistics.refused), (0, 0));
    }

    #[test]
    fn a_peer_that_knows_no_noise_gets_all() {
        let mut sessions = sessions(Security::Off);
        sessions[0].suppress_silence();
        sessions[0].stream.noise = None;
        let mut packet = vec![];
        for _ in 0..100 {
            assert_eq!(sessions[0].send(&[0; 160], &mut packet).unwrap(), Some(address(1)));
        }
    }
}
