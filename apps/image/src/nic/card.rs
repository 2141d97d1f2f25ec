//! What all network cards do.

use core::fmt;
use smoltcp::wire::EthernetAddress;

/// Bytes of the largest frame, without its checksum.
pub const MAX_FRAME: usize = 1514;

/// A network card. A driver is a type with these methods, and a line in [`KNOWN`](super::KNOWN).
pub trait Nic: fmt::Debug {
    /// What it is.
    fn name(&self) -> &'static str;

    /// Its address.
    fn mac(&self) -> EthernetAddress;

    /// Whether a cable is plugged in, and somebody at its other end.
    fn has_link(&mut self) -> bool;

    /// Takes the next frame that came, and gives the card the memory of the one before; false where
    /// none came.
    fn receive(&mut self) -> bool;

    /// The frame that [`Nic::receive`] has taken, where the card put it.
    fn frame(&self) -> &[u8];

    /// Memory for the next frame to be sent, of [`MAX_FRAME`] bytes, where the card reads it;
    /// `None` where it has too many to send.
    fn buffer(&mut self) -> Option<&mut [u8]>;

    /// Sends the first `length` bytes of what [`Nic::buffer`] gave.
    fn send(&mut self, length: usize);

    /// Lets the card know of what is to be sent.
    fn flush(&mut self);
}
