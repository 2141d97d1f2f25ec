//! The interface of sound devices.

use alloc::vec::Vec;
use core::fmt;

/// A loudspeaker and a microphone, at 8000 samples a second.
pub trait Sound: fmt::Debug {
    /// The name of the device.
    fn name(&self) -> &'static str;

    /// Appends `samples` to the playback queue. Excess samples are dropped.
    fn play(&mut self, samples: &[i16]);

    /// Appends the next `count` samples of the microphone to `out`, as far as available.
    fn record(&mut self, count: usize, out: &mut Vec<i16>);

    /// Stops until the next playback or recording.
    fn rest(&mut self);
}

/// A device without sound.
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
