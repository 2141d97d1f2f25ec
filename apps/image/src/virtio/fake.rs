//! The device's side of a queue, for tests.

use super::Queue;
use crate::virtio::queue::{NEXT, WRITE};
use alloc::vec::Vec;
use core::{ptr, slice};

/// A simulated device on a queue.
pub(crate) struct Fake {
    descriptors: u64,
    available: u64,
    used: u64,
    size: u16,
    /// Number of buffers taken, and of buffers returned.
    taken: u16,
    given: u16,
}

/// A part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    address: u64,
    length: usize,
    is_written: bool,
}

/// A buffer: its first descriptor, and its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Buffer {
    pub(crate) descriptor: u16,
    pub(crate) parts: Vec<Part>,
}

fn read<T>(address: u64) -> T {
    // SAFETY: the driver has set this address.
    unsafe { ptr::read_volatile(address as *const T) }
}

fn write<T>(address: u64, value: T) {
    // SAFETY: as above.
    unsafe { ptr::write_volatile(address as *mut T, value) }
}

impl Fake {
    pub(crate) fn new(queue: &Queue) -> Self {
        let [descriptors, available, used] = queue.parts();
        Self { descriptors, available, used, size: queue.size(), taken: 0, given: 0 }
    }

    /// Sets if the device wants notifications.
    pub(crate) fn listen(&self, listens: bool) {
        write(self.used, u16::from(!listens));
    }

    /// Takes the next available buffer.
    pub(crate) fn take(&mut self) -> Option<Buffer> {
        if read::<u16>(self.available + 2) == self.taken {
            return None;
        }
        let descriptor = read(self.available + 4 + 2 * u64::from(self.taken % self.size));
        self.taken = self.taken.wrapping_add(1);
        let (mut parts, mut at) = (Vec::new(), descriptor);
        loop {
            assert!(at < self.size);
            let place = self.descriptors + 16 * u64::from(at);
            let flags = read::<u16>(place + 12);
            parts.push(Part {
                address: read(place),
                length: read::<u32>(place + 8) as usize,
                is_written: flags & WRITE != 0,
            });
            if flags & NEXT == 0 {
                return Some(Buffer { descriptor, parts });
            }
            at = read(place + 14);
        }
    }

    /// Returns a buffer with `length` written bytes.
    pub(crate) fn give(&mut self, descriptor: u32, length: u32) {
        let entry = self.used + 4 + 8 * u64::from(self.given % self.size);
        write(entry, descriptor);
        write(entry + 4, length);
        self.given = self.given.wrapping_add(1);
        write(self.used + 2, self.given);
    }
}

impl Buffer {
    /// The lengths of its parts.
    pub(crate) fn lengths(&self) -> Vec<usize> {
        self.parts.iter().map(|part| part.length).collect()
    }

    /// Its content, which the device may only read.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let bytes = |part: &Part| {
            assert!(!part.is_written);
            // SAFETY: the driver has set this address.
            unsafe { slice::from_raw_parts(part.address as *const u8, part.length) }
        };
        self.parts.iter().flat_map(bytes).copied().collect()
    }

    /// Writes into the buffer as far as it has room.
    pub(crate) fn write(&self, mut bytes: &[u8]) {
        for part in &self.parts {
            assert!(part.is_written);
            let (now, later) = bytes.split_at(bytes.len().min(part.length));
            // SAFETY: as above.
            unsafe { ptr::copy_nonoverlapping(now.as_ptr(), part.address as *mut u8, now.len()) };
            bytes = later;
        }
    }
}
