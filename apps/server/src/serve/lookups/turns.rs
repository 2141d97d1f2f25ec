//! The queue of look-ups, fair between the sources and users that ask for them.

use sip_server::Payers;
use std::collections::{HashMap, VecDeque};

/// The inverse of the share that one source or one user may have.
const SHARE: usize = 8;

/// The look-ups that wait, and those under way. One source, or one user, has at most an eighth of
/// either. A party with many look-ups delays only its own.
pub(super) struct Turns<T> {
    /// The maximum number under way, and of those that wait.
    most: usize,
    most_waiting: usize,
    queues: HashMap<Payers, VecDeque<T>>,
    waiting: usize,
    waiting_of: HashMap<u16, usize>,
    under_way: usize,
    under_way_of: HashMap<u16, usize>,
    /// Queues with a look-up that may start, in the order of their turns.
    ready: VecDeque<Payers>,
    /// Queues that wait until the account has fewer look-ups under way.
    held: HashMap<u16, Vec<Payers>>,
}

impl<T> Turns<T> {
    pub(super) fn new(most: usize, most_waiting: usize) -> Self {
        Self {
            most,
            most_waiting,
            queues: HashMap::new(),
            waiting: 0,
            waiting_of: HashMap::new(),
            under_way: 0,
            under_way_of: HashMap::new(),
            ready: VecDeque::new(),
            held: HashMap::new(),
        }
    }

    /// Queues `item`.
    ///
    /// # Errors
    /// Returns `item` if too many wait, in total or for these `payers`.
    pub(super) fn push(&mut self, payers: Payers, item: T) -> Result<(), T> {
        let share = (self.most_waiting / SHARE).max(1);
        let is_full = |account| self.waiting_of.get(&account).is_some_and(|used| *used >= share);
        if self.waiting >= self.most_waiting || payers.accounts().any(is_full) {
            return Err(item);
        }
        self.waiting += 1;
        add(&mut self.waiting_of, payers);
        let queue = self.queues.entry(payers).or_default();
        queue.push_back(item);
        if queue.len() == 1 {
            self.ready.push_back(payers);
        }
        Ok(())
    }

    /// The next item to start. The caller calls [`Turns::end`] when it is done.
    pub(super) fn next(&mut self) -> Option<(Payers, T)> {
        let share = (self.most / SHARE).max(1);
        while self.under_way < self.most {
            let payers = self.ready.pop_front()?;
            let is_full =
                |account: &u16| self.under_way_of.get(account).is_some_and(|used| *used >= share);
            if let Some(full) = payers.accounts().find(is_full) {
                self.held.entry(full).or_default().push(payers);
                continue;
            }
            let Some(queue) = self.queues.get_mut(&payers) else { continue };
            let Some(item) = queue.pop_front() else { continue };
            match queue.is_empty() {
                true => drop(self.queues.remove(&payers)),
                false => self.ready.push_back(payers),
            }
            self.waiting -= 1;
            take(&mut self.waiting_of, payers);
            self.under_way += 1;
            add(&mut self.under_way_of, payers);
            return Some((payers, item));
        }
        None
    }

    /// Notes the end of an item of `payers`.
    pub(super) fn end(&mut self, payers: Payers) {
        self.under_way -= 1;
        take(&mut self.under_way_of, payers);
        for account in payers.accounts() {
            self.ready.extend(self.held.remove(&account).unwrap_or_default());
        }
    }
}

fn add(counts: &mut HashMap<u16, usize>, payers: Payers) {
    payers.accounts().for_each(|account| *counts.entry(account).or_default() += 1);
}

fn take(counts: &mut HashMap<u16, usize>, payers: Payers) {
    for account in payers.accounts() {
        if let Some(count) = counts.get_mut(&account) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MALLORY: Payers = Payers { source: Some(1), user: Some(2) };
    const ALICE: Payers = Payers { source: Some(3), user: Some(4) };

    #[test]
    fn a_source_with_many_lookups_delays_only_itself() {
        let mut turns = Turns::new(16, 64);
        let accepted = (0..100).filter(|&number| turns.push(MALLORY, number).is_ok()).count();
        assert_eq!(accepted, 8, "an eighth of what may wait");
        let begun: Vec<_> = std::iter::from_fn(|| turns.next()).collect();
        assert_eq!(begun, [(MALLORY, 0), (MALLORY, 1)], "an eighth of what may be under way");
        turns.push(ALICE, 1000).unwrap();
        assert_eq!(turns.next(), Some((ALICE, 1000)));
        assert_eq!(turns.next(), None);
        turns.end(MALLORY);
        assert_eq!(turns.next(), Some((MALLORY, 2)));
        assert_eq!(turns.next(), None);
    }

    #[test]
    fn users_of_one_source_share_its_lookups_and_take_turns() {
        let mut turns = Turns::new(24, 1000);
        let users: Vec<Payers> =
            (10..13).map(|user| Payers { source: Some(1), user: Some(user) }).collect();
        for &user in &users {
            (0..4).for_each(|number| turns.push(user, number).unwrap());
        }
        let mut begun: VecDeque<_> = std::iter::from_fn(|| turns.next()).collect();
        assert_eq!(begun.iter().map(|(payers, _)| *payers).collect::<Vec<_>>(), users);
        let mut done = Vec::new();
        while let Some((payers, number)) = begun.pop_front() {
            done.push((payers, number));
            turns.end(payers);
            begun.extend(std::iter::from_fn(|| turns.next()));
        }
        assert_eq!(done.len(), 12, "each has its turn");
        assert!(turns.queues.is_empty() && turns.held.is_empty());
        assert!(turns.waiting_of.is_empty() && turns.under_way_of.is_empty());
    }

    #[test]
    fn trusted_sources_have_no_share_limit() {
        let mut turns = Turns::new(4, 8);
        (0..8).for_each(|number| turns.push(Payers::NONE, number).unwrap());
        assert!(turns.push(ALICE, 8).is_err());
        assert_eq!(std::iter::from_fn(|| turns.next()).count(), 4);
    }
}
