//! The devices on the PCI buses, by the ports of configuration mechanism 1.

use super::port;
use alloc::vec::Vec;
use core::fmt;

const ADDRESS: u16 = 0xcf8;
const DATA: u16 = 0xcfc;

const COMMAND: u8 = 0x04;
const CLASS: u8 = 0x08;
const HEADER: u8 = 0x0c;
const BARS: u8 = 0x10;
const BUSES: u8 = 0x18;
const CAPABILITIES: u8 = 0x34;

/// Ports, memory, and the right to read and write memory by itself; no interrupts.
const ENABLE: u32 = 0x0407;

/// A function of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Bus, device and function.
    address: u16,
    /// Who made it.
    pub vendor: u16,
    /// What it is of that vendor's.
    pub device: u16,
    /// Class and subclass.
    pub class: u16,
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:04x}", self.vendor, self.device)
    }
}

/// Where a device is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// At ports from this one on.
    Ports(u16),
    /// In memory at this physical address.
    Memory(u64),
}

/// A capability: its number, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// Its number.
    pub id: u8,
    /// Where it stands in the configuration.
    pub at: u8,
}

impl Function {
    /// Four bytes of its configuration.
    #[must_use]
    pub fn read(&self, at: u8) -> u32 {
        read(self.address, at)
    }

    /// Writes four bytes of its configuration.
    pub fn write(&self, at: u8, value: u32) {
        select(self.address, at);
        port::write_u32(DATA, value);
    }

    /// Lets it work: it may be spoken to, and read and write memory.
    pub fn enable(&self) {
        self.write(COMMAND, (self.read(COMMAND) & 0xffff) | ENABLE);
    }

    /// Where its base address register `number` says that it is; `None` where nothing is said.
    #[must_use]
    pub fn bar(&self, number: u8) -> Option<Bar> {
        let at = BARS + 4 * number;
        let low = self.read(at);
        if low & 1 != 0 {
            let first = (low & !3) as u16;
            return (first != 0).then_some(Bar::Ports(first));
        }
        let is_wide = (low >> 1) & 3 == 2;
        let high = if is_wide && number < 5 { self.read(at + 4) } else { 0 };
        let address = u64::from(high) << 32 | u64::from(low & !15);
        (address != 0).then_some(Bar::Memory(address))
    }

    /// Its capabilities.
    #[must_use]
    pub fn capabilities(&self) -> Vec<Capability> {
        let mut found = Vec::new();
        let has_list = self.read(COMMAND) >> 16 & 0x10 != 0;
        let mut at = if has_list { self.read(CAPABILITIES) as u8 & !3 } else { 0 };
        // A list of a damaged device may lead round for ever.
        while at >= 0x40 && found.len() < 48 {
            let head = self.read(at);
            found.push(Capability { id: head as u8, at });
            at = (head >> 8) as u8 & !3;
        }
        found
    }
}

fn select(address: u16, at: u8) {
    port::write_u32(ADDRESS, 1 << 31 | u32::from(address) << 8 | u32::from(at & !3));
}

fn read(address: u16, at: u8) -> u32 {
    select(address, at);
    port::read_u32(DATA)
}

/// All functions of all devices, those behind bridges too.
#[must_use]
pub fn functions() -> Vec<Function> {
    let mut found = Vec::new();
    let mut seen = [false; 256];
    let mut buses = alloc::vec![0_u8];
    while let Some(bus) = buses.pop() {
        if core::mem::replace(&mut seen[usize::from(bus)], true) {
            continue;
        }
        for device in 0..32_u16 {
            let first = u16::from(bus) << 8 | device << 3;
            let has_more = read(first, HEADER) >> 16 & 0x80 != 0;
            for address in first..first + if has_more { 8 } else { 1 } {
                let ids = read(address, 0);
                if ids as u16 == 0xffff {
                    continue;
                }
                if read(address, HEADER) >> 16 & 0x7f == 1 {
                    buses.push((read(address, BUSES) >> 8) as u8);
                }
                let class = (read(address, CLASS) >> 16) as u16;
                found.push(Function {
                    address,
                    vendor: ids as u16,
                    device: (ids >> 16) as u16,
                    class,
                });
            }
        }
    }
    found
}
