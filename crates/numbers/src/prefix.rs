//! The longest prefix of a number.

use alloc::collections::BTreeMap;
use alloc::string::String;

/// Values by whole numbers, and by the beginnings of numbers. All keys are ASCII.
#[derive(Clone, Debug)]
pub(crate) struct PrefixTable<T> {
    numbers: BTreeMap<String, T>,
    prefixes: BTreeMap<String, T>,
}

impl<T> Default for PrefixTable<T> {
    fn default() -> Self {
        Self { numbers: BTreeMap::new(), prefixes: BTreeMap::new() }
    }
}

impl<T> PrefixTable<T> {
    /// Inserts a value for the number `key`, or for numbers that begin with it. Returns the
    /// former one.
    pub(crate) fn insert(&mut self, key: String, is_whole: bool, value: T) -> Option<T> {
        self.part_mut(is_whole).insert(key, value)
    }

    /// Returns true if `key` has a value of its own.
    pub(crate) fn contains(&self, key: &str, is_whole: bool) -> bool {
        if is_whole { self.numbers.contains_key(key) } else { self.prefixes.contains_key(key) }
    }

    /// The key and the value for `number`: that of the whole number, else of its longest prefix.
    pub(crate) fn longest(&self, number: &str) -> Option<(&str, &T)> {
        if let Some((key, value)) = self.numbers.get_key_value(number) {
            return Some((key, value));
        }
        let ends = (0..=number.len()).rev();
        ends.filter_map(|end| self.prefixes.get_key_value(number.get(..end)?))
            .map(|(key, value)| (key.as_str(), value))
            .next()
    }

    /// The whole numbers, in the order of their digits.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (&str, &T)> {
        self.numbers.iter().map(|(key, value)| (key.as_str(), value))
    }

    fn part_mut(&mut self, is_whole: bool) -> &mut BTreeMap<String, T> {
        if is_whole { &mut self.numbers } else { &mut self.prefixes }
    }
}
