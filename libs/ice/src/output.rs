//! The outputs of an agent.

use crate::RelayError;
use std::net::SocketAddr;

/// An output of [`Agent::poll`](crate::Agent::poll).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send these octets from the local socket to the remote address.
    Datagram {
        /// The address of the local socket.
        local: SocketAddr,
        /// The destination.
        remote: SocketAddr,
        /// The datagram.
        bytes: Vec<u8>,
    },
    /// Write these octets to the connection to a TURN server.
    Stream {
        /// The index of the server.
        server: usize,
        /// The octets.
        bytes: Vec<u8>,
    },
    /// A datagram of the peer that is no check: RTP, RTCP or DTLS.
    Media {
        /// The address of the peer, as seen by this end or by its TURN server.
        from: SocketAddr,
        /// The datagram.
        bytes: Vec<u8>,
    },
    /// An event.
    Event(Event),
}

/// A change of the state of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The candidates are known: the description can be sent.
    Gathered,
    /// Media go over this nominated pair from now on.
    Selected(Path),
    /// No pair of candidates works.
    Failed,
    /// The peer no longer answers on the nominated pair, and no other one works. No media are sent
    /// to it (RFC 7675).
    ConsentEnded,
    /// A TURN server gives no relayed address, or no longer.
    RelayFailed {
        /// The index of the server.
        server: usize,
        /// The reason.
        error: RelayError,
    },
}

/// A nominated pair of candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The address of the local socket, or of the TURN server's relay.
    pub local: SocketAddr,
    /// The address of the peer.
    pub remote: SocketAddr,
    /// The index of the TURN server, if media go through one of ours.
    pub server: Option<usize>,
}
