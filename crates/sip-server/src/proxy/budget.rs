//! What requests in progress take of memory, in bytes: all together, and for whom.

use crate::keys::Key;
use crate::location::AddressOfRecord;
use crate::source::Account;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicUsize, Ordering};

/// How many accounts there are; who falls on the same one shares it.
const ACCOUNTS: usize = 1 << 16;

/// Which part of the whole one source, or one user, may take.
const SHARE: usize = 8;

/// Bytes in use.
pub(super) struct Budget {
    key: Key,
    total: AtomicUsize,
    accounts: Box<[AtomicUsize]>,
}

/// The accounts that are charged for a request: those of its source and of its user, as far as they
/// have a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Payers {
    /// That of the source, unless it is trusted.
    pub source: Option<u16>,
    /// That of the user that the request has proved to be of.
    pub user: Option<u16>,
}

/// What is lacking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lacking {
    /// As much is in progress as may be.
    Whole,
    /// As much of this source or user is.
    Share,
}

impl Budget {
    pub(super) fn new(key: Key) -> Self {
        let accounts = (0..ACCOUNTS).map(|_| AtomicUsize::new(0)).collect();
        Self { key, total: AtomicUsize::new(0), accounts }
    }

    /// The payers of a request that is counted for `account`, if that has a share, of `user`, if
    /// there is one.
    pub(super) fn payers(
        &self,
        account: Option<Account>,
        user: Option<&AddressOfRecord>,
    ) -> Payers {
        let source = account.map(|account| account.hash(&self.key) as u16);
        // From another part of the hash than tables take.
        Payers { source, user: user.map(|user| (user.hash() >> 16) as u16) }
    }

    /// Whether `bytes` more may be used of `most`.
    pub(super) fn check(&self, payers: &Payers, bytes: usize, most: usize) -> Result<(), Lacking> {
        let fits = |used: &AtomicUsize, most| used.load(Ordering::Relaxed) + bytes <= most;
        if !fits(&self.total, most) {
            return Err(Lacking::Whole);
        }
        let within = |account: &u16| fits(&self.accounts[usize::from(*account)], most / SHARE);
        match payers.accounts().all(|account| within(&account)) {
            true => Ok(()),
            false => Err(Lacking::Share),
        }
    }

    /// What was `before` bytes is `after` now.
    pub(super) fn change(&self, payers: &Payers, before: usize, after: usize) {
        if before == after {
            return;
        }
        let difference = after.wrapping_sub(before);
        self.total.fetch_add(difference, Ordering::Relaxed);
        for account in payers.accounts() {
            self.accounts[usize::from(account)].fetch_add(difference, Ordering::Relaxed);
        }
    }

    pub(super) fn total(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }
}

impl Payers {
    /// Nobody has a share of it.
    pub const NONE: Self = Self { source: None, user: None };

    /// The accounts.
    pub fn accounts(&self) -> impl Iterator<Item = u16> + use<> {
        self.source.into_iter().chain(self.user)
    }
}
