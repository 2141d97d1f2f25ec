//! The sockets of one leg.

use nix::sys::socket::{setsockopt, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The class of service of media in the IP header: expedited forwarding (RFC 3246, RFC 4594).
const EXPEDITED: u8 = 46 << 2;
/// The size of the receive buffer of RTP, in bytes: some 50 packets. A longer queue would only
/// deliver late.
const RTP_BUFFER: usize = 64 << 10;
/// The size of the receive buffer of RTCP, in bytes.
const RTCP_BUFFER: usize = 8 << 10;

/// The sockets of one leg: RTP, and RTCP.
pub(super) type Pair = [MediaSocket; 2];

/// A socket of a leg. Once the address of the end is fixed it is connected: the system finds the
/// route of a packet once, and drops packets of others.
pub(super) struct MediaSocket {
    socket: UdpSocket,
    is_connected: AtomicBool,
}

impl MediaSocket {
    /// True if the socket is bound at `host`.
    pub(super) fn is_at(&self, host: IpAddr) -> bool {
        self.socket.local_addr().is_ok_and(|local| local.ip() == host)
    }

    /// Receives a packet: its length and its source.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.socket.recv_from(buffer)
    }

    /// Sends a packet to `to`.
    pub(super) fn send(&self, packet: &[u8], to: SocketAddr) -> io::Result<usize> {
        match self.is_connected.load(Ordering::Relaxed) {
            true => self.socket.send(packet),
            false => self.socket.send_to(packet, to),
        }
    }

    /// Receives from `end` only, and sends to it.
    pub(super) fn connect(&self, end: SocketAddr) {
        let is_connected = self.socket.connect(end).is_ok();
        self.is_connected.store(is_connected, Ordering::Relaxed);
    }

    /// Receives from all addresses again.
    pub(super) fn disconnect(&self) -> io::Result<()> {
        if self.is_connected.swap(false, Ordering::Relaxed) {
            net::disconnect(&self.socket)?;
        }
        Ok(())
    }
}

impl AsFd for MediaSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Binds the port `rtp` of `local`, and the next one.
///
/// # Errors
/// One of the ports is in use, or the system gives no socket.
pub(super) fn bind(local: IpAddr, rtp: u16) -> io::Result<Pair> {
    Ok([bind_one(local, rtp, RTP_BUFFER)?, bind_one(local, rtp + 1, RTCP_BUFFER)?])
}

fn bind_one(local: IpAddr, port: u16, buffer: usize) -> io::Result<MediaSocket> {
    let socket = UdpSocket::bind((local.to_canonical(), port))?;
    socket.set_nonblocking(true)?;
    setsockopt(&socket, sockopt::RcvBuf, &buffer)?;
    net::set_class(&socket, socket.local_addr()?.is_ipv4(), EXPEDITED);
    Ok(MediaSocket { socket, is_connected: AtomicBool::new(false) })
}
