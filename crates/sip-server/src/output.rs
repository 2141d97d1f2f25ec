//! What the engine asks its owner to do.

use crate::flow::{Flow, is_sendable};
use crate::reach::Scope;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::ops::Range;
use sip::Transport;
use sip::locate::Destination;
use sip::message::MAX_MESSAGE;

/// A message to send: bytes of [`Output::bytes`] and the flow to send them on.
#[derive(Clone, Debug)]
pub struct Transmit {
    /// Where to send.
    pub flow: Flow,
    /// The message, as a range of [`Output::bytes`].
    pub range: Range<usize>,
    /// Whether it says that something was kept which is in [`Output::journal`]. It must not be sent where that
    /// could not be stored.
    pub is_promise: bool,
}

/// Something that the owner has to do, beside sending messages.
#[derive(Clone, Debug)]
pub enum Event {
    /// Find out where `destination` is (RFC 3263, [`sip::locate::Locator`]) and tell
    /// [`Worker::located`](crate::Worker::located) with the same ticket.
    Locate {
        /// What to locate.
        destination: Destination,
        /// To be given back.
        ticket: Ticket,
    },
    /// Something that the operator may want to read, at most one line.
    Notice(String),
}

/// What waits for a location.
#[derive(Clone, Debug)]
pub struct Ticket(pub(crate) TicketKind);

#[derive(Clone, Debug)]
pub(crate) enum TicketKind {
    /// A branch of a transaction.
    Branch { handle: crate::proxy::branch::Handle, index: u8 },
    /// A message to be forwarded without a transaction, written for the given end of ours, on the wish of somebody in
    /// a network of scope `origin`.
    Message { bytes: Vec<u8>, arrived_on: Flow, origin: Scope },
}

/// One place where a destination can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// By which transport.
    pub transport: Transport,
    /// Where.
    pub remote: SocketAddr,
    /// Our address for it, if the owner knows; not a wildcard, with the port of the listener.
    pub local: Option<SocketAddr>,
}

/// Buffers that the owner keeps and the engine fills. The owner first appends `journal` to its
/// storage, then sends `transmits`, so that no binding is answered before it is kept; then calls
/// [`Output::clear`].
#[derive(Debug, Default)]
pub struct Output {
    /// The bytes of all messages.
    pub bytes: Vec<u8>,
    /// The messages, in the order to send them.
    pub transmits: Vec<Transmit>,
    /// Changes of bindings ([`record`](crate::record)), to be appended to storage as they are.
    pub journal: Vec<u8>,
    /// Everything else.
    pub events: Vec<Event>,
}

impl Output {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.transmits.is_empty() && self.journal.is_empty() && self.events.is_empty()
    }

    /// Forgets what was handed out, and keeps the buffers.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.transmits.clear();
        self.journal.clear();
        self.events.clear();
    }

    /// Sends what `write` appends, and returns where it stands. Nothing is sent to an address that
    /// nobody has. `None` where it is longer than a message may be, and so is not sent.
    pub(crate) fn send(
        &mut self,
        flow: Flow,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Range<usize>> {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.push(flow, start)
    }

    /// Sends what was appended from `start` on, likewise.
    pub(crate) fn push(&mut self, flow: Flow, start: usize) -> Option<Range<usize>> {
        let range = start..self.bytes.len();
        if range.len() > MAX_MESSAGE {
            self.bytes.truncate(start);
            return None;
        }
        if is_sendable(flow.remote) {
            self.transmits.push(Transmit { flow, range: range.clone(), is_promise: false });
        }
        Some(range)
    }
}
