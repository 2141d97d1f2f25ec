//! A heap with a reserve: if the heap is exhausted, allocations come from the reserve. The work on
//! one message can be abandoned then, and the machine goes on.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering};

/// The divisor for the size of the reserve: the reserve is the memory divided by it.
pub const RESERVE: usize = 16;

/// The usage of the heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heap {
    /// Allocated bytes, reserve included.
    pub used: usize,
    /// All bytes of the heap, reserve included.
    pub claimed: usize,
    /// Allocated bytes of the reserve: not 0 if the heap was exhausted.
    pub used_reserve: usize,
}

impl Heap {
    /// Bytes that can be allocated before the reserve is used.
    #[must_use]
    pub const fn free(&self) -> usize {
        let most = self.claimed - self.claimed / RESERVE;
        most.saturating_sub(self.used - self.used_reserve)
    }
}

/// An allocator of `main`, and of `reserve` if that is exhausted.
#[derive(Debug)]
pub struct WithReserve<A> {
    /// The allocator of most of the memory.
    pub main: A,
    /// The allocator of the reserve.
    pub reserve: A,
    /// The first address of the reserve, and the address behind its end.
    start: AtomicUsize,
    end: AtomicUsize,
}

impl<A> WithReserve<A> {
    /// An allocator without memory.
    pub const fn new(main: A, reserve: A) -> Self {
        Self { main, reserve, start: AtomicUsize::new(0), end: AtomicUsize::new(0) }
    }

    /// Sets the address range of the reserve. Must be called before the first allocation.
    pub fn set_reserve(&self, start: usize, length: usize) {
        self.start.store(start, Ordering::Relaxed);
        self.end.store(start + length, Ordering::Relaxed);
    }

    /// The allocator that owns the memory at `pointer`.
    fn owner(&self, pointer: *mut u8) -> &A {
        let reserve = self.start.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed);
        if reserve.contains(&pointer.addr()) { &self.reserve } else { &self.main }
    }
}

// SAFETY: memory comes from one of two allocators, and returns to the same one by its address.
unsafe impl<A: GlobalAlloc> GlobalAlloc for WithReserve<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of both.
        let memory = unsafe { self.main.alloc(layout) };
        if memory.is_null() {
            // SAFETY: as above.
            return unsafe { self.reserve.alloc(layout) };
        }
        memory
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: this allocator returned the memory.
        unsafe { self.owner(pointer).dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let owner = self.owner(pointer);
        // SAFETY: this allocator returned the memory.
        let memory = unsafe { owner.realloc(pointer, layout, size) };
        if !memory.is_null() {
            return memory;
        }
        // SAFETY: the caller guarantees that `size` with this alignment is a valid layout.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !new.is_null() {
            // SAFETY: both have at least as many bytes, and do not overlap: the old one is still
            // allocated.
            unsafe {
                pointer.copy_to_nonoverlapping(new, layout.size().min(size));
                self.dealloc(pointer, layout);
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    /// An allocator on the system's one with a limit of `most` bytes.
    struct Bounded {
        most: usize,
        used: AtomicUsize,
    }

    // SAFETY: the memory is the system allocator's.
    unsafe impl GlobalAlloc for Bounded {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            if self.used.load(Ordering::Relaxed) + layout.size() > self.most {
                return core::ptr::null_mut();
            }
            self.used.fetch_add(layout.size(), Ordering::Relaxed);
            // SAFETY: the caller keeps the contract.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            self.used.fetch_sub(layout.size(), Ordering::Relaxed);
            // SAFETY: the caller keeps the contract.
            unsafe { System.dealloc(pointer, layout) }
        }
    }

    fn bounded(most: usize) -> Bounded {
        Bounded { most, used: AtomicUsize::new(0) }
    }

    #[test]
    fn an_allocation_without_room_is_taken_from_the_reserve_and_goes_back_there() {
        let heap = WithReserve::new(bounded(1000), bounded(500));
        let layout = |size| Layout::from_size_align(size, 8).expect("a layout");
        // SAFETY: the memory accessed and freed was allocated here with the same layout.
        unsafe {
            let first = heap.alloc(layout(900));
            let second = heap.alloc(layout(300));
            assert!(!second.is_null());
            heap.set_reserve(second.addr(), 300);
            assert_eq!(heap.reserve.used.load(Ordering::Relaxed), 300);
            assert!(heap.alloc(layout(300)).is_null(), "the reserve has an end, too");
            second.write_bytes(7, 300);
            heap.dealloc(first, layout(900));
            // The reserve is too small to grow it, and the heap has room now.
            let grown = heap.realloc(second, layout(300), 600);
            assert_eq!((grown.read(), grown.add(299).read()), (7, 7));
            heap.set_reserve(0, 0);
            heap.dealloc(grown, layout(600));
        }
        assert_eq!(heap.main.used.load(Ordering::Relaxed), 0);
        assert_eq!(heap.reserve.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_reserve_is_no_room_that_is_free() {
        let heap = Heap { used: 900, claimed: 1600, used_reserve: 0 };
        assert_eq!(heap.free(), 600);
        assert_eq!(Heap { used: 1520, used_reserve: 20, ..heap }.free(), 0);
    }
}
