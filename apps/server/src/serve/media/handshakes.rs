//! The DTLS handshakes of legs. The worker that receives a datagram of a handshake processes it.
//! The first message of a client leaves from the worker that has processed the description of its
//! peer, and timers run on each worker that is active.

use super::handshake::{Handshake, MAX_ATTEMPTS};
use super::{Leg, Media, Sockets};
use crate::log;
use dtls::{AssociationError, Identity};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The shortest time between two calls of a handshake by its timer.
const SHORTEST: Duration = Duration::from_millis(1);

impl Leg {
    /// Handles a datagram of DTLS `from` the peer.
    fn receive(&mut self, identity: &Identity, from: SocketAddr, datagram: &[u8], now: Instant) {
        let Self { stream, side, handshake, .. } = self;
        let peer = stream.dtls_peer(*side);
        let named = stream.named_source(*side);
        let is_named = named == Some(from);
        let is_new = match handshake {
            Some(running) if !running.is_outdated(peer.as_ref()) => {
                let is_running = running.end.is_none();
                // Another port of the host is not the phone once that has sent from its own, and no
                // other port has a part in a handshake that has ended.
                let is_other = running.to != Some(from) && (running.to == named || !is_running);
                if is_other && named.is_some() {
                    return;
                }
                is_running && is_named && running.to.is_some_and(|to| to != from)
            }
            _ => true,
        };
        if is_new {
            let is_client = peer.is_some_and(|peer| peer.is_client);
            let begun = Handshake::begin(identity, is_client, Some(from), 1, now);
            *handshake = begun.ok().map(Box::new);
        }
        let Some(handshake) = handshake else { return };
        handshake.to = Some(from);
        let Some(association) = &mut handshake.association else { return };
        let received = association.receive(now, datagram);
        self.settle(identity, received, now);
    }

    /// Begins the handshake as the client, unless it has with this peer.
    fn begin(&mut self, identity: &Identity, now: Instant) {
        let peer = self.stream.dtls_peer(self.side);
        let has_begun = |it: &Handshake| it.is_client && !it.is_outdated(peer.as_ref());
        if self.handshake.as_deref().is_some_and(has_begun) {
            return;
        }
        self.handshake = Handshake::begin(identity, true, None, 1, now).ok().map(Box::new);
        self.settle(identity, Ok(()), now);
    }

    /// Advances the handshake after `result`. One that has failed begins again.
    fn settle(&mut self, identity: &Identity, result: Result<(), AssociationError>, now: Instant) {
        let Self { stream, side, sockets, handshake: slot, .. } = self;
        let Some(handshake) = slot else { return };
        let socket = &sockets[side.index()][0];
        let send = |datagram: &[u8], to| drop(socket.send(datagram, to));
        let result = result.and_then(|()| handshake.drive((stream, *side), now, send));
        let Err(error) = result else { return };
        let (is_client, to, attempts) = (handshake.is_client, handshake.to, handshake.attempts);
        // The keys are in use: the end of the association says nothing.
        if handshake.end.is_some() {
            handshake.association = None;
            return;
        }
        let is_final = matches!(
            error,
            AssociationError::Fingerprint
                | AssociationError::NoCertificate
                | AssociationError::NoProfile
        );
        log::warn("media", || match to {
            Some(to) => format!("no keys with the phone at {to}: {error}"),
            None => format!("no keys with a phone that has not answered: {error}"),
        });
        if is_final || attempts >= MAX_ATTEMPTS {
            handshake.association = None;
            // The phone may still send from the address that it has named.
            let named = stream.named_source(*side);
            if to.is_none() || named.is_none() || to == named {
                stream.refuse_keys(*side);
            }
            return;
        }
        let again = Handshake::begin(identity, is_client, to, attempts + 1, now);
        *slot = again.ok().map(Box::new);
    }
}

impl Sockets {
    /// Handles a datagram of the handshake of `leg`, the leg at `pair`.
    pub(super) fn shake_hands(
        &self,
        leg: &mut Leg,
        pair: usize,
        from: SocketAddr,
        datagram: &[u8],
    ) {
        leg.receive(&self.identity, from, datagram, Instant::now());
        self.schedule(leg, pair);
    }

    /// Begins the handshake of the leg at `pair` as the client.
    pub(super) fn begin_handshake(&self, pair: usize) {
        let mut leg = self.legs[pair].lock();
        let Some(leg) = &mut *leg else { return };
        leg.begin(&self.identity, Instant::now());
        self.schedule(leg, pair);
    }

    /// Sets the time at which a worker advances the handshake of `leg`, the leg at `pair`.
    fn schedule(&self, leg: &mut Leg, pair: usize) {
        let running = leg.handshake.as_ref().filter(|it| it.association.is_some());
        let due = running.map(|handshake| handshake.due);
        if due == leg.scheduled {
            return;
        }
        let mut handshakes = self.handshakes.lock();
        if let Some(before) = std::mem::replace(&mut leg.scheduled, due) {
            handshakes.remove(&(before, pair));
        }
        handshakes.extend(due.map(|due| (due, pair)));
    }

    /// Takes a handshake that is due at `now`.
    fn take_due(&self, now: Instant) -> Option<(Instant, usize)> {
        let mut handshakes = self.handshakes.lock();
        let is_due = handshakes.first().is_some_and(|(due, _)| *due <= now);
        is_due.then(|| handshakes.pop_first())?
    }
}

impl Media {
    /// The time of the next call of [`Media::continue_handshakes`].
    pub(in crate::serve) fn next_handshake(&self) -> Option<Instant> {
        self.0.handshakes.lock().first().map(|(due, _)| *due)
    }

    /// Advances the handshakes that are due at `now`, and forgets those that are over.
    pub(in crate::serve) fn continue_handshakes(&self, now: Instant) {
        while let Some((due, pair)) = self.0.take_due(now) {
            let mut leg = self.0.legs[pair].lock();
            // The leg of a call that has ended is gone; that of another call has times of its own.
            let Some(leg) = leg.as_mut().filter(|leg| leg.scheduled == Some(due)) else { continue };
            leg.scheduled = None;
            leg.settle(&self.0.identity, Ok(()), now);
            if let Some(handshake) = &mut leg.handshake {
                // A time that has passed already waits for the next turn.
                handshake.due = handshake.due.max(now + SHORTEST);
            }
            self.0.schedule(leg, pair);
        }
    }
}
