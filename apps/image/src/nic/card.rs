//! The interface of network cards.

use core::fmt;
use smoltcp::wire::EthernetAddress;

/// Length of the largest frame in bytes, without its checksum.
pub const MAX_FRAME: usize = 1514;

/// A network card. A driver is a type with these methods, and a line in [`KNOWN`](super::KNOWN).
pub trait Nic: fmt::Debug {
    /// The name of the card.
    fn name(&self) -> &'static str;

    /// The Ethernet address.
    fn mac(&self) -> EthernetAddress;

    /// Returns true if there is a link.
    fn has_link(&mut self) -> bool;

    /// Receives the next frame, and returns the buffer of the previous one to the card. Returns
    /// false if there is no frame.
    fn receive(&mut self) -> bool;

    /// The frame that [`Nic::receive`] received, in the card's buffer.
    fn frame(&self) -> &[u8];

    /// A buffer of [`MAX_FRAME`] bytes for the next frame to send; `None` if the card's queue is
    /// full.
    fn buffer(&mut self) -> Option<&mut [u8]>;

    /// Queues the first `length` bytes of the buffer that [`Nic::buffer`] returned.
    fn send(&mut self, length: usize);

    /// Notifies the card of queued frames.
    fn flush(&mut self);
}
