//! Discovery, register access and initialization of a device.

use super::queue::{Doorbell, Queue};
use crate::machine::memory::PAGE;
use crate::machine::pci::{Bar, Function};
use crate::machine::wait::comes_true;
use crate::machine::{mapping, port};
use core::ptr;

const VENDOR_CAPABILITY: u8 = 9;

const ACKNOWLEDGE: u8 = 1;
const DRIVER: u8 = 2;
const DRIVER_OK: u8 = 4;
const FEATURES_OK: u8 = 8;
const FAILED: u8 = 128;

/// The device conforms to Virtio 1, not to the legacy interface.
const VERSION_1: u64 = 1 << 32;
/// Addresses are bus addresses; without a configured IOMMU these are physical addresses.
const ACCESS_PLATFORM: u64 = 1 << 33;
/// Buffers may be split at any place.
pub(crate) const ANY_LAYOUT: u64 = 1 << 27;

/// The register interface of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Registers {
    /// Legacy: I/O ports.
    Legacy(u16),
    /// Virtio 1: memory-mapped common, device and notification registers.
    Modern { common: *mut u8, device: Option<*mut u8>, notify: *mut u8, notify_step: u32 },
}

/// A device during and after initialization.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) registers: Registers,
    /// The negotiated features.
    pub(crate) features: u64,
}

impl Device {
    /// Resets the device, and negotiates the features `wanted`. `None` if that fails.
    pub(crate) fn open(function: &Function, wanted: u64) -> Option<Self> {
        function.enable();
        let registers = modern(function).or_else(|| legacy(function))?;
        let mut device = Self { registers, features: 0 };
        if !device.reset() {
            return None;
        }
        device.set_status(ACKNOWLEDGE | DRIVER);
        device.agree(wanted).then_some(device)
    }

    /// Resets the device. Returns false if the reset does not complete.
    pub(crate) fn reset(&self) -> bool {
        self.set_status(0);
        comes_true(1000, || self.status() == 0)
    }

    /// Returns true if it conforms to Virtio 1.
    pub(crate) fn is_modern(&self) -> bool {
        matches!(self.registers, Registers::Modern { .. })
    }

    fn agree(&mut self, wanted: u64) -> bool {
        match self.registers {
            Registers::Legacy(port) => {
                self.features = u64::from(port::read_u32(port)) & wanted;
                port::write_u32(port + 4, self.features as u32);
                true
            }
            Registers::Modern { common, .. } => {
                let half = |number: u32| {
                    write(common, 0, number);
                    u64::from(read::<u32>(common, 4))
                };
                let offered = half(0) | half(1) << 32;
                self.features = offered & (wanted | VERSION_1 | ACCESS_PLATFORM);
                for (number, half) in [(0_u32, self.features), (1, self.features >> 32)] {
                    write(common, 8, number);
                    write(common, 12, half as u32);
                }
                self.set_status(ACKNOWLEDGE | DRIVER | FEATURES_OK);
                let agrees = self.features & VERSION_1 != 0 && self.status() & FEATURES_OK != 0;
                if !agrees {
                    self.set_status(FAILED);
                }
                agrees
            }
        }
    }

    /// Sets up queue `number`; `None` if the device does not have it.
    pub(crate) fn queue(&self, number: u16) -> Option<Queue> {
        match self.registers {
            Registers::Legacy(port) => {
                port::write_u16(port + 14, number);
                let queue =
                    Queue::new(number, port::read_u16(port + 12), Doorbell::Port(port + 16))?;
                port::write_u32(port + 8, (queue.address() / PAGE as u64) as u32);
                Some(queue)
            }
            Registers::Modern { common, notify, notify_step, .. } => {
                write(common, 22, number);
                let size = read::<u16>(common, 24).min(Queue::MOST);
                write(common, 24, size);
                let offset = u32::from(read::<u16>(common, 30)) * notify_step;
                let doorbell = Doorbell::Memory(notify.wrapping_add(offset as usize).cast());
                let queue = Queue::new(number, size, doorbell)?;
                for (at, part) in [32, 40, 48].into_iter().zip(queue.parts()) {
                    write(common, at, part as u32);
                    write(common, at + 4, (part >> 32) as u32);
                }
                write(common, 28, 1_u16);
                Some(queue)
            }
        }
    }

    /// Starts the device. Must be called after its queues are set up.
    pub(crate) fn start(&self) {
        self.set_status(self.status() | DRIVER_OK);
    }

    /// A byte of the device-specific configuration; 0 if the device has no such byte.
    pub(crate) fn config(&self, at: u16) -> u8 {
        match self.registers {
            Registers::Legacy(port) => port::read_u8(port + 20 + at),
            Registers::Modern { device, .. } => device.map_or(0, |base| read(base, at.into())),
        }
    }

    fn status(&self) -> u8 {
        match self.registers {
            Registers::Legacy(port) => port::read_u8(port + 18),
            Registers::Modern { common, .. } => read(common, 20),
        }
    }

    fn set_status(&self, status: u8) {
        match self.registers {
            Registers::Legacy(port) => port::write_u8(port + 18, status),
            Registers::Modern { common, .. } => write(common, 20, status),
        }
    }
}

fn read<T>(base: *mut u8, at: usize) -> T {
    // SAFETY: the device has reported this address for its registers, and they are naturally
    // aligned.
    unsafe { ptr::read_volatile(base.wrapping_add(at).cast()) }
}

fn write<T>(base: *mut u8, at: usize, value: T) {
    // SAFETY: as above.
    unsafe { ptr::write_volatile(base.wrapping_add(at).cast(), value) }
}

fn legacy(function: &Function) -> Option<Registers> {
    match (function.device, function.bar(0)) {
        (0x1000..0x1040, Some(Bar::Ports(port))) => Some(Registers::Legacy(port)),
        _ => None,
    }
}

fn modern(function: &Function) -> Option<Registers> {
    let (mut common, mut device, mut notify) = (None, None, None);
    let all = function.capabilities();
    for capability in all.iter().filter(|capability| capability.id == VENDOR_CAPABILITY) {
        let [head, bar, offset, length, step] =
            [0, 4, 8, 12, 16].map(|at| function.read(capability.at.saturating_add(at)));
        let bar = bar as u8;
        let Some(Bar::Memory(base)) = (bar < 6).then(|| function.bar(bar)).flatten() else {
            continue;
        };
        let Some(address) = mapping::device(base.saturating_add(offset.into()), length) else {
            continue;
        };
        match head >> 24 {
            1 => common = common.or(Some(address)),
            2 => notify = notify.or(Some((address, step))),
            4 => device = device.or(Some(address)),
            _ => {}
        }
    }
    let (notify, notify_step) = notify?;
    Some(Registers::Modern { common: common?, device, notify, notify_step })
}
