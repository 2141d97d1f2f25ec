//! The devices on the PCI buses.

mod assign;
mod config;

use alloc::vec::Vec;
use config::{
    BARS, BRIDGE, BUSES, CAPABILITIES, CLASS, COMMAND, Config, DEVICE, ENABLE, Ports, kind, present,
};
use core::fmt;

/// A function of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// Bus, device and function number.
    address: u16,
    /// True if it is not a bridge to other buses.
    is_device: bool,
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Class and subclass.
    pub class: u16,
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:04x}", self.vendor, self.device)
    }
}

/// The location of a device's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// I/O ports from this one on.
    Ports(u16),
    /// Memory at this physical address.
    Memory(u64),
}

/// A capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// Its id.
    pub id: u8,
    /// Its offset in configuration space.
    pub at: u8,
}

impl Function {
    /// Reads four bytes of configuration space.
    #[must_use]
    pub fn read(&self, at: u8) -> u32 {
        Ports.read(self.address, at)
    }

    /// Writes four bytes of configuration space.
    pub fn write(&self, at: u8, value: u32) {
        Ports.write(self.address, at, value);
    }

    /// Writes two bytes of configuration space.
    pub fn write_u16(&self, at: u8, value: u16) {
        Ports::write_u16(self.address, at, value);
    }

    /// Writes a byte of configuration space.
    pub fn write_u8(&self, at: u8, value: u8) {
        Ports::write_u8(self.address, at, value);
    }

    /// Enables register access and bus mastering.
    pub fn enable(&self) {
        self.write(COMMAND, (self.read(COMMAND) & 0xffff) | ENABLE);
    }

    /// The location given by the base address register `number`; `None` if it is not set.
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

    /// The list of capabilities.
    #[must_use]
    pub fn capabilities(&self) -> Vec<Capability> {
        let mut found = Vec::new();
        let has_list = self.read(COMMAND) >> 16 & 0x10 != 0;
        let mut at = if has_list { self.read(CAPABILITIES) as u8 & !3 } else { 0 };
        // The list of a faulty device may be circular.
        while at >= 0x40 && found.len() < 48 {
            let head = self.read(at);
            found.push(Capability { id: head as u8, at });
            at = (head >> 8) as u8 & !3;
        }
        found
    }
}

/// All functions of all devices, also behind bridges. Assigns addresses if the firmware has
/// assigned none.
#[must_use]
pub fn functions() -> Vec<Function> {
    let found = scan(&Ports);
    let has_place = |function: &Function| (0..6).any(|number| function.bar(number).is_some());
    if found.iter().filter(|function| function.is_device).any(has_place) {
        return found;
    }
    assign::assign(&Ports);
    scan(&Ports)
}

fn scan(config: &impl Config) -> Vec<Function> {
    let mut found = Vec::new();
    let mut seen = [false; 256];
    let mut buses = alloc::vec![0_u8];
    while let Some(bus) = buses.pop() {
        if core::mem::replace(&mut seen[usize::from(bus)], true) {
            continue;
        }
        for address in present(config, bus) {
            let ids = config.read(address, 0);
            let kind = kind(config, address);
            if kind == BRIDGE {
                buses.push((config.read(address, BUSES) >> 8) as u8);
            }
            let class = (config.read(address, CLASS) >> 16) as u16;
            found.push(Function {
                address,
                is_device: kind == DEVICE,
                vendor: ids as u16,
                device: (ids >> 16) as u16,
                class,
            });
        }
    }
    found
}
