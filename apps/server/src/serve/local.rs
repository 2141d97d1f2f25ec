//! The state of one thread, and the execution of the engine's output.

use crate::why::judge::Judge;
use net::Outbox;
use parking_lot::RawMutex;
use sip::{Endpoint, Instant};
use sip_server::{CallRecord, Flow, Output, Ticket, Wake, Worker};
use std::sync::Arc;
use std::time::Duration;

/// The engine with the lock type of this program.
pub(crate) type Engine = sip_server::Server<RawMutex>;

/// The number of messages that are sent without waiting for the rest of a batch, to bound the delay
/// of the first one.
pub(super) const AT_ONCE: usize = 16;

/// The engine's worker, and buffers.
pub(super) struct Local {
    /// The index of this thread, which selects its socket of each address.
    pub(super) index: usize,
    pub(super) worker: Worker<RawMutex>,
    pub(super) out: Output,
    pub(super) outbox: Outbox,
    /// Messages for the user agents in the process.
    pub(super) internal: Vec<Internal>,
    /// True if the notifier has changes of calls to tell.
    pub(super) has_call_changes: bool,
    /// The Call-IDs of calls that the B2BUA has refused itself.
    pub(super) declined: Vec<Vec<u8>>,
    /// The records of calls with a session description that the callee has refused.
    pub(super) refused: Vec<CallRecord>,
    /// The places of trunks that have failed for a call, with the failures in words.
    pub(super) failed_trunks: Vec<(usize, Box<str>)>,
    /// The phones that are to be woken.
    pub(super) wakes: Vec<Wake>,
    /// The users with phones that have registered and may have been woken.
    pub(super) registered: Vec<Box<[u8]>>,
    /// Failed operations, to be reported to the engine.
    pub(super) failed: Vec<Failed>,
    /// The arrival times of datagrams at which the messages in `out` are sent, if timings are on.
    pub(super) arrivals: Vec<Duration>,
    /// The arrival times of the REGISTERs in `out` that changed bindings.
    pub(super) registrations: Vec<Instant>,
    /// The refusals in `out`.
    pub(super) judge: Judge,
}

/// A message on an internal flow.
pub(super) type Internal = (Flow, Vec<u8>);

/// The receiver of the result of a look-up.
pub(crate) enum Waiter {
    /// The engine, for the request that waits with the ticket.
    Engine(Ticket),
    /// The trunk registry.
    Trunks(trunk::Ticket),
}

/// A failed operation of the engine, or of a user agent beside it.
pub(super) enum Failed {
    Send(Flow, Vec<u8>),
    Locate(Waiter),
    /// The connection of this flow has ended.
    Connection(Flow),
}

/// Executes the output of the engine.
pub(super) trait CarryOut {
    /// Takes note of a `message` that came to `worker` on `flow`.
    fn received(&self, worker: usize, flow: &Flow, message: &[u8]) {
        let _ = (worker, flow, message);
    }

    /// Executes the output in `local.out`, and reports failures to the engine.
    fn carry_out(&self, local: &mut Local);
}

impl Local {
    /// The state of the thread at `index`.
    pub(super) fn new(index: usize, engine: &Arc<Engine>) -> Self {
        let worker = engine.worker();
        let judge = Judge::new(worker.counters());
        Self {
            index,
            worker,
            out: Output::default(),
            outbox: Outbox::default(),
            internal: Vec::new(),
            has_call_changes: false,
            declined: Vec::new(),
            refused: Vec::new(),
            failed_trunks: Vec::new(),
            wakes: Vec::new(),
            registered: Vec::new(),
            failed: Vec::new(),
            arrivals: Vec::new(),
            registrations: Vec::new(),
            judge,
        }
    }

    /// Passes a message that has `waited` in the receive queue to the engine. Returns true if the
    /// engine dropped it.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        waited: sip::Duration,
        flow: &Flow,
        message: &[u8],
    ) -> bool {
        let Self { worker, out, judge, .. } = self;
        let sent = out.transmits.len();
        worker.receive_late(now, waited, flow, message, out);
        let is_stored = out.transmits[sent..].iter().any(|transmit| transmit.is_promise);
        if is_stored && message.starts_with(b"REGISTER ") {
            self.registrations.push(now - waited);
        }
        judge.judge(worker.counters(), &out.transmits, &out.bytes, Some((flow, message)))
    }

    /// Takes the messages for `endpoint`.
    pub(super) fn take_internal(&mut self, endpoint: Endpoint) -> Vec<Internal> {
        let is_for = |(flow, _): &mut Internal| flow.endpoint() == Some(endpoint);
        self.internal.extract_if(.., is_for).collect()
    }
}
