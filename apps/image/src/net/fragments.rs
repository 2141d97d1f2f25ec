//! Reassembly of fragmented datagrams (RFC 791).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use sip::{Duration, Instant};
use smoltcp::wire::Ipv4Packet;

/// Time limit for reassembly.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of incomplete datagrams, and of those from one sender.
const MOST: usize = 64;
const MOST_OF_ONE: usize = 4;
/// Maximum number of fragments of a datagram: the longest has 45 in Ethernet frames, and 120 of the
/// smallest size that IP requires.
const MOST_PARTS: usize = 128;
/// Default limit for the bytes of all incomplete datagrams.
const MOST_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    source: Ipv4Addr,
    destination: Ipv4Addr,
    ident: u16,
}

#[derive(Debug)]
struct Pieces {
    since: Instant,
    bytes: Vec<u8>,
    /// The received ranges as start and end, in order.
    parts: Vec<(usize, usize)>,
    /// The total length, once the last fragment is received.
    length: Option<usize>,
}

/// The incomplete datagrams.
#[derive(Debug)]
pub(crate) struct Fragments {
    pieces: BTreeMap<Key, Pieces>,
    /// Bytes of all of them, and the limit.
    bytes: usize,
    most: usize,
}

impl Default for Fragments {
    fn default() -> Self {
        Self { pieces: BTreeMap::new(), bytes: 0, most: MOST_BYTES }
    }
}

/// A complete datagram: UDP header and payload.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) source: Ipv4Addr,
    pub(crate) destination: Ipv4Addr,
    pub(crate) bytes: Vec<u8>,
}

impl Fragments {
    /// Limits the bytes of all incomplete datagrams.
    pub(crate) fn set_memory(&mut self, bytes: usize) {
        self.most = bytes.min(MOST_BYTES);
    }

    /// Adds the fragment `packet`. Returns the datagram once it is complete.
    pub(crate) fn add(&mut self, now: Instant, packet: &[u8]) -> Option<Whole> {
        let packet = Ipv4Packet::new_checked(packet).ok()?;
        let key = Key {
            source: packet.src_addr(),
            destination: packet.dst_addr(),
            ident: packet.ident(),
        };
        let start = usize::from(packet.frag_offset());
        let part = packet.payload();
        let end = start + part.len();
        // All fragments but the last have a multiple of eight bytes, and a packet has at most
        // 65,535.
        let is_odd = packet.more_frags() && !part.len().is_multiple_of(8);
        if part.is_empty() || is_odd || end + 20 > 65_535 {
            return None;
        }
        self.make_room(now, key);
        let pieces = self.pieces.entry(key).or_insert_with(|| Pieces {
            since: now,
            bytes: Vec::new(),
            parts: Vec::new(),
            length: None,
        });
        let before = pieces.bytes.len();
        let (is_sound, is_whole) =
            (pieces.add(start, part, packet.more_frags()), pieces.is_whole());
        self.bytes += pieces.bytes.len() - before;
        if !is_sound {
            // Inconsistent overlaps are an attack on hosts that reassemble differently.
            self.remove(key);
            return None;
        }
        if !is_whole {
            while self.bytes > self.most {
                let oldest = self.pieces.iter().min_by_key(|(_, pieces)| pieces.since);
                self.remove(oldest.map(|(key, _)| *key)?);
            }
            return None;
        }
        let Pieces { bytes, .. } = self.remove(key)?;
        Some(Whole { source: key.source, destination: key.destination, bytes })
    }

