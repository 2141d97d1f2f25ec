//! Rate limits of sources. Datagrams without proof of their source address have their own
//! allowances and their own table. So forged datagrams neither use up the allowance nor evict the
//! entries of a source that has proved its address.

use crate::core::config::Limits;
use crate::core::keys::Key;
use crate::core::source::{Account, Evidence};
use alloc::boxed::Box;
use hashbrown::HashTable;
use lock_api::{Mutex, RawMutex};
use sip::{Duration, Instant};

const SHARDS: usize = 16;

/// The token buckets of recent accounts.
pub(crate) struct Admission<R: RawMutex> {
    /// The accounts with [`Evidence::Claim`].
    claims: Table<R>,
    proved: Table<R>,
}

struct Table<R: RawMutex> {
    key: Key,
    shards: Box<[Mutex<R, Shard>]>,
}

/// Two generations: when the young generation is full, it replaces the old one. An entry that is
/// used moves to the young generation.
#[derive(Debug, Default)]
struct Shard {
    young: HashTable<Buckets>,
    old: HashTable<Buckets>,
}

#[derive(Clone, Copy, Debug)]
struct Buckets {
    account: Account,
    requests: Bucket,
    /// Requests to local users without credentials: other requests, and calls.
    foreign: [Bucket; 2],
    within_dialogs: Bucket,
    misses: Bucket,
}

/// A token bucket: the time at which it will be full again.
#[derive(Clone, Copy, Debug)]
struct Bucket(Instant);

impl Bucket {
    /// Takes one of `rate` per second, with bursts of `burst`. Returns false if the bucket is
    /// empty.
    fn take(&mut self, now: Instant, rate: u32, burst: u32) -> bool {
        if rate == 0 {
            return true;
        }
        let full_at = self.0.max(now) + cost(rate);
        let fits = full_at.since(now) <= cost(rate).times(burst.max(1).into());
        if fits {
            self.0 = full_at;
        }
        fits
    }

    fn give_back(&mut self, rate: u32) {
        self.0 = self.0 - cost(rate);
    }
}

/// The time to refill one token of `rate` per second.
fn cost(rate: u32) -> Duration {
    Duration::from_micros(1_000_000 / u64::from(rate).max(1))
}

impl<R: RawMutex> Admission<R> {
    pub(crate) fn new(key: &Key) -> Self {
        Self { claims: Table::new(key), proved: Table::new(key) }
    }

    /// Charges `account` for a request. Returns false if its rate is exceeded.
    pub(crate) fn admit(&self, account: Account, now: Instant, limits: &Limits) -> bool {
        self.with(account, now, limits, |known| {
            known.requests.take(now, limits.source_rate, limits.source_burst)
        })
    }

    /// Refunds the charge of an authenticated request.
    pub(crate) fn refund(&self, account: Account, now: Instant, limits: &Limits) {
        self.with(account, now, limits, |known| known.requests.give_back(limits.source_rate));
    }

    /// Charges `account` for a request within a dialog and refunds the ordinary charge. The limit
    /// is ten times higher, because one source may be a proxy with all its calls.
    pub(crate) fn admit_within_dialogs(
        &self,
        account: Account,
        now: Instant,
        limits: &Limits,
    ) -> bool {
        let times_ten = |number: u32| number.saturating_mul(10);
        let (rate, burst) = (times_ten(limits.source_rate), times_ten(limits.source_burst));
        self.with(account, now, limits, |known| {
            known.requests.give_back(limits.source_rate);
            known.within_dialogs.take(now, rate, burst)
        })
    }

    /// Charges `account` for a request to a local user without credentials. Calls are counted
    /// separately, so that a peer that constantly sends OPTIONS to a phone can still call it.
    pub(crate) fn admit_foreign(
        &self,
        account: Account,
        is_call: bool,
        now: Instant,
        limits: &Limits,
    ) -> bool {
        // The burst is the number of requests of two seconds.
        let burst = limits.foreign_rate.saturating_mul(2);
        self.with(account, now, limits, |known| {
            known.foreign[usize::from(is_call)].take(now, limits.foreign_rate, burst)
        })
    }

    /// Charges `account` for a request to a user that does not exist or is not registered. Returns
    /// false if its rate is exceeded. These requests have a separate rate: their source may be
    /// forged, so they must neither ban a source nor block its calls.
    pub(crate) fn admit_miss(&self, account: Account, now: Instant, limits: &Limits) -> bool {
        const PART: u32 = 20;
        let rate = limits.foreign_rate.div_ceil(PART);
        let burst = limits.foreign_rate / 2;
        self.with(account, now, limits, |known| known.misses.take(now, rate, burst))
    }

    fn with<T>(
        &self,
        account: Account,
        now: Instant,
        limits: &Limits,
        f: impl FnOnce(&mut Buckets) -> T,
    ) -> T {
        let table = match account.evidence {
            Evidence::Claim => &self.claims,
            Evidence::Dialog | Evidence::Nonce | Evidence::Connection => &self.proved,
        };
        table.with(account, now, limits.max_sources, f)
    }
}

