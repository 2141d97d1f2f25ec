//! Bans of sources that guess passwords or users. Only a source that has proved its address is
//! counted, by a nonce that it received or by a connection. Forged datagrams ban no source and
//! evict no entry.

use crate::core::config::Limits;
use crate::core::keys::Key;
use crate::core::source::Source;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};
use hashbrown::HashTable;
use lock_api::{Mutex, RawMutex};
use sip::Instant;

const SHARDS: usize = 16;

/// Failures and bans of sources.
pub(crate) struct Bans<R: RawMutex> {
    key: Key,
    shards: Box<[Mutex<R, Shard>]>,
    /// The end of the last ban in microseconds. After that time no lookup is needed.
    last_end: AtomicU64,
}

/// Two generations: when the young generation is full, it replaces the old one.
#[derive(Debug, Default)]
struct Shard {
    young: HashTable<Failures>,
    old: HashTable<Failures>,
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    source: Source,
    count: u32,
    since: Instant,
    banned_until: Instant,
}

impl<R: RawMutex> Bans<R> {
    pub(crate) fn new(key: Key) -> Self {
        Self {
            key,
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect(),
            last_end: AtomicU64::new(0),
        }
    }

    /// True if `source` is banned.
    pub(crate) fn is_banned(&self, source: Source, now: Instant) -> bool {
        if self.last_end.load(Ordering::Relaxed) <= now.as_micros() {
            return false;
        }
        let hash = self.key.hash_source(source);
        let shard = self.shard(hash).lock();
        [&shard.young, &shard.old].into_iter().any(|generation| {
            let known = generation.find(hash, |known| known.source == source);
            known.is_some_and(|known| known.banned_until > now)
        })
    }

    /// Records a failed authentication or a guess at a user from `source`. The address of the
    /// source is proved. Returns true if the source is banned for it.
    pub(crate) fn note_failure(&self, source: Source, now: Instant, limits: &Limits) -> bool {
        if limits.ban_failures == 0 {
            return false;
        }
        let hash = self.key.hash_source(source);
        let mut shard = self.shard(hash).lock();
        let Shard { young, old } = &mut *shard;
        let take = |generation: &mut HashTable<Failures>| {
            let entry = generation.find_entry(hash, |known| known.source == source).ok()?;
            Some(entry.remove().0)
        };
        let known = take(young).or_else(|| take(old));
        let unknown = Failures { source, count: 0, since: now, banned_until: Instant::ZERO };
        let mut known = known.unwrap_or(unknown);
        if now.since(known.since) > limits.ban_window {
            (known.count, known.since) = (0, now);
        }
        known.count += 1;
        let is_banned = known.count >= limits.ban_failures;
        if is_banned {
            known.count = 0;
            known.banned_until = now + limits.ban_time;
            self.last_end.fetch_max(known.banned_until.as_micros(), Ordering::Relaxed);
        }
        if young.len() >= limits.max_sources.div_ceil(2 * SHARDS).max(1) {
            *old = core::mem::take(young);
        }
        young.insert_unique(hash, known, |known| self.key.hash_source(known.source));
        is_banned
    }

    /// Calls `each` with every source that is banned at `now`, and the end of its ban.
    #[cfg(feature = "metrics")]
    pub(crate) fn for_each_banned(&self, now: Instant, each: &mut dyn FnMut(Source, Instant)) {
        for shard in &self.shards {
            let shard = shard.lock();
            let known = shard.young.iter().chain(&shard.old);
            known
                .filter(|known| known.banned_until > now)
                .for_each(|known| each(known.source, known.banned_until));
        }
    }

    /// Ends the ban of `source`, and forgets its failures. Returns true if it was banned.
    #[cfg(feature = "metrics")]
    pub(crate) fn lift(&self, source: Source, now: Instant) -> bool {
        let hash = self.key.hash_source(source);
        let mut shard = self.shard(hash).lock();
        let Shard { young, old } = &mut *shard;
        let take = |generation: &mut HashTable<Failures>| {
            let entry = generation.find_entry(hash, |known| known.source == source).ok()?;
            Some(entry.remove().0)
        };
        let found = [take(young), take(old)];
        found.into_iter().flatten().any(|known| known.banned_until > now)
    }

    fn shard(&self, hash: u64) -> &Mutex<R, Shard> {
        &self.shards[(hash >> 40) as usize % SHARDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use sip::Duration;

    fn at(millis: u64) -> Instant {
        Instant::from_micros(1_000_000_000) + Duration::from_millis(millis)
    }

    #[test]
    fn failures_within_the_window_ban_for_a_time() {
        let bans = Bans::<parking_lot::RawMutex>::new(Key::derive(&[5; 32], "bans"));
        let limits = Limits {
            ban_failures: 3,
            ban_window: Duration::from_secs(10),
            ban_time: Duration::from_secs(60),
            max_sources: 320,
            ..Limits::default()
        };
        let source = |address: &str| Source::of(address.parse().unwrap());
        let one = source("2001:db8::1");
        let neighbour = source("2001:db8::ffff");
        assert!(!bans.note_failure(one, at(0), &limits));
        assert!(!bans.note_failure(one, at(0), &limits));
        assert!(!bans.note_failure(one, at(10_001), &limits), "a new window");
        assert!(!bans.note_failure(one, at(10_002), &limits));
        assert!(!bans.is_banned(one, at(10_002)));
        assert!(bans.note_failure(neighbour, at(10_003), &limits), "the same /64");
        assert!(bans.is_banned(one, at(10_004)));
        assert!(!bans.is_banned(source("2001:db8:0:1::1"), at(10_004)));
        let banned = |now| {
            let mut found = Vec::new();
            bans.for_each_banned(now, &mut |source, until| found.push((source, until)));
            found
        };
        assert_eq!(banned(at(10_004)), [(one, at(70_003))]);
        assert!(!bans.lift(source("2001:db8:0:1::1"), at(10_004)));
        assert!(bans.lift(neighbour, at(10_004)) && !bans.is_banned(one, at(10_004)));
        assert!(banned(at(10_004)).is_empty());
        assert!((0..3).any(|_| bans.note_failure(one, at(10_003), &limits)));
        assert!(!bans.is_banned(one, at(70_004)));
        for number in 0..10_000u32 {
            bans.note_failure(Source::of(core::net::Ipv4Addr::from(number).into()), at(0), &limits);
        }
        let kept = |shard: &Mutex<_, Shard>| {
            let shard = shard.lock();
            shard.young.len() + shard.old.len()
        };
        assert!(bans.shards.iter().map(kept).sum::<usize>() <= limits.max_sources);
    }
}
