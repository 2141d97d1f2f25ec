//! Virtio network cards.

use super::{MAX_FRAME, Nic};
use crate::machine::memory::shared;
use crate::machine::pci::Function;
use crate::virtio::{ANY_LAYOUT, Device, Queue};
use alloc::vec::Vec;
use core::slice;
use smoltcp::wire::EthernetAddress;

const HAS_MAC: u64 = 1 << 5;
const HAS_STATUS: u64 = 1 << 16;

const RECEIVE: u16 = 0;
const TRANSMIT: u16 = 1;

/// Bytes of a buffer: a frame and its header.
const BUFFER: usize = 2048;

/// A virtio network card.
#[derive(Debug)]
pub(super) struct VirtioNet {
    device: Device,
    mac: EthernetAddress,
    /// Length of the header before each frame in bytes.
    header: usize,
    /// Descriptors per buffer: a legacy device may require a separate one for the header.
    descriptors: u16,
    received: Queue,
    received_memory: *mut u8,
    /// The buffer and the length of the last received frame.
    current: Option<(u16, usize)>,
    transmitted: Queue,
    transmitted_memory: *mut u8,
    /// Transmit buffers that the device does not own.
    free: Vec<u16>,
}

impl VirtioNet {
    /// Opens the card; `None` if it does not work.
    #[must_use]
    pub(super) fn open(function: &Function) -> Option<Self> {
        let device = Device::open(function, HAS_MAC | HAS_STATUS | ANY_LAYOUT)?;
        let mut mac = [0; 6];
        if device.features & HAS_MAC == 0 {
            return None;
        }
        for (at, byte) in (0..).zip(&mut mac) {
            *byte = device.config(at);
        }
        let received = device.queue(RECEIVE)?;
        let transmitted = device.queue(TRANSMIT)?;
        let is_split = !device.is_modern() && device.features & ANY_LAYOUT == 0;
        Some(Self::set_up(device, EthernetAddress(mac), is_split, [received, transmitted]))
    }

    fn set_up(
        device: Device,
        mac: EthernetAddress,
        is_split: bool,
        [received, transmitted]: [Queue; 2],
    ) -> Self {
        let memory = |queue: &Queue| shared(BUFFER * usize::from(queue.size()));
        let mut card = Self {
            header: if device.is_modern() { 12 } else { 10 },
            descriptors: if is_split { 2 } else { 1 },
            mac,
            received_memory: memory(&received),
            received,
            current: None,
            transmitted_memory: memory(&transmitted),
            transmitted,
            free: Vec::new(),
            device,
        };
        card.free.extend(0..card.transmitted.size() / card.descriptors);
        card.device.start();
        for buffer in 0..card.received.size() / card.descriptors {
            card.offer(buffer);
        }
        card.received.flush();
        card
    }

    fn offer(&mut self, buffer: u16) {
        let memory = place(self.received_memory, buffer);
        let (first, header) = (buffer * self.descriptors, self.header);
        match self.descriptors {
            1 => self.received.describe(first, memory, BUFFER, true, None),
            _ => {
                self.received.describe(first, memory, header, true, Some(first + 1));
                let rest = memory.wrapping_add(header);
                self.received.describe(first + 1, rest, BUFFER - header, true, None);
            }
        }
        self.received.offer(first);
    }
}

/// The address of `buffer` in `memory`.
fn place(memory: *mut u8, buffer: u16) -> *mut u8 {
    memory.wrapping_add(BUFFER * usize::from(buffer))
}

