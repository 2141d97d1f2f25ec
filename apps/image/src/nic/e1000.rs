//! Intel's gigabit cards e1000 (8254x) and e1000e (82571 to 82574, 82583), which many virtual
//! machines emulate.
//!
//! Both have the same registers, and accept the descriptors of the older one. Interrupts are not
//! used.

use super::card::{MAX_FRAME, Nic};
use crate::machine::mapping;
use crate::machine::memory::shared;
use crate::machine::pci::{Bar, Function};
use crate::machine::wait::{comes_true, pause};
use core::sync::atomic::{Ordering, fence};
use core::{ptr, slice};
use smoltcp::wire::EthernetAddress;

/// The copper cards of "PCI/PCI-X Family of Gigabit Ethernet Controllers".
pub(super) const DEVICES: &[u16] = &[
    0x1008, 0x100c, // 82544EI, 82544GC
    0x100e, 0x1015, // 82540EM
    0x1016, 0x1017, 0x101e, // 82540EP
    0x100f, 0x1026, // 82545EM, 82545GM
    0x1010, 0x1079, // 82546EB, 82546GB
    0x1013, 0x1018, 0x1076, 0x1077, 0x1078, 0x107c, // 82541
    0x1019, 0x101a, 0x1075, // 82547
];

/// The PCI Express copper cards that accept the same descriptors.
pub(super) const EXPRESS_DEVICES: &[u16] = &[
    0x105e, // 82571EB
    0x107d, 0x10b9, // 82572EI
    0x108b, 0x108c, 0x109a, // 82573E, 82573L
    0x10d3, 0x10f6, // 82574L, 82574LA
    0x150c, // 82583V
];

/// Length of the register space in bytes.
const REGISTERS: u32 = 0x2_0000;

const CTRL: usize = 0x0000;
const STATUS: usize = 0x0008;
const EECD: usize = 0x0010;
const EERD: usize = 0x0014;
const ICR: usize = 0x00c0;
const IMC: usize = 0x00d8;
const RCTL: usize = 0x0100;
const TCTL: usize = 0x0400;
const TIPG: usize = 0x0410;
const RX_RING: usize = 0x2800;
const TX_RING: usize = 0x3800;
const TXDCTL: usize = 0x3828;
const MTA: usize = 0x5200;
const RAL: usize = 0x5400;
const RAH: usize = 0x5404;

// Registers of a ring: address in two halves, length in bytes, the card's descriptor index, and
// ours.
const BASE_LOW: usize = 0x00;
const BASE_HIGH: usize = 0x04;
const LENGTH: usize = 0x08;
const HEAD: usize = 0x10;
const TAIL: usize = 0x18;

const CTRL_MASTER_DISABLE: u32 = 1 << 2;
const CTRL_LINK_RESET: u32 = 1 << 3;
const CTRL_LINK_UP: u32 = 1 << 6;
const CTRL_INVERT_LOSS: u32 = 1 << 7;
const CTRL_FORCE_SPEED: u32 = 1 << 11;
const CTRL_FORCE_DUPLEX: u32 = 1 << 12;
const CTRL_RESET: u32 = 1 << 26;
const CTRL_VLAN: u32 = 1 << 30;
const CTRL_PHY_RESET: u32 = 1 << 31;
const STATUS_LINK_UP: u32 = 1 << 1;
const STATUS_MASTER: u32 = 1 << 19;
const EECD_HAS_READ: u32 = 1 << 9;
const RCTL_ENABLE: u32 = 1 << 1;
const RCTL_BROADCAST: u32 = 1 << 15;
/// The checksum of a frame is stripped.
const RCTL_STRIP: u32 = 1 << 26;
const TCTL_ENABLE: u32 = 1 << 1;
const TCTL_PAD: u32 = 1 << 3;
/// Number of retransmissions after a collision, and their distance, in half duplex.
const TCTL_COLLISIONS: u32 = 0x0f << 4 | 0x40 << 12;
const TCTL_COLLISION_FIELDS: u32 = 0xff << 4 | 0x3ff << 12;
/// The inter-frame gaps that the manual requires on copper.
const TIPG_COPPER: u32 = 10 | 8 << 10 | 6 << 20;
/// A bit that drivers of the newer cards must set, according to the manuals.
const TXDCTL_ALWAYS: u32 = 1 << 22;
const RAH_VALID: u32 = 1 << 31;

