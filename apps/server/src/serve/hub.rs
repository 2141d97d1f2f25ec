//! What all threads of the running server share, and how the engine's wishes are carried out.

use super::Engine;
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

/// What the thread of streams is asked to do by the others.
pub(crate) enum Errand {
    /// Send a message on a stream.
    Send(Flow, Vec<u8>),
    /// Look up a destination.
    Locate(Destination, Ticket),
}

/// Errands that may wait at a time; further messages are dropped, as a full socket would.
pub(crate) const MAX_ERRANDS: usize = 65_536;

/// The engine, storage and sockets.
pub(crate) struct Hub {
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: Clock,
    /// Where registrations are kept, if they are.
    pub(crate) journal: Option<Journal>,
    /// For each address that datagrams come to, a socket for each worker.
    pub(crate) sockets: Vec<Vec<Socket>>,
    pub(crate) errands: mpsc::Sender<Errand>,
    /// Where the server listens.
    pub(crate) listens: Vec<Listen>,
    pub(crate) counters: Counters,
}

/// What is counted here and not in the engine.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Connections refused because there were as many as may be.
    pub(crate) refused_connections: AtomicU64,
    /// Messages for streams and look-ups dropped because too many waited.
    pub(crate) dropped_errands: AtomicU64,
}

/// One thread's buffers.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) out: Output,
    outbox: Outbox,
    /// What could not be done, for the engine to hear of.
    failed: Vec<Failed>,
    /// Messages for streams and destinations to look up, where this thread sees to them itself.
    pub(crate) own_errands: Option<Vec<Errand>>,
}

/// Something that the engine waits for in vain.
enum Failed {
    Send(Flow, Vec<u8>),
    Locate(Ticket),
}

impl Buffers {
    /// Buffers of the thread that runs the errands.
    pub(crate) fn of_streams() -> Self {
        Self { own_errands: Some(Vec::new()), ..Self::default() }
    }
}

impl Hub {
    /// The port on which `transport` is listened to.
    pub(crate) fn port_of(&self, transport: Transport, is_v4: bool) -> Option<u16> {
        self.listens
            .iter()
            .find(|listen| listen.transport == transport && listen.address.is_ipv4() == is_v4)
            .map(|listen| listen.address.port())
    }

    /// Does what the engine asks for in `buffers.out`, and tells `worker` what failed. `index` says
    /// which sockets are this thread's.
    pub(crate) fn carry_out(
        &self,
        index: usize,
        worker: &mut Worker<RawMutex>,
        buffers: &mut Buffers,
    ) {
        self.store_and_send(index, buffers);
        while let Some(failed) = buffers.failed.pop() {
            let now = self.clock.now();
            match failed {
                Failed::Send(flow, bytes) => {
                    worker.undeliverable(now, &flow, &bytes, &mut buffers.out);
                }
                Failed::Locate(ticket) => worker.located(now, ticket, &[], &mut buffers.out),
            }
            self.store_and_send(index, buffers);
        }
    }

    fn store_and_send(&self, index: usize, buffers: &mut Buffers) {
        let Buffers { out, outbox, failed, own_errands } = buffers;
        if self.store(out).is_err() {
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
            let Some(socket) = group.get(index % group.len().max(1)) else { continue };
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
        let streams = out.transmits.iter().filter(|transmit| transmit.flow.transport.is_reliable());
        let messages = streams.map(|transmit| {
            Errand::Send(transmit.flow, out.bytes[transmit.range.clone()].to_vec())
        });
        let events = out.events.drain(..).filter_map(|event| match event {
            Event::Locate { destination, ticket } => Some(Errand::Locate(destination, ticket)),
            Event::Notice(text) => {
                log::warn("notice", || text);
                None
            }
        });
        for errand in messages.chain(events) {
            if let Some(errands) = own_errands {
                errands.push(errand);
                continue;
            }
            if let Err(full) = self.errands.try_send(errand) {
                self.counters.dropped_errands.fetch_add(1, Ordering::Relaxed);
                log::warn("errands", || "too much waits for streams and the DNS".to_owned());
                failed.push(match full.into_inner() {
                    Errand::Send(flow, bytes) => Failed::Send(flow, bytes),
                    Errand::Locate(_, ticket) => Failed::Locate(ticket),
                });
            }
        }
        out.clear();
    }

    /// Datagrams that the system has dropped before they were read, as far as it has told.
    pub(crate) fn unread(&self) -> u64 {
        self.sockets.iter().flatten().map(|socket| u64::from(socket.dropped())).sum()
    }

    /// Keeps what became of registrations.
    ///
    /// # Errors
    /// When that fails; the journal has told the operator.
    pub(crate) fn store(&self, out: &Output) -> io::Result<()> {
        match &self.journal {
            Some(journal) => journal.append(&out.journal),
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
