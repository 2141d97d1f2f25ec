//! The ends of a message with a session description, and the announcement of its sender.

use crate::announcement::Announcement;
use crate::end::End;
use crate::error::RelayError;
use crate::host::Host;
use crate::side::Side;
use core::cell::Cell;
use core::net::SocketAddr;
use sdp::{MediaDescription, SessionDescription};

/// Both ends of a message: the sender of the description, and its receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends<'a> {
    pub(crate) side: Side,
    pub(crate) from: &'a End<'a>,
    pub(crate) to: &'a End<'a>,
    /// The ports of the relay that the sender may name: those of the next branch, where a call
    /// passes twice.
    pub(crate) joined: &'a [u16],
}

impl Ends<'_> {
    /// Reads the announcement of the sender about `medium`.
    ///
    /// # Errors
    /// It names a port of the relay that is not joined.
    pub(crate) fn read<R>(
        &self,
        session: &SessionDescription<'_>,
        medium: &MediaDescription<'_>,
        host: &impl Host<R>,
    ) -> Result<Option<Announcement>, RelayError> {
        let (end, is_circular) = (self.from, Cell::new(false));
        let permits = |place: SocketAddr| {
            let is_here = place.ip() == end.local || place.ip() == end.advertised;
            if is_here && self.joined.contains(&(place.port() & !1)) {
                return true;
            }
            let host_of = if is_here { end.local } else { place.ip() };
            let is_own = host.is_own(SocketAddr::new(host_of, place.port()));
            // A program on this machine with an odd port for RTP, and none for RTCP, does not name
            // the next port.
            let is_named = place.port() == medium.port || medium.rtcp().is_some();
            is_circular.set(is_circular.get() || is_own && is_named);
            !is_own && end.permits(place)
        };
        let announcement = Announcement::read(session, medium, end, permits);
        if is_circular.get() { Err(RelayError::OwnPort) } else { Ok(announcement) }
    }
}
