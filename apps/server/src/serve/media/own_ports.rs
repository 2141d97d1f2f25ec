//! The ports of calls that end in this server.

use super::sockets::Pair;
use relay::Channel;
use std::io;
use std::net::SocketAddr;

/// A pair of ports for RTP and RTCP. They are closed, and given back, when this is dropped.
pub(in crate::serve) struct OwnPorts {
    sockets: Pair,
    rtp: u16,
    /// The place of the pair, which is given back when this is dropped, after the sockets.
    _taken: Box<dyn Send>,
}

impl OwnPorts {
    /// The bound `sockets`. RTP has the port `rtp`.
    pub(super) const fn new(sockets: Pair, rtp: u16, taken: Box<dyn Send>) -> Self {
        Self { sockets, rtp, _taken: taken }
    }

    /// The port of RTP.
    pub(in crate::serve) const fn rtp(&self) -> u16 {
        self.rtp
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
        self.sockets[channel as usize].receive(buffer)
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
        self.sockets[channel as usize].send(packet, to)
    }
}