impl Nic for VirtioNet {
    fn name(&self) -> &'static str {
        if self.device.is_modern() { "virtio" } else { "virtio (legacy)" }
    }

    fn mac(&self) -> EthernetAddress {
        self.mac
    }

    fn has_link(&mut self) -> bool {
        self.device.features & HAS_STATUS == 0 || self.device.config(6) & 1 != 0
    }

    fn receive(&mut self) -> bool {
        if let Some((buffer, _)) = self.current.take() {
            self.offer(buffer);
        }
        let Some(used) = self.received.take() else {
            self.received.flush();
            return false;
        };
        let length = used.length.clamp(self.header, BUFFER) - self.header;
        self.current = Some((used.descriptor / self.descriptors, length));
        true
    }

    fn frame(&self) -> &[u8] {
        let Some((buffer, length)) = self.current else { return &[] };
        let memory = place(self.received_memory, buffer).wrapping_add(self.header);
        // SAFETY: the device has returned this buffer, and gets it again only from `receive`.
        unsafe { slice::from_raw_parts(memory, length) }
    }

    fn buffer(&mut self) -> Option<&mut [u8]> {
        while let Some(used) = self.transmitted.take() {
            self.free.push(used.descriptor / self.descriptors);
        }
        let memory = place(self.transmitted_memory, *self.free.last()?).wrapping_add(self.header);
        // SAFETY: the device does not own this buffer, and gets it only from `send`.
        Some(unsafe { slice::from_raw_parts_mut(memory, MAX_FRAME) })
    }

    fn send(&mut self, length: usize) {
        let Some(buffer) = self.free.pop() else { return };
        let memory = place(self.transmitted_memory, buffer);
        let (first, header) = (buffer * self.descriptors, self.header);
        match self.descriptors {
            1 => self.transmitted.describe(first, memory, header + length, false, None),
            _ => {
                self.transmitted.describe(first, memory, header, false, Some(first + 1));
                let rest = memory.wrapping_add(header);
                self.transmitted.describe(first + 1, rest, length, false, None);
            }
        }
        self.transmitted.offer(first);
    }

    fn flush(&mut self) {
        self.transmitted.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virtio::fake::Fake;
    use crate::virtio::{Doorbell, Registers};

    const MAC: EthernetAddress = EthernetAddress([2, 3, 4, 5, 6, 7]);

    /// A card with queues of eight descriptors, and the device's side of them.
    fn set_up(is_split: bool) -> (VirtioNet, [Fake; 2]) {
        let common = shared(64);
        let registers = Registers::Modern { common, device: None, notify: common, notify_step: 0 };
        let queue =
            |number| Queue::new(number, 8, Doorbell::Memory(shared(2).cast())).expect("a queue");
        let queues = [queue(RECEIVE), queue(TRANSMIT)];
        let views = [Fake::new(&queues[0]), Fake::new(&queues[1])];
        let device = Device { registers, features: 0 };
        (VirtioNet::set_up(device, MAC, is_split, queues), views)
    }

    fn frame(number: usize) -> Vec<u8> {
        (0..60 + number * 37 % (MAX_FRAME - 59)).map(|at| (at ^ number) as u8).collect()
    }

    fn lengths(is_split: bool, length: usize) -> Vec<usize> {
        if is_split { alloc::vec![12, length] } else { alloc::vec![12 + length] }
    }

    #[test]
    fn frames_come_in_order_and_their_memory_goes_back() {
        for is_split in [false, true] {
            let (mut nic, [mut device, _]) = set_up(is_split);
            let (mut given, mut taken) = (0, 0);
            while taken < 100 {
                while let Some(buffer) = device.take() {
                    assert_eq!(buffer.lengths(), lengths(is_split, BUFFER - 12));
                    let bytes = [&[0; 12][..], &frame(given)].concat();
                    buffer.write(&bytes);
                    device.give(buffer.descriptor.into(), bytes.len() as u32);
                    given += 1;
                }
                assert_eq!(given - taken, if is_split { 4 } else { 8 });
                while nic.receive() {
                    assert_eq!(nic.frame(), frame(taken));
                    taken += 1;
                }
                assert_eq!((given, nic.frame().len()), (taken, 0));
            }
        }
    }

    #[test]
    fn a_length_that_cannot_be_is_cut() {
        let (mut nic, [mut device, _]) = set_up(false);
        for (length, seen) in [(u32::MAX, BUFFER - 12), (11, 0), (0, 0), (13, 1)] {
            let buffer = device.take().expect("a buffer");
            device.give(buffer.descriptor.into(), length);
            assert!(nic.receive());
            assert_eq!(nic.frame().len(), seen);
        }
    }

    #[test]
    fn frames_are_sent_in_order_and_wait_for_a_full_queue() {
        for is_split in [false, true] {
            let (mut nic, [_, mut device]) = set_up(is_split);
            let (mut sent, mut taken) = (0, 0);
            for _ in 0..10 {
                while let Some(memory) = nic.buffer() {
                    let frame = frame(sent);
                    memory[..frame.len()].copy_from_slice(&frame);
                    nic.send(frame.len());
                    sent += 1;
                }
                assert_eq!(sent - taken, if is_split { 4 } else { 8 });
                assert_eq!(device.take(), None, "before it is told");
                nic.flush();
                while let Some(buffer) = device.take() {
                    let frame = frame(taken);
                    assert_eq!(buffer.lengths(), lengths(is_split, frame.len()));
                    assert_eq!(buffer.bytes(), [&[0; 12][..], &frame].concat());
                    device.give(buffer.descriptor.into(), 0);
                    taken += 1;
                }
                assert_eq!(sent, taken);
            }
        }
    }
}
