//! The public addresses of media ports behind a NAT, and calls that move when the network changes.

use super::Phone;
use crate::ports::Ports;
use crate::report::PhoneEvent;
use media::Mapping;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Interval at which calls without a network look for one.
const LOOKS: Duration = Duration::from_millis(500);

impl Phone {
    /// Opens ports for the next call, if there is a STUN server.
    pub(super) fn prepare(&mut self) {
        let turn = self.ice.iter().flat_map(|ice| &ice.turn).map(|(server, _)| server.address);
        let Some(server) = self.stun.first().copied().or(turn.into_iter().next()) else { return };
        let local = self.links.local_towards(server).ip();
        self.spare = self.open_ports(local).ok();
    }

    fn open_ports(&self, local: IpAddr) -> io::Result<Ports> {
        match &self.ice {
            Some(ice) => Ports::open_with_ice(local, ice, self.epoch.elapsed()),
            None => Ports::open(local, &self.stun, self.epoch.elapsed()),
        }
    }

    /// The media address of the next call, its public address, and the kind of NAT mapping; `None`
    /// without a STUN server.
    pub(crate) fn outside(&self) -> Option<(SocketAddr, Option<SocketAddr>, Mapping)> {
        let spare = self.spare.as_ref()?;
        Some((spare.rtp.local_addr().ok()?, spare.mapped(), spare.mapping()))
    }

    /// Ports for a call with the local address `local`.
    pub(super) fn ports(&mut self, local: IpAddr) -> io::Result<Ports> {
        let spare = self.spare.take_if(|spare| spare.local() == local);
        if let Some(spare) = spare {
            self.prepare();
            return Ok(spare);
        }
        self.open_ports(local)
    }

    /// Returns true if the public address of the next call is unknown and worth waiting for.
    pub(super) fn is_waiting(&self) -> bool {
        let now = self.epoch.elapsed();
        self.spare.as_ref().is_some_and(|spare| spare.is_waiting(now))
    }

    /// Defers a call to `towards` until the public address is known. Returns false if there is
    /// nothing to wait for.
    pub(super) fn waits_for_mapping(&mut self, number: u64, towards: SocketAddr) -> bool {
        let waits = self.is_waiting();
        if waits {
            self.unmapped.push((number, towards));
        }
        waits
    }

    /// Drives the STUN requests, and places deferred calls once the answer is there.
    pub(super) fn look_outside(&mut self, now: Duration) {
        let Some(spare) = &mut self.spare else { return };
        spare.read(now);
        spare.poll(now);
        if !spare.is_waiting(now) {
            for (number, towards) in std::mem::take(&mut self.unmapped) {
                self.place(number, Some(towards));
            }
            for incoming in std::mem::take(&mut self.unmapped_incoming) {
                self.on_event(incoming);
            }
        }
    }

    /// Marks a call without a route to its remote end: it waits for a network.
    fn await_network(&mut self, number: u64) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        if !std::mem::replace(&mut call.awaits_network, true) {
            let cause = "there is no network; the call goes on when there is one".to_owned();
            self.tell(PhoneEvent::Unchanged { call: number, cause });
        }
    }

    /// Moves calls that wait for a network, if there is one by `now`.
    pub(super) fn look_for_network(&mut self, now: Instant) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + LOOKS;
        let waiting = self.calls.iter().filter(|(_, call)| call.awaits_network);
        let waiting: Vec<u64> = waiting.map(|(number, _)| *number).collect();
        waiting.into_iter().for_each(|number| self.on_moved(number));
    }

    /// The network has changed: moves a call to its new local address, if that is another one.
    pub(super) fn on_moved(&mut self, number: u64) {
        let leg = self.calls.get(&number).and_then(|call| call.leg.as_ref());
        let remote = leg.and_then(|leg| leg.session()?.stream().remote);
        let Some(remote) = remote else { return };
        let local = self.links.local_towards(remote).ip();
        if local.is_unspecified() {
            return self.await_network(number);
        }
        if leg.is_some_and(|leg| leg.ports.local() == local) && !self.network.has_slept() {
            return;
        }
        if let Some(call) = self.calls.get_mut(&number) {
            call.awaits_network = false;
        }
        let ports = self.ports(local);
        let Some(leg) = self.calls.get_mut(&number).and_then(|call| call.leg.as_mut()) else {
            return;
        };
        let now = self.clock.now();
        let moved = ports.map_err(|error| error.to_string());
        let moved = moved.and_then(|ports| leg.move_to(ports, &mut self.agent, now));
        self.tell(match moved {
            Ok(()) => PhoneEvent::Moved { call: number, address: local.to_string() },
            Err(cause) => PhoneEvent::Unchanged { call: number, cause },
        });
    }
}
