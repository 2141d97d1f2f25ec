//! What a thread has for itself, whatever it serves, and how it has done what the engine asks for.

use net::Outbox;
use parking_lot::RawMutex;
use sip_server::{Connection, Flow, Output, Ticket, Worker};
use std::sync::Arc;

/// The engine with this program's locks.
pub(crate) type Engine = sip_server::Server<RawMutex>;

/// Messages to send for which the rest of a batch is not waited for: the first would wait longest.
pub(super) const AT_ONCE: usize = 16;

/// The engine's worker, and buffers.
pub(super) struct Local {
    /// Which of each address's sockets are this thread's.
    pub(super) index: usize,
    pub(super) worker: Worker<RawMutex>,
    pub(super) out: Output,
    pub(super) outbox: Outbox,
    /// What could not be done, for the engine to hear of.
    pub(super) failed: Vec<Failed>,
}

/// Something that the engine waits for in vain.
pub(super) enum Failed {
    Send(Flow, Vec<u8>),
    Locate(Ticket),
    /// The connection has ended.
    Connection(Connection),
}

/// Who does what the engine asks for.
pub(super) trait CarryOut {
    /// Does what the engine asks for in `local.out`, and tells it what failed.
    fn carry_out(&self, local: &mut Local);
}

impl Local {
    /// What the thread at `index` needs for itself.
    pub(super) fn new(index: usize, engine: &Arc<Engine>) -> Self {
        Self {
            index,
            worker: engine.worker(),
            out: Output::default(),
            outbox: Outbox::default(),
            failed: Vec::new(),
        }
    }
}