impl<R: RawMutex> Table<R> {
    fn new(key: &Key) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect();
        Self { key: key.clone(), shards }
    }

    fn with<T>(
        &self,
        account: Account,
        now: Instant,
        most: usize,
        f: impl FnOnce(&mut Buckets) -> T,
    ) -> T {
        let hash = account.hash(&self.key);
        let mut shard = self.shards[(hash >> 40) as usize % SHARDS].lock();
        let Shard { young, old } = &mut *shard;
        if young.len() >= most.div_ceil(2 * SHARDS).max(1) {
            *old = core::mem::take(young);
        }
        let known = match young.find_entry(hash, |known| known.account == account) {
            Ok(known) => known,
            Err(absent) => {
                let young = absent.into_table();
                let known = match old.find_entry(hash, |known| known.account == account) {
                    Ok(known) => known.remove().0,
                    Err(_) => Buckets {
                        account,
                        requests: Bucket(now),
                        foreign: [Bucket(now); 2],
                        within_dialogs: Bucket(now),
                        misses: Bucket(now),
                    },
                };
                young.insert_unique(hash, known, |known| known.account.hash(&self.key))
            }
        };
        f(known.into_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::source::Source;
    use core::net::IpAddr;

    fn admission() -> Admission<parking_lot::RawMutex> {
        Admission::new(&Key::derive(&[5; 32], "sources"))
    }

    fn account(address: impl Into<IpAddr>, evidence: Evidence) -> Account {
        Account { source: Source::of(address.into()), evidence }
    }

    fn claim(host: u8) -> Account {
        account([192, 0, 2, host], Evidence::Claim)
    }

    fn at(millis: u64) -> Instant {
        Instant::from_micros(1_000_000_000) + Duration::from_millis(millis)
    }

    fn limits() -> Limits {
        Limits {
            source_rate: 10,
            source_burst: 3,
            foreign_rate: 1,
            max_sources: 320,
            ..Limits::default()
        }
    }

    #[test]
    fn a_burst_passes_and_then_the_rate_binds() {
        let (admission, limits) = (admission(), limits());
        let source = claim(1);
        let admit = |millis| admission.admit(source, at(millis), &limits);
        assert!((0..3).all(|_| admit(0)));
        assert!(!admit(0));
        assert!(admit(100));
        assert!(!admit(100));
        admission.refund(source, at(100), &limits);
        assert!(admit(100));
        let other = claim(2);
        assert!(admission.admit(other, at(100), &limits));
    }

    #[test]
    fn strangers_have_a_rate_of_their_own() {
        let (admission, limits) = (admission(), limits());
        let source = claim(1);
        assert!(admission.admit_foreign(source, true, at(0), &limits));
        assert!(admission.admit_foreign(source, true, at(0), &limits));
        assert!(!admission.admit_foreign(source, true, at(0), &limits));
        assert!(admission.admit_foreign(source, false, at(0), &limits), "no call");
        assert!(admission.admit_foreign(source, true, at(1000), &limits));
        let limits = Limits { foreign_rate: 20, ..limits };
        let miss = |millis| admission.admit_miss(source, at(millis), &limits);
        assert_eq!((0..40).filter(|_| miss(0)).count(), 10);
        assert_eq!((1..=1000).filter(|tens| miss(10 * tens)).count(), 10, "one a second");
        assert!(
            admission.admit_foreign(source, true, at(10_000), &limits),
            "calls are not concerned"
        );
    }

    #[test]
    fn claims_take_nothing_of_what_is_proved() {
        let (admission, limits) = (admission(), limits());
        let one = [192, 0, 2, 1];
        let proved = [Evidence::Dialog, Evidence::Nonce, Evidence::Connection];
        for evidence in proved {
            assert!(admission.admit(account(one, evidence), at(0), &limits));
        }
        while admission.admit(claim(1), at(0), &limits) {}
        while admission.admit_foreign(claim(1), true, at(0), &limits) {}
        // Many sources do not evict its entry either, which would refill its buckets.
        for number in 0..10_000u32 {
            let forged = account(core::net::Ipv4Addr::from(number), Evidence::Claim);
            admission.admit(forged, at(0), &limits);
        }
        for evidence in proved {
            let account = account(one, evidence);
            assert_eq!((0..9).filter(|_| admission.admit(account, at(0), &limits)).count(), 2);
            assert_eq!(
                (0..9).filter(|_| admission.admit_foreign(account, true, at(0), &limits)).count(),
                2
            );
        }
    }

    #[test]
    fn memory_is_bounded() {
        let (admission, limits) = (admission(), limits());
        for number in 0..10_000u32 {
            let address = core::net::Ipv4Addr::from(number);
            admission.admit(account(address, Evidence::Claim), at(0), &limits);
            admission.admit(account(address, Evidence::Connection), at(0), &limits);
        }
        for table in [&admission.claims, &admission.proved] {
            let shards = table.shards.iter().map(|shard| shard.lock());
            let kept: usize = shards.map(|shard| shard.young.len() + shard.old.len()).sum();
            assert!(kept <= limits.max_sources, "{kept}");
        }
    }
}
