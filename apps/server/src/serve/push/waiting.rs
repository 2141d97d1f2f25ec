//! The requests that wait for phones which sleep, with their limits.

use sip_server::Payers;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The period of the limit of notifications of a user.
const MINUTE: Duration = Duration::from_secs(60);
/// The number of users with a count of notifications from which on old counts are dropped.
const MANY: usize = 1024;
/// The part of the places that the requests for the phones of one user may have: its reciprocal.
const USER_SHARE: usize = 4;
/// The part of the places that the requests of one source, and those of one authenticated user, may
/// have: its reciprocal.
const PAYER_SHARE: usize = 8;

/// The requests that wait, each with a ticket `T`, by user.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    by_user: HashMap<Box<[u8]>, Waits<T>>,
    places: Places,
    last_number: u64,
    /// The number of notifications of a user since a time.
    notified: HashMap<Box<[u8]>, (Instant, u32)>,
    user_rate: u32,
}

/// The waits for the phones of a user.
#[derive(Debug)]
struct Waits<T> {
    waiters: Vec<Waiter<T>>,
    /// `pn-prid` of the phones that were notified, each with the time until which it is not
    /// notified anew.
    phones: Vec<(Box<[u8]>, Instant)>,
}

/// A request that waits.
#[derive(Debug)]
struct Waiter<T> {
    number: u64,
    ticket: T,
    /// `pn-prid` of the phone.
    prid: Box<[u8]>,
    payers: Payers,
    deadline: Instant,
}

/// A request that was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    /// The number of the request.
    pub(super) number: u64,
    /// True if its phone is to be notified, and false if it was for another request.
    pub(super) is_new: bool,
}

/// The places in use: in all, of strangers, and of each account.
#[derive(Debug)]
struct Places {
    most: usize,
    all: usize,
    strangers: usize,
    by_account: HashMap<u16, usize>,
}

/// Returns true if `payers` have not authenticated, and have a limited share.
const fn is_stranger(payers: &Payers) -> bool {
    payers.user.is_none() && payers.source.is_some()
}

impl Places {
    fn has_room(&self, payers: &Payers) -> bool {
        let share = self.most.div_ceil(PAYER_SHARE);
        let used = |account| self.by_account.get(&account).copied().unwrap_or_default();
        self.all < self.most
            && (!is_stranger(payers) || self.strangers < (self.most * 3).div_ceil(4))
            && payers.accounts().all(|account| used(account) < share)
    }

    fn take(&mut self, payers: &Payers) {
        self.all += 1;
        self.strangers += usize::from(is_stranger(payers));
        for account in payers.accounts() {
            *self.by_account.entry(account).or_default() += 1;
        }
    }

    fn give_back(&mut self, payers: &Payers) {
        self.all -= 1;
        self.strangers -= usize::from(is_stranger(payers));
        for account in payers.accounts() {
            let used = self.by_account.entry(account).or_default();
            *used = used.saturating_sub(1);
            if *used == 0 {
                self.by_account.remove(&account);
            }
        }
    }
}

impl<T> Waiting<T> {
    /// No request, with a limit of `most` requests and of `user_rate` notifications of a user in a
    /// minute.
    pub(super) fn new(most: usize, user_rate: u32) -> Self {
        let places = Places { most, all: 0, strangers: 0, by_account: HashMap::new() };
        let (by_user, notified) = (HashMap::new(), HashMap::new());
        Self { by_user, places, last_number: 0, notified, user_rate }
    }

    /// Adds a request of `payers` for the phone `prid` of `user`, which waits until `deadline`.
    ///
    /// # Errors
    /// The ticket, if a limit forbids it.
    pub(super) fn add(
        &mut self,
        user: &[u8],
        prid: &[u8],
        ticket: T,
        payers: Payers,
        deadline: Instant,
    ) -> Result<Admitted, T> {
        let waits = self.by_user.get(user);
        let is_full = waits
            .is_some_and(|it| it.waiters.len() >= self.places.most.div_ceil(USER_SHARE))
            || !self.places.has_room(&payers);
        let is_new = !waits.is_some_and(|it| it.phones.iter().any(|(phone, _)| **phone == *prid));
        if is_full || (is_new && !self.may_notify(user, Instant::now())) {
            return Err(ticket);
        }
        self.places.take(&payers);
        self.last_number += 1;
        let number = self.last_number;
        let none = || Waits { waiters: Vec::new(), phones: Vec::new() };
        let waits = self.by_user.entry(user.into()).or_insert_with(none);
        if is_new {
            waits.phones.push((prid.into(), deadline));
        }
        waits.waiters.push(Waiter { number, ticket, prid: prid.into(), payers, deadline });
        Ok(Admitted { number, is_new })
    }