const DONE: u8 = 1;
const END_OF_PACKET: u8 = 1 << 1;
/// All error bits of a frame except those of IP, TCP and UDP checksums.
const BROKEN: u8 = 0x97;
/// End of packet, insert the checksum, report completion.
const SEND: u8 = 1 | 1 << 1 | 1 << 3;

/// Number of descriptors of a ring: a multiple of eight.
const RING: u16 = 256;
/// Length of a buffer in bytes: the card's default.
const BUFFER: usize = 2048;
/// Number of receive buffers returned at a time: each notification is expensive.
const BATCH: u16 = RING / 4;

/// The family of a card, for the differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    E1000,
    E1000e,
}

/// A receive or transmit descriptor.
#[derive(Clone, Copy)]
#[repr(C)]
struct Descriptor {
    address: u64,
    length: u16,
    /// Receive: a checksum. Transmit: the start of a checksum, and the command.
    middle: [u8; 2],
    status: u8,
    /// Receive: the error bits.
    errors: u8,
    special: u16,
}

/// A ring of descriptors, with a buffer for each.
#[derive(Debug)]
struct Ring {
    descriptors: *mut Descriptor,
    memory: *mut u8,
    /// The next descriptor.
    next: u16,
    /// The descriptor index last reported to the card.
    told: u16,
}

impl Ring {
    fn new(status: u8) -> Self {
        let descriptors = shared(size_of::<Descriptor>() * usize::from(RING)).cast();
        let memory = shared(BUFFER * usize::from(RING));
        let ring = Self { descriptors, memory, next: 0, told: 0 };
        (0..RING).for_each(|at| ring.write(at, 0, [0; 2], status));
        ring
    }

    /// The buffer of descriptor `at`.
    fn buffer(&self, at: u16) -> *mut u8 {
        self.memory.wrapping_add(BUFFER * usize::from(at % RING))
    }

    fn place(&self, at: u16) -> *mut Descriptor {
        self.descriptors.wrapping_add((at % RING).into())
    }

    fn read(&self, at: u16) -> Descriptor {
        // SAFETY: the place is in the ring, and aligned.
        unsafe { ptr::read_volatile(self.place(at)) }
    }

    fn write(&self, at: u16, length: usize, middle: [u8; 2], status: u8) {
        let descriptor = Descriptor {
            address: self.buffer(at).addr() as u64,
            length: length as u16,
            middle,
            status,
            errors: 0,
            special: 0,
        };
        // SAFETY: as above.
        unsafe { ptr::write_volatile(self.place(at), descriptor) }
    }

    /// Returns true if the card has completed descriptor `at`.
    fn is_done(&self, at: u16) -> bool {
        let is_done = self.read(at).status & DONE != 0;
        // The card's other writes are visible only behind this fence.
        fence(Ordering::Acquire);
        is_done
    }

    fn advance(&mut self) {
        self.next = (self.next + 1) % RING;
    }
}

/// An Intel card.
#[derive(Debug)]
pub(super) struct E1000 {
    registers: Registers,
    family: Family,
    mac: EthernetAddress,
    received: Ring,
    /// The descriptor index and the length of the last received frame.
    current: Option<(u16, usize)>,
    transmitted: Ring,
}

/// The mapped registers of a card.
#[derive(Clone, Copy, Debug)]
struct Registers(*mut u8);

impl Registers {
    fn read(self, at: usize) -> u32 {
        // SAFETY: the registers were mapped when the card was opened.
        unsafe { ptr::read_volatile(self.0.wrapping_add(at).cast()) }
    }

    fn write(self, at: usize, value: u32) {
        // SAFETY: as above.
        unsafe { ptr::write_volatile(self.0.wrapping_add(at).cast(), value) }
    }

    /// Resets the card. The address and the link settings are kept. Returns false if the reset does
    /// not complete.
    fn reset(self, family: Family) -> bool {
        self.write(IMC, !0);
        self.write(RCTL, 0);
        self.write(TCTL, 0);
        if family == Family::E1000e {
            // Pending memory accesses complete first.
            self.write(CTRL, self.read(CTRL) | CTRL_MASTER_DISABLE);
            let _ = comes_true(100, || self.read(STATUS) & STATUS_MASTER == 0);
        } else {
            pause(10_000);
        }
        self.write(CTRL, self.read(CTRL) | CTRL_RESET);
        // By then all cards have read their EEPROM and have configured their PHY.
        pause(25_000);
        self.write(IMC, !0);
        let _ = self.read(ICR);
        // Without the card all bits are set.
        self.read(CTRL) & CTRL_RESET == 0
            && (family == Family::E1000 || self.read(EECD) & EECD_HAS_READ != 0)
    }

