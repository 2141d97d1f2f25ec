//! Memory ranges from the boot loader, and memory shared with devices.

use alloc::alloc::{alloc_zeroed, handle_alloc_error};
use core::alloc::Layout;

/// A range of physical addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// The first address.
    pub start: u64,
    /// Its length in bytes.
    pub length: u64,
}

impl Region {
    /// The part from `first` on, within the 4 GiB that are mapped; `None` if it is too small to be
    /// useful.
    #[must_use]
    pub fn from(self, first: u64) -> Option<Self> {
        let start = self.start.max(first).next_multiple_of(PAGE as u64);
        let end = self.start.saturating_add(self.length).min(1 << 32);
        let length = end.checked_sub(start)?;
        (length >= 16 * PAGE as u64).then_some(Self { start, length })
    }
}

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Zeroed, page-aligned memory for a device to read and write. It is never freed, since the end of
/// a device's accesses is not known. Its address is also its physical address.
///
/// # Panics
/// If `length` exceeds the address space.
#[must_use]
pub fn shared(length: usize) -> *mut u8 {
    // Not a vector of pages, since that passes a page over the stack: in a function with such an
    // aligned stack the compiler (LLVM 22) was seen to skip the code that reserves the stack.
    let length = length.max(1).next_multiple_of(PAGE);
    let layout = Layout::from_size_align(length, PAGE).expect("a size below that of all memory");
    // SAFETY: the size is at least a page.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    memory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_ends_where_memory_is_not_mapped_and_begins_behind_the_image() {
        let region = Region { start: 0x10_0000, length: 0x1000_0000 };
        let rest = Region { start: 0x40_0000, length: 0x0fd0_0000 };
        assert_eq!(region.from(0x3f_f001), Some(rest));
        let high = Region { start: 0xffff_0000, length: 1 << 40 };
        assert_eq!(high.from(0), Some(Region { start: 0xffff_0000, length: 0x1_0000 }));
        assert_eq!(Region { start: 1 << 32, length: 1 << 30 }.from(0), None);
        assert_eq!(Region { start: 0, length: 0x9_fc00 }.from(0x20_0000), None);
    }
}