    /// Counts a notification of `user` at `now`. Returns false if there were too many.
    pub(super) fn may_notify(&mut self, user: &[u8], now: Instant) -> bool {
        if self.notified.len() >= MANY {
            self.notified.retain(|_, (since, _)| now - *since < MINUTE);
        }
        let (since, count) = self.notified.entry(user.into()).or_insert((now, 0));
        if now - *since >= MINUTE {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count <= self.user_rate
    }

    /// The requests for phones of `user`, with their numbers, which ascend.
    pub(super) fn of_user(&self, user: &[u8]) -> Vec<(u64, T)>
    where
        T: Clone,
    {
        let waiters = self.by_user.get(user).into_iter().flat_map(|it| &it.waiters);
        waiters.map(|waiter| (waiter.number, waiter.ticket.clone())).collect()
    }

    /// Removes the requests with these ascending `numbers`, for phones of `user` that have
    /// registered. A phone that no request waits for is notified anew for the next one.
    pub(super) fn registered(&mut self, user: &[u8], numbers: &[u64]) {
        let Some(waits) = self.by_user.get_mut(user) else { return };
        for waiter in waits.waiters.extract_if(.., |it| numbers.binary_search(&it.number).is_ok()) {
            self.places.give_back(&waiter.payers);
        }
        let Waits { waiters, phones } = waits;
        phones.retain(|(phone, _)| waiters.iter().any(|waiter| waiter.prid == *phone));
        if waiters.is_empty() {
            self.by_user.remove(user);
        }
    }

    /// Ends the waits for the phone `prid` of `user`, which cannot be notified.
    pub(super) fn fail(&mut self, user: &[u8], prid: &[u8]) {
        let Some(waits) = self.by_user.get_mut(user) else { return };
        let now = Instant::now();
        let waiters = waits.waiters.iter_mut().filter(|it| *it.prid == *prid);
        waiters.for_each(|waiter| waiter.deadline = now);
        waits.phones.retain(|(phone, _)| **phone != *prid);
    }

    /// Removes and returns the tickets with a deadline that has passed at `now`.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<T> {
        self.remove(now, |waiter| waiter.deadline <= now)
    }

    /// Gives back the places of requests that do not wait any more.
    pub(super) fn sweep(&mut self, mut is_waiting: impl FnMut(&T) -> bool) {
        self.remove(Instant::now(), |waiter| !is_waiting(&waiter.ticket));
    }

    /// Removes and returns the tickets of requests that have `ended`.
    fn remove(&mut self, now: Instant, mut ended: impl FnMut(&Waiter<T>) -> bool) -> Vec<T> {
        let mut removed = Vec::new();
        self.by_user.retain(|_, waits| {
            let ended = waits.waiters.extract_if(.., |waiter| ended(waiter));
            for waiter in ended {
                self.places.give_back(&waiter.payers);
                removed.push(waiter.ticket);
            }
            waits.phones.retain(|(_, until)| *until > now);
            !waits.waiters.is_empty() || !waits.phones.is_empty()
        });
        removed
    }

    /// The end of the first wait.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let waiters = self.by_user.values().flat_map(|waits| &waits.waiters);
        waiters.map(|waiter| waiter.deadline).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUSTED: Payers = Payers::NONE;

    fn stranger(source: u16) -> Payers {
        Payers { source: Some(source), user: None }
    }

    /// A request for a phone that is notified for it.
    fn new<T>(number: u64) -> Result<Admitted, T> {
        Ok(Admitted { number, is_new: true })
    }

    /// Adds up to `count` requests of `payers` for one phone of `user`. Returns the number of those
    /// that wait.
    fn wait(waiting: &mut Waiting<u8>, user: &str, payers: Payers, count: usize) -> usize {
        let later = Instant::now() + MINUTE;
        let mut add = || waiting.add(user.as_bytes(), b"1", 0, payers, later).is_ok();
        (0..count).filter(|_| add()).count()
    }

