//! The DTLS handshake of a leg.

use dtls::{Association, AssociationError, Event, Identity};
use parking_lot::RawMutex;
use relay::media::DtlsPeer;
use relay::{Side, Stream};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The maximum number of handshakes of a leg for one peer: datagrams of a handshake are not
/// authentic, and a forged one may end it.
pub(super) const MAX_ATTEMPTS: u32 = 5;
/// The time for which an association answers repeated datagrams after it has yielded the keys.
const LINGER: Duration = Duration::from_secs(10);
/// The interval at which a handshake looks for the description of the peer.
const INTERVAL: Duration = Duration::from_millis(20);
/// The interval at which a client looks for the address of the peer.
const SEARCH: Duration = Duration::from_millis(200);

/// The handshake of one leg.
pub(super) struct Handshake {
    pub(super) is_client: bool,
    /// The association. `None` after its end.
    pub(super) association: Option<Association>,
    /// The peer of the association, once its description is known.
    peer: Option<DtlsPeer>,
    /// The address that the peer sends from. `None` for a peer that waits for this end, at the
    /// address of its description.
    pub(super) to: Option<SocketAddr>,
    pub(super) attempts: u32,
    /// The end of the association, once it has yielded the keys.
    pub(super) end: Option<Instant>,
    pub(super) due: Instant,
}

impl Handshake {
    pub(super) fn begin(
        identity: &Identity,
        is_client: bool,
        to: Option<SocketAddr>,
        attempts: u32,
        now: Instant,
    ) -> Result<Self, AssociationError> {
        let association = Some(Association::new(identity, is_client, now)?);
        Ok(Self { is_client, association, peer: None, to, attempts, end: None, due: now })
    }

    /// True if the association is over or about to be, and the peer is another one now.
    pub(super) fn is_outdated(&self, peer: Option<&DtlsPeer>) -> bool {
        matches!((&self.peer, peer), (Some(before), Some(now)) if !before.is_same(now))
    }

    /// Sends what is due, and sets the keys of the leg of `side`.
    pub(super) fn drive(
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
        let destination = self.to.or_else(|| stream.handshake_destination(side));
        let Some(to) = destination else {
            self.due = now + SEARCH;
            return Ok(());
        };
        if self.peer.is_none() {
            self.peer = stream.dtls_peer(side);
            if let Some(peer) = &self.peer {
                association.expect(&peer.fingerprints);
            }
        }
        association.on_timeout(now)?;
        loop {
            match association.poll()? {
                Event::Send(datagram) => send(datagram, to),
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
