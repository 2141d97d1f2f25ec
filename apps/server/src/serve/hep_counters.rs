//! The counters of the messages for Homer.

use std::sync::atomic::AtomicU64;

/// Counters of the messages for Homer.
#[derive(Debug, Default)]
pub(crate) struct HepCounters {
    /// Messages sent.
    pub(super) sent: AtomicU64,
    /// Messages that could not be sent, or were replaced by later ones before they were.
    pub(super) lost: AtomicU64,
}
