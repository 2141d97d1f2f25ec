//! A queue of sounds and tones that are played one after the other.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use media::tone::Tone;

/// The peak value of tones: 15 dB below the loudest.
const LOUDNESS: i16 = 5800;

enum Piece {
    Samples { samples: Arc<[i16]>, at: usize },
    Tone { tone: Tone, left: usize },
    Silence { left: usize },
}

/// A queue of sounds at one sample rate.
pub(crate) struct Player {
    rate: u32,
    pieces: VecDeque<Piece>,
}

impl Player {
    /// An empty queue at `rate` hertz.
    pub(crate) const fn new(rate: u32) -> Self {
        Self { rate, pieces: VecDeque::new() }
    }

    /// Appends `samples`, which have the rate of this player.
    pub(crate) fn samples(&mut self, samples: Arc<[i16]>) -> &mut Self {
        self.pieces.push_back(Piece::Samples { samples, at: 0 });
        self
    }

    /// Appends a tone of `hertz`.
    pub(crate) fn tone(&mut self, hertz: f64, millis: usize) -> &mut Self {
        let tone = Tone::new(hertz, self.rate, LOUDNESS);
        self.pieces.push_back(Piece::Tone { tone, left: self.count(millis) });
        self
    }

    /// Appends silence.
    pub(crate) fn pause(&mut self, millis: usize) -> &mut Self {
        self.pieces.push_back(Piece::Silence { left: self.count(millis) });
        self
    }

    /// Appends the tones of a failure.
    pub(crate) fn failure(&mut self) -> &mut Self {
        for _ in 0..4 {
            self.tone(480.0, 250).pause(250);
        }
        self
    }

    /// Removes all sounds.
    pub(crate) fn stop(&mut self) {
        self.pieces.clear();
    }

    /// True if all sounds were played.
    pub(crate) fn is_done(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Appends the next `count` samples to `out`, with silence after the last sound.
    pub(crate) fn fill(&mut self, count: usize, out: &mut Vec<i16>) {
        let end = out.len() + count;
        while let Some(piece) = self.pieces.front_mut() {
            let wanted = end - out.len();
            let is_over = match piece {
                Piece::Samples { samples, at } => {
                    let taken = &samples[*at..samples.len().min(*at + wanted)];
                    out.extend_from_slice(taken);
                    *at += taken.len();
                    *at == samples.len()
                }
                Piece::Tone { tone, left } => {
                    let taken = wanted.min(*left);
                    tone.fill(taken, out);
                    *left -= taken;
                    *left == 0
                }
                Piece::Silence { left } => {
                    let taken = wanted.min(*left);
                    out.resize(out.len() + taken, 0);
                    *left -= taken;
                    *left == 0
                }
            };
            if !is_over {
                break;
            }
            self.pieces.pop_front();
        }
        out.resize(end, 0);
    }

    const fn count(&self, millis: usize) -> usize {
        self.rate as usize * millis / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn sounds_follow_one_another_without_a_gap_at_any_length_of_frames() {
        let whole = |frame: usize| {
            let mut player = Player::new(1000);
            player.samples(vec![7; 5].into()).pause(3).samples(vec![9; 4].into()).tone(100.0, 5);
            let mut out = Vec::new();
            while !player.is_done() {
                player.fill(frame, &mut out);
            }
            out
        };
        let first = whole(1);
        assert_eq!(&first[..12], [7, 7, 7, 7, 7, 0, 0, 0, 9, 9, 9, 9]);
        assert_eq!(first.len(), 17);
        for frame in 2..20 {
            let out = whole(frame);
            assert_eq!(&out[..17], &first[..], "{frame}");
            assert!(out[17..].iter().all(|sample| *sample == 0));
        }
    }
}
