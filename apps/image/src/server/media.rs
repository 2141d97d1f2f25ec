//! The relay of media: the calls, their packets, and their end.

use super::budget::Budget;
use crate::lock::Lock;
use crate::log::Log;
use crate::machine::random::Random;
use crate::media::{Media, Outgoing};
use crate::net::Ends;
use crate::options::server::Options;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use relay::{CallReport, Calls, Limits, PORTS_PER_STREAM};
use sip::Instant;
use sip_server::config::Relaying;
use sip_server::{Output, Worker};

/// The maximum length of a packet, in bytes.
const MAX_PACKET: usize = 4096;
/// The room for a packet and what SRTP adds to it.
const BUFFER: usize = MAX_PACKET + 512;
/// The share of one source in the calls: a fifth.
const SHARE: usize = 5;

type Relay = relay::Relay<Lock, Media>;

/// The relay of the server.
pub(super) struct RelayedMedia {
    calls: Arc<Relay>,
    buffer: Box<[u8]>,
}

impl fmt::Debug for RelayedMedia {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.calls.fmt(f)
    }
}

impl RelayedMedia {
    /// The relay of a machine with `memory` bytes, if the options have one.
    pub(super) fn new(options: &Options, memory: usize, random: &mut Random) -> Option<Self> {
        if options.relay == Relaying::Off {
            return None;
        }
        let range = options.ports;
        let calls = Budget::of(memory).calls.min(range.pairs() * 2 / PORTS_PER_STREAM);
        let standard = Limits::default();
        let calls_of_owner = standard.calls_of_owner.min(calls.div_ceil(SHARE));
        let inactivity = options.timeout.into();
        let limits = Limits { calls, calls_of_owner, inactivity, ..standard };
        // A call may have more streams than one. Then there are fewer calls.
        let host = Media::new(range, calls * PORTS_PER_STREAM / 2, Random::new(random.bytes()));
        let buffer = alloc::vec![0; BUFFER].into();
        Some(Self { calls: Arc::new(Relay::new(host, limits)), buffer })
    }

    /// The calls, for the engine.
    pub(super) fn calls(&self) -> Arc<dyn Calls> {
        Arc::<Relay>::clone(&self.calls)
    }

    /// The ports, for the network.
    pub(super) fn ports(&self) -> &Media {
        self.calls.host()
    }

    /// The relayed calls at this time.
    pub(super) fn reports(&self) -> Vec<CallReport> {
        self.calls.reports()
    }

    /// The number of relayed calls.
    pub(super) fn count(&self) -> usize {
        self.calls.count()
    }

    /// Relays a datagram. Returns the packet to send.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        ends: Ends,
        payload: &[u8],
    ) -> Option<(Outgoing, &[u8])> {
        let length = payload.len();
        if length > MAX_PACKET {
            return None;
        }
        self.buffer[..length].copy_from_slice(payload);
        let (port, from) = (ends.destination.port(), ends.source);
        let ports = self.calls.host();
        let outgoing = ports.relay(port, from, &mut self.buffer, length, now.since_epoch())?;
        Some((outgoing, &self.buffer[..outgoing.length]))
    }

    /// Ends the calls that are over by their limits, with a BYE to both ends in `out`. To be called
    /// a few times a second.
    pub(super) fn end_calls(
        &self,
        now: Instant,
        worker: &mut Worker<Lock>,
        log: &mut Log,
        out: &mut Output,
    ) {
        for call in self.calls.expire(now.since_epoch()) {
            let call_id = String::from_utf8_lossy(&call.call_id);
            log.say(format_args!("the relay of call {call_id} ends: it {}", call.fault()));
            worker.expire(now, call, out);
        }
    }
}
