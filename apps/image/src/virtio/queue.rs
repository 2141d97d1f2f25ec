//! Split virtqueues: descriptors of buffers, those that the device may use, those that it has used.

use super::Doorbell;
use crate::machine::memory::{PAGE, shared};
use core::ptr;
use core::sync::atomic::{Ordering, fence};

/// The buffer goes on in the next descriptor.
const NEXT: u16 = 1;
/// The device writes it.
const WRITE: u16 = 2;
/// Nobody wants an interrupt.
const NO_INTERRUPT: u16 = 1;
/// The device wants no notice.
const NO_NOTIFY: u16 = 1;

#[derive(Clone, Copy)]
#[repr(C)]
struct Descriptor {
    address: u64,
    length: u32,
    flags: u16,
    next: u16,
}

/// A queue of a device.
#[derive(Debug)]
pub(crate) struct Queue {
    number: u16,
    size: u16,
    memory: *mut u8,
    doorbell: Doorbell,
    /// Buffers that were ever offered, and of them those that the device was told of.
    offered: u16,
    told: u16,
    /// Buffers that were ever taken back.
    taken: u16,
}

/// What the device says of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    /// Its first descriptor.
    pub(crate) descriptor: u16,
    /// How many bytes were written.
    pub(crate) length: usize,
}

impl Queue {
    /// Buffers that a queue has at most.
    pub(crate) const MOST: u16 = 256;

    /// A queue of `size` descriptors, a power of two; `None` if that is no size for a queue.
    pub(crate) fn new(number: u16, size: u16, doorbell: Doorbell) -> Option<Self> {
        if !size.is_power_of_two() || size > 1 << 12 {
            return None;
        }
        let memory = shared(used_at(size) + 6 + 8 * usize::from(size));
        let queue = Self { number, size, memory, doorbell, offered: 0, told: 0, taken: 0 };
        queue.set(available_at(size), NO_INTERRUPT);
        Some(queue)
    }

    pub(crate) fn size(&self) -> u16 {
        self.size
    }

    /// The physical address of the whole.
    pub(crate) fn address(&self) -> u64 {
        self.memory.addr() as u64
    }

    /// The physical addresses of its three parts.
    pub(crate) fn parts(&self) -> [u64; 3] {
        let at = |offset: usize| self.address() + offset as u64;
        [at(0), at(available_at(self.size)), at(used_at(self.size))]
    }

    /// Makes `descriptor` one of `length` bytes at `address`, which the device may write or else
    /// read, and which goes on in `next`.
    pub(crate) fn describe(
        &mut self,
        descriptor: u16,
        address: *mut u8,
        length: usize,
        is_written: bool,
        next: Option<u16>,
    ) {
        let flags = if is_written { WRITE } else { 0 } | if next.is_some() { NEXT } else { 0 };
        let next = next.unwrap_or(0);
        let content =
            Descriptor { address: address.addr() as u64, length: length as u32, flags, next };
        let place =
            self.memory.cast::<Descriptor>().wrapping_add(usize::from(descriptor % self.size));
        // SAFETY: the place is in the first part of the queue's memory, and aligned.
        unsafe { ptr::write_volatile(place, content) }
    }

    /// Offers the buffer that begins with `descriptor`. The device is told by [`Queue::flush`].
    pub(crate) fn offer(&mut self, descriptor: u16) {
        let slot = usize::from(self.offered % self.size);
        self.set(available_at(self.size) + 4 + 2 * slot, descriptor);
        self.offered = self.offered.wrapping_add(1);
    }

    /// Tells the device what was offered.
    pub(crate) fn flush(&mut self) {
        if self.told == self.offered {
            return;
        }
        self.told = self.offered;
        // What was offered is to be seen before its number, and whether the device sleeps only then.
        fence(Ordering::SeqCst);
        self.set(available_at(self.size) + 2, self.offered);
        fence(Ordering::SeqCst);
        if self.get::<u16>(used_at(self.size)) & NO_NOTIFY == 0 {
            self.doorbell.ring(self.number);
        }
    }

    /// Takes back a buffer that the device has used.
    pub(crate) fn take(&mut self) -> Option<Used> {
        if self.get::<u16>(used_at(self.size) + 2) == self.taken {
            return None;
        }
        fence(Ordering::Acquire);
        let slot = usize::from(self.taken % self.size);
        let entry = used_at(self.size) + 4 + 8 * slot;
        let (descriptor, length) = (self.get::<u32>(entry), self.get::<u32>(entry + 4));
        self.taken = self.taken.wrapping_add(1);
        // A device may write what it likes.
        Some(Used { descriptor: descriptor as u16 % self.size, length: length as usize })
    }

    fn get<T>(&self, at: usize) -> T {
        // SAFETY: callers stay within the queue's memory, at aligned places.
        unsafe { ptr::read_volatile(self.memory.wrapping_add(at).cast()) }
    }

    fn set(&self, at: usize, value: u16) {
        // SAFETY: likewise.
        unsafe { ptr::write_volatile(self.memory.wrapping_add(at).cast(), value) }
    }
}

/// Where the buffers stand that the device may use.
const fn available_at(size: u16) -> usize {
    16 * size as usize
}

/// Where those stand that it has used.
const fn used_at(size: u16) -> usize {
    (available_at(size) + 6 + 2 * size as usize).next_multiple_of(PAGE)
}
