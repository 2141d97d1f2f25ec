//! The ports of calls that end in this server.

use super::BoundPair;
use relay::Channel;
use std::io;
use std::net::SocketAddr;

/// A pair of ports for RTP and RTCP. They are closed, and given back, when this is dropped.
pub(in crate::serve) struct OwnPorts(BoundPair);

impl OwnPorts {
    pub(super) const fn new(bound: BoundPair) -> Self {
        Self(bound)
    }

    /// The port of RTP.
    pub(in crate::serve) fn rtp(&self) -> u16 {
        let BoundPair { pair, .. } = &self.0;
        pair.sockets.pairs.port(pair.index)
    }

    /// Receives a packet: its length and its source.
    ///
    /// # Errors
    /// There is no packet, or the system reports an error of an earlier one.
    pub(in crate::serve) fn receive(
        &self,
        channel: Channel,
        buffer: &mut [u8],
    ) -> io::Result<(usize, SocketAddr)> {
        self.0.sockets[channel as usize].receive(buffer)
    }

    /// Sends a packet to `to`.
    ///
    /// # Errors
    /// The system does not send it.
    pub(in crate::serve) fn send(
        &self,
        channel: Channel,
        packet: &[u8],
        to: SocketAddr,
    ) -> io::Result<usize> {
        self.0.sockets[channel as usize].send(packet, to)
    }
}
