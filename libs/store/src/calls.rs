//! Records of calls that have ended.

use crate::Error;
use sip::Instant;
use std::time::Duration;

/// The record of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCall {
    /// The time of day of the end.
    pub ended: Instant,
    /// The parties, the caller first, each as `user@domain`.
    pub parties: [String; 2],
    /// The user that call services have led the call to, as `user@domain`.
    pub led_to: Option<String>,
    /// The user or group that the called number belongs to, as `user@domain`.
    pub number_of: Option<String>,
    /// True if the call was not answered, or had no media.
    pub is_failed: bool,
    /// The whole record, in the form of the owner.
    pub record: String,
}

/// The limits of the stored records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The maximum time since the end of a call.
    pub age: Duration,
    /// The maximum number of records.
    pub calls: u64,
}

/// A selection of records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallFilter {
    /// Calls that have this party, were led to it, or are for a number of it: `user@domain`, or
    /// `user` in any domain.
    pub user: Option<String>,
    /// Calls that ended at this time or later.
    pub since: Option<Instant>,
    /// Calls that ended before this time.
    pub until: Option<Instant>,
    /// Only failed calls.
    pub is_failed: bool,
}

/// The storage of records of calls. Every method may block.
pub trait CallRecords: Send + Sync {
    /// Stores all of `calls` or, on an error, none. When this returns, they survive a power loss.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn put_calls(&self, calls: &[StoredCall]) -> Result<(), Error>;

    /// Stores `calls` of an earlier kind of storage, once: a further call has no effect. Returns
    /// the number of stored calls.
    ///
    /// # Errors
    /// [`Error`] if the storage fails. Then no call is stored.
    fn import_calls(&self, calls: &mut dyn Iterator<Item = StoredCall>) -> Result<u64, Error>;

    /// Deletes the records that are beyond the limits `keep` at `now`.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn purge_calls(&self, keep: Keep, now: Instant) -> Result<(), Error>;

    /// Passes at most `most` records that fit `filter` to `each`, the latest first, until that
    /// returns false.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn calls(
        &self,
        filter: &CallFilter,
        most: usize,
        each: &mut dyn FnMut(String) -> bool,
    ) -> Result<(), Error>;

    /// At most `most` records with a higher identifier than `id`, each with its own one, by the
    /// identifier. Later records have higher identifiers, which are never used again.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn calls_after(&self, id: i64, most: usize) -> Result<Vec<(i64, StoredCall)>, Error>;

    /// At most `most` records that fit `filter`, behind the one with the identifier `before`, the
    /// latest first, each with its own identifier.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn call_page(
        &self,
        filter: &CallFilter,
        before: Option<i64>,
        most: usize,
    ) -> Result<Vec<(i64, String)>, Error>;
}
