//! Frames of the sound devices.

/// Sample rate of microphones and speakers in hertz: wideband speech.
pub(crate) const RATE: u32 = 16_000;
/// Samples in a frame of 20 ms.
pub(crate) const FRAME: usize = RATE as usize / 50;
