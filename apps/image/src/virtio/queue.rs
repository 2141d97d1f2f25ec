//! Split virtqueues: descriptor table, available ring and used ring.

use crate::machine::memory::{PAGE, shared};
use crate::machine::port;
use core::ptr;
use core::sync::atomic::{Ordering, fence};

/// The buffer continues in the next descriptor.
pub(super) const NEXT: u16 = 1;
/// The device writes to the buffer.
pub(super) const WRITE: u16 = 2;
/// No interrupts wanted.
const NO_INTERRUPT: u16 = 1;
/// The device wants no notifications.
const NO_NOTIFY: u16 = 1;

/// The notification address of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Doorbell {
    Port(u16),
    Memory(*mut u16),
}

impl Doorbell {
    /// Notifies the device of `queue`.
    pub(crate) fn ring(self, queue: u16) {
        match self {
            Self::Port(port) => port::write_u16(port, queue),
            // SAFETY: the device has reported this address for notifications.
            Self::Memory(address) => unsafe { ptr::write_volatile(address, queue) },
        }
    }
}

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
    /// Number of buffers offered in total, and of those the device was notified of.
    offered: u16,
    told: u16,
    /// Number of buffers taken back in total.
    taken: u16,
}

/// A used ring entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    /// The first descriptor of the buffer.
    pub(crate) descriptor: u16,
    /// The number of written bytes.
    pub(crate) length: usize,
}

impl Queue {
    /// Maximum number of buffers in a queue.
    pub(crate) const MOST: u16 = 256;

    /// A queue of `size` descriptors, a power of two; `None` if the size is invalid.
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

    /// The physical address of the queue.
    pub(crate) fn address(&self) -> u64 {
        self.memory.addr() as u64
    }

    /// The physical addresses of the descriptor table, the available ring and the used ring.
    pub(crate) fn parts(&self) -> [u64; 3] {
        let at = |offset: usize| self.address() + offset as u64;
        [at(0), at(available_at(self.size)), at(used_at(self.size))]
    }

    /// Sets `descriptor` to `length` bytes at `address`, writable or readable by the device, and
    /// continued in `next`.
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
        // SAFETY: the place is in the descriptor table of the queue's memory, and aligned.
        unsafe { ptr::write_volatile(place, content) }
    }

    /// Offers the buffer that begins with `descriptor`. [`Queue::flush`] notifies the device.
    pub(crate) fn offer(&mut self, descriptor: u16) {
        let slot = usize::from(self.offered % self.size);
        self.set(available_at(self.size) + 4 + 2 * slot, descriptor);
        self.offered = self.offered.wrapping_add(1);
    }

    /// Publishes the offered buffers and notifies the device.
    pub(crate) fn flush(&mut self) {
        if self.told == self.offered {
            return;
        }
        self.told = self.offered;
        // The entries must be visible before the index, and the index before the flag is read.
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
        // The device may write any value.
        Some(Used { descriptor: descriptor as u16 % self.size, length: length as usize })
    }

    fn get<T>(&self, at: usize) -> T {
        // SAFETY: callers stay within the queue's memory, at aligned places.
        unsafe { ptr::read_volatile(self.memory.wrapping_add(at).cast()) }
    }

    fn set(&self, at: usize, value: u16) {
        // SAFETY: as above.
        unsafe { ptr::write_volatile(self.memory.wrapping_add(at).cast(), value) }
    }
}

/// The offset of the available ring.
const fn available_at(size: u16) -> usize {
    16 * size as usize
}

/// The offset of the used ring.
const fn used_at(size: u16) -> usize {
    (available_at(size) + 6 + 2 * size as usize).next_multiple_of(PAGE)
}

#[cfg(test)]
mod tests {
    use super::super::fake::Fake;
    use super::*;

    /// A queue with its doorbell in memory, and the address of that.
    fn queue(size: u16) -> (Queue, *mut u16) {
        let bell = shared(2).cast();
        (Queue::new(7, size, Doorbell::Memory(bell)).expect("a queue"), bell)
    }

    /// Returns true if the doorbell was rung since the last call.
    fn was_rung(bell: *mut u16) -> bool {
        // SAFETY: the address is valid, and only doorbells write it.
        unsafe { ptr::replace(bell, 0) == 7 }
    }

    #[test]
    fn buffers_go_round_in_order_for_longer_than_numbers_last() {
        let (mut queue, _) = queue(4);
        let mut device = Fake::new(&queue);
        let memory = shared(PAGE);
        for round in 0..70_000_usize {
            let descriptor = (round % 4) as u16;
            queue.describe(descriptor, memory, round % PAGE, round % 2 == 0, None);
            queue.offer(descriptor);
            assert_eq!(device.take(), None, "before it is told");
            queue.flush();
            let buffer = device.take().expect("a buffer");
            assert_eq!((buffer.descriptor, buffer.lengths()), (descriptor, [round % PAGE].into()));
            assert_eq!(device.take(), None);
            assert!(queue.take().is_none());
            device.give(descriptor.into(), round as u32);
            let used = queue.take().expect("a used one");
            assert_eq!((used.descriptor, used.length), (descriptor, round));
        }
    }

    #[test]
    fn the_device_is_told_once_of_many_and_not_where_it_looks_itself() {
        let (mut queue, bell) = queue(8);
        let mut device = Fake::new(&queue);
        (0..4).for_each(|descriptor| queue.offer(descriptor));
        assert!(!was_rung(bell));
        queue.flush();
        assert!(was_rung(bell));
        queue.flush();
        assert!(!was_rung(bell), "of nothing");
        device.listen(false);
        queue.offer(4);
        queue.flush();
        assert!(!was_rung(bell));
        let taken = core::iter::from_fn(|| device.take()).map(|buffer| buffer.descriptor);
        assert!(taken.eq(0..5));
    }

    #[test]
    fn a_descriptor_that_there_is_not_is_not_believed() {
        let (mut queue, _) = queue(8);
        let mut device = Fake::new(&queue);
        device.give(0xffff_fffe, 1);
        assert!(queue.take().expect("a used one").descriptor < 8);
    }

    #[test]
    fn a_queue_has_a_power_of_two_of_descriptors() {
        let has = |size| Queue::new(0, size, Doorbell::Port(0)).is_some();
        assert!([1, 2, 256, 4096].into_iter().all(has));
        assert!(![0, 3, 255, 8192].into_iter().any(has));
    }
}
