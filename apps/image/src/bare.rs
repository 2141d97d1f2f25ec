//! The freestanding program: entry point, memory functions, heap, and panic handler.

use crate::lock::Lock;
use crate::machine::boot_info::Boot;
use crate::machine::heap::{Heap, RESERVE, WithReserve};
use crate::machine::memory::{PAGE, Region};
use crate::machine::{boot_info, clock, port, serial, watchdog};
use crate::options::REBOOT;
use crate::screen::last_words;
use core::arch::global_asm;
use core::fmt::Write as _;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sip::Duration;
use talc::{TalcLock, source::Manual};

global_asm!(include_str!("machine/boot.s"), start = sym start, fault = sym on_fault);
global_asm!(include_str!("machine/memory.s"));

unsafe extern "Rust" {
    /// The program that links this library.
    safe fn run(boot: &Boot) -> !;
    static image_end: u8;
}

#[global_allocator]
static ALLOCATOR: WithReserve<TalcLock<Lock, Manual>> =
    WithReserve::new(TalcLock::new(Manual), TalcLock::new(Manual));

extern "C" fn start(magic: u32, info: u32) -> ! {
    serial::init();
    // SAFETY: both are the boot loader's values, and memory was not written since.
    let boot = unsafe { boot_info::read(magic, info) };
    let end = (&raw const image_end).addr() as u64;
    let regions = || boot.memory().iter().filter_map(|region| region.from(end));
    let total: u64 = regions().map(|region| region.length).sum();
    let mut reserve = (total as usize / RESERVE).next_multiple_of(PAGE) as u64;
    for Region { start, length } in regions() {
        let kept = if reserve < length { core::mem::take(&mut reserve) } else { 0 };
        if kept > 0 {
            ALLOCATOR.set_reserve(start as usize, kept as usize);
            // SAFETY: the boot loader reports this range as memory, and the image is not in it.
            unsafe { ALLOCATOR.reserve.lock().claim(start as *mut u8, kept as usize) };
        }
        // SAFETY: as above, and the reserve ends at the start of this range.
        unsafe { ALLOCATOR.main.lock().claim((start + kept) as *mut u8, (length - kept) as usize) };
    }
    run(&boot)
}

/// The usage of the heap.
pub fn heap() -> Heap {
    let (main, reserve) = (ALLOCATOR.main.lock(), ALLOCATOR.reserve.lock());
    let (main, reserve) = (main.counters(), reserve.counters());
    Heap {
        used: main.claimed_bytes - main.available_bytes + reserve.allocated_bytes,
        claimed: main.claimed_bytes + reserve.claimed_bytes,
        used_reserve: reserve.allocated_bytes,
    }
}

/// The processor's exception frame, as `boot.s` stores it.
#[repr(C)]
struct Fault {
    vector: u64,
    code: u64,
    instruction: u64,
    segment: u64,
    flags: u64,
    stack: u64,
    stack_segment: u64,
    address: u64,
}

extern "C" fn on_fault(fault: &Fault) -> ! {
    let name = match fault.vector {
        0 => "division by zero",
        1 | 3 => "breakpoint",
        2 => "failure of the hardware (NMI)",
        6 => "invalid instruction",
        8 => "fault within a fault",
        13 => "protection fault",
        14 => "page fault",
        16 | 19 => "fault of floating-point numbers",
        18 => "failure of the hardware (machine check)",
        _ => "fault",
    };
    die(format_args!(
        "{name} at instruction {:#x}, address {:#x} (vector {}, code {:#x}, stack {:#x})",
        fault.instruction, fault.address, fault.vector, fault.code, fault.stack
    ))
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    die(format_args!("{info}"))
}

/// Microseconds from a failure to the reboot; 0 means no reboot.
static PAUSE: AtomicU64 = AtomicU64::new(REBOOT.as_micros());

/// Sets the time from a failure to the reboot; zero means no reboot.
pub fn set_pause(pause: Duration) {
    PAUSE.store(pause.as_micros(), Ordering::Relaxed);
}

/// Reports a failure, waits, and reboots.
fn die(what: core::fmt::Arguments<'_>) -> ! {
    static IS_DYING: AtomicBool = AtomicBool::new(false);
    let pause = PAUSE.load(Ordering::Relaxed);
    // A fault during the report is not reported.
    if !IS_DYING.swap(true, Ordering::Relaxed) {
        match pause {
            0 => say(format_args!("{what}\nSwitch the machine off and on again.")),
            _ => say(format_args!("{what}\nIt boots again in {} s.", pause / 1_000_000)),
        }
    }
    let start = clock::nanoseconds();
    while pause == 0 || clock::nanoseconds().wrapping_sub(start) / 1000 < pause {
        watchdog::wind();
    }
    port::reset()
}

/// Writes the reason of the failure to the serial line and the screen.
fn say(why: core::fmt::Arguments<'_>) {
    if last_words::has_page() {
        let _ = write!(serial::Serial, "\x1b[0m\x1b[2J\x1b[H");
    }
    let _ = writeln!(serial::Serial, "\nBarebell has failed: {why}");
    last_words::show(format_args!("Barebell has failed: {why}"));
}

/// A symbol that the precompiled `core` refers to for unwinding, which never happens: a panic
/// aborts.
mod unwinding {
    #[unsafe(no_mangle)]
    extern "C" fn rust_eh_personality() {}

    #[unsafe(no_mangle)]
    extern "C" fn _Unwind_Resume() -> ! {
        crate::machine::port::reset()
    }
}
