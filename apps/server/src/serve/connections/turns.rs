//! A scheduler of expensive work, in the order of the processor time that each payer has used.

use sip::{Duration, Instant};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;

/// The inverse of the share of one processor that one payer gets in the long run.
const PRICE: u64 = 4;
/// Processor time that a payer may use before its share limits it.
const BURST: Duration = Duration::from_millis(1000);
/// The initial limit of remembered payers, from which those without debt are forgotten.
const FEW: usize = 1024;

/// Queued work, by payer.
///
/// Each payer has a time until which its share is used up. A charge moves that time by [`PRICE`]
/// times the processor time. The work of the payer with the earliest time is next. A payer with a
/// time too far ahead waits, without delaying others.
#[derive(Debug)]
pub(super) struct Turns<K, T> {
    payers: HashMap<K, Payer<T>>,
    /// The payers with queued work, in the order of their turns.
    order: BTreeSet<(Instant, u64, K)>,
    /// A counter of places in `order`: of equal times the older place comes first.
    places: u64,
    /// The number of payers from which those without debt are forgotten.
    most: usize,
}

#[derive(Debug)]
struct Payer<T> {
    /// The time until which the share is used up.
    used_until: Instant,
    /// The number of its place in the order, while it has queued work.
    place: u64,
    waiting: VecDeque<T>,
}

/// The work to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next<K, T> {
    /// This work, for which the payer is to be charged.
    Work(K, T),
    /// No work before this time: all payers with queued work have used too much.
    At(Instant),
    /// No queued work.
    Idle,
}

impl<K, T> Default for Turns<K, T> {
    fn default() -> Self {
        Self { payers: HashMap::new(), order: BTreeSet::new(), places: 0, most: FEW }
    }
}

impl<K: Copy + Ord + Hash, T: PartialEq> Turns<K, T> {
    /// Queues `work` behind the other work of `key`.
    pub(super) fn push(&mut self, key: K, work: T, now: Instant) {
        let payer = self.payer(key, now);
        payer.waiting.push_back(work);
        if payer.waiting.len() == 1 {
            self.place(key, now);
        }
    }

    /// The one of `keys` that has used most until `now`; the last one of equals.
    pub(super) fn most_used(&self, keys: impl Iterator<Item = K>, now: Instant) -> Option<K> {
        keys.max_by_key(|key| self.used_until(key, now))
    }

    /// True if work of `key` has to wait.
    pub(super) fn is_over(&self, key: &K, now: Instant) -> bool {
        self.used_until(key, now) > now + BURST.times(PRICE)
    }

    fn used_until(&self, key: &K, now: Instant) -> Instant {
        self.payers.get(key).map_or(now, |payer| payer.used_until.max(now))
    }

    /// Takes the work that is due at `now`.
    pub(super) fn next(&mut self, now: Instant) -> Next<K, T> {
        let Some(&(used_until, number, key)) = self.order.first() else { return Next::Idle };
        if used_until > now + BURST.times(PRICE) {
            let over = used_until.since(now + BURST.times(PRICE));
            return Next::At(now + over);
        }
        self.order.remove(&(used_until, number, key));
        let payer = self.payer(key, now);
        let work = payer.waiting.pop_front();
        if !payer.waiting.is_empty() {
            self.place(key, now);
        }
        work.map_or(Next::Idle, |work| Next::Work(key, work))
    }

    /// Charges `key` for `cost`, the processor time of its work.
    pub(super) fn charge(&mut self, key: K, cost: Duration, now: Instant) {
        let payer = self.payer(key, now);
        let was = (payer.used_until, payer.place, key);
        payer.used_until = payer.used_until.max(now) + cost.times(PRICE);
        if self.order.remove(&was) {
            self.place(key, now);
        }
        self.forget_if_many(now);
    }

    /// Removes the queued `work` of `key`, if there is such work.
    pub(super) fn remove(&mut self, key: K, work: &T) {
        let Some(payer) = self.payers.get_mut(&key) else { return };
        payer.waiting.retain(|waiting| waiting != work);
        if payer.waiting.is_empty() {
            self.order.remove(&(payer.used_until, payer.place, key));
        }
    }

    fn payer(&mut self, key: K, now: Instant) -> &mut Payer<T> {
        let new = || Payer { used_until: now, place: 0, waiting: VecDeque::new() };
        self.payers.entry(key).or_insert_with(new)
    }

