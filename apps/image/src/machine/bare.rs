//! What makes a program of its own: the way in, memory functions, the heap, and the end.

use super::boot_info::Boot;
use super::memory::{Heap, Region};
use super::{boot_info, port, serial};
use crate::lock::Lock;
use core::arch::global_asm;
use core::fmt::Write as _;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};
use talc::{TalcLock, source::Manual};

global_asm!(include_str!("boot.s"), start = sym start, fault = sym on_fault);
global_asm!(include_str!("memory.s"));

unsafe extern "Rust" {
    /// The program: what is in this object.
    safe fn run(boot: &Boot) -> !;
    static image_end: u8;
}

#[global_allocator]
static ALLOCATOR: TalcLock<Lock, Manual> = TalcLock::new(Manual);

extern "C" fn start(magic: u32, info: u32) -> ! {
    serial::init();
    // SAFETY: both are what the boot loader has left, and nothing was written since.
    let boot = unsafe { boot_info::read(magic, info) };
    let end = (&raw const image_end).addr() as u64;
    for region in boot.memory() {
        let Some(Region { start, length }) = region.from(end) else { continue };
        // SAFETY: the boot loader says that this is memory, and the image is not in it.
        unsafe { ALLOCATOR.lock().claim(start as *mut u8, length as usize) };
    }
    run(&boot)
}

/// How much of the heap is used, and how much there is.
pub fn heap() -> Heap {
    let allocator = ALLOCATOR.lock();
    let counters = allocator.counters();
    Heap { used: counters.allocated_bytes, claimed: counters.claimed_bytes }
}

/// What the processor says of a fault, as `boot.s` keeps it.
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
        6 => "invalid instruction",
        8 => "fault within a fault",
        13 => "protection fault",
        14 => "page fault",
        18 => "machine check",
        _ => "fault",
    };
    die(format_args!(
        "{name} (vector {}, code {:#x}) at {:#x}, address {:#x}, stack {:#x}",
        fault.vector, fault.code, fault.instruction, fault.address, fault.stack
    ))
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    die(format_args!("{info}"))
}

/// Says what happened, waits, and boots again.
fn die(what: core::fmt::Arguments<'_>) -> ! {
    static IS_DYING: AtomicBool = AtomicBool::new(false);
    // A fault while this is said is not said, too.
    if !IS_DYING.swap(true, Ordering::Relaxed) {
        let _ = writeln!(serial::Serial, "\n{what}");
    }
    port::reset()
}

/// Named by the tables of `core` as it is shipped, which could unwind; a program that aborts does
/// not.
mod unwinding {
    #[unsafe(no_mangle)]
    extern "C" fn rust_eh_personality() {}

    #[unsafe(no_mangle)]
    extern "C" fn _Unwind_Resume() -> ! {
        super::port::reset()
    }
}
