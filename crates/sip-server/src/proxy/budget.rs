//! Memory accounting of the requests in progress, in bytes: in total, per source and per user.

use crate::core::address_of_record::AddressOfRecord;
use crate::core::keys::Key;
use crate::core::payers::Payers;
use crate::core::source::Account;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Number of accounts. Sources and users with the same hash share an account.
const ACCOUNTS: usize = 1 << 16;

/// One account may use 1/`SHARE` of the total.
const SHARE: usize = 8;

/// Bytes in use: the total and each account.
pub(super) struct Budget {
    key: Key,
    total: AtomicUsize,
    accounts: Box<[AtomicUsize]>,
}

/// The limit that a new request would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverLimit {
    /// The limit of the whole server.
    Server,
    /// The limit of one source or one user.
    Share,
}

impl Budget {
    pub(super) fn new(key: Key) -> Self {
        let accounts = (0..ACCOUNTS).map(|_| AtomicUsize::new(0)).collect();
        Self { key, total: AtomicUsize::new(0), accounts }
    }

    /// Returns the payers of a request from `account` by `user`. `None` stands for an unlimited
    /// source or an unauthenticated sender.
    pub(super) fn payers(
        &self,
        account: Option<Account>,
        user: Option<&AddressOfRecord>,
    ) -> Payers {
        let source = account.map(|account| account.hash(&self.key) as u16);
        // These bits of the hash are not the bits that the tables use.
        Payers { source, user: user.map(|user| (user.hash() >> 16) as u16) }
    }

    /// Checks that `bytes` more fit into a total of `most` and into the shares of `payers`.
    pub(super) fn check(
        &self,
        payers: &Payers,
        bytes: usize,
        most: usize,
    ) -> Result<(), OverLimit> {
        let fits = |used: &AtomicUsize, most| used.load(Ordering::Relaxed) + bytes <= most;
        if !fits(&self.total, most) {
            return Err(OverLimit::Server);
        }
        let within = |account: &u16| fits(&self.accounts[usize::from(*account)], most / SHARE);
        match payers.accounts().all(|account| within(&account)) {
            true => Ok(()),
            false => Err(OverLimit::Share),
        }
    }

    /// Changes the charge of `payers` from `before` to `after` bytes.
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
