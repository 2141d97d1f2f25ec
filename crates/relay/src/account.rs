//! The accounts that calls and their media are charged to.

use crate::bandwidth::Pace;
use crate::error::RelayError;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use hashbrown::HashMap;
use lock_api::{Mutex, RawMutex};

/// The charges of each owner.
pub(crate) struct Accounts<R> {
    counts: Mutex<R, Counts>,
    /// The maximum of one owner.
    most: usize,
    /// The maximum of all.
    most_of_all: usize,
}

#[derive(Default)]
struct Counts {
    of_owner: HashMap<u64, Account>,
    all: usize,
    refused: u64,
}

#[derive(Default)]
struct Account {
    charges: usize,
    /// The media of its calls.
    traffic: Arc<Pace>,
}

impl<R: RawMutex> Accounts<R> {
    pub(crate) fn new(most: usize, most_of_all: usize) -> Self {
        Self { counts: Mutex::new(Counts::default()), most, most_of_all }
    }

    /// The number of charges.
    pub(crate) fn count(&self) -> usize {
        self.counts.lock().all
    }

    /// The number of charges that were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.counts.lock().refused
    }

    /// Charges `owner` for one call, or for one medium after the first.
    ///
    /// # Errors
    /// [`RelayError::Share`]: the owner has the most, or all together have.
    pub(crate) fn charge(self: &Arc<Self>, owner: u64) -> Result<Charge<R>, RelayError> {
        let counts = &mut *self.counts.lock();
        let account = counts.of_owner.entry(owner).or_default();
        if account.charges >= self.most || counts.all >= self.most_of_all {
            counts.refused += 1;
            if account.charges == 0 {
                counts.of_owner.remove(&owner);
            }
            return Err(RelayError::Share);
        }
        account.charges += 1;
        counts.all += 1;
        let traffic = Arc::clone(&account.traffic);
        Ok(Charge { accounts: Arc::clone(self), owner, traffic })
    }

    /// True if the media of `owner` have the bandwidth of their limit.
    pub(crate) fn is_busy(&self, owner: u64, now: Duration) -> bool {
        let counts = self.counts.lock();
        counts.of_owner.get(&owner).is_some_and(|account| account.traffic.is_busy(now))
    }
}

/// A charge. It ends when this is dropped.
pub(crate) struct Charge<R: RawMutex> {
    accounts: Arc<Accounts<R>>,
    owner: u64,
    traffic: Arc<Pace>,
}

impl<R: RawMutex> Charge<R> {
    /// The traffic of the owner.
    pub(crate) fn traffic(&self) -> Arc<Pace> {
        Arc::clone(&self.traffic)
    }

    /// The owner.
    pub(crate) const fn owner(&self) -> u64 {
        self.owner
    }

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
        let counts = &mut *self.accounts.counts.lock();
        if let Some(account) = counts.of_owner.get_mut(&self.owner) {
            counts.all -= 1;
            account.charges -= 1;
            if account.charges == 0 {
                counts.of_owner.remove(&self.owner);
            }
        }
    }
}
