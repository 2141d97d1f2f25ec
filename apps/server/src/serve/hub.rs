//! What all threads of the running server share, and how the engine's wishes are carried out.

use super::Engine;
use super::connections::Connections;
use crate::listen::Listen;
use crate::log;
use crate::storage::Journal;
use net::{Clock, Outbox, Outgoing, Socket};
use parking_lot::RawMutex;
use sip::Transport;
use sip::locate::Destination;
use sip_server::{Event, Flow, Output, Ticket, Worker};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;

/// A destination to look up, for what waits with the ticket.
pub(crate) struct Lookup {
    pub(crate) destination: Destination,
    pub(crate) ticket: Ticket,
}

/// Look-ups that may wait at a time; more fail at once.
pub(crate) const MAX_LOOKUPS: usize = 65_536;

/// The engine, storage and sockets.
pub(crate) struct Hub {
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: Clock,
    /// Where registrations are kept, if they are.
    pub(crate) journal: Option<Journal>,
    /// For each address that datagrams come to, a socket for each worker.
    pub(crate) sockets: Vec<Vec<Socket>>,
    pub(crate) connections: Connections,
    pub(crate) lookups: mpsc::Sender<Lookup>,
    /// Where the server listens.
    pub(crate) listens: Vec<Listen>,
    /// Look-ups that failed because too many waited.
    pub(crate) dropped_lookups: AtomicU64,
}

/// What a thread has for itself: the engine's worker, and buffers.
pub(crate) struct Local {
    /// Which of each address's sockets are this thread's.
    index: usize,
    pub(crate) worker: Worker<RawMutex>,
    pub(crate) out: Output,
    outbox: Outbox,
    /// What could not be done, for the engine to hear of.
    pub(crate) failed: Vec<Failed>,
}

/// Something that the engine waits for in vain.
pub(crate) enum Failed {
    Send(Flow, Vec<u8>),
    Locate(Ticket),
}

impl Hub {
    /// The port on which `transport` is listened to.
    pub(crate) fn port_of(&self, transport: Transport, is_v4: bool) -> Option<u16> {
        self.listens
            .iter()
            .find(|listen| listen.transport == transport && listen.address.is_ipv4() == is_v4)
            .map(|listen| listen.address.port())
    }

    /// What the thread at `index` needs for itself.
    pub(crate) fn local(&self, index: usize) -> Local {
        Local {
            index,
            worker: self.engine.worker(),
            out: Output::default(),
            outbox: Outbox::default(),
            failed: Vec::new(),
        }
    }

    /// Does what the engine asks for in `local.out`, and tells it what failed.
    pub(crate) fn carry_out(&self, local: &mut Local) {
        self.store_and_send(local);
        while !local.failed.is_empty() {
            let now = self.clock.now();
            for failed in std::mem::take(&mut local.failed) {
                match failed {
                    Failed::Send(flow, bytes) => {
                        local.worker.undeliverable(now, &flow, &bytes, &mut local.out);
                    }
                    Failed::Locate(ticket) => {
                        local.worker.located(now, ticket, &[], &mut local.out);
                    }
                }
            }
            self.store_and_send(local);
        }
    }

    fn store_and_send(&self, local: &mut Local) {
        let Local { index, out, outbox, failed, .. } = local;
        if out.is_empty() {
            return out.clear();
        }
        if self.store(*index, out).is_err() {
            // What is not kept must not be promised. The phones ask again.
            out.transmits.retain(|transmit| !transmit.is_promise);
        }
        // What goes to one place stands together, in order, so that the system may take it as one.
        // Responses go first: the answer to a request that left before them could overtake a 100. On streams the order
        // stays.
        let bytes = &out.bytes;
        out.transmits.sort_unstable_by_key(|transmit| {
            let is_late = !transmit.flow.transport.is_reliable()
                && !bytes[transmit.range.clone()].starts_with(b"SIP/2.0 ");
            (is_late, transmit.flow.remote, transmit.range.start)
        });
        for (number, group) in self.sockets.iter().enumerate() {
            let Some(socket) = group.get(*index % group.len().max(1)) else { continue };
            let datagrams = out
                .transmits
                .iter()
                .filter(|transmit| self.group_of(&transmit.flow) == Some(number))
                .map(|transmit| Outgoing {
                    remote: Some(transmit.flow.remote),
                    local: transmit.flow.local.ip(),
                    bytes: &out.bytes[transmit.range.clone()],
                });
            outbox.send(socket, datagrams, |datagram| {
                let Some(remote) = datagram.remote else { return };
                let local = SocketAddr::new(datagram.local, socket.address().port());
                let flow = Flow { transport: Transport::Udp, local, remote, connection: None };
                failed.push(Failed::Send(flow, datagram.bytes.to_vec()));
            });
        }
        for transmits in out.transmits.chunk_by(|one, other| one.flow == other.flow) {
            if transmits[0].flow.transport.is_reliable() {
                self.connections.send(transmits, &out.bytes, failed);
            }
        }
        for event in out.events.drain(..) {
            match event {
                Event::Locate { destination, ticket } => {
                    if let Err(full) = self.lookups.try_send(Lookup { destination, ticket }) {
                        self.dropped_lookups.fetch_add(1, Ordering::Relaxed);
                        log::warn("lookups", || "too much waits for the DNS".to_owned());
                        failed.push(Failed::Locate(full.into_inner().ticket));
                    }
                }
                Event::Notice(notice) => log::warn(notice.kind(), || notice.to_string()),
            }
        }
        out.clear();
    }

    /// Datagrams that the system has dropped before they were read, as far as it has told.
    pub(crate) fn unread(&self) -> u64 {
        self.sockets.iter().flatten().map(|socket| u64::from(socket.dropped())).sum()
    }

    /// Keeps what became of registrations, as the thread at `index` was told.
    ///
    /// # Errors
    /// When that fails; the journal has told the operator.
    pub(crate) fn store(&self, index: usize, out: &Output) -> io::Result<()> {
        match &self.journal {
            Some(journal) => journal.append(index, &out.journal),
            None => Ok(()),
        }
    }

    /// Which sockets serve a datagram flow: those bound to its very address before those bound to
    /// all.
    fn group_of(&self, flow: &Flow) -> Option<usize> {
        if flow.transport != Transport::Udp {
            return None;
        }
        let position = |fits: &dyn Fn(&Socket) -> bool| {
            self.sockets.iter().position(|group| group.first().is_some_and(fits))
        };
        position(&|socket| socket.address() == flow.local)
            .or_else(|| position(&|socket| socket.serves(flow.local)))
    }
}
