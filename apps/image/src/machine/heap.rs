//! A heap with a reserve: an allocation that the heap refuses is taken from the reserve, so that
//! the work on one message ends where memory ends, and the machine goes on.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicUsize, Ordering};

/// The part of the memory that is kept aside for allocations that the heap refuses.
pub const RESERVE: usize = 16;

/// The number of bytes of the memory in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heap {
    /// Bytes that are allocated, in the reserve too.
    pub used: usize,
    /// Bytes that the machine has, with the reserve.
    pub claimed: usize,
    /// Bytes of the reserve that are allocated: more than 0 where an allocation found no room.
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

/// An allocator of `main`, and of `reserve` where that has no room.
#[derive(Debug)]
pub struct WithReserve<A> {
    /// The allocator of most of the memory.
    pub main: A,
    /// The allocator of the reserve.
    pub reserve: A,
    /// The first address of the reserve, and the address behind its last.
    start: AtomicUsize,
    end: AtomicUsize,
}

impl<A> WithReserve<A> {
    /// An allocator without memory.
    pub const fn new(main: A, reserve: A) -> Self {
        Self { main, reserve, start: AtomicUsize::new(0), end: AtomicUsize::new(0) }
    }

    /// Sets where the memory of the reserve lies. To be called before anything is allocated.
    pub fn set_reserve(&self, start: usize, length: usize) {
        self.start.store(start, Ordering::Relaxed);
        self.end.store(start + length, Ordering::Relaxed);
    }

    /// The allocator of the memory at `pointer`.
    fn owner(&self, pointer: *mut u8) -> &A {
        let reserve = self.start.load(Ordering::Relaxed)..self.end.load(Ordering::Relaxed);
        if reserve.contains(&pointer.addr()) { &self.reserve } else { &self.main }
    }
}

// SAFETY: memory comes from one of two allocators, and goes back to the same one, which its address
// tells.
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
        // SAFETY: this allocator gave the memory.
        unsafe { self.owner(pointer).dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let owner = self.owner(pointer);
        // SAFETY: this allocator gave the memory.
        let memory = unsafe { owner.realloc(pointer, layout, size) };
        if !memory.is_null() {
            return memory;
        }
        // SAFETY: the caller says that `size` with this alignment is a layout.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !new.is_null() {
            // SAFETY: both have as many bytes, and are not the same: the old one is still
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

    /// An allocator of the system's memory that refuses more than `most` bytes in all.
    struct Bounded {
        most: usize,
        used: AtomicUsize,
    }

    // SAFETY: the memory is the system's.
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
        // SAFETY: what is written and freed was allocated here, with the same layout.
        unsafe {
            let first = heap.alloc(layout(900));
            let second = heap.alloc(layout(300));
            assert!(!second.is_null());
            heap.set_reserve(second.addr(), 300);
            assert_eq!(heap.reserve.used.load(Ordering::Relaxed), 300);
            assert!(heap.alloc(layout(300)).is_null(), "the reserve has an end, too");
            second.write_bytes(7, 300);
            heap.dealloc(first, layout(900));
            // There is no room in the reserve to grow there, and now there is in the heap.
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
