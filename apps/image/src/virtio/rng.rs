//! The virtio entropy device.

use super::{Device, Queue};
use crate::machine::memory::shared;
use crate::machine::pci::Function;
use crate::machine::wait::comes_true;
use core::ptr;

/// The only queue.
const REQUESTS: u16 = 0;
/// Time limit for the host in milliseconds: it may have to wait for entropy itself.
const PATIENCE: u64 = 2000;

/// A seed from this device; `None` if it is no entropy device, or does not deliver enough.
#[must_use]
pub fn seed<const N: usize>(function: &Function) -> Option<[u8; N]> {
    if function.vendor != 0x1af4 || !matches!(function.device, 0x1005 | 0x1044) {
        return None;
    }
    let device = Device::open(function, 0)?;
    let mut queue = device.queue(REQUESTS)?;
    device.start();
    let seed = fill(&mut queue);
    device.reset();
    seed
}

/// Requests bytes until there are enough: the device may return fewer than requested.
fn fill<const N: usize>(queue: &mut Queue) -> Option<[u8; N]> {
    let memory = shared(N);
    let mut seed = [0; N];
    let mut count = 0;
    while count < N {
        queue.describe(0, memory, N - count, true, None);
        queue.offer(0);
        queue.flush();
        let mut used = None;
        comes_true(PATIENCE, || {
            used = queue.take();
            used.is_some()
        });
        let length = used?.length.min(N - count);
        if length == 0 {
            return None;
        }
        // SAFETY: the device has returned this memory, which has that length.
        unsafe { ptr::copy_nonoverlapping(memory, seed[count..].as_mut_ptr(), length) };
        count += length;
    }
    Some(seed)
}

#[cfg(test)]
mod tests {
    use super::super::Doorbell;
    use super::super::fake::Fake;
    use super::*;
    use crate::machine::random::SEED;

    /// The seed from a device that returns `lengths` bytes at a time, with the values 1, 2, and so
    /// on.
    fn seed(lengths: &'static [usize]) -> Option<[u8; SEED]> {
        let mut queue = Queue::new(0, 8, Doorbell::Memory(shared(2).cast())).expect("a queue");
        let mut device = Fake::new(&queue);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut next = 1;
                for &length in lengths {
                    let buffer = core::iter::repeat_with(|| {
                        std::thread::yield_now();
                        device.take()
                    });
                    let buffer = buffer.flatten().next().expect("a buffer");
                    buffer.write(&(next..=next + length as u8).collect::<std::vec::Vec<_>>());
                    next += length as u8;
                    device.give(buffer.descriptor.into(), length as u32);
                }
            });
            fill(&mut queue)
        })
    }

    #[test]
    fn it_is_asked_until_there_are_enough_bytes() {
        let whole = core::array::from_fn(|at| at as u8 + 1);
        assert_eq!(seed(&[SEED]), Some(whole));
        assert_eq!(seed(&[1, 20, 11]), Some(whole));
        assert_eq!(seed(&[30, 100]), Some(whole));
        assert_eq!(seed(&[31, 0]), None);
    }
}
