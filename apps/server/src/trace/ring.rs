//! The messages of the last minutes of one worker, in memory of a fixed size.
//!
//! Messages are copied into blocks. A full block is never changed, so that a reader shares it: the
//! worker waits for a reader as long as one block is copied. The oldest block makes room for a new
//! one, which reuses its memory unless a reader still has it.

use sip::{Flow, Transport};
use std::collections::VecDeque;
use std::mem::{replace, size_of};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

/// The bytes of messages in a block.
pub(super) const BLOCK: usize = 64 * 1024;

/// The maximum number of entries in a block.
const ENTRIES: usize = 256;

/// The memory of a block.
pub(super) const BLOCK_SIZE: usize = BLOCK + ENTRIES * size_of::<Entry>();

/// The maximum number of bytes that are kept of one message.
pub(super) const MAX_KEPT: usize = 16 * 1024;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A received message.
    Received,
    /// A sent message.
    Sent,
    /// Two Call-IDs of one call, with a line end between them.
    Joined,
}

/// An entry of a block.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The time in microseconds since 1970.
    pub(super) at: u64,
    pub(super) kind: Kind,
    transport: Transport,
    local: SocketAddr,
    remote: SocketAddr,
    start: u32,
    length: u32,
    /// The number of further bytes that are not kept.
    pub(super) missing: u32,
}

impl Entry {
    /// The flow of the message, without the number of its connection.
    pub(super) fn flow(&self) -> Flow {
        let Self { transport, local, remote, .. } = *self;
        Flow { transport, local, remote, connection: None }
    }

    fn range(&self) -> Range<usize> {
        let start = self.start as usize;
        start..start + self.length as usize
    }
}

/// Entries with their bytes.
#[derive(Clone, Default)]
pub(super) struct Block {
    /// The number of entries of the ring before this block, since the start.
    first: u64,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

impl Block {
    /// The entries, the oldest first, with their bytes.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&Entry, &[u8])> {
        self.entries.iter().map(|entry| (entry, &self.bytes[entry.range()]))
    }

    /// The number of entries of the ring up to the end of this block, since the start.
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn has_room(&self, length: usize) -> bool {
        self.entries.len() < ENTRIES && self.bytes.len() + length <= BLOCK
    }
}

/// The ring of one worker.
pub(super) struct Ring {
    /// The maximum number of blocks, with the open one. Zero if nothing is kept.
    most: usize,
    full: VecDeque<Arc<Block>>,
    open: Block,
}

impl Ring {
    /// A ring of `bytes` at most. Without room for two blocks it keeps nothing.
    pub(super) fn new(bytes: usize) -> Self {
        let most = Some(bytes / BLOCK_SIZE).filter(|most| *most >= 2).unwrap_or_default();
        Self { most, full: VecDeque::new(), open: Block::default() }
    }

    /// True if entries are kept.
    pub(super) const fn is_on(&self) -> bool {
        self.most > 0
    }

    /// Adds an entry with these parts as its bytes.
    pub(super) fn push(&mut self, at: u64, kind: Kind, flow: &Flow, parts: &[&[u8]]) {
        if !self.is_on() {
            return;
        }
        let whole: usize = parts.iter().map(|part| part.len()).sum();
        let length = whole.min(MAX_KEPT);
        if !self.open.has_room(length) {
            self.close();
        }
        let Block { entries, bytes, .. } = &mut self.open;
        if bytes.capacity() == 0 {
            entries.reserve_exact(ENTRIES);
            bytes.reserve_exact(BLOCK);
        }
        let start = bytes.len();
        for part in parts {
            let room = start + length - bytes.len();
            bytes.extend_from_slice(&part[..part.len().min(room)]);
        }
        let Flow { transport, local, remote, .. } = *flow;
        let [start, length, missing] = [start, length, whole - length].map(|it| it as u32);
        entries.push(Entry { at, kind, transport, local, remote, start, length, missing });
    }

    /// Puts the open block to the full ones, and opens another.
    fn close(&mut self) {
        let mut empty = Block::default();
        // The open block is one of them.
        while self.full.len() + 1 >= self.most {
            let Some(oldest) = self.full.pop_front() else { break };
            if let Ok(block) = Arc::try_unwrap(oldest) {
                empty = block;
            }
        }
        empty.entries.clear();
        empty.bytes.clear();
        empty.first = self.open.end();
        self.full.push_back(Arc::new(replace(&mut self.open, empty)));
    }

