//! The records of one address-of-record, merged into one.

use super::{Entry, Record, StoredBinding, put_change, read_binding};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use sip::Instant;

/// The merged content of all records of one address-of-record. The order of the records does not
/// matter, and a record that comes twice changes nothing.
///
/// A removal is kept with the number of the generation of files that contained it, because an
/// earlier record may be in a later file.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    sequence: u64,
    /// The bindings in their stored form, by identifier.
    bindings: BTreeMap<u64, Vec<u8>>,
    /// Removed identifiers, each with its generation.
    removed: BTreeMap<u64, u64>,
    /// All identifiers below the first number are removed. The second number is the generation.
    removed_below: (u64, u64),
}

impl Merged {
    /// Merges a record that was read from files of the generation `generation`. An entry with its
    /// own generation keeps it.
    pub fn take_in(&mut self, record: &Record<'_>, generation: u64) {
        self.sequence = self.sequence.max(record.sequence);
        for entry in record.entries().map_while(Result::ok) {
            match entry {
                Entry::Binding { id, bytes, .. } => {
                    if id >= self.removed_below.0 && !self.removed.contains_key(&id) {
                        self.bindings.insert(id, bytes.to_vec());
                    }
                }
                Entry::Removed { id, generation: said } => {
                    self.bindings.remove(&id);
                    let known = self.removed.entry(id).or_default();
                    *known = (*known).max(said.unwrap_or(generation));
                }
                Entry::RemovedBelow { id, generation: said } => {
                    self.bindings = self.bindings.split_off(&id);
                    let found = (id, said.unwrap_or(generation));
                    self.removed_below = self.removed_below.max(found);
                }
            }
        }
    }

    /// Drops the bindings that have expired, and the removals of generations before `oldest`.
    pub fn forget(&mut self, now: Instant, oldest: u64) {
        self.bindings.retain(|_, bytes| expiry(bytes).is_some_and(|expiry| expiry > now));
        self.removed.retain(|_, generation| *generation >= oldest);
        if self.removed_below.1 < oldest {
            self.removed_below = (0, 0);
        }
    }

    /// The highest sequence number of the records.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The latest expiry of a binding. `None` if there is no binding.
    #[must_use]
    pub fn expires(&self) -> Option<Instant> {
        self.bindings.values().filter_map(|bytes| expiry(bytes)).max()
    }

    /// The latest generation of files with a removal that is still kept, 0 for none.
    #[must_use]
    pub fn removed_in(&self) -> u64 {
        self.removed.values().copied().chain([self.removed_below.1]).max().unwrap_or_default()
    }

    /// Appends one record with the merged content.
    pub fn write(&self, out: &mut Vec<u8>, address_of_record: &[u8]) {
        put_change(out, self.sequence, address_of_record, |out| {
            let (below, generation) = self.removed_below;
            if below > 0 {
                Entry::RemovedBelow { id: below, generation: Some(generation) }.write(out);
            }
            for (&id, &generation) in &self.removed {
                Entry::Removed { id, generation: Some(generation) }.write(out);
            }
            for (&id, bytes) in &self.bindings {
                Entry::write_binding(id, out, |out| out.extend_from_slice(bytes));
            }
        });
    }
}

fn expiry(mut bytes: &[u8]) -> Option<Instant> {
    read_binding(&mut bytes).map(|StoredBinding { expires, .. }| expires)
}

#[cfg(test)]
mod tests {
    use super::super::{read, write, write_change};
    use super::*;
    use crate::core::flow::Flow;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const NOW: Instant = Instant::from_micros(1_700_000_000_000_000);

    fn stored(contact: &[u8]) -> StoredBinding<'_> {
        let address = ([192, 0, 2, 1], 5060).into();
        StoredBinding {
            contact,
            path: b"",
            instance: b"",
            call_id: 7,
            cseq: 1,
            q: 1000,
            reg_id: 0,
            expires: Instant::from_micros(NOW.as_micros() + 1),
            flow: Flow {
                transport: sip::Transport::Udp,
                local: address,
                remote: address,
                connection: None,
            },
            flow_bound: false,
            agent: b"",
        }
    }

    /// Generates the history of an address-of-record. Each step removes some bindings and adds one,
    /// or writes all bindings as earlier versions did. Returns the records and the final bindings.
    fn history(steps: &[(bool, u8)]) -> (Vec<Vec<u8>>, BTreeSet<Vec<u8>>) {
        let mut there: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut records = Vec::new();
        for (sequence, &(is_whole, removes)) in (1u64..).zip(steps) {
            let mut bytes = Vec::new();
            let contact = alloc::format!("sip:a@{sequence}").into_bytes();
            let gone: Vec<u64> =
                there.iter().map(|(id, _)| *id).take(usize::from(removes)).collect();
            there.retain(|(id, _)| !gone.contains(id));
            if is_whole {
                there.push((0, contact));
                let all = there.iter().map(|(_, contact)| stored(contact));
                write(&mut bytes, sequence, b"a@b", all);
                (0..).zip(&mut there).for_each(|(at, one)| one.0 = super::super::id(sequence, at));
            } else {
                let id = super::super::id(sequence, 0);
                let added = [(id, stored(&contact))];
                write_change(&mut bytes, sequence, b"a@b", gone.into_iter(), added.into_iter());
                there.push((id, contact));
            }
            records.push(bytes);
        }
        (records, there.into_iter().map(|(_, contact)| contact).collect())
    }

    fn contacts(merged: &Merged) -> BTreeSet<Vec<u8>> {
        let mut bytes = Vec::new();
        merged.write(&mut bytes, b"a@b");
        let record = read(&bytes).next().unwrap().unwrap();
        record.bindings().map(|binding| binding.unwrap().contact.to_vec()).collect()
    }

    proptest! {
        #[test]
        fn records_say_the_same_in_any_order_and_twice(
            steps in prop::collection::vec((prop::bool::weighted(0.2), 0u8..3), 1..12),
            order in prop::collection::vec(any::<prop::sample::Index>(), 24),
        ) {
            let (records, there) = history(&steps);
            let mut merged = Merged::default();
            let all = order.iter().map(|at| at.index(records.len())).chain(0..records.len());
            for at in all {
                let record = read(&records[at]).next().unwrap().unwrap();
                merged.take_in(&record, at as u64);
                // The record is stored as by a checkpoint, and read back.
                let mut bytes = Vec::new();
                merged.write(&mut bytes, b"a@b");
                merged = Merged::default();
                merged.take_in(&read(&bytes).next().unwrap().unwrap(), 0);
            }
            prop_assert_eq!(contacts(&merged), there.clone());
            prop_assert_eq!(merged.sequence(), records.len() as u64);
            merged.forget(NOW, u64::MAX);
            prop_assert_eq!(contacts(&merged), there);
            merged.forget(Instant::from_micros(NOW.as_micros() + 1), 0);
            prop_assert_eq!(merged.expires(), None);
        }
    }
}
