//! The DTLS handshakes with browsers, made by the workers that own their streams.

use super::handshake::{Handshake, MAX_ATTEMPTS};
use super::{Leg, Media, Sockets};
use crate::log;
use dtls::{AssociationError, Identity};
use std::net::SocketAddr;
use std::time::Instant;

impl Leg {
    /// Handles a datagram of DTLS `from` the browser.
    fn receive(&mut self, identity: &Identity, from: SocketAddr, datagram: &[u8], now: Instant) {
        let Self { stream, side, handshake, .. } = self;
        let peer = stream.dtls_peer(*side);
        let is_new =
            handshake.as_ref().is_none_or(|handshake| handshake.is_outdated(peer.as_ref()));
        if is_new {
            *handshake = Handshake::begin(identity, from, 1, now).ok().map(Box::new);
        }
        let Some(handshake) = handshake else { return };
        handshake.to = from;
        let Some(association) = &mut handshake.association else { return };
        let received = association.receive(now, datagram);
        self.settle(identity, received, now);
    }

    /// Advances the handshake after `result`. One that has failed begins again.
    fn settle(&mut self, identity: &Identity, result: Result<(), AssociationError>, now: Instant) {
        let Self { stream, side, sockets, handshake: slot } = self;
        let Some(handshake) = slot else { return };
        let socket = &sockets[side.index()][0];
        let send = |datagram: &[u8], to| drop(socket.send(datagram, to));
        let result = result.and_then(|()| handshake.drive((stream, *side), now, send));
        let Err(error) = result else { return };
        let (to, attempts) = (handshake.to, handshake.attempts);
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
        log::warn("media", || format!("no keys with the browser at {to}: {error}"));
        if is_final || attempts >= MAX_ATTEMPTS {
            handshake.association = None;
            stream.refuse_keys(*side);
            return;
        }
        *slot = Handshake::begin(identity, to, attempts + 1, now).ok().map(Box::new);
    }
}

impl Sockets {
    /// Handles a datagram of the handshake of `leg`, the leg at `pair`, for the worker `owner`.
    pub(super) fn shake_hands(
        &self,
        leg: &mut Leg,
        (owner, pair): (usize, usize),
        from: SocketAddr,
        datagram: &[u8],
    ) {
        leg.receive(&self.identity, from, datagram, Instant::now());
        let mut handshakes = self.handshakes[owner].lock();
        if leg.handshake.is_some() && !handshakes.contains(&pair) {
            handshakes.push(pair);
        }
    }
}

impl Media {
    /// The time of the next call of [`Media::continue_handshakes`] for the worker `owner`.
    pub(in crate::serve) fn next_handshake(&self, owner: usize) -> Option<Instant> {
        let handshakes = self.0.handshakes.get(owner)?.lock();
        handshakes.iter().filter_map(|&pair| self.due_of(pair)).min()
    }

    fn due_of(&self, pair: usize) -> Option<Instant> {
        let leg = self.0.legs[pair].lock();
        let handshake = leg.as_ref()?.handshake.as_ref()?;
        handshake.association.as_ref().map(|_| handshake.due)
    }

    /// Advances the handshakes of the worker `owner` that are due at `now`, and forgets those that
    /// are over.
    pub(in crate::serve) fn continue_handshakes(&self, owner: usize, now: Instant) {
        let Some(handshakes) = self.0.handshakes.get(owner) else { return };
        handshakes.lock().retain(|&pair| {
            let mut leg = self.0.legs[pair].lock();
            let Some(leg) = &mut *leg else { return false };
            if leg.handshake.as_ref().is_some_and(|handshake| handshake.due <= now) {
                leg.settle(&self.0.identity, Ok(()), now);
            }
            leg.handshake.as_ref().is_some_and(|handshake| handshake.association.is_some())
        });
    }
}
