//! The stored form of the bindings of a user: what a change writes to the journal, and how records
//! are restored and changes reverted.

use super::{AddressOfRecord, Changed, Known, LocationService, Subscriber};
use crate::binding::Binding;
use crate::journal_record::{self, Entry, Record, StoredBinding};
use crate::output::Output;
use alloc::vec::Vec;
use hashbrown::{HashMap, HashSet};
use lock_api::RawMutex;
use sip::{Instant, Uri};
use smallvec::SmallVec;

/// The removals in stored records. The records with the additions may come later.
#[derive(Debug, Default)]
pub(super) struct Restoring {
    /// Hashes of addresses-of-record, and identifiers of bindings.
    removed: HashSet<(u64, u64)>,
    /// By hash of the address-of-record: all identifiers below this one are removed.
    removed_below: HashMap<u64, u64>,
}

/// The bindings that a REGISTER has replaced.
pub(crate) struct Replaced {
    /// Keyed hash of the Call-ID of the REGISTER.
    pub(crate) call_id: u64,
    pub(crate) bindings: Vec<Binding>,
}

/// The data to revert the change of a REGISTER.
#[derive(Debug)]
pub(crate) struct Undo {
    pub(super) address: AddressOfRecord,
    /// True if the address-of-record exists without bindings.
    pub(super) is_user: bool,
    /// Keyed hash of the Call-ID.
    pub(super) call_id: u64,
    /// The identifiers of the bindings that were added.
    pub(super) added: SmallVec<[u64; 1]>,
    /// The bindings that were replaced or removed.
    pub(super) removed: Vec<Binding>,
}

impl<R: RawMutex> LocationService<R> {
    /// Restores a stored record. Records may come in any order: bindings that another record
    /// removes are left out. Limits the expiry of the bindings to `latest`.
    pub(crate) fn restore(&self, record: &Record<'_>, now: Instant, latest: Instant) {
        let address = self.canonical(record.address_of_record);
        let mut added: SmallVec<[Binding; 4]> = SmallVec::new();
        let mut removed: SmallVec<[u64; 4]> = SmallVec::new();
        let removed_below = {
            let mut shard = self.shard(address.hash).lock();
            shard.sequence = shard.sequence.max(record.sequence);
            let restoring = shard.restoring.get_or_insert_default();
            let below = restoring.removed_below.entry(address.hash).or_default();
            for entry in record.entries().map_while(Result::ok) {
                match entry {
                    Entry::Binding { id, binding, .. } if binding.expires > now => {
                        added.push(self.restored(id, &binding, latest));
                    }
                    Entry::Binding { .. } => {}
                    Entry::Removed { id, .. } => {
                        restoring.removed.insert((address.hash, id));
                        removed.push(id);
                    }
                    Entry::RemovedBelow { id, .. } => *below = id.max(*below),
                }
            }
            added.retain(|binding| !restoring.removed.contains(&(address.hash, binding.id)));
            *below
        };
        let mut unused = Output::default();
        self.update(&address, true, &mut unused, |subscriber| {
            let bindings = &mut subscriber.bindings;
            added.retain(|binding| bindings.iter().all(|known| known.id != binding.id));
            bindings.reserve_exact(added.len());
            bindings.extend(added);
            bindings.retain(|it| it.id >= removed_below && !removed.contains(&it.id));
            // Restores the order of registration.
            bindings.sort_unstable_by_key(|binding| binding.id);
            // The record is in the journal already.
            ((), Changed::No)
        });
    }

    /// Returns the binding that was `stored` as `id`.
    fn restored(&self, id: u64, stored: &StoredBinding<'_>, latest: Instant) -> Binding {
        let mut binding = Binding::from_stored(id, stored);
        binding.expires = binding.expires.min(latest);
        if let Ok(Uri::Sip(uri)) = Uri::parse(stored.contact) {
            binding.claim = self.claim(&binding, &uri);
        }
        binding
    }

    /// Reverts the change of a REGISTER, unless a later one has changed it again.
    pub(crate) fn undo(&self, undo: Undo) {
        // A removed user is not added again.
        let mut unused = Output::default();
        self.update(&undo.address, !undo.is_user, &mut unused, |subscriber| {
            let Subscriber { bindings, past, .. } = subscriber;
            past.retract(undo.call_id);
            bindings.retain(|binding| !undo.added.contains(&binding.id));
            for binding in undo.removed {
                past.retract(binding.call_id);
                let is_replaced = |it: &Binding| {
                    let is_of_phone = !it.instance().is_empty() && it.extra == binding.extra;
                    it.contact == binding.contact || is_of_phone
                };
                if !bindings.iter().any(is_replaced) {
                    bindings.push(binding);
                }
            }
            bindings.sort_unstable_by_key(|binding| binding.id);
            ((), Changed::No)
        });
    }

    /// Numbers new records from above `sequence`, and ends the restoration of stored records.
    pub(crate) fn continue_after(&self, sequence: u64) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.sequence = shard.sequence.max(sequence);
            shard.restoring = None;
        }
    }
}

/// Writes the changes since `before` to the journal. Returns the identifiers of the bindings that
/// were added.
pub(super) fn journal(
    subscriber: &mut Subscriber,
    before: &Known,
    sequence: &mut u64,
    out: &mut Output,
) -> SmallVec<[u64; 1]> {
    let Subscriber { address_of_record, bindings, .. } = subscriber;
    let is_there = |id: &u64| bindings.iter().any(|binding| binding.id == *id);
    let removed: SmallVec<[u64; 4]> =
        before.ids.iter().copied().filter(|id| !is_there(id)).collect();
    let new = bindings.iter_mut().filter(|binding| binding.id == 0);
    let added: SmallVec<[u64; 1]> = (0..)
        .zip(new)
        .map(|(place, binding)| {
            binding.id = journal_record::id(*sequence + 1, place);
            binding.id
        })
        .collect();
    if removed.is_empty() && added.is_empty() {
        return added;
    }
    *sequence += 1;
    let is_new = |binding: &&Binding| added.contains(&binding.id);
    journal_record::write_change(
        &mut out.journal,
        *sequence,
        address_of_record,
        removed.into_iter(),
        bindings.iter().filter(is_new).map(|binding| (binding.id, binding.as_stored())),
    );
    added
}
