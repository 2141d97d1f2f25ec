//! The restoration of stored records, and the reversal of changes that could not be stored.

use super::{Changed, LocationService, Subscriber};
use crate::core::binding::Binding;
use crate::core::journal_record::{Entry, Record, StoredBinding};
use crate::core::output::Output;
use crate::core::undo::Undo;
use lock_api::RawMutex;
use sip::{Instant, Uri};
use smallvec::SmallVec;

impl<R: RawMutex> LocationService<R> {
    /// Restores a stored record. Records may come in any order: bindings that another record
    /// removes are left out. Limits the expiry of the bindings to `latest`. Phones may sleep if
    /// `may_sleep`.
    pub(crate) fn restore(
        &self,
        record: &Record<'_>,
        now: Instant,
        latest: Instant,
        may_sleep: bool,
    ) {
        let address = self.canonical(record.address_of_record);
        let mut added: SmallVec<[Binding; 4]> = SmallVec::new();
        let mut removed: SmallVec<[u64; 4]> = SmallVec::new();
        let removed_below = {
            let mut shard = self.shard(address.hash()).lock();
            shard.sequence = shard.sequence.max(record.sequence);
            let restoring = shard.restoring.get_or_insert_default();
            let below = restoring.removed_below.entry(address.hash()).or_default();
            for entry in record.entries().map_while(Result::ok) {
                match entry {
                    Entry::Binding { id, binding, .. } if binding.expires > now => {
                        added.push(self.restored(id, &binding, latest, may_sleep));
                    }
                    Entry::Binding { .. } => {}
                    Entry::Removed { id, .. } => {
                        restoring.removed.insert((address.hash(), id));
                        removed.push(id);
                    }
                    Entry::RemovedBelow { id, .. } => *below = id.max(*below),
                }
            }
            added.retain(|binding| !restoring.removed.contains(&(address.hash(), binding.id)));
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
    fn restored(
        &self,
        id: u64,
        stored: &StoredBinding<'_>,
        latest: Instant,
        may_sleep: bool,
    ) -> Binding {
        let mut binding = Binding::from_stored(id, stored, may_sleep);
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
            let Subscriber { bindings, tombstones, .. } = subscriber;
            tombstones.retract(undo.call_id);
            bindings.retain(|binding| !undo.added.contains(&binding.id));
            for binding in undo.removed {
                tombstones.retract(binding.call_id);
                let is_replaced = |it: &Binding| {
                    let is_of_phone =
                        !it.instance().is_empty() && it.flow_of_phone() == binding.flow_of_phone();
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
