//! The reversal of a change that could not be stored.

use crate::core::address_of_record::AddressOfRecord;
use crate::core::binding::Binding;
use alloc::vec::Vec;
use smallvec::SmallVec;

/// The data to revert the change of a REGISTER.
#[derive(Debug)]
pub(crate) struct Undo {
    pub(crate) address: AddressOfRecord,
    /// True if the address-of-record exists without bindings.
    pub(crate) is_user: bool,
    /// Keyed hash of the Call-ID.
    pub(crate) call_id: u64,
    /// The identifiers of the bindings that were added.
    pub(crate) added: SmallVec<[u64; 1]>,
    /// The bindings that were replaced or removed.
    pub(crate) removed: Vec<Binding>,
}