    /// The Ethernet address that the card has read from its EEPROM, or that is read there now.
    fn mac(self, family: Family) -> Option<EthernetAddress> {
        let (low, high) = (self.read(RAL), self.read(RAH));
        let words = [low as u16, (low >> 16) as u16, high as u16];
        if let (true, Some(mac)) = (high & RAH_VALID != 0, address(words)) {
            return Some(mac);
        }
        let mut words = [0; 3];
        for (at, word) in (0..).zip(&mut words) {
            *word = self.eeprom(family, at)?;
        }
        address(words)
    }

    fn eeprom(self, family: Family, at: u32) -> Option<u16> {
        // The 82541 and 82547 have the newer layout, but they report their address themselves.
        let (shift, done) = match family {
            Family::E1000 => (8, 1 << 4),
            Family::E1000e => (2, 1 << 1),
        };
        self.write(EERD, at << shift | 1);
        comes_true(10, || self.read(EERD) & done != 0).then(|| (self.read(EERD) >> 16) as u16)
    }
}

/// The Ethernet address in these EEPROM words; `None` if it is invalid.
fn address([first, second, third]: [u16; 3]) -> Option<EthernetAddress> {
    let [a, b] = first.to_le_bytes();
    let [c, d] = second.to_le_bytes();
    let [e, f] = third.to_le_bytes();
    let mac = EthernetAddress([a, b, c, d, e, f]);
    (mac.is_unicast() && mac.0 != [0; 6]).then_some(mac)
}

impl E1000 {
    /// Opens the card; `None` if it does not work.
    pub(super) fn open(function: &Function, family: Family) -> Option<Self> {
        function.enable();
        let Some(Bar::Memory(base)) = function.bar(0) else { return None };
        let registers = Registers(mapping::device(base, REGISTERS)?);
        registers.reset(family).then(|| Self::set_up(registers, family))?
    }

    /// Configures the card after the reset.
    fn set_up(registers: Registers, family: Family) -> Option<Self> {
        let mac = registers.mac(family)?;
        let [a, b, c, d, e, f] = mac.0;
        registers.write(RAL, u32::from_le_bytes([a, b, c, d]));
        registers.write(RAH, u32::from_le_bytes([e, f, 0, 0]) | RAH_VALID);
        // No multicast.
        (0..128).for_each(|entry| registers.write(MTA + 4 * entry, 0));

        // Speed and duplex are negotiated.
        let control = registers.read(CTRL)
            & !(CTRL_LINK_RESET | CTRL_INVERT_LOSS | CTRL_FORCE_SPEED | CTRL_FORCE_DUPLEX)
            & !(CTRL_MASTER_DISABLE | CTRL_VLAN | CTRL_PHY_RESET);
        registers.write(CTRL, control | CTRL_LINK_UP);

        let (received, transmitted) = (Ring::new(0), Ring::new(DONE));
        for (at, ring) in [(RX_RING, &received), (TX_RING, &transmitted)] {
            let address = ring.descriptors.addr() as u64;
            registers.write(at + BASE_LOW, address as u32);
            registers.write(at + BASE_HIGH, (address >> 32) as u32);
            registers.write(at + LENGTH, u32::from(RING) * size_of::<Descriptor>() as u32);
            registers.write(at + HEAD, 0);
            registers.write(at + TAIL, 0);
        }
        match family {
            Family::E1000 => registers.write(TIPG, TIPG_COPPER),
            Family::E1000e => registers.write(TXDCTL, registers.read(TXDCTL) | TXDCTL_ALWAYS),
        }
        // Longer frames are rejected, so that each frame fits one buffer.
        registers.write(RCTL, RCTL_ENABLE | RCTL_BROADCAST | RCTL_STRIP);
        let transmit = registers.read(TCTL) & !TCTL_COLLISION_FIELDS;
        registers.write(TCTL, transmit | TCTL_ENABLE | TCTL_PAD | TCTL_COLLISIONS);

        let mut card = Self { registers, family, mac, received, current: None, transmitted };
        // The card has all buffers up to this one exclusively: with all of them the ring would look
        // empty.
        card.received.told = RING - 1;
        fence(Ordering::Release);
        registers.write(RX_RING + TAIL, (RING - 1).into());
        Some(card)
    }
}

