//! The notes of changes of users. Triggers make one for each change, whichever program makes it.
//! Transactions of this program delete their own, so that those of other programs are left.

use rusqlite::Transaction;

/// The last change that is noted in `transaction`.
pub(super) fn last(transaction: &Transaction<'_>) -> rusqlite::Result<i64> {
    transaction.query_row("SELECT coalesce(max(id), 0) FROM user_change", [], |row| row.get(0))
}

/// Deletes the changes after `last`, which `transaction` has made itself.
pub(super) fn forget_after(transaction: &Transaction<'_>, last: i64) -> rusqlite::Result<()> {
    transaction.execute("DELETE FROM user_change WHERE id > ?1", [last]).map(drop)
}
