//! The DTLS handshake of a call, on the path of its media (RFC 5763).

use ::call::Call;
use ::dtls::{Association, AssociationError, Event, Identity};
use media::{DtlsPeer, Session};
use std::net::SocketAddr;
use std::time::Instant;

/// The maximum number of datagrams that wait for the agreement: the first message of the other end
/// may overtake its answer.
const MAX_EARLY: usize = 4;

/// The handshake of one call. The description of the other end names its certificate.
pub(crate) struct Handshake {
    identity: Identity,
    running: Option<Running>,
    early: Vec<(SocketAddr, Vec<u8>)>,
}

/// The association with one peer.
struct Running {
    peer: DtlsPeer,
    association: Association,
    due: Instant,
    /// The source of the peer's datagrams behind a NAT.
    source: Option<SocketAddr>,
}

impl Handshake {
    pub(crate) const fn new(identity: Identity) -> Self {
        Self { identity, running: None, early: Vec::new() }
    }

    /// Processes a datagram of DTLS.
    ///
    /// # Errors
    /// The handshake has failed.
    pub(crate) fn receive(
        &mut self,
        call: &Call,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Result<(), AssociationError> {
        let (Some(running), Some(session)) = (&mut self.running, call.session()) else {
            if self.early.len() < MAX_EARLY {
                self.early.push((from, datagram.to_vec()));
            }
            return Ok(());
        };
        if !is_peer(running.source, session, from) {
            return Ok(());
        }
        running.source = Some(from);
        running.association.receive(Instant::now(), datagram)
    }

    /// Begins the handshake that the call has agreed on, sends what is due, and sets the keys.
    /// Returns true if the call has new keys.
    ///
    /// # Errors
    /// The handshake has failed: the call has no keys, and nothing goes through.
    pub(crate) fn drive(
        &mut self,
        call: &mut Call,
        mut send: impl FnMut(SocketAddr, &[u8]),
    ) -> Result<bool, AssociationError> {
        let Some(session) = call.session() else { return Ok(false) };
        let (Some(peer), Some(named)) = (session.stream().keying.dtls(), session.stream().remote)
        else {
            return Ok(false);
        };
        let now = Instant::now();
        if self.running.as_ref().is_none_or(|running| !running.peer.is_same(peer)) {
            let mut association = Association::new(&self.identity, peer.is_client, now)?;
            association.expect(&peer.fingerprints);
            let (peer, source) = (peer.clone(), None);
            self.running = Some(Running { peer, association, due: now, source });
            for (from, datagram) in std::mem::take(&mut self.early) {
                self.receive(call, from, &datagram)?;
            }
        }
        let Some(running) = &mut self.running else { return Ok(false) };
        if now >= running.due {
            running.association.on_timeout(now)?;
        }
        let to = running.source.unwrap_or(named);
        let mut has_keys = false;
        loop {
            match running.association.poll()? {
                Event::Send(datagram) => send(to, datagram),
                Event::Keys(keys) => {
                    // Keys of the length of their suite are usable.
                    has_keys = call.set_keys(keys.suite, keys.local, keys.remote).is_ok();
                }
                Event::Wait(until) => {
                    running.due = until;
                    return Ok(has_keys);
                }
            }
        }
    }
}

/// Returns true if messages of a handshake may come `from` there. They are not authentic: only the
/// address that the peer has named may send them, or the first source in place of a private one.
pub(crate) fn is_peer(source: Option<SocketAddr>, session: &Session, from: SocketAddr) -> bool {
    match source {
        Some(source) => source == from,
        None => session.stream().remote == Some(from) || session.may_follow(),
    }
}
