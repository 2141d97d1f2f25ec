//! The limits of attempts to log in: by source, by account, and in all.

use crate::tokens;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::IpAddr;
use std::time::Duration;

/// The period of counted failures.
const PERIOD: Duration = Duration::from_secs(600);
/// The failures of a source in a period, at all accounts together, after which it must wait for
/// the end of the period.
const MAX_OF_SOURCE: u32 = 10;
/// The failures at an account in a period after which only sources that have logged in to it
/// may try again.
const MAX_OF_ACCOUNT: u32 = 30;
/// The attempts of sources that have not logged in to the account before, in a second in all.
/// Each takes processor time for the hash.
const MAX_PER_SECOND: u32 = 5;
/// The maximum number of sources with counted failures, of such accounts, and of pairs that have
/// logged in. Attempts of pairs that have not are fewer in a period, so that they push out no
/// account with counted failures.
const MAX_ENTRIES: usize = 4096;
/// The maximum number of sources that have logged in to one account, so that one user pushes out
/// no pair of others.
const MAX_KNOWN_OF_ACCOUNT: usize = 64;

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

/// The hash of the name of an account: names have any length.
type Account = [u8; 32];

/// The failures of a source.
#[derive(Clone, Debug)]
struct OfSource {
    since: Duration,
    /// The number of failures at each account.
    counts: Vec<(Account, u32)>,
}

/// The failures at an account.
#[derive(Clone, Copy, Debug)]
struct AtAccount {
    since: Duration,
    count: u32,
}

/// The failures, and the pairs of source and account that have logged in.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    sources: HashMap<Source, OfSource>,
    accounts: HashMap<Account, AtAccount>,
    /// The pairs, the one with the latest login last.
    known: VecDeque<(Source, Account)>,
    /// The present second, and the attempts in it.
    present: (u64, u32),
}

impl Clients {
    /// Returns true if `source` may try to log in to `account` now. The attempt is counted.
    pub(crate) fn may_try(&mut self, source: IpAddr, account: &str, now: Duration) -> bool {
        if self.must_wait(source, now) {
            return false;
        }
        let account = tokens::hash(account);
        if self.known.contains(&(Source::of(source), account)) {
            return true;
        }
        let failures = self.accounts.get(&account).filter(|it| !is_over(it.since, now));
        if failures.is_some_and(|it| it.count >= MAX_OF_ACCOUNT) {
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
        let failures = self.sources.get(&Source::of(source)).filter(|it| !is_over(it.since, now));
        failures.is_some_and(|it| it.count() >= MAX_OF_SOURCE)
    }

    /// Counts a failure of `source` at `account`.
    pub(crate) fn note_failure(&mut self, source: IpAddr, account: &str, now: Duration) {
        let (source, account) = (Source::of(source), tokens::hash(account));
        make_room(&mut self.sources, &source, now, |it| it.since);
        let of_source = OfSource { since: now, counts: Vec::new() };
        let failures = self.sources.entry(source).or_insert_with(|| of_source.clone());
        if is_over(failures.since, now) {
            *failures = of_source;
        }
        failures.add(account);
        make_room(&mut self.accounts, &account, now, |it| it.since);
        let at_account = AtAccount { since: now, count: 0 };
        let failures = self.accounts.entry(account).or_insert(at_account);
        if is_over(failures.since, now) {
            *failures = at_account;
        }
        failures.count += 1;
    }

    /// `source` has logged in to `account`. Its failures at this account are forgotten; those at
    /// other accounts, which may be guesses at their passwords, count on.
    pub(crate) fn note_success(&mut self, source: IpAddr, account: &str) {
        let pair @ (source, account) = (Source::of(source), tokens::hash(account));
        if let Some(failures) = self.sources.get_mut(&source) {
            failures.counts.retain(|(at, _)| *at != account);
        }
        self.known.retain(|known| *known != pair);
        let mut of_account = self.known.iter().filter(|known| known.1 == account);
        let first = of_account.next().copied();
        if of_account.count() + 1 >= MAX_KNOWN_OF_ACCOUNT {
            self.known.retain(|known| Some(*known) != first);
        }
        if self.known.len() >= MAX_ENTRIES {
            self.known.pop_front();
        }
        self.known.push_back(pair);
    }
}

impl OfSource {
    fn count(&self) -> u32 {
        self.counts.iter().map(|(_, count)| count).sum()
    }

