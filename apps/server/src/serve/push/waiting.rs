//! The requests that wait for phones which sleep, with their limits.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The period of the limit of notifications of a user.
const MINUTE: Duration = Duration::from_secs(60);
/// The number of users with a count of notifications from which on old counts are dropped.
const MANY: usize = 1024;

/// The requests that wait, each with a ticket `T`, by user.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    by_user: HashMap<Box<[u8]>, Vec<Waiter<T>>>,
    count: usize,
    most: usize,
    /// The number of notifications of a user since a time.
    notified: HashMap<Box<[u8]>, (Instant, u32)>,
    user_rate: u32,
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiter<T> {
    ticket: T,
    /// `pn-prid` of the phone.
    prid: Box<[u8]>,
    deadline: Instant,
}

impl<T> Waiter<T> {
    /// The same request, if `next` returns its ticket.
    pub(super) fn kept(self, next: impl FnOnce(T) -> Option<T>) -> Option<Self> {
        let Self { ticket, prid, deadline } = self;
        next(ticket).map(|ticket| Self { ticket, prid, deadline })
    }
}

impl<T> Waiting<T> {
    /// No request, with a limit of `most` requests and of `user_rate` notifications of a user in a
    /// minute.
    pub(super) fn new(most: usize, user_rate: u32) -> Self {
        let (by_user, notified) = (HashMap::new(), HashMap::new());
        Self { by_user, count: 0, most, notified, user_rate }
    }

    /// Adds a request for the phone `prid` of `user`, which waits until `deadline`. Returns true if
    /// the phone is to be notified, and false if it has been for another request that waits.
    ///
    /// # Errors
    /// The ticket, if a limit forbids it.
    pub(super) fn add(
        &mut self,
        user: &[u8],
        prid: &[u8],
        ticket: T,
        deadline: Instant,
    ) -> Result<bool, T> {
        let waiters = self.by_user.get(user).map_or(&[][..], |waiters| waiters);
        let is_new = !waiters.iter().any(|waiter| *waiter.prid == *prid);
        if self.count >= self.most || (is_new && !self.may_notify(user, Instant::now())) {
            return Err(ticket);
        }
        self.put_back(user, Waiter { ticket, prid: prid.into(), deadline });
        Ok(is_new)
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

    /// Adds a request that was taken.
    pub(super) fn put_back(&mut self, user: &[u8], waiter: Waiter<T>) {
        self.by_user.entry(user.into()).or_default().push(waiter);
        self.count += 1;
    }

    /// Removes and returns the requests for phones of `user`.
    pub(super) fn take(&mut self, user: &[u8]) -> Vec<Waiter<T>> {
        let waiters = self.by_user.remove(user).unwrap_or_default();
        self.count -= waiters.len();
        waiters
    }

    /// Ends the waits for the phone `prid` of `user`, which cannot be notified.
    pub(super) fn fail(&mut self, user: &[u8], prid: &[u8]) {
        let waiters = self.by_user.get_mut(user).into_iter().flatten();
        let now = Instant::now();
        waiters.filter(|it| *it.prid == *prid).for_each(|waiter| waiter.deadline = now);
    }

    /// Removes and returns the tickets with a deadline that has passed at `now`.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<T> {
        let mut expired = Vec::new();
        self.by_user.retain(|_, waiters| {
            let ended = waiters.extract_if(.., |waiter| waiter.deadline <= now);
            expired.extend(ended.map(|waiter| waiter.ticket));
            !waiters.is_empty()
        });
        self.count -= expired.len();
        expired
    }

    /// The end of the first wait.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.by_user.values().flatten().map(|waiter| waiter.deadline).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phone_is_notified_once_for_all_requests_that_wait() {
        let (mut waiting, now) = (Waiting::new(10, 2), Instant::now());
        assert_eq!(waiting.add(b"a@b", b"1", "one", now), Ok(true));
        assert_eq!(waiting.add(b"a@b", b"1", "two", now + MINUTE), Ok(false));
        assert_eq!(waiting.add(b"a@b", b"2", "other phone", now + MINUTE), Ok(true));
        assert_eq!(waiting.next_deadline(), Some(now));
        assert_eq!(waiting.expired(now), ["one"]);
        let taken: Vec<_> = waiting.take(b"a@b").into_iter().map(|it| it.ticket).collect();
        assert_eq!(taken, ["two", "other phone"]);
        assert_eq!((waiting.count, waiting.next_deadline()), (0, None));
        assert_eq!(waiting.add(b"a@b", b"1", "too many", now), Err("too many"), "its rate is two");
    }

    #[test]
    fn limits_and_failures_end_the_wait() {
        let (mut waiting, now) = (Waiting::new(2, 10), Instant::now());
        let later = now + 10 * MINUTE;
        assert_eq!(waiting.add(b"a@b", b"1", 1, later), Ok(true));
        assert_eq!(waiting.add(b"c@b", b"1", 2, later), Ok(true));
        assert_eq!(waiting.add(b"d@b", b"1", 3, later), Err(3));
        waiting.fail(b"a@b", b"1");
        assert_eq!(waiting.expired(Instant::now()), [1]);
        assert_eq!(waiting.add(b"d@b", b"1", 3, later), Ok(true));
        let kept = waiting.take(b"c@b").remove(0).kept(Some).expect("the request is kept");
        waiting.put_back(b"c@b", kept);
        assert_eq!(waiting.count, 2);
    }
}
