//! The packets that a conversion sends.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use rtp::packet::HeaderFields;

/// The packets of one direction that are ready, and the numbers of the next one.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// The SSRC, which is that of the source.
    pub(super) ssrc: u32,
    pub(super) sequence_number: u16,
    /// The timestamp of the next sample.
    pub(super) timestamp: u32,
    /// True if the next packet of sound begins a talkspurt.
    pub(super) is_marked: bool,
    /// Counters of all packets and of the bytes in their payloads. They wrap as in a report.
    pub(super) packets: u32,
    pub(super) bytes: u32,
    /// The headers of the packets, and the lengths of their payloads.
    ready: VecDeque<(HeaderFields, usize)>,
    payloads: Vec<u8>,
    /// The length of the payloads that are taken.
    taken: usize,
}

impl Output {
    /// Adds a packet whose payload `write` appends. Without a payload there is none.
    pub(super) fn push(
        &mut self,
        payload_type: u8,
        marker: bool,
        timestamp: u32,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = self.payloads.len();
        write(&mut self.payloads);
        let length = self.payloads.len() - start;
        if length == 0 {
            return;
        }
        let (ssrc, sequence_number) = (self.ssrc, self.sequence_number);
        let fields = HeaderFields { marker, payload_type, sequence_number, timestamp, ssrc };
        self.ready.push_back((fields, length));
        self.sequence_number = sequence_number.wrapping_add(1);
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(length as u32);
    }

    /// Writes the first packet that is ready to `buffer`, and removes it. Returns its length. One
    /// that does not fit is removed, too.
    pub(super) fn pop(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let written = loop {
            let (fields, length) = self.ready.pop_front()?;
            let payload = &self.payloads[self.taken..self.taken + length];
            self.taken += length;
            if let Ok(written) = fields.write(payload, buffer) {
                break written;
            }
        };
        if self.ready.is_empty() {
            self.clear();
        }
        Some(written)
    }

    /// True if a packet is ready.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Removes the packets that are ready.
    pub(super) fn clear(&mut self) {
        self.ready.clear();
        self.payloads.clear();
        self.taken = 0;
    }
}