    fn add(&mut self, account: Account) {
        // More than the limit would take memory only.
        if self.count() >= MAX_OF_SOURCE {
            return;
        }
        match self.counts.iter_mut().find(|(at, _)| *at == account) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((account, 1)),
        }
    }
}

/// Returns true if a period that began at `since` has ended.
fn is_over(since: Duration, now: Duration) -> bool {
    now.saturating_sub(since) >= PERIOD
}

/// Makes room for `key` in `failures`: those of earlier periods end, otherwise the oldest ones.
fn make_room<K: Copy + Eq + Hash, F>(
    failures: &mut HashMap<K, F>,
    key: &K,
    now: Duration,
    since: impl Fn(&F) -> Duration,
) {
    if failures.len() < MAX_ENTRIES || failures.contains_key(key) {
        return;
    }
    failures.retain(|_, it| !is_over(since(it), now));
    if failures.len() >= MAX_ENTRIES {
        let oldest = failures.iter().min_by_key(|(_, it)| since(it)).map(|(key, _)| *key);
        oldest.map(|key| failures.remove(&key));
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

    /// Has `mallory`, an account of the attacker, log in after each nine guesses of `source` at
    /// `account`. Returns the number of guesses that were allowed in a period.
    fn guesses(clients: &mut Clients, source: IpAddr, account: &str) -> u32 {
        let mut allowed = 0;
        for guess in 0..500_u64 {
            if clients.may_try(source, account, at(guess)) {
                allowed += 1;
                clients.note_failure(source, account, at(guess));
            }
            if guess % 9 == 8 && clients.may_try(source, "mallory", at(guess)) {
                clients.note_success(source, "mallory");
            }
        }
        allowed
    }

    #[test]
    fn a_login_to_an_own_account_allows_no_guesses_at_another_one() {
        let mut clients = Clients::default();
        clients.note_success(address(1), "alice");
        assert_eq!(guesses(&mut clients, address(1), "alice"), MAX_OF_SOURCE);
        assert_eq!(guesses(&mut clients, address(2), "alice"), MAX_OF_SOURCE);
        assert!(clients.may_try(address(3), "alice", at(PERIOD.as_secs() - 1)));
    }

    #[test]
    fn a_login_ends_the_failures_at_its_own_account() {
        let mut clients = Clients::default();
        for second in 0..200 {
            assert!(clients.may_try(address(1), "eve", at(second)), "{second}");
            match second % 10 {
                9 => clients.note_success(address(1), "eve"),
                _ => clients.note_failure(address(1), "eve", at(second)),
            }
        }
    }

    #[test]
    fn one_user_pushes_out_no_known_pair_of_another_one() {
        let mut clients = Clients::default();
        clients.note_success(address(1), "eve");
        (0..10_000).for_each(|it| clients.note_success(address(it), "mallory"));
        assert_eq!(clients.known.len(), 1 + MAX_KNOWN_OF_ACCOUNT);
        let pair = |source, account| (Source::of(address(source)), tokens::hash(account));
        assert!(clients.known.contains(&pair(1, "eve")));
        assert!(clients.known.contains(&pair(9_999, "mallory")));
        // Those of many users push out the one with the oldest login only.
        for number in 0..MAX_ENTRIES as u32 {
            clients.note_success(address(2), &number.to_string());
            clients.note_success(address(1), "eve");
        }
        assert_eq!(clients.known.len(), MAX_ENTRIES);
        assert!(clients.known.contains(&pair(1, "eve")));
    }

    #[test]
    fn attempts_of_many_sources_are_limited_in_all_and_in_memory() {
        let mut clients = Clients::default();
        let allowed = (0..100).filter(|&it| clients.may_try(address(it), "x", at(0))).count();
        assert_eq!(allowed, MAX_PER_SECOND as usize);
        assert!(clients.may_try(address(200), "x", at(1)));
        for number in 0..10_000 {
            clients.note_failure(address(number), &number.to_string(), at(5));
            clients.note_success(address(number), &(number / 2).to_string());
        }
        let lengths = [clients.sources.len(), clients.accounts.len(), clients.known.len()];
        assert_eq!(lengths, [MAX_ENTRIES; 3]);
        (0..99).for_each(|it| clients.note_failure(address(1), &format!("x{it}"), at(5)));
        let source = &clients.sources[&Source::of(address(1))];
        assert_eq!(source.counts.len(), MAX_OF_SOURCE as usize);
    }
}
