//! Sound devices: the drivers, and the selection of a device.

mod device;
#[cfg(test)]
mod fake;
mod hda;
mod queue;
mod widgets;

pub use device::{Mute, Sound};

use crate::machine::pci::Function;
use alloc::boxed::Box;
use core::fmt;
use hda::{Hda, Trouble};

/// PCI class and subclass of Intel High Definition Audio devices of all vendors.
const HDA: u16 = 0x0403;

/// The reason why there is no sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSound {
    /// The machine has no supported device.
    None,
    /// This one failed to initialize.
    Failed(Function),
    /// This one has neither an analog output nor an analog input.
    Digital(Function),
}

impl fmt::Display for NoSound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "this machine has no Intel HDA sound device"),
            Self::Failed(function) => {
                write!(f, "the sound device {function} does not respond correctly")
            }
            Self::Digital(function) => {
                write!(f, "the sound device {function} has no analog output or input")
            }
        }
    }
}

/// Opens the first usable sound device among `functions`.
///
/// # Errors
/// If there is no usable device.
pub fn open(functions: &[Function]) -> Result<Box<dyn Sound>, NoSound> {
    let mut failure = NoSound::None;
    for function in functions.iter().filter(|function| function.class == HDA) {
        match Hda::open(function) {
            Ok(device) => return Ok(Box::new(device)),
            // A graphics card with digital output alone does not hide an earlier failure.
            Err(Trouble::Digital) if failure != NoSound::None => {}
            Err(Trouble::Digital) => failure = NoSound::Digital(*function),
            Err(Trouble::Silent) => failure = NoSound::Failed(*function),
        }
    }
    Err(failure)
}
