//! What is heard and said here.

use alloc::vec::Vec;
use core::fmt;

/// A loudspeaker and a microphone, at 8000 samples a second.
pub trait Sound: fmt::Debug {
    /// What it is.
    fn name(&self) -> &'static str;

    /// Plays `samples` behind what is played now. What is too much is left out.
    fn play(&mut self, samples: &[i16]);

    /// Appends the next `count` samples of the microphone to `out`, as far as there are.
    fn record(&mut self, count: usize, out: &mut Vec<i16>);

    /// Falls silent until something is played or recorded again.
    fn rest(&mut self);
}

/// No sound.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mute;

impl Sound for Mute {
    fn name(&self) -> &'static str {
        "none"
    }

    fn play(&mut self, _: &[i16]) {}

    fn record(&mut self, _: usize, _: &mut Vec<i16>) {}

    fn rest(&mut self) {}
}
