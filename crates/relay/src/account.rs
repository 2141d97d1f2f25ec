//! The accounts that calls and their media are charged to.

use crate::error::RelayError;
use alloc::sync::Arc;
use core::fmt;
use hashbrown::HashMap;
use lock_api::{Mutex, RawMutex};

/// The charges of each owner.
pub(crate) struct Accounts<R> {
    counts: Mutex<R, HashMap<u64, usize>>,
    /// The maximum of one owner.
    most: usize,
}

impl<R: RawMutex> Accounts<R> {
    pub(crate) fn new(most: usize) -> Self {
        Self { counts: Mutex::new(HashMap::default()), most }
    }

    /// Charges `owner` for one call, or for one medium after the first.
    ///
    /// # Errors
    /// [`RelayError::Share`]: the owner has the most.
    pub(crate) fn charge(self: &Arc<Self>, owner: u64) -> Result<Charge<R>, RelayError> {
        let mut counts = self.counts.lock();
        let count = counts.entry(owner).or_default();
        if *count >= self.most {
            return Err(RelayError::Share);
        }
        *count += 1;
        Ok(Charge { accounts: Arc::clone(self), owner })
    }
}

/// A charge. It ends when this is dropped.
pub(crate) struct Charge<R: RawMutex> {
    accounts: Arc<Accounts<R>>,
    owner: u64,
}

impl<R: RawMutex> Charge<R> {
    /// Charges the same owner again.
    ///
    /// # Errors
    /// As [`Accounts::charge`].
    pub(crate) fn another(&self) -> Result<Self, RelayError> {
        self.accounts.charge(self.owner)
    }
}

impl<R: RawMutex> fmt::Debug for Charge<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charge").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl<R: RawMutex> Drop for Charge<R> {
    fn drop(&mut self) {
        let mut counts = self.accounts.counts.lock();
        if let Some(count) = counts.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.owner);
            }
        }
    }
}
