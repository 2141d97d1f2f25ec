//! Items with timers, by key.

use crate::timer_queue::TimerQueue;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::Hash;
use hashbrown::HashMap;
use sip::Instant;

/// A map that records the keys of changed items, until [`Table::settle`] sets their timers. Code
/// that changes an item does not have to set its timer, and the work for a message depends on the
/// changed items only. No key is chosen by a peer.
pub(crate) struct Table<K, V> {
    items: HashMap<K, Box<Entry<V>>>,
    changed: Vec<K>,
    /// The removed items with an entry in the timer queue.
    removed: Vec<(K, Instant)>,
}

struct Entry<V> {
    item: V,
    /// The time of its entry in the timer queue.
    time: Option<Instant>,
}

/// The decision about a changed item.
pub(crate) enum Fate {
    /// It stays, with this timer.
    Keep(Option<Instant>),
    Remove,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { items: HashMap::new(), changed: Vec::new(), removed: Vec::new() }
    }
}

impl<K: Copy + Ord + Hash, V> Table<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.items.get(&key).map(|entry| &entry.item)
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let entry = self.items.get_mut(&key)?;
        mark(&mut self.changed, key);
        Some(&mut entry.item)
    }

    /// Adds an item with a new key.
    pub(crate) fn insert(&mut self, key: K, item: V) {
        mark(&mut self.changed, key);
        self.items.insert(key, Box::new(Entry { item, time: None }));
    }

    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        let entry = self.items.remove(&key)?;
        self.removed.extend(entry.time.map(|time| (key, time)));
        Some(entry.item)
    }

    /// Returns all items, in no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.items.values().map(|entry| &entry.item)
    }

    /// Returns all items in the order of their keys. Each of them counts as changed.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.changed.extend(self.items.keys());
        let mut items: Vec<_> = self.items.iter_mut().collect();
        items.sort_unstable_by_key(|(key, _)| **key);
        items.into_iter().map(|(_, entry)| &mut entry.item)
    }

    /// Returns the item whose entry was taken from the timer queue.
    pub(crate) fn take_due(&mut self, key: K) -> Option<&mut V> {
        let entry = self.items.get_mut(&key)?;
        entry.time = None;
        mark(&mut self.changed, key);
        Some(&mut entry.item)
    }

    /// Sets the timers of the items that were changed or removed since the previous call, by the
    /// decision `fate`. `owner` returns their keys in the queue.
    pub(crate) fn settle<T: Copy + Ord>(
        &mut self,
        timers: &mut TimerQueue<T>,
        owner: impl Fn(K) -> T,
        mut fate: impl FnMut(&mut V) -> Fate,
    ) {
        while let Some(key) = self.changed.pop() {
            let Some(entry) = self.items.get_mut(&key) else { continue };
            match fate(&mut entry.item) {
                Fate::Keep(time) => {
                    timers.set(owner(key), entry.time, time);
                    entry.time = time;
                }
                Fate::Remove => drop(self.remove(key)),
            }
        }
        for (key, time) in self.removed.drain(..) {
            timers.set(owner(key), Some(time), None);
        }
    }
}

/// Records a changed key. Most changes of an item follow each other.
fn mark<K: PartialEq>(changed: &mut Vec<K>, key: K) {
    if changed.last() != Some(&key) {
        changed.push(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    /// A step of the test.
    #[derive(Clone, Debug)]
    enum Step {
        Insert(Option<u64>),
        Change(u8, Option<u64>),
        Remove(u8),
        /// An item changes, and its fate is to be removed.
        End(u8),
        /// The time passes, and the timers that are due move by so much.
        Pass(u64, Option<u64>),
    }

    fn steps() -> impl Strategy<Value = Step> {
        let delay = || proptest::option::of(1u64..100);
        prop_oneof![
            delay().prop_map(Step::Insert),
            (any::<u8>(), delay()).prop_map(|(of, delay)| Step::Change(of, delay)),
            any::<u8>().prop_map(Step::Remove),
            any::<u8>().prop_map(Step::End),
            (0u64..60, delay()).prop_map(|(time, delay)| Step::Pass(time, delay)),
        ]
    }

    proptest! {
        /// Compares the timers of a table with those of a map that is searched.
        #[test]
        fn each_item_is_due_at_its_last_time(
            steps in proptest::collection::vec(steps(), 0..200),
        ) {
            let (mut table, mut timers) = (Table::default(), TimerQueue::default());
            let mut model: BTreeMap<u16, Option<Instant>> = BTreeMap::new();
            let (mut now, mut count) = (0, 0u16);
            for step in steps {
                let key = |of: u8| {
                    let place = usize::from(of) % model.len().max(1);
                    model.keys().nth(place).copied().unwrap_or(u16::MAX)
                };
                let at = |delay: Option<u64>| delay.map(|delay| Instant::from_micros(now + delay));
                match step {
                    Step::Insert(delay) => {
                        count += 1;
                        table.insert(count, Fate::Keep(at(delay)));
                        model.insert(count, at(delay));
                    }
                    Step::Change(of, delay) => {
                        let key = key(of);
                        if let Some(item) = table.get_mut(key) {
                            *item = Fate::Keep(at(delay));
                            model.insert(key, at(delay));
                        }
                    }
                    Step::Remove(of) => {
                        let key = key(of);
                        prop_assert_eq!(table.remove(key).is_some(), model.remove(&key).is_some());
                    }
                    Step::End(of) => {
                        let key = key(of);
                        if let Some(item) = table.get_mut(key) {
                            *item = Fate::Remove;
                            model.remove(&key);
                        }
                    }
                    Step::Pass(time, delay) => {
                        now += time;
                        let moment = Instant::from_micros(now);
                        let mut due: Vec<_> = model
                            .iter()
                            .filter_map(|(key, time)| Some(((*time)?, *key)))
                            .filter(|(time, _)| *time <= moment)
                            .collect();
                        due.sort_unstable();
                        let due: Vec<u16> = due.into_iter().map(|(_, key)| key).collect();
                        prop_assert_eq!(timers.take_due(moment), due.clone());
                        let next = delay.map(|delay| Instant::from_micros(now + delay));
                        for key in due {
                            *table.take_due(key).expect("an item") = Fate::Keep(next);
                            model.insert(key, next);
                        }
                    }
                }
                table.settle(&mut timers, |key| key, |item| match item {
                    Fate::Keep(time) => Fate::Keep(*time),
                    Fate::Remove => Fate::Remove,
                });
                prop_assert_eq!(timers.next(), model.values().flatten().min().copied());
                prop_assert_eq!(table.len(), model.len());
            }
        }
    }
}
