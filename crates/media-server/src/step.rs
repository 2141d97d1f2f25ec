//! The input and output of a program in 20 ms.

use crate::event::Ask;
use crate::sounds::Sounds;
use alloc::string::String;
use alloc::vec::Vec;

/// The requests of a program about mailboxes.
pub(crate) type Asks = Vec<(String, Ask)>;

/// The sum of 20 ms of all members of a conference room.
pub(crate) struct Mix(pub(crate) Vec<i32>);

/// The input and output of 20 ms, at the rate of the program.
pub(crate) struct Step<'a> {
    /// The received samples.
    pub(crate) heard: &'a [i16],
    /// The sound of the caller's conference room.
    pub(crate) mix: Option<&'a Mix>,
    /// The sounds of the operator.
    pub(crate) sounds: &'a Sounds,
    /// The samples to send are appended here.
    pub(crate) out: &'a mut Vec<i16>,
    /// The requests of the program are appended here.
    pub(crate) asks: &'a mut Asks,
}
