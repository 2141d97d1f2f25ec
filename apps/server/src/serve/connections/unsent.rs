//! Limits on the output that waits for peers which do not read.

use parking_lot::Mutex;
use sip_server::Source;
use std::collections::HashMap;

/// Bytes that may wait for one peer. A connection that would exceed it is closed.
pub(super) const MAX_OF_ONE: usize = 1 << 20;
/// Bytes that may wait for all connections of one source.
const MAX_OF_SOURCE: usize = 4 << 20;
/// Bytes that may wait for all connections.
const MAX: usize = 64 << 20;
/// The inverse of the part of the rest of [`MAX`] that one source may use. Sources that use much
/// leave room for others, whatever their number.
const PART: usize = 8;

/// The output that waits, by source.
#[derive(Debug, Default)]
pub(super) struct Unsent(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    total: usize,
    by_source: HashMap<Source, usize>,
}

impl Unsent {
    /// Changes the bytes that wait for a connection of `source` from `before` to `after`. Returns
    /// false, and changes nothing, if the limits forbid an increase.
    pub(super) fn change(&self, source: Source, before: usize, after: usize) -> bool {
        let mut table = self.0.lock();
        let Table { total, by_source } = &mut *table;
        let own = by_source.get(&source).copied().unwrap_or(0);
        let others = total.saturating_sub(own);
        let own = own.saturating_sub(before) + after;
        if after > before && own > MAX_OF_SOURCE.min(MAX.saturating_sub(others) / PART) {
            return false;
        }
        *total = others + own;
        match own {
            0 => by_source.remove(&source),
            _ => by_source.insert(source, own),
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(number: u32) -> Source {
        Source::of(number.to_be_bytes().into())
    }

    #[test]
    fn there_is_a_bound_for_each_source() {
        let unsent = Unsent::default();
        for _ in 0..4 {
            assert!(unsent.change(source(1), 0, MAX_OF_ONE));
        }
        assert!(!unsent.change(source(1), 0, 1));
        assert!(unsent.change(source(2), 0, MAX_OF_ONE), "another source has its own");
        assert!(unsent.change(source(1), MAX_OF_ONE, 0));
        assert!(unsent.change(source(1), 0, 1));
    }

    #[test]
    fn there_is_a_bound_in_all_that_leaves_room_for_others() {
        let unsent = Unsent::default();
        let mut total = 0;
        for number in 0..2000 {
            let (mut own, step) = (0, 16 << 10);
            while unsent.change(source(number), own, own + step) {
                own += step;
            }
            total += own;
        }
        assert!(total > MAX / 2 && total <= MAX, "{total}");
        assert!(unsent.change(source(5000), 0, 1000), "a short answer to an honest peer");
        assert_eq!(unsent.0.lock().total, total + 1000);
    }

    #[test]
    fn sources_without_waiting_output_are_forgotten() {
        let unsent = Unsent::default();
        assert!(unsent.change(source(1), 0, 500));
        assert!(unsent.change(source(1), 500, 0));
        let table = unsent.0.lock();
        assert_eq!((table.total, table.by_source.len()), (0, 0));
    }
}
