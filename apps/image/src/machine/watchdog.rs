//! A timer that boots the machine again unless it is wound up in time, so that a program that
//! stands still does not do so for ever. Known is the i6300ESB, which virtual machines can have.

use super::mapping;
use super::pci::{Bar, Function};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use sip::{Duration, Instant};

/// Seconds that a program may stand still.
pub const PATIENCE: u32 = 30;
/// How often it is wound up.
const TURN: Duration = Duration::from_secs(5);

const DEVICE: (u16, u16) = (0x8086, 0x25ab);
/// Where its configuration says what it does when its time has come: no interrupt after the first
/// half, a reset after the second, by its slow clock.
const CONFIGURATION: u8 = 0x60;
const NO_INTERRUPT: u16 = 3;
/// Where it is switched on.
const LOCK: u8 = 0x68;
const ENABLE: u8 = 1 << 1;

// Its registers.
const HALVES: [usize; 2] = [0, 4];
const RELOAD: usize = 12;
const LENGTH: u32 = 16;
/// Ticks of half a second.
const HALF_SECOND: u32 = 1 << 9;
/// What is written to `RELOAD` before each change of a register.
const UNLOCK: [u16; 2] = [0x80, 0x86];
const WIND: u16 = 1 << 8;

/// The registers of the one that runs.
static REGISTERS: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Starts the first one that is there; false where none is.
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

/// Winds up the one that runs, if one does.
pub fn wind() {
    let registers = REGISTERS.load(Ordering::Relaxed);
    if !registers.is_null() {
        unlock(registers);
        write_reload(registers, WIND);
    }
}

/// Who winds it up while the program does its work.
#[derive(Debug, Default)]
pub struct Winder {
    next: Option<Instant>,
}

impl Winder {
    /// Winds it up, if that is due `now`.
    pub fn turn(&mut self, now: Instant) {
        if self.next.is_none_or(|next| now >= next) {
            self.next = Some(now + TURN);
            wind();
        }
    }
}