    /// The entries after the first `seen` ones since the start, as far as they are still there.
    /// Copies the open block.
    pub(super) fn since(&self, seen: u64) -> Since {
        let skipped = self.full.partition_point(|block| block.end() <= seen);
        let mut blocks: Vec<_> = self.full.iter().skip(skipped).cloned().collect();
        if self.open.end() > seen {
            blocks.push(Arc::new(self.open.clone()));
        }
        let first = blocks.first().map_or(seen, |block| block.first);
        let skip = seen.saturating_sub(first) as usize;
        Since { blocks, skip, end: self.open.end(), lost: first.saturating_sub(seen) }
    }
}

/// Entries of a ring.
pub(super) struct Since {
    blocks: Vec<Arc<Block>>,
    /// The number of entries of the first block that are skipped.
    skip: usize,
    /// The number of entries since the start, with these.
    pub(super) end: u64,
    /// The number of entries before these that are no longer there.
    pub(super) lost: u64,
}

impl Since {
    /// The entries, the oldest first, with their bytes.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&Entry, &[u8])> {
        self.blocks.iter().flat_map(|block| block.entries()).skip(self.skip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Flow {
        let end = ([192, 0, 2, 1], 5060).into();
        Flow { transport: Transport::Tcp, local: end, remote: end, connection: None }
    }

    fn add(ring: &mut Ring, from: usize, count: usize, length: usize) {
        for number in from..from + count {
            ring.push(number as u64, Kind::Sent, &flow(), &[&vec![b'a'; length]]);
        }
    }

    fn times(since: &Since) -> Vec<u64> {
        since.entries().map(|(entry, _)| entry.at).collect()
    }

    #[test]
    fn the_last_entries_are_kept_in_a_fixed_memory() {
        for (length, per_block) in [(1, ENTRIES), (1000, 65), (MAX_KEPT, 4)] {
            let mut ring = Ring::new(3 * BLOCK_SIZE);
            add(&mut ring, 0, 1000, length);
            let kept = times(&ring.since(0));
            let expected = 2 * per_block + (1000 - 1) % per_block + 1;
            assert_eq!(kept, (1000 - expected as u64..1000).collect::<Vec<_>>(), "{length}");
            let blocks = ring.full.iter().map(|it| &**it).chain([&ring.open]);
            let most =
                blocks.map(|it| it.bytes.capacity() + it.entries.capacity() * size_of::<Entry>());
            assert!(most.max().unwrap() <= BLOCK_SIZE);
        }
    }

    #[test]
    fn a_long_message_is_cut() {
        let mut ring = Ring::new(2 * BLOCK_SIZE);
        let parts = [&[b'a'; MAX_KEPT - 1][..], b"bc", b"def"];
        ring.push(0, Kind::Received, &flow(), &parts);
        let since = ring.since(0);
        let (entry, bytes) = since.entries().next().unwrap();
        assert_eq!((bytes.len(), bytes[MAX_KEPT - 1], entry.missing), (MAX_KEPT, b'b', 4));
        assert_eq!((entry.kind, entry.flow()), (Kind::Received, flow()));
    }

    #[test]
    fn a_reader_gets_each_entry_once_and_learns_of_lost_ones() {
        let mut ring = Ring::new(3 * BLOCK_SIZE);
        let (mut end, mut seen) = (0, Vec::new());
        for turn in 0..40 {
            add(&mut ring, 20 * turn, 20, 1000);
            let since = ring.since(end);
            assert_eq!(since.lost, 0);
            seen.extend(times(&since));
            end = since.end;
            assert!(times(&ring.since(end)).is_empty());
        }
        assert_eq!(seen, (0..800).collect::<Vec<_>>());
        add(&mut ring, 800, 800, 1000);
        let since = ring.since(end);
        assert_eq!(times(&since), (800 + since.lost..1600).collect::<Vec<_>>());
        assert!(since.lost > 0);
    }

    #[test]
    fn a_block_that_a_reader_has_does_not_change() {
        let mut ring = Ring::new(2 * BLOCK_SIZE);
        add(&mut ring, 0, 100, 1000);
        let since = ring.since(0);
        let before = times(&since);
        add(&mut ring, 100, 1000, 1000);
        assert_eq!(times(&since), before);
    }

    #[test]
    fn without_memory_nothing_is_kept() {
        let mut ring = Ring::new(0);
        add(&mut ring, 0, 10, 10);
        assert!(!ring.is_on() && ring.since(0).blocks.is_empty());
    }
}
