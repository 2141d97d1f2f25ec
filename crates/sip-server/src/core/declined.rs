//! The offers that phones have refused before they took another one from the owner's B2BUA. The
//! next call with such an offer goes through the B2BUA at once.

use crate::core::keys::Key;
use crate::core::source::Source;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};
use sip::{Duration, Instant};

/// The number of rows. With [`PLACES`] of eight bytes in each the table has 128 KiB.
const ROWS: usize = 1024;

/// The maximum number of refused offers of one source.
const PLACES: usize = 16;

/// The time after which a refusal is forgotten.
const LIFETIME: Duration = Duration::from_secs(600);

/// The bits of an entry with the second of its end. The others are those of the hash. The seconds
/// begin again after half a year.
const SECONDS: u64 = (1 << 24) - 1;

/// The refused offers. Those of one source share a row, so that they displace no others but those
/// of sources with the same row.
pub(crate) struct Declined {
    key: Key,
    rows: Box<[[AtomicU64; PLACES]]>,
}

/// An offer of a caller to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeclinedOffer {
    row: usize,
    hash: u64,
}

impl Declined {
    pub(crate) fn new(key: Key) -> Self {
        Self { key, rows: (0..ROWS).map(|_| [const { AtomicU64::new(0) }; PLACES]).collect() }
    }

    fn row(&self, caller: Source) -> usize {
        self.key.hash_source(caller) as usize % ROWS
    }

    /// Returns the offer of `caller` that `parts` describe: the name of the caller, the target, and
    /// the offer.
    pub(crate) fn offer(&self, caller: Source, parts: [&[u8]; 4]) -> DeclinedOffer {
        // A proof has another hash function than a row.
        DeclinedOffer { row: self.row(caller), hash: self.key.proof(&parts) & !SECONDS }
    }

    /// True if an offer of `caller` may be known.
    pub(crate) fn knows(&self, caller: Source, now: Instant) -> bool {
        let row = &self.rows[self.row(caller)];
        row.iter().any(|place| left(place.load(Ordering::Relaxed), now) > 0)
    }

    /// True if `offer` is known as refused.
    pub(crate) fn has(&self, offer: DeclinedOffer, now: Instant) -> bool {
        self.place_of(offer).is_some_and(|place| left(place.load(Ordering::Relaxed), now) > 0)
    }

    /// Records that `offer` was refused. It may displace the oldest one of its row.
    pub(crate) fn note(&self, offer: DeclinedOffer, now: Instant) {
        let age = |place: &&AtomicU64| left(place.load(Ordering::Relaxed), now);
        let known = self.place_of(offer);
        let place = known.or_else(|| self.rows[offer.row].iter().min_by_key(age));
        if let Some(place) = place {
            let end = seconds(now) + LIFETIME.as_secs();
            place.store(offer.hash | (end & SECONDS), Ordering::Relaxed);
        }
    }

    /// Forgets that `offer` was refused.
    pub(crate) fn forget(&self, offer: DeclinedOffer) {
        if let Some(place) = self.place_of(offer) {
            place.store(0, Ordering::Relaxed);
        }
    }

    fn place_of(&self, offer: DeclinedOffer) -> Option<&AtomicU64> {
        let mut row = self.rows[offer.row].iter();
        row.find(|place| place.load(Ordering::Relaxed) & !SECONDS == offer.hash)
    }
}

/// The seconds until the end of an entry, 0 after it.
fn left(entry: u64, now: Instant) -> u64 {
    let left = entry.wrapping_sub(seconds(now)) & SECONDS;
    if left <= LIFETIME.as_secs() && entry != 0 { left } else { 0 }
}

const fn seconds(now: Instant) -> u64 {
    now.as_micros() / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const NOW: Instant = Instant::from_micros(1_700_000_000_000_000);

    fn table() -> Declined {
        Declined::new(Key::derive(&[3; 32], "declined"))
    }

    fn source(number: u32) -> Source {
        Source::of(core::net::Ipv4Addr::from_bits(number).into())
    }

    fn offer(table: &Declined, caller: u32, target: u32) -> DeclinedOffer {
        table.offer(source(caller), [b"alice", b"sip:alice", &target.to_le_bytes(), b"offer"])
    }

    #[test]
    fn an_offer_is_known_for_a_while_or_until_it_is_forgotten() {
        let table = table();
        let (one, other) = (offer(&table, 1, 1), offer(&table, 1, 2));
        assert!(!table.has(one, NOW) && !table.knows(source(1), NOW));
        table.note(one, NOW);
        assert!(table.has(one, NOW) && table.knows(source(1), NOW) && !table.has(other, NOW));
        table.note(one, NOW + Duration::from_secs(300));
        let end = NOW + Duration::from_secs(900);
        assert!(table.has(one, NOW + Duration::from_secs(899)));
        assert!(!table.has(one, end) && !table.knows(source(1), end));
        table.note(one, end);
        table.forget(one);
        table.forget(other);
        assert!(!table.has(one, end));
    }

    #[test]
    fn a_source_displaces_its_own_offers_only() {
        let table = table();
        let others: Vec<_> = (2..50).map(|caller| offer(&table, caller, 1)).collect();
        let own = |target| offer(&table, 1, target);
        for other in &others {
            assert_ne!(other.row, own(0).row, "the test needs other rows");
            table.note(*other, NOW);
        }
        for target in 0..10_000 {
            table.note(own(target), NOW + Duration::from_millis(u64::from(target)));
        }
        let now = NOW + Duration::from_secs(10);
        assert_eq!((0..10_000).filter(|target| table.has(own(*target), now)).count(), PLACES);
        assert!(others.iter().all(|other| table.has(*other, now)));
    }

    #[test]
    fn each_part_of_the_description_counts() {
        let table = table();
        let parts: [&[u8]; 4] = [b"alice", b"sip:alice", b"target", b"offer"];
        let known = table.offer(source(1), parts);
        table.note(known, NOW);
        for part in 0..4 {
            let mut other = parts;
            other[part] = b"other";
            assert!(!table.has(table.offer(source(1), other), NOW));
        }
        assert!(!table.has(table.offer(source(2), parts), NOW));
    }
}
