//! The DTLS handshakes of browsers' legs, made by the workers that own their streams.

use super::{Leg, Media, Sockets};
use crate::log;
use dtls::{Association, AssociationError, Event, Identity};
use parking_lot::RawMutex;
use relay::media::DtlsPeer;
use relay::{Side, Stream};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The maximum number of handshakes of a leg for one peer: datagrams of a handshake are not
/// authentic, and a forged one may end it.
const MAX_ATTEMPTS: u32 = 5;
/// The time for which an association answers repeated datagrams after it has yielded the keys.
const LINGER: Duration = Duration::from_secs(10);
/// The interval at which a handshake looks for the description of the peer.
const INTERVAL: Duration = Duration::from_millis(20);

/// The handshake of one leg, as the server.
pub(super) struct Handshake {
    /// The association. `None` after its end.
    association: Option<Association>,
    /// The peer of the association, once its description is known.
    peer: Option<DtlsPeer>,
    /// The address that the peer sends from.
    to: SocketAddr,
    attempts: u32,
    /// The end of the association, once it has yielded the keys.
    end: Option<Instant>,
    due: Instant,
}

impl Handshake {
    fn begin(
        identity: &Identity,
        to: SocketAddr,
        attempts: u32,
        now: Instant,
    ) -> Result<Self, AssociationError> {
        let association = Some(Association::new(identity, false, now)?);
        Ok(Self { association, peer: None, to, attempts, end: None, due: now })
    }

    /// True if the association is over or about to be, and the peer is another one now.
    fn is_outdated(&self, peer: Option<&DtlsPeer>) -> bool {
        matches!((&self.peer, peer), (Some(before), Some(now)) if !before.is_same(now))
    }

    /// Sends what is due, and sets the keys of the leg of `side`.
    fn drive(
        &mut self,
        (stream, side): (&Stream<RawMutex>, Side),
        now: Instant,
        mut send: impl FnMut(&[u8], SocketAddr),
    ) -> Result<(), AssociationError> {
        let Some(association) = &mut self.association else { return Ok(()) };
        if self.end.is_some_and(|end| end <= now) {
            self.association = None;
            return Ok(());
        }
        if self.peer.is_none() {
            self.peer = stream.dtls_peer(side);
            if let Some(peer) = &self.peer {
                association.expect(&peer.fingerprints);
            }
        }
        association.on_timeout(now)?;
        loop {
            match association.poll()? {
                Event::Send(datagram) => send(datagram, self.to),
                Event::Keys(keys) => {
                    // Keys of the length of their suite are usable.
                    let _ = stream.set_keys(side, keys.suite, keys.local, keys.remote);
                    self.end = Some(now + LINGER);
                }
                Event::Wait(until) => {
                    let latest = match self.end {
                        Some(end) => end,
                        None if self.peer.is_none() => now + INTERVAL,
                        None => until,
                    };
                    self.due = until.min(latest);
                    return Ok(());
                }
            }
        }
    }
}

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
