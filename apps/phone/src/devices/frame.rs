//! How the sound of devices is cut.

/// Samples in a second of what microphones hear and speakers play: wideband speech.
pub(crate) const RATE: u32 = 16_000;
/// Samples in 20 ms.
pub(crate) const FRAME: usize = RATE as usize / 50;
