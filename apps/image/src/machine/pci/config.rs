//! PCI configuration space by the ports of mechanism 1: registers, and the functions present.

use crate::machine::port;
use alloc::vec::Vec;

const ADDRESS: u16 = 0xcf8;
const DATA: u16 = 0xcfc;

pub(super) const COMMAND: u8 = 0x04;
pub(super) const CLASS: u8 = 0x08;
pub(super) const HEADER: u8 = 0x0c;
pub(super) const BARS: u8 = 0x10;
pub(super) const BUSES: u8 = 0x18;
pub(super) const CAPABILITIES: u8 = 0x34;

// Kinds of functions.
pub(super) const DEVICE: u8 = 0;
pub(super) const BRIDGE: u8 = 1;

/// Enables I/O, memory access and bus mastering, and disables interrupts.
pub(super) const ENABLE: u32 = 0x0407;

/// Access to configuration space: a function's address, and four bytes at a multiple of four.
pub(super) trait Config {
    fn read(&self, address: u16, at: u8) -> u32;
    fn write(&self, address: u16, at: u8, value: u32);
}

/// Configuration mechanism 1.
pub(super) struct Ports;

impl Ports {
    /// Writes two bytes at an even offset: some registers reject wider accesses.
    pub(super) fn write_u16(address: u16, at: u8, value: u16) {
        Self::select(address, at);
        port::write_u16(DATA + u16::from(at & 2), value);
    }

    /// Writes a byte.
    pub(super) fn write_u8(address: u16, at: u8, value: u8) {
        Self::select(address, at);
        port::write_u8(DATA + u16::from(at & 3), value);
    }

    fn select(address: u16, at: u8) {
        port::write_u32(ADDRESS, 1 << 31 | u32::from(address) << 8 | u32::from(at & !3));
    }
}

impl Config for Ports {
    fn read(&self, address: u16, at: u8) -> u32 {
        Self::select(address, at);
        port::read_u32(DATA)
    }

    fn write(&self, address: u16, at: u8, value: u32) {
        Self::select(address, at);
        port::write_u32(DATA, value);
    }
}

pub(super) fn kind(config: &impl Config, address: u16) -> u8 {
    (config.read(address, HEADER) >> 16 & 0x7f) as u8
}

/// The addresses of the functions present on a bus.
pub(super) fn present(config: &impl Config, bus: u8) -> Vec<u16> {
    let mut found = Vec::new();
    let is_there = |address: &u16| config.read(*address, 0) as u16 != 0xffff;
    for device in 0..32 {
        let first = u16::from(bus) << 8 | device << 3;
        if is_there(&first) {
            found.push(first);
            if config.read(first, HEADER) >> 16 & 0x80 != 0 {
                found.extend((first + 1..first + 8).filter(is_there));
            }
        }
    }
    found
}
