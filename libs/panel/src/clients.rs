//! The limits of attempts to log in, by source, by account and in all.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

/// The period of counted failures.
const PERIOD: Duration = Duration::from_secs(600);
/// The failures of a source in a period after which it must wait for the end of the period.
const MAX_OF_SOURCE: u32 = 10;
/// The failures at an account in a period after which only sources that have logged in to it
/// may try again.
const MAX_OF_ACCOUNT: u32 = 30;
/// The attempts of sources that have not logged in before, in a second in all. Each takes
/// processor time for the hash.
const MAX_PER_SECOND: u32 = 5;
/// The maximum number of sources and accounts with counted failures, and of sources that have
/// logged in.
const MAX_ENTRIES: usize = 4096;

/// A source: an address of IPv4, or a network of 64 bits of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Source(u128);

impl Source {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(address.to_bits().into()),
            IpAddr::V6(address) => Self(address.to_bits() & !u128::from(u64::MAX)),
        }
    }
}

/// The object of counted failures.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Counted {
    Source(Source),
    Account(String),
}

/// The failures of a client or at an account.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    since: Duration,
}

/// The failures and the known sources.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    failures: HashMap<Counted, Failures>,
    known: HashSet<(Source, String)>,
    /// The present second, and the attempts in it.
    present: (u64, u32),
}

impl Clients {
    /// Returns true if `source` may try to log in to `account` now. The attempt is counted.
    pub(crate) fn may_try(&mut self, source: IpAddr, account: &str, now: Duration) -> bool {
        if self.must_wait(source, now) {
            return false;
        }
        if self.known.contains(&(Source::of(source), account.to_owned())) {
            return true;
        }
        if self.is_over(&Counted::Account(account.to_owned()), MAX_OF_ACCOUNT, now) {
            return false;
        }
        if self.present.0 != now.as_secs() {
            self.present = (now.as_secs(), 0);
        }
        self.present.1 += 1;
        self.present.1 <= MAX_PER_SECOND
    }

    /// Returns true if `source` has had too many failures.
    pub(crate) fn must_wait(&self, source: IpAddr, now: Duration) -> bool {
        self.is_over(&Counted::Source(Source::of(source)), MAX_OF_SOURCE, now)
    }

    fn is_over(&self, counted: &Counted, most: u32, now: Duration) -> bool {
        let found = self.failures.get(counted);
        found.is_some_and(|it| it.count >= most && now.saturating_sub(it.since) < PERIOD)
    }

    /// Counts a failure of `source` at `account`.
    pub(crate) fn note_failure(&mut self, source: IpAddr, account: &str, now: Duration) {
        self.count(Counted::Source(Source::of(source)), now);
        self.count(Counted::Account(account.to_owned()), now);
    }

    /// `source` has logged in to `account`.
    pub(crate) fn note_success(&mut self, source: IpAddr, account: &str) {
        let source = Source::of(source);
        self.failures.remove(&Counted::Source(source));
        if self.known.len() >= MAX_ENTRIES {
            self.known.clear();
        }
        self.known.insert((source, account.to_owned()));
    }

    fn count(&mut self, counted: Counted, now: Duration) {
        if self.failures.len() >= MAX_ENTRIES && !self.failures.contains_key(&counted) {
            self.failures.retain(|_, it| now.saturating_sub(it.since) < PERIOD);
            if self.failures.len() >= MAX_ENTRIES {
                let oldest = self.failures.iter().min_by_key(|(_, it)| it.since);
                let oldest = oldest.map(|(counted, _)| counted.clone());
                oldest.map(|counted| self.failures.remove(&counted));
            }
        }
        let failures = self.failures.entry(counted).or_insert(Failures { count: 0, since: now });
        if now.saturating_sub(failures.since) >= PERIOD {
            *failures = Failures { count: 0, since: now };
        }
        failures.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(number).into()
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(1_800_000_000 + seconds)
    }

    #[test]
    fn a_source_must_wait_after_failures() {
        let mut clients = Clients::default();
        let mut allowed = 0;
        for second in 0..60 {
            if clients.may_try(address(1), &format!("user{second}"), at(second)) {
                allowed += 1;
                clients.note_failure(address(1), &format!("user{second}"), at(second));
            }
        }
        assert_eq!(allowed, MAX_OF_SOURCE);
        assert!(clients.may_try(address(2), "eve", at(61)));
        assert!(clients.may_try(address(1), "eve", at(PERIOD.as_secs())));
        let v6 = |last: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 1, 2, 3, last]);
        for number in 0..MAX_OF_SOURCE {
            clients.note_failure(v6(number as u16), "eve", at(0));
        }
        assert!(!clients.may_try(v6(9999), "eve", at(9)));
    }

    #[test]
    fn strangers_cannot_lock_out_a_known_source() {
        let mut clients = Clients::default();
        clients.note_success(address(1), "eve");
        for number in 0..MAX_OF_ACCOUNT {
            clients.note_failure(address(100 + number), "eve", at(0));
        }
        assert!(!clients.may_try(address(2), "eve", at(1)), "the account is guessed at");
        assert!(clients.may_try(address(2), "other", at(1)));
        assert!(clients.may_try(address(1), "eve", at(1)), "a known source");
    }

    #[test]
    fn attempts_of_many_sources_are_limited_in_all_and_in_memory() {
        let mut clients = Clients::default();
        let allowed = (0..100).filter(|&it| clients.may_try(address(it), "x", at(0))).count();
        assert_eq!(allowed, MAX_PER_SECOND as usize);
        assert!(clients.may_try(address(200), "x", at(1)));
        for number in 0..10_000 {
            clients.note_failure(address(number), &number.to_string(), at(5));
            clients.note_success(address(number), "x");
        }
        assert!(clients.failures.len() <= MAX_ENTRIES && clients.known.len() <= MAX_ENTRIES);
    }
}
