//! The inputs and the counts of the thread.

use media_server::{CallId, Counters, Reply, Sounds};
use parking_lot::Mutex;
use sip::Flow;
use std::sync::atomic::AtomicU64;

/// An input of the thread.
pub(in crate::serve) enum Input {
    /// A message on an internal flow.
    Message(Flow, Vec<u8>),
    /// The reply to a request of a call.
    Reply(CallId, Reply),
    /// The sounds and limits of the operator have changed.
    Configure(Sounds, Box<media_server::Config>),
    /// All calls end, and the thread.
    End,
}

/// The counts of the thread, as of its last turn.
#[derive(Default)]
pub(in crate::serve) struct Counts {
    pub(in crate::serve) engine: Mutex<Counters>,
    /// Messages that were dropped since too many waited.
    pub(in crate::serve) dropped: AtomicU64,
    /// Ticks that were left out since the thread was late.
    pub(in crate::serve) late: AtomicU64,
    /// Failed attempts to copy the state of voice messages to the database of accounts.
    pub(in crate::serve) copy_failures: AtomicU64,
}
