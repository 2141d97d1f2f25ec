//! Memory-mapped device registers, which may lie in memory that is not mapped at the start.

/// Size of the identity mapping at the start, in bytes.
const MAPPED: u64 = 1 << 32;

/// The address of `length` bytes of device memory at the physical address `start`; `None` if they
/// cannot be mapped.
#[must_use]
pub fn device(start: u64, length: u32) -> Option<*mut u8> {
    let end = start.checked_add(u64::from(length.max(1)))?;
    if end > MAPPED {
        map(start, end)?;
    }
    Some(start as *mut u8)
}

/// Identity-maps the pages from `start` to `end`.
#[cfg(feature = "freestanding")]
fn map(start: u64, end: u64) -> Option<()> {
    use super::memory::{PAGE, shared};
    use core::ptr;

    unsafe extern "C" {
        static mut pml4: [u64; 512];
        /// The upper half of a page table entry for data: the no-execute bit, if the processor
        /// supports it.
        static no_execute: u32;
    }
    const LARGE: u64 = 1 << 21;
    /// Present, writable, user.
    const TABLE: u64 = 0x07;
    /// The same for a large page, with caching disabled.
    const DEVICE: u64 = 0x9f;
    const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

    // The upper half of the 48-bit addresses is not available.
    if end > 1 << 47 {
        return None;
    }
    let first = start & !(LARGE - 1);
    // SAFETY: it is written before any of this code runs, and never again.
    let data = u64::from(unsafe { no_execute }) << 32;
    for address in (first..end).step_by(LARGE as usize) {
        let mut table = (&raw mut pml4).cast::<u64>();
        for shift in [39, 30] {
            let entry = table.wrapping_add((address >> shift) as usize & 511);
            // SAFETY: a table has 512 entries, and only the processor reads them meanwhile.
            unsafe {
                if ptr::read_volatile(entry) & 1 == 0 {
                    ptr::write_volatile(entry, shared(PAGE).addr() as u64 | TABLE);
                }
                table = (ptr::read_volatile(entry) & ADDRESS) as *mut u64;
            }
        }
        let entry = table.wrapping_add((address >> 21) as usize & 511);
        // SAFETY: as above. The entry was not present, so the processor has not cached it.
        unsafe {
            if ptr::read_volatile(entry) & 1 == 0 {
                ptr::write_volatile(entry, address | DEVICE | data);
            }
        }
    }
    Some(())
}

/// A program on an operating system cannot map memory.
#[cfg(not(feature = "freestanding"))]
fn map(_: u64, _: u64) -> Option<()> {
    None
}
