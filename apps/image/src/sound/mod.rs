//! Sound devices: which there are, and how sound gets to them and from them.

mod hda;
mod queue;
mod widgets;

use crate::machine::pci::Function;
use crate::phone::sound::Sound;
use alloc::boxed::Box;
use core::fmt;
use hda::{Hda, Trouble};

/// Class and subclass of devices of Intel High Definition Audio, whoever made them.
const HDA: u16 = 0x0403;

/// Why there is no sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSound {
    /// The machine has no device that can be driven.
    None,
    /// This one did not do what it should.
    Failed(Function),
    /// This one has neither an analog output nor an analog input.
    Digital(Function),
}

impl fmt::Display for NoSound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "this machine has no Intel HDA sound device"),
            Self::Failed(function) => {
                write!(f, "the sound device {function} does not answer as it should")
            }
            Self::Digital(function) => {
                write!(f, "the sound device {function} has no analog output or input")
            }
        }
    }
}

/// The first sound device among `functions` that can be used.
///
/// # Errors
/// Where there is none.
pub fn open(functions: &[Function]) -> Result<Box<dyn Sound>, NoSound> {
    let mut failure = NoSound::None;
    for function in functions.iter().filter(|function| function.class == HDA) {
        match Hda::open(function) {
            Ok(device) => return Ok(Box::new(device)),
            // A graphics card that sounds by its screen alone is no reason to say no more.
            Err(Trouble::Digital) if failure != NoSound::None => {}
            Err(Trouble::Digital) => failure = NoSound::Digital(*function),
            Err(Trouble::Silent) => failure = NoSound::Failed(*function),
        }
    }
    Err(failure)
}
