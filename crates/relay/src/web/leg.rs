//! The packets of a browser's leg that are not media: checks of ICE, and the DTLS handshake.

use super::fault::WebFault;
use super::keying::{WebEnds, WebKeying};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ice::{LiteAgent, Reaction};
use media::DtlsPeer;

/// The agent of a browser's leg, and the other end of its handshake.
pub(crate) struct WebLeg {
    agent: LiteAgent,
    peer: Option<DtlsPeer>,
    response: Vec<u8>,
    /// True if the handshake has failed.
    is_refused: bool,
}

impl WebLeg {
    /// Applies the state of the negotiation. Other credentials restart ICE: the selected address
    /// and the keys stay.
    pub(crate) fn update(leg: &mut Option<Box<Self>>, keying: &WebKeying) {
        let WebEnds { local, remote, peer, .. } = &keying.ends;
        let leg = leg.get_or_insert_with(|| {
            let agent = LiteAgent::new(local.clone());
            Box::new(Self { agent, peer: None, response: Vec::new(), is_refused: false })
        });
        if leg.agent.local() != local {
            leg.agent.restart(local.clone());
        }
        if let Some(ufrag) = remote {
            leg.agent.set_remote(ufrag);
        }
        leg.peer.clone_from(peer);
    }

    /// The other end of the handshake, once its description is known.
    pub(crate) const fn peer(&self) -> Option<&DtlsPeer> {
        self.peer.as_ref()
    }

    /// Writes the response to the check in the first `length` bytes of `buffer` to it, and returns
    /// its length. `None` if there is no response.
    pub(crate) fn check(
        &mut self,
        now: Duration,
        from: SocketAddr,
        buffer: &mut [u8],
        length: usize,
    ) -> Option<usize> {
        let check = buffer.get(..length)?;
        if self.agent.receive(now, from, check, &mut self.response) == Reaction::Ignored {
            return None;
        }
        let length = self.response.len();
        buffer.get_mut(..length)?.copy_from_slice(&self.response);
        Some(length)
    }

    /// The address that media are sent to.
    pub(crate) fn selected(&self) -> Option<SocketAddr> {
        self.agent.selected()
    }

    /// Returns true if packets from this address may be the browser's.
    pub(crate) fn is_checked(&self, from: SocketAddr) -> bool {
        self.agent.is_checked(from)
    }

    /// Records that the handshake has failed.
    pub(crate) const fn refuse_keys(&mut self) {
        self.is_refused = true;
    }

    /// The reason why the leg is over at `now`, if it is.
    pub(crate) fn fault(&self, now: Duration) -> Option<WebFault> {
        if self.is_refused {
            return Some(WebFault::Keys);
        }
        self.agent.consent_end().filter(|end| *end < now).map(|_| WebFault::Consent)
    }
}
