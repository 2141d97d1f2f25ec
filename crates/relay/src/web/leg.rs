//! The packets of a leg that are not media: the DTLS handshake, and checks of ICE.

use super::fault::WebFault;
use super::keying::{IceEnds, WebEnds, WebKeying};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use ice::{CheckOutcome, LiteAgent};
use media::DtlsPeer;

/// The other end of a handshake, and the agent of ICE.
#[derive(Default)]
pub(crate) struct WebLeg {
    /// `None` for a phone without ICE.
    agent: Option<LiteAgent>,
    peer: Option<DtlsPeer>,
    response: Vec<u8>,
    /// True if the handshake has failed.
    is_refused: bool,
}

impl WebLeg {
    /// Applies the state of the negotiation. Other credentials restart ICE: the selected address
    /// and the keys stay.
    pub(crate) fn update(leg: &mut Option<Box<Self>>, keying: &WebKeying) {
        let WebEnds { ice, peer, .. } = &keying.ends;
        let leg = leg.get_or_insert_default();
        if let Some(IceEnds { local, remote }) = ice {
            let agent = leg.agent.get_or_insert_with(|| LiteAgent::new(local.clone()));
            if agent.local() != local {
                agent.restart(local.clone());
            }
            if let Some(ufrag) = remote {
                agent.set_remote(ufrag);
            }
        }
        leg.peer.clone_from(peer);
    }

    /// True for the leg of a browser: checks tell its address.
    pub(crate) const fn has_ice(&self) -> bool {
        self.agent.is_some()
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
        let agent = self.agent.as_mut()?;
        if agent.receive(now, from, check, &mut self.response) == CheckOutcome::Ignored {
            return None;
        }
        let length = self.response.len();
        buffer.get_mut(..length)?.copy_from_slice(&self.response);
        Some(length)
    }

    /// The address that media are sent to.
    pub(crate) fn selected(&self) -> Option<SocketAddr> {
        self.agent.as_ref()?.selected()
    }

    /// Returns true if packets from this address may be the browser's.
    pub(crate) fn is_checked(&self, from: SocketAddr) -> bool {
        self.agent.as_ref().is_some_and(|agent| agent.is_checked(from))
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
        let end = self.agent.as_ref().and_then(LiteAgent::consent_end);
        end.filter(|end| *end < now).map(|_| WebFault::Consent)
    }
}
