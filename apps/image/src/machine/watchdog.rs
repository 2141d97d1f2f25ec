//! The watchdog timer: it reboots the machine if the program hangs. The i6300ESB is supported,
//! which virtual machines offer.

use super::mapping;
use super::pci::{Bar, Function};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use sip::{Duration, Instant};

/// Seconds that a program may hang.
pub const PATIENCE: u32 = 30;
/// Interval of the reloads.
const TURN: Duration = Duration::from_secs(5);

const DEVICE: (u16, u16) = (0x8086, 0x25ab);
/// The configuration register: no interrupt after the first half of the time, a reset after the
/// second, with the slow clock.
const CONFIGURATION: u8 = 0x60;
const NO_INTERRUPT: u16 = 3;
/// The register that enables the timer.
const LOCK: u8 = 0x68;
const ENABLE: u8 = 1 << 1;

// Its registers.
const HALVES: [usize; 2] = [0, 4];
const RELOAD: usize = 12;
const LENGTH: u32 = 16;
/// Ticks of half a second.
const HALF_SECOND: u32 = 1 << 9;
/// The values written to `RELOAD` before each change of a register.
const UNLOCK: [u16; 2] = [0x80, 0x86];
const WIND: u16 = 1 << 8;

/// The registers of the running timer.
static REGISTERS: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Starts the first timer among `functions`. Returns false if no device is supported.
#[must_use]
pub fn start(functions: &[Function]) -> bool {
    let is_one = |function: &&Function| (function.vendor, function.device) == DEVICE;
    let Some(function) = functions.iter().find(is_one) else { return false };
    function.enable();
    let Some(Bar::Memory(address)) = function.bar(0) else { return false };
    let Some(registers) = mapping::device(address, LENGTH) else { return false };
    function.write_u16(CONFIGURATION, NO_INTERRUPT);
    for half in HALVES {
        unlock(registers);
        // SAFETY: the device has this register there.
        unsafe { ptr::write_volatile(registers.add(half).cast(), PATIENCE * HALF_SECOND) };
    }
    REGISTERS.store(registers, Ordering::Relaxed);
    wind();
    function.write_u8(LOCK, ENABLE);
    true
}

fn unlock(registers: *mut u8) {
    for key in UNLOCK {
        write_reload(registers, key);
    }
}

fn write_reload(registers: *mut u8, value: u16) {
    // SAFETY: the device has this register there.
    unsafe { ptr::write_volatile(registers.add(RELOAD).cast(), value) };
}

/// Reloads the running timer, if there is one.
pub fn wind() {
    let registers = REGISTERS.load(Ordering::Relaxed);
    if !registers.is_null() {
        unlock(registers);
        write_reload(registers, WIND);
    }
}

/// Reloads the timer while the program runs.
#[derive(Debug, Default)]
pub struct Winder {
    next: Option<Instant>,
}

impl Winder {
    /// Reloads the timer if that is due at `now`.
    pub fn turn(&mut self, now: Instant) {
        if self.next.is_none_or(|next| now >= next) {
            self.next = Some(now + TURN);
            wind();
        }
    }
}