    #[test]
    fn a_phone_is_notified_once_for_all_requests_that_wait() {
        let (mut waiting, now) = (Waiting::new(40, 2), Instant::now());
        let later = now + MINUTE;
        assert_eq!(waiting.add(b"a@b", b"1", "one", TRUSTED, later), new(1));
        let second = waiting.add(b"a@b", b"1", "two", TRUSTED, now);
        assert_eq!(second, Ok(Admitted { number: 2, is_new: false }));
        assert_eq!(waiting.add(b"a@b", b"2", "other phone", TRUSTED, later), new(3));
        assert_eq!(waiting.next_deadline(), Some(now));
        assert_eq!(waiting.expired(now), ["two"]);
        assert_eq!(waiting.of_user(b"a@b"), [(1, "one"), (3, "other phone")]);
        waiting.registered(b"a@b", &[1]);
        assert_eq!(waiting.of_user(b"a@b"), [(3, "other phone")]);
        let third = waiting.add(b"a@b", b"2", "again", TRUSTED, later);
        assert_eq!(third, Ok(Admitted { number: 4, is_new: false }));
        let fourth = waiting.add(b"a@b", b"1", "too many", TRUSTED, later);
        assert_eq!(fourth, Err("too many"), "its rate is two");
        waiting.registered(b"a@b", &[3, 4]);
        assert_eq!((waiting.places.all, waiting.next_deadline()), (0, None));
        assert!(waiting.by_user.is_empty());
    }

    #[test]
    fn limits_and_failures_end_the_wait() {
        let (mut waiting, now) = (Waiting::new(2, 10), Instant::now());
        let later = now + 10 * MINUTE;
        assert_eq!(waiting.add(b"a@b", b"1", 1, TRUSTED, later), new(1));
        assert_eq!(waiting.add(b"c@b", b"1", 2, TRUSTED, later), new(2));
        assert_eq!(waiting.add(b"d@b", b"1", 3, TRUSTED, later), Err(3));
        waiting.fail(b"a@b", b"1");
        assert_eq!(waiting.expired(Instant::now()), [1]);
        assert_eq!(waiting.add(b"d@b", b"1", 3, TRUSTED, later), new(3));
        assert_eq!(waiting.places.all, 2);
    }

    #[test]
    fn one_awaited_user_one_payer_and_strangers_have_a_part_of_the_places() {
        let mut waiting = Waiting::new(80, 10);
        let waits: usize = (0..50).map(|n| wait(&mut waiting, "bob@b", stranger(n), 40)).sum();
        assert_eq!(waits, 20, "a quarter waits for bob");
        assert_eq!(wait(&mut waiting, "carol@b", stranger(60), 40), 10, "an eighth of one source");
        let alice = Payers { source: Some(61), user: Some(62) };
        let others = ["dave@b", "erin@b"].map(|it| wait(&mut waiting, it, alice, 8));
        assert_eq!(others, [8, 2], "an eighth of one user");
        let of = |n: u16| format!("user{n}@b");
        let waits: usize = (0..50).map(|n| wait(&mut waiting, &of(n), stranger(n), 1)).sum();
        assert_eq!(waits, 30, "strangers have three quarters");
        assert_eq!(wait(&mut waiting, "frank@b", alice, 1), 0);
        let grace = Payers { source: Some(63), user: Some(64) };
        assert_eq!(wait(&mut waiting, "frank@b", grace, 40), 10, "other users have the rest");
        assert_eq!(waiting.places.all, 80);
        waiting.sweep(|_| false);
        let Places { all, strangers, by_account, .. } = &waiting.places;
        assert_eq!((*all, *strangers, by_account.len()), (0, 0, 0));
    }

    #[test]
    fn a_cancelled_request_gives_back_its_place_and_causes_no_further_notification() {
        let mut waiting = Waiting::new(8, 1);
        assert_eq!(wait(&mut waiting, "bob@b", stranger(1), 3), 1);
        for _ in 0..20 {
            waiting.sweep(|_| false);
            assert_eq!(wait(&mut waiting, "bob@b", stranger(1), 1), 1);
        }
        assert_eq!(waiting.places.all, 1);
        waiting.sweep(|_| true);
        assert_eq!(waiting.places.all, 1);
    }
}
