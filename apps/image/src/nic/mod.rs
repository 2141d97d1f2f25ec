//! Network cards: their interface and the drivers.

mod card;
mod e1000;
#[cfg(test)]
pub(crate) mod fake;
mod virtio;

pub use card::{MAX_FRAME, Nic};

use crate::machine::pci::Function;
use alloc::boxed::Box;
use core::fmt;
use e1000::{E1000, Family};
use virtio::VirtioNet;

type Open = fn(&Function) -> Option<Box<dyn Nic>>;

/// A kind of card.
pub struct Kind {
    /// The display name.
    pub name: &'static str,
    vendor: u16,
    devices: &'static [u16],
    open: Open,
}

/// All supported kinds of cards.
pub const KNOWN: &[Kind] = &[
    Kind {
        name: "virtio",
        vendor: 0x1af4,
        devices: &[0x1000, 0x1041],
        open: |function| Some(Box::new(VirtioNet::open(function)?)),
    },
    Kind {
        name: "Intel e1000",
        vendor: 0x8086,
        devices: e1000::DEVICES,
        open: |function| Some(Box::new(E1000::open(function, Family::E1000)?)),
    },
    Kind {
        name: "Intel e1000e",
        vendor: 0x8086,
        devices: e1000::EXPRESS_DEVICES,
        open: |function| Some(Box::new(E1000::open(function, Family::E1000e)?)),
    },
];

/// Class and subclass of Ethernet cards.
const ETHERNET: u16 = 0x0200;

/// The reason why there is no card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCard {
    /// The machine has none.
    None,
    /// There is no driver for this one.
    Unknown(Function),
    /// This one failed to initialize.
    Failed(Function),
}

impl fmt::Display for NoCard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "this machine has no network card")?,
            Self::Unknown(function) => write!(f, "no driver for the network card {function}")?,
            Self::Failed(function) => {
                return write!(f, "the network card {function} does not respond correctly");
            }
        }
        f.write_str("; supported are")?;
        for (at, kind) in KNOWN.iter().enumerate() {
            write!(f, "{} {}", if at == 0 { "" } else { "," }, kind.name)?;
            for device in kind.devices {
                write!(f, " {:04x}:{device:04x}", kind.vendor)?;
            }
        }
        Ok(())
    }
}

/// Opens the first supported card among `functions`.
///
/// # Errors
/// If there is no working card.
pub fn open(functions: &[Function]) -> Result<Box<dyn Nic>, NoCard> {
    let mut failure = NoCard::None;
    for function in functions {
        let is_kind = |kind: &&Kind| {
            kind.vendor == function.vendor && kind.devices.contains(&function.device)
        };
        match KNOWN.iter().find(is_kind) {
            Some(kind) => match (kind.open)(function) {
                Some(card) => return Ok(card),
                None => failure = NoCard::Failed(*function),
            },
            None if function.class == ETHERNET && failure == NoCard::None => {
                failure = NoCard::Unknown(*function);
            }
            None => {}
        }
    }
    Err(failure)
}
