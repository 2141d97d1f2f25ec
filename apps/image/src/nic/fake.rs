//! A fake card for tests of the layers above.

use super::{MAX_FRAME, Nic};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use smoltcp::wire::EthernetAddress;

/// The address of the card.
pub(crate) const MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 1]);

/// The frames on the wire of a card.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    pub(crate) to_card: VecDeque<Vec<u8>>,
    pub(crate) from_card: VecDeque<Vec<u8>>,
    pub(crate) is_cut: bool,
}

#[derive(Debug)]
struct Card {
    wire: Rc<RefCell<Wire>>,
    frame: Vec<u8>,
    memory: [u8; MAX_FRAME],
}

impl Nic for Card {
    fn name(&self) -> &'static str {
        "card"
    }

    fn mac(&self) -> EthernetAddress {
        MAC
    }

    fn has_link(&mut self) -> bool {
        !self.wire.borrow().is_cut
    }

    fn receive(&mut self) -> bool {
        let frame = self.wire.borrow_mut().to_card.pop_front();
        frame.map(|frame| self.frame = frame).is_some()
    }

    fn frame(&self) -> &[u8] {
        &self.frame
    }

    fn buffer(&mut self) -> Option<&mut [u8]> {
        Some(&mut self.memory)
    }

    fn send(&mut self, length: usize) {
        self.wire.borrow_mut().from_card.push_back(self.memory[..length].into());
    }

    fn flush(&mut self) {}
}

/// Returns a fake card and its wire.
pub(crate) fn wired() -> (Box<dyn Nic>, Rc<RefCell<Wire>>) {
    let wire = Rc::new(RefCell::new(Wire::default()));
    let (frame, memory) = (Vec::new(), [0; MAX_FRAME]);
    (Box::new(Card { wire: Rc::clone(&wire), frame, memory }), wire)
}

/// Returns a fake card that receives nothing.
pub(crate) fn card() -> Box<dyn Nic> {
    wired().0
}
