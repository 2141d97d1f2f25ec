//! What all threads of the running server share, and how the engine's wishes are carried out.

use super::Engine;
use super::udp::{Outbox, Socket};
use crate::clock::Clock;
use crate::listen::Listen;
use crate::log;
use crate::storage::Journal;
use sip::Transport;
use sip::locate::Destination;
use sip_server::{Event, Flow, Output, Ticket};
use std::sync::Arc;
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
    pub(crate) journal: Journal,
    /// For each address that datagrams come to, a socket for each worker.
    pub(crate) sockets: Vec<Vec<Socket>>,
    pub(crate) errands: mpsc::Sender<Errand>,
    /// Where the server listens.
    pub(crate) listens: Vec<Listen>,
}

/// One thread's buffers.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) out: Output,
    pub(crate) outbox: Outbox,
    /// Messages that the system refused to send, for the engine to hear of.
    pub(crate) refused: Vec<(Flow, Vec<u8>)>,
    /// Messages for streams and destinations to look up, where this thread sees to them itself.
    pub(crate) own_errands: Option<Vec<Errand>>,
}

impl Hub {
    /// The port on which `transport` is listened to.
    pub(crate) fn port_of(&self, transport: Transport, is_v4: bool) -> Option<u16> {
        self.listens
            .iter()
            .find(|listen| listen.transport == transport && listen.address.is_ipv4() == is_v4)
            .map(|listen| listen.address.port())
    }

    /// Does what the engine asks for in `buffers.out`: first stores, then sends. `worker` says which
    /// sockets are this thread's.
    pub(crate) fn carry_out(&self, worker: usize, buffers: &mut Buffers) {
        let Buffers { out, outbox, refused, own_errands } = buffers;
        if !out.journal.is_empty() && self.journal.append(&out.journal).is_err() {
            // What is not kept must not be promised. The peers ask again.
            out.transmits.clear();
        }
        for sockets in &self.sockets {
            let Some(socket) = sockets.get(worker % sockets.len().max(1)) else { continue };
            let own = out.transmits.iter().filter(|transmit| {
                transmit.flow.transport == Transport::Udp && socket.serves(transmit.flow.local)
            });
            let datagrams: Vec<(Flow, &[u8])> =
                own.map(|transmit| (transmit.flow, &out.bytes[transmit.range.clone()])).collect();
            if !datagrams.is_empty() {
                outbox.send(socket, &datagrams, |flow, bytes| {
                    refused.push((*flow, bytes.to_vec()));
                });
            }
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
            match own_errands {
                Some(errands) => errands.push(errand),
                None => {
                    if self.errands.try_send(errand).is_err() {
                        log::warn("errands", || {
                            "messages for streams are dropped: too many wait".to_owned()
                        });
                    }
                }
            }
        }
        out.clear();
    }
}
