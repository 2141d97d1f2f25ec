//! Hardware access: the part of an operating system.

pub mod boot_info;
pub mod clock;
pub mod heap;
pub mod keyboard;
pub mod mapping;
pub mod memory;
pub mod pci;
pub mod port;
pub mod random;
pub mod serial;
pub mod wait;
pub mod watchdog;