impl Nic for E1000 {
    fn name(&self) -> &'static str {
        match self.family {
            Family::E1000 => "e1000",
            Family::E1000e => "e1000e",
        }
    }

    fn mac(&self) -> EthernetAddress {
        self.mac
    }

    fn has_link(&mut self) -> bool {
        self.registers.read(STATUS) & STATUS_LINK_UP != 0
    }

    fn receive(&mut self) -> bool {
        if let Some((at, _)) = self.current.take() {
            self.received.write(at, 0, [0; 2], 0);
            let waiting = at.wrapping_sub(self.received.told) % RING;
            if waiting >= BATCH {
                self.received.told = at;
                fence(Ordering::Release);
                self.registers.write(RX_RING + TAIL, at.into());
            }
        }
        let at = self.received.next;
        if !self.received.is_done(at) {
            return false;
        }
        let Descriptor { length, status, errors, .. } = self.received.read(at);
        // A broken frame is returned as an empty one.
        let is_whole = status & END_OF_PACKET != 0 && errors & BROKEN == 0;
        let length = if is_whole { usize::from(length).min(BUFFER) } else { 0 };
        self.current = Some((at, length));
        self.received.advance();
        true
    }

    fn frame(&self) -> &[u8] {
        let Some((at, length)) = self.current else { return &[] };
        // SAFETY: the card has returned this buffer, and gets it again only from `receive`.
        unsafe { slice::from_raw_parts(self.received.buffer(at), length) }
    }

    fn buffer(&mut self) -> Option<&mut [u8]> {
        let at = self.transmitted.next;
        // The descriptor behind is never in use: a full ring would look empty.
        let is_free = self.transmitted.is_done(at + 1);
        // SAFETY: the card does not own this buffer, and gets it only from `send`.
        is_free
            .then(|| unsafe { slice::from_raw_parts_mut(self.transmitted.buffer(at), MAX_FRAME) })
    }

    fn send(&mut self, length: usize) {
        let at = self.transmitted.next;
        self.transmitted.write(at, length.min(MAX_FRAME), [0, SEND], 0);
        self.transmitted.advance();
    }

    fn flush(&mut self) {
        let ring = &mut self.transmitted;
        if ring.told != ring.next {
            ring.told = ring.next;
            fence(Ordering::Release);
            self.registers.write(TX_RING + TAIL, ring.next.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A simulated card: registers and descriptor indexes in memory.
    struct Fake {
        registers: Registers,
        received: u16,
        sent: u16,
    }

    const ADDRESS: EthernetAddress = EthernetAddress([2, 3, 4, 5, 6, 7]);

    fn set_up() -> (E1000, Fake) {
        let registers = Registers(shared(REGISTERS as usize));
        registers.write(RAL, 0x0504_0302);
        registers.write(RAH, 0x0706 | RAH_VALID);
        let card = E1000::set_up(registers, Family::E1000e).expect("a card");
        (card, Fake { registers, received: 0, sent: 0 })
    }

    impl Fake {
        fn descriptor(&self, ring: usize, at: u16) -> *mut Descriptor {
            assert_eq!(self.registers.read(ring + LENGTH), 16 * u32::from(RING));
            let base = u64::from(self.registers.read(ring + BASE_HIGH)) << 32
                | u64::from(self.registers.read(ring + BASE_LOW));
            (base as *mut Descriptor).wrapping_add(at.into())
        }

        /// Writes a frame with these status bits to the next receive buffer. Returns false if there
        /// is no buffer.
        fn give(&mut self, frame: &[u8], length: usize, status: u8, errors: u8) -> bool {
            if u32::from(self.received) == self.registers.read(RX_RING + TAIL) {
                return false;
            }
            let place = self.descriptor(RX_RING, self.received);
            // SAFETY: the driver has given this descriptor to the card.
            unsafe {
                assert_eq!((*place).status, 0, "what the card has is what it has not used");
                ptr::copy_nonoverlapping(frame.as_ptr(), (*place).address as *mut u8, frame.len());
                (*place).length = length as u16;
                (*place).errors = errors;
                (*place).status = status;
            }
            self.received = (self.received + 1) % RING;
            true
        }

        fn give_whole(&mut self, frame: &[u8]) -> bool {
            self.give(frame, frame.len(), DONE | END_OF_PACKET, 0)
        }

        /// The next frame that the driver sends.
        fn take(&mut self) -> Option<Vec<u8>> {
            if u32::from(self.sent) == self.registers.read(TX_RING + TAIL) {
                return None;
            }
            let place = self.descriptor(TX_RING, self.sent);
            self.sent = (self.sent + 1) % RING;
            // SAFETY: as above.
            unsafe {
                assert_eq!(((*place).status, (*place).middle), (0, [0, SEND]));
                (*place).status = DONE;
                let (memory, length) = ((*place).address as *const u8, (*place).length);
                Some(slice::from_raw_parts(memory, length.into()).to_vec())
            }
        }
    }

    fn frame(number: usize) -> Vec<u8> {
        (0..60 + number % (MAX_FRAME - 60)).map(|at| (at ^ number) as u8).collect()
    }

    #[test]
    fn received_frames_keep_their_order_and_their_buffers_return() {
        let (mut nic, mut card) = set_up();
        assert_eq!(nic.mac(), ADDRESS);
        let (mut given, mut taken) = (0, 0);
        while taken < 2000 {
            // Bursts of different sizes, sometimes up to the capacity.
            let burst = if taken % 7 == 0 { usize::MAX } else { taken % 100 };
            let before = given;
            while given - before < burst && card.give_whole(&frame(given)) {
                given += 1;
            }
            assert!(burst < usize::MAX || given - taken >= usize::from(RING - 1 - BATCH));
            while nic.receive() {
                assert_eq!(nic.frame(), frame(taken));
                taken += 1;
            }
            assert_eq!(given, taken);
            assert!(nic.frame().is_empty());
        }
    }

    #[test]
    fn the_memory_of_a_frame_is_the_cards_only_when_the_next_one_is_asked_for() {
        let (mut nic, mut card) = set_up();
        for number in 0..3 * usize::from(RING) {
            while card.give_whole(&frame(number)) {}
            assert!(nic.receive());
            let seen = nic.frame().to_vec();
            while card.give_whole(&[0xff; 60]) {}
            assert_eq!(nic.frame(), seen);
        }
    }

    #[test]
    fn a_length_beyond_the_buffer_and_a_broken_frame_are_not_believed() {
        let (mut nic, mut card) = set_up();
        assert!(card.give(&frame(1), 0xffff, DONE | END_OF_PACKET, 0));
        assert!(card.give(&frame(1), 100, DONE, 0));
        assert!(card.give(&frame(1), 100, DONE | END_OF_PACKET, 1));
        assert!(card.give(&frame(1), 100, DONE | END_OF_PACKET, 0x60));
        let lengths = [(); 4].map(|()| (nic.receive(), nic.frame().len()));
        assert_eq!(lengths, [(true, BUFFER), (true, 0), (true, 0), (true, 100)]);
        assert!(!nic.receive());
    }

    #[test]
    fn frames_are_sent_in_order_and_wait_for_a_full_card() {
        let (mut nic, mut card) = set_up();
        let (mut sent, mut taken) = (0, 0);
        for _ in 0..5 {
            let told = card.registers.read(TX_RING + TAIL);
            while let Some(memory) = nic.buffer() {
                let frame = frame(sent);
                memory[..frame.len()].copy_from_slice(&frame);
                nic.send(frame.len());
                sent += 1;
            }
            assert_eq!(sent - taken, usize::from(RING - 1));
            assert_eq!(card.registers.read(TX_RING + TAIL), told);
            nic.flush();
            // Only some of the queued frames are sent.
            for _ in 0..100 {
                assert_eq!(card.take(), Some(frame(taken)));
                taken += 1;
            }
        }
        while let Some(bytes) = card.take() {
            assert_eq!(bytes, frame(taken));
            taken += 1;
        }
        assert_eq!(sent, taken);
    }

    #[test]
    fn an_address_is_one_of_a_single_card() {
        assert_eq!(address([0x0302, 0x0504, 0x0706]), Some(ADDRESS));
        assert_eq!(address([0, 0, 0]), None);
        assert_eq!(address([0x0301, 0x0504, 0x0706]), None);
        assert_eq!(address([0xffff, 0xffff, 0xffff]), None);
    }
}
