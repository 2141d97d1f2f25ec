//! The interface to the owner: ports and random bytes.

use crate::side::Side;
use crate::statistics::Rewrites;
use crate::stream::Stream;
use alloc::sync::Arc;
use core::net::{IpAddr, SocketAddr};
use sdp::dtls::Fingerprint;

/// The host of a relay, which owns the sockets.
pub trait Host<R> {
    /// The ports of one stream. They are closed when it is dropped.
    type Ports: Ports;

    /// Opens a pair of ports for each side of `stream`: an even port for RTP, and the next one for
    /// RTCP. `locals` are the local addresses, the caller's first. From now on the host passes
    /// packets of the ports to the stream, and sends what it returns.
    ///
    /// # Errors
    /// [`NoPort`]: none is free, or the system refused one.
    fn open(&self, stream: &Arc<Stream<R>>, locals: [IpAddr; 2]) -> Result<Self::Ports, NoPort>;

    /// True if `place` is an open port of the host for streams. Packets for it could run in
    /// circles. A host without sockets has none.
    fn is_own(&self, place: SocketAddr) -> bool {
        let _ = place;
        false
    }

    /// Deletes the entries of [`Stream::hand_over`] for `ports`. Returns the packets of each side
    /// that were rewritten and not yet [added](Stream::add). The stream is locked meanwhile: this
    /// must not call it.
    fn withdraw(&self, _ports: &Self::Ports) -> [Rewrites; 2] {
        Default::default()
    }

    /// The fingerprint of the certificate with which the host makes DTLS handshakes, if it does:
    /// see [`Way::Handshake`](crate::Way::Handshake).
    fn fingerprint(&self) -> Option<&Fingerprint> {
        None
    }

    /// Fills `bytes` with random bytes, for keys.
    fn random(&self, bytes: &mut [u8]);
}

/// The ports of a stream.
pub trait Ports {
    /// The ports of RTP, the caller's side first. Those of RTCP are the next ones.
    fn rtp(&self) -> [u16; 2];

    /// Packets of `side` may come from other addresses than before. This ends the promise of
    /// [`Relayed::is_fixed`](crate::Relayed::is_fixed).
    fn release(&self, side: Side) {
        let _ = side;
    }

    /// The end of `side` waits for the first message of a DTLS handshake. The host begins it,
    /// unless it has with [this peer](Stream::dtls_peer) already.
    fn shake_hands(&self, side: Side) {
        let _ = side;
    }
}

/// No port could be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPort;
