//! The tables of the proxy.

use super::dialogs::Dialogs;
use super::passed::Passed;
use super::transactions::Transactions;
use crate::core::keys::Key;
use lock_api::RawMutex;

/// The state of the proxy, which all threads share.
pub(crate) struct Tables<R: RawMutex> {
    pub(crate) transactions: Transactions<R>,
    pub(crate) passed: Passed<R>,
    pub(crate) dialogs: Dialogs<R>,
}

impl<R: RawMutex> Tables<R> {
    /// Creates empty tables. `key` derives a key for a purpose.
    pub(crate) fn new(key: impl Fn(&str) -> Key) -> Self {
        Self {
            transactions: Transactions::new(key("transactions"), key("budget")),
            passed: Passed::new(),
            dialogs: Dialogs::new(key("dialogs")),
        }
    }
}
