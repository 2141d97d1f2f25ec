//! Memory of devices, which may lie where nothing is mapped at the start.

/// Bytes that are mapped at the start, each at its own address.
const MAPPED: u64 = 1 << 32;

/// The address at which `length` bytes of a device's memory at the physical address `start` are
/// seen; `None` where they cannot be.
#[must_use]
pub fn device(start: u64, length: u32) -> Option<*mut u8> {
    let end = start.checked_add(u64::from(length.max(1)))?;
    if end > MAPPED {
        map(start, end)?;
    }
    Some(start as *mut u8)
}

/// Maps the pages from `start` to `end`, each at its own address.
#[cfg(feature = "freestanding")]
fn map(start: u64, end: u64) -> Option<()> {
    use super::memory::{PAGE, shared};
    use core::ptr;

    unsafe extern "C" {
        static mut pml4: [u64; 512];
        /// The upper half of an entry for what is not executed, where the processor can tell.
        static no_execute: u32;
    }
    const LARGE: u64 = 1 << 21;
    /// Present, written, for ring 3.
    const TABLE: u64 = 0x07;
    /// The same, large, and not kept in caches.
    const DEVICE: u64 = 0x9f;
    const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

    // Addresses of 48 bits, of which the upper half is not for us.
    if end > 1 << 47 {
        return None;
    }
    let first = start & !(LARGE - 1);
    // SAFETY: it is written before any of this runs, and never again.
    let data = u64::from(unsafe { no_execute }) << 32;
    for address in (first..end).step_by(LARGE as usize) {
        let mut table = (&raw mut pml4).cast::<u64>();
        for shift in [39, 30] {
            let entry = table.wrapping_add((address >> shift) as usize & 511);
            // SAFETY: a table has 512 entries, and nobody but the processor looks at them
            // meanwhile.
            unsafe {
                if ptr::read_volatile(entry) & 1 == 0 {
                    ptr::write_volatile(entry, shared(PAGE).addr() as u64 | TABLE);
                }
                table = (ptr::read_volatile(entry) & ADDRESS) as *mut u64;
            }
        }
        let entry = table.wrapping_add((address >> 21) as usize & 511);
        // SAFETY: likewise. Nothing was mapped there, so the processor remembers nothing of it.
        unsafe {
            if ptr::read_volatile(entry) & 1 == 0 {
                ptr::write_volatile(entry, address | DEVICE | data);
            }
        }
    }
    Some(())
}

/// Nothing is mapped on the machine of somebody else.
#[cfg(not(feature = "freestanding"))]
fn map(_: u64, _: u64) -> Option<()> {
    None
}
