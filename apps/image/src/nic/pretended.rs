//! A fake card for tests of the layers above.

use super::{MAX_FRAME, Nic};
use alloc::boxed::Box;
use smoltcp::wire::EthernetAddress;

/// A card that receives nothing and discards sent frames.
#[derive(Debug)]
struct Card([u8; MAX_FRAME]);

impl Nic for Card {
    fn name(&self) -> &'static str {
        "card"
    }

    fn mac(&self) -> EthernetAddress {
        EthernetAddress([2, 0, 0, 0, 0, 1])
    }

    fn has_link(&mut self) -> bool {
        true
    }

    fn receive(&mut self) -> bool {
        false
    }

    fn frame(&self) -> &[u8] {
        &[]
    }

    fn buffer(&mut self) -> Option<&mut [u8]> {
        Some(&mut self.0)
    }

    fn send(&mut self, _: usize) {}

    fn flush(&mut self) {}
}

/// Returns a fake card.
pub(crate) fn card() -> Box<dyn Nic> {
    Box::new(Card([0; MAX_FRAME]))
}
