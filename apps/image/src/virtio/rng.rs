//! Randomness of the host's.

use super::{Device, Queue};
use crate::machine::memory::shared;
use crate::machine::pci::Function;
use crate::machine::random::SEED;
use crate::machine::wait::comes_true;
use core::ptr;

/// The only queue.
const REQUESTS: u16 = 0;
/// How long the host may take to give some, in milliseconds: it may have to wait for it itself.
const PATIENCE: u64 = 2000;

/// A seed from this device; `None` where it is none of randomness, or does not give as much.
#[must_use]
pub(crate) fn seed(function: &Function) -> Option<[u8; SEED]> {
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

/// Asks until there are enough bytes: a device may give fewer than are asked for.
fn fill(queue: &mut Queue) -> Option<[u8; SEED]> {
    let memory = shared(SEED);
    let mut seed = [0; SEED];
    let mut count = 0;
    while count < SEED {
        queue.describe(0, memory, SEED - count, true, None);
        queue.offer(0);
        queue.flush();
        let mut used = None;
        comes_true(PATIENCE, || {
            used = queue.take();
            used.is_some()
        });
        let length = used?.length.min(SEED - count);
        if length == 0 {
            return None;
        }
        // SAFETY: the device has given this memory back, which is as long.
        unsafe { ptr::copy_nonoverlapping(memory, seed[count..].as_mut_ptr(), length) };
        count += length;
    }
    Some(seed)
}
