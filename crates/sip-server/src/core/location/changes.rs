//! The changes of the bindings of a user, and their journal.

use super::subscriber::{Known, Subscriber};
use crate::core::binding::Binding;
use crate::core::journal_record;
use crate::core::output::Output;
use alloc::vec::Vec;
use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

/// The kind of a change of bindings, for storage.
pub(crate) enum Changed {
    Yes,
    No,
    /// A change by a REGISTER, which is reverted if it cannot be stored.
    Undoable(Replaced),
}

/// The removals in stored records. The records with the additions may come later.
#[derive(Debug, Default)]
pub(super) struct Restoring {
    /// Hashes of addresses-of-record, and identifiers of bindings.
    pub(super) removed: HashSet<(u64, u64)>,
    /// By hash of the address-of-record: all identifiers below this one are removed.
    pub(super) removed_below: HashMap<u64, u64>,
}

/// The bindings that a REGISTER has replaced.
pub(crate) struct Replaced {
    /// Keyed hash of the Call-ID of the REGISTER.
    pub(crate) call_id: u64,
    pub(crate) bindings: Vec<Binding>,
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
