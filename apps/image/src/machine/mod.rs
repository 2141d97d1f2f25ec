//! The machine: what an operating system would stand between.

pub mod boot_info;
pub mod clock;
pub mod mapping;
pub mod memory;
pub mod pci;
pub mod port;
pub mod random;
pub mod serial;

#[cfg(feature = "freestanding")]
pub mod bare;