    /// Removes expired datagrams. If there is no room for `key`, the oldest one goes: of the same
    /// sender if that has too many, or else of all.
    fn make_room(&mut self, now: Instant, key: Key) {
        if self.pieces.contains_key(&key) {
            return;
        }
        while let Some((old, _)) =
            self.pieces.iter().find(|(_, pieces)| now.since(pieces.since) >= PATIENCE)
        {
            self.remove(*old);
        }
        let oldest = |of: &mut dyn Iterator<Item = (&Key, &Pieces)>| {
            of.min_by_key(|(_, pieces)| pieces.since).map(|(key, _)| *key)
        };
        let is_theirs = |(other, _): &(&Key, &Pieces)| other.source == key.source;
        let goes = if self.pieces.iter().filter(is_theirs).count() >= MOST_OF_ONE {
            oldest(&mut self.pieces.iter().filter(is_theirs))
        } else if self.pieces.len() >= MOST {
            oldest(&mut self.pieces.iter())
        } else {
            None
        };
        if let Some(key) = goes {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: Key) -> Option<Pieces> {
        let pieces = self.pieces.remove(&key)?;
        self.bytes -= pieces.bytes.len();
        Some(pieces)
    }
}

impl Pieces {
    /// Returns false if `part` contradicts an earlier fragment.
    fn add(&mut self, start: usize, part: &[u8], has_more: bool) -> bool {
        let end = start + part.len();
        let at = self.parts.partition_point(|&(other, _)| other < start);
        if self.parts.get(at) == Some(&(start, end)) {
            return self.bytes[start..end] == *part;
        }
        let overlaps = at.checked_sub(1).is_some_and(|before| self.parts[before].1 > start)
            || self.parts.get(at).is_some_and(|&(next, _)| next < end);
        let is_beyond = self.length.is_some_and(|length| end > length)
            || (!has_more && self.parts.last().is_some_and(|&(_, last)| last > end));
        if overlaps || is_beyond || self.parts.len() == MOST_PARTS {
            return false;
        }
        if !has_more {
            self.length = Some(end);
        }
        if self.bytes.len() < end {
            self.bytes.reserve_exact(end - self.bytes.len());
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(part);
        self.parts.insert(at, (start, end));
        true
    }

    fn is_whole(&self) -> bool {
        let there: usize = self.parts.iter().map(|(start, end)| end - start).sum();
        self.length == Some(there)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(ident: u16, start: usize, bytes: &[u8], has_more: bool) -> Vec<u8> {
        let mut packet = alloc::vec![0; 20 + bytes.len()];
        let mut view = Ipv4Packet::new_unchecked(&mut packet);
        view.set_version(4);
        view.set_header_len(20);
        view.set_total_len(20 + bytes.len() as u16);
        view.set_ident(ident);
        view.clear_flags();
        view.set_more_frags(has_more);
        view.set_frag_offset(start as u16);
        view.set_src_addr(Ipv4Addr::new(192, 0, 2, 9));
        view.payload_mut().copy_from_slice(bytes);
        packet
    }

    #[test]
    fn parts_in_any_order_become_a_datagram() {
        let whole: Vec<u8> = (0..40).collect();
        let parts = [(0, 16), (16, 32), (32, 40)];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
            let mut fragments = Fragments::default();
            let found: Vec<Whole> = order
                .into_iter()
                .filter_map(|number: usize| {
                    let (start, end) = parts[number];
                    let packet = part(7, start, &whole[start..end], end < 40);
                    fragments.add(Instant::ZERO, &packet)
                })
                .collect();
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].bytes, whole);
        }
    }

    #[test]
    fn parts_that_contradict_each_other_are_forgotten() {
        let other_parts = [(8, [1; 16], true), (16, [1; 16], true), (0, [1; 16], false)];
        for (start, bytes, has_more) in other_parts {
            let mut fragments = Fragments::default();
            fragments.add(Instant::ZERO, &part(7, 16, &[0; 16], true));
            fragments.add(Instant::ZERO, &part(7, start, &bytes, has_more));
            assert!(fragments.pieces.is_empty(), "{start}");
        }
    }

    #[test]
    fn all_together_have_a_bound() {
        let mut fragments = Fragments::default();
        fragments.set_memory(100_000);
        for ident in 0..40 {
            let mut packet = part(ident, 30_000, &[0; 8], true);
            let mut view = Ipv4Packet::new_unchecked(&mut packet);
            view.set_src_addr(Ipv4Addr::new(192, 0, 2, ident as u8));
            fragments.add(Instant::from_micros(ident.into()), &packet);
        }
        let there: usize = fragments.pieces.values().map(|pieces| pieces.bytes.len()).sum();
        assert_eq!((fragments.pieces.len(), fragments.bytes), (3, there));
    }

    #[test]
    fn fragments_are_limited_per_sender_and_in_time() {
        let mut fragments = Fragments::default();
        for ident in 0..100 {
            fragments.add(Instant::ZERO, &part(ident, 0, &[0; 8], true));
        }
        assert_eq!(fragments.pieces.len(), MOST_OF_ONE);
        fragments.add(Instant::ZERO + PATIENCE, &part(200, 0, &[0; 8], true));
        assert_eq!(fragments.pieces.len(), 1);
    }
}
