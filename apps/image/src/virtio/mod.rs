//! Virtio devices (Virtio 1.2).

mod device;
#[cfg(test)]
pub(crate) mod fake;
mod queue;
pub mod rng;

#[cfg(test)]
pub(crate) use device::Registers;
pub(crate) use device::{ANY_LAYOUT, Device};
#[cfg(test)]
pub(crate) use queue::Doorbell;
pub(crate) use queue::Queue;