    /// Gives `key` a place in the order.
    fn place(&mut self, key: K, now: Instant) {
        self.places += 1;
        let place = self.places;
        let payer = self.payer(key, now);
        // An unused share is not saved.
        payer.used_until = payer.used_until.max(now);
        payer.place = place;
        let used_until = payer.used_until;
        self.order.insert((used_until, place, key));
    }

    fn forget_if_many(&mut self, now: Instant) {
        if self.payers.len() > self.most {
            self.payers.retain(|_, payer| !payer.waiting.is_empty() || payer.used_until > now);
            self.most = FEW.max(self.payers.len() * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_micros(1_000_000_000 + millis * 1000)
    }

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn take(turns: &mut Turns<u8, u32>, now: u64) -> (u8, u32) {
        match turns.next(at(now)) {
            Next::Work(key, work) => (key, work),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_payer_with_much_to_do_does_not_hold_up_another() {
        let mut turns = Turns::default();
        (0..100).for_each(|work| turns.push(1, work, at(0)));
        for work in 0..10 {
            assert_eq!(take(&mut turns, 0), (1, work));
            turns.charge(1, millis(6), at(0));
        }
        (0..3).for_each(|work| turns.push(2, work, at(0)));
        for work in 0..3 {
            assert_eq!(take(&mut turns, 0), (2, work));
            turns.charge(2, millis(6), at(0));
        }
        assert_eq!(take(&mut turns, 0), (1, 10));
    }

    #[test]
    fn payers_without_debt_take_turns() {
        let mut turns = Turns::default();
        for key in [1, 1, 2, 2, 3] {
            turns.push(key, u32::from(key), at(0));
        }
        let order: Vec<u8> = (0..5).map(|_| take(&mut turns, 0).0).collect();
        assert_eq!(order, [1, 2, 3, 1, 2]);
        assert_eq!(turns.next(at(0)), Next::Idle);
    }

    #[test]
    fn a_payer_gets_a_burst_and_then_its_share() {
        let mut turns = Turns::default();
        let spend = |turns: &mut Turns<u8, u32>, from: u64, until: u64| {
            let mut spent = 0;
            for now in from..until {
                turns.push(1, 0, at(now));
                while let Next::Work(key, _) = turns.next(at(now)) {
                    turns.charge(key, millis(5), at(now));
                    spent += 5;
                    turns.push(1, 0, at(now));
                }
                turns.remove(1, &0);
            }
            spent
        };
        assert_eq!(spend(&mut turns, 0, 1), 1005);
        let later = spend(&mut turns, 1, 10_001);
        assert!((2490..=2510).contains(&later), "{later} ms of 10,000");
        turns.push(1, 7, at(10_001));
        let Next::At(when) = turns.next(at(10_001)) else { panic!("it has used too much") };
        assert!(when > at(10_001) && when <= at(10_021));
        turns.push(2, 8, at(10_001));
        assert_eq!(take(&mut turns, 10_001), (2, 8), "another payer has not");
        assert_eq!(turns.next(when), Next::Work(1, 7));
    }

    #[test]
    fn removed_tasks_do_not_run() {
        let mut turns = Turns::default();
        (0..3).for_each(|work| turns.push(1, work, at(0)));
        turns.remove(1, &1);
        turns.remove(2, &0);
        assert_eq!([take(&mut turns, 0).1, take(&mut turns, 0).1], [0, 2]);
        turns.push(1, 3, at(0));
        turns.remove(1, &3);
        assert_eq!(turns.next(at(0)), Next::Idle);
        turns.push(1, 4, at(0));
        assert_eq!(take(&mut turns, 0).1, 4);
    }

    #[test]
    fn payers_without_debt_are_forgotten_when_there_are_many() {
        let mut turns: Turns<u64, u32> = Turns::default();
        turns.charge(0, millis(900), at(0));
        for key in 1..10_000 {
            let now = at(key / 10);
            turns.push(key, 0, now);
            assert_eq!(turns.next(now), Next::Work(key, 0));
            turns.charge(key, millis(1), now);
        }
        assert!(turns.payers.len() <= FEW + 100, "{}", turns.payers.len());
        assert!(turns.payers.contains_key(&0), "it owes");
    }
}
