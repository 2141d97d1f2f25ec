//! The order of incoming packets. There is no clock: a missing packet is given up once more packets
//! than [`MAX_HELD`] wait for it.

use alloc::vec::Vec;
use smallvec::SmallVec;

/// The maximum number of packets that wait for an earlier one.
const MAX_HELD: usize = 2;

/// The largest step of the sequence number forth and back. A source with larger steps has restarted
/// (RFC 3550 appendix A.1).
const MAX_AHEAD: i16 = 3000;
const MAX_BEHIND: i16 = 100;

/// A packet out of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) payload_type: u8,
    pub(super) marker: bool,
    pub(super) timestamp: u32,
}

/// A packet that waits for an earlier one.
#[derive(Debug)]
pub(super) struct Held {
    sequence_number: u16,
    pub(super) fields: Fields,
    pub(super) payload: Vec<u8>,
}

/// The place of a packet in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is the next one.
    Next,
    /// Earlier ones are missing: it waits.
    Ahead,
    /// It is too late.
    Late,
    /// It came before.
    Repeated,
}

/// The packets of a source that wait for earlier ones.
#[derive(Debug)]
pub(super) struct Window {
    /// The sequence number of the next packet, extended by the count of its cycles.
    next: u32,
    /// The packets before the next one: the lowest bit is that of the last.
    received: u128,
    held: SmallVec<[Held; MAX_HELD]>,
    /// The sequence number that proves that the source has restarted.
    restart: Option<u16>,
}

impl Window {
    /// A window whose first packet has the number `first`.
    pub(super) fn new(first: u16) -> Self {
        Self { next: first.into(), received: 0, held: SmallVec::new(), restart: None }
    }

    /// The extended sequence number of the last processed packet (RFC 3550 section 6.4.1).
    pub(super) const fn highest(&self) -> u32 {
        self.next.wrapping_sub(1)
    }

    /// Classifies a packet by its number. The next one is to be processed, and one that is ahead
    /// to be [held](Window::hold). Then [`Window::pop`] has those that have become next.
    pub(super) fn place(&mut self, sequence_number: u16) -> Place {
        let ahead = self.distance(sequence_number).cast_signed();
        if !(-MAX_BEHIND..=MAX_AHEAD).contains(&ahead) {
            if self.restart != Some(sequence_number) {
                self.restart = Some(sequence_number.wrapping_add(1));
                return Place::Late;
            }
            let cycles = self.next & 0xffff_0000;
            *self = Self { next: cycles | u32::from(sequence_number), ..Self::new(0) };
        } else if ahead < 0 {
            let is_known = self.received >> (-(ahead + 1)).min(127) & 1 == 1;
            return if is_known { Place::Repeated } else { Place::Late };
        } else if ahead > 0 {
            let is_held = self.held.iter().any(|held| held.sequence_number == sequence_number);
            return if is_held { Place::Repeated } else { Place::Ahead };
        }
        self.step();
        Place::Next
    }

    /// Keeps a packet that is ahead.
    pub(super) fn hold(&mut self, sequence_number: u16, fields: Fields, payload: &[u8]) {
        let before =
            |held: &Held| self.distance(held.sequence_number) < self.distance(sequence_number);
        let at = self.held.iter().take_while(|held| before(held)).count();
        self.held.insert(at, Held { sequence_number, fields, payload: payload.to_vec() });
    }

    /// Returns the next packet that waits, and the number of packets before it that are given up.
    pub(super) fn pop(&mut self) -> Option<(Held, u16)> {
        let lost = self.distance(self.held.first()?.sequence_number);
        if lost > 0 && self.held.len() < MAX_HELD {
            return None;
        }
        self.next = self.next.wrapping_add(lost.into());
        self.received = self.received.checked_shl(lost.into()).unwrap_or_default();
        self.step();
        Some((self.held.remove(0), lost))
    }

    /// The number of packets from the next one up to that with `sequence_number`.
    const fn distance(&self, sequence_number: u16) -> u16 {
        sequence_number.wrapping_sub(self.next as u16)
    }

    const fn step(&mut self) {
        self.next = self.next.wrapping_add(1);
        self.received = self.received << 1 | 1;
        self.restart = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers in the order of processing, each with those given up before it.
    fn run(numbers: &[u16]) -> Vec<(u16, u16)> {
        let mut window = Window::new(numbers[0]);
        let mut out = Vec::new();
        for &number in numbers {
            let fields = Fields { payload_type: 0, marker: false, timestamp: number.into() };
            match window.place(number) {
                Place::Next => out.push((number, 0)),
                Place::Ahead => window.hold(number, fields, &[]),
                Place::Late | Place::Repeated => {}
            }
            while let Some((held, lost)) = window.pop() {
                out.push((held.fields.timestamp as u16, lost));
            }
        }
        out
    }

    #[test]
    fn reordered_packets_are_sorted_and_repeated_ones_dropped() {
        assert_eq!(run(&[1, 3, 2, 2, 3, 4]), [(1, 0), (2, 0), (3, 0), (4, 0)]);
        assert_eq!(run(&[65_534, 0, 65_535, 1]), [(65_534, 0), (65_535, 0), (0, 0), (1, 0)]);
    }

    #[test]
    fn a_missing_packet_is_given_up() {
        assert_eq!(run(&[1, 3, 4, 2, 5]), [(1, 0), (3, 1), (4, 0), (5, 0)]);
        assert_eq!(run(&[1, 4, 4, 6, 7]), [(1, 0), (4, 2), (6, 1), (7, 0)]);
    }

    #[test]
    fn a_restarted_source_is_followed_with_its_second_packet() {
        assert_eq!(run(&[1, 2, 30_000, 3, 30_001, 4]), [(1, 0), (2, 0), (3, 0), (4, 0)]);
        assert_eq!(
            run(&[1, 2, 30_000, 30_001, 30_002]),
            [(1, 0), (2, 0), (30_001, 0), (30_002, 0)]
        );
        assert_eq!(run(&[500, 300, 301, 302]), [(500, 0), (301, 0), (302, 0)]);
    }

    #[test]
    fn late_and_repeated_packets_are_distinguished() {
        let mut window = Window::new(10);
        assert_eq!(window.place(10), Place::Next);
        assert_eq!(window.place(10), Place::Repeated);
        assert_eq!(window.place(9), Place::Late);
        assert_eq!(window.place(12), Place::Ahead);
    }
}
