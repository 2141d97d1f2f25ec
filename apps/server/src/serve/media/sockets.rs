//! The sockets of one leg.

use nix::sys::socket::{setsockopt, sockopt};
use std::io;
use std::net::{IpAddr, UdpSocket};

/// The class of service of media in the IP header: expedited forwarding (RFC 3246, RFC 4594).
const EXPEDITED: i32 = 46 << 2;
/// The size of the receive buffer of RTP, in bytes: some 50 packets. A longer queue would only
/// deliver late.
const RTP_BUFFER: usize = 64 << 10;
/// The size of the receive buffer of RTCP, in bytes.
const RTCP_BUFFER: usize = 8 << 10;

/// The sockets of one leg: RTP, and RTCP.
pub(super) type Pair = [UdpSocket; 2];

/// Binds the port `rtp` of `local`, and the next one.
///
/// # Errors
/// One of the ports is in use, or the system gives no socket.
pub(super) fn bind(local: IpAddr, rtp: u16) -> io::Result<Pair> {
    Ok([bind_one(local, rtp, RTP_BUFFER)?, bind_one(local, rtp + 1, RTCP_BUFFER)?])
}

fn bind_one(local: IpAddr, port: u16, buffer: usize) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((local.to_canonical(), port))?;
    socket.set_nonblocking(true)?;
    setsockopt(&socket, sockopt::RcvBuf, &buffer)?;
    // A network without classes of service carries media, too.
    let _ = match socket.local_addr()?.is_ipv4() {
        true => setsockopt(&socket, sockopt::Ipv4Tos, &EXPEDITED),
        false => setsockopt(&socket, sockopt::Ipv6TClass, &EXPEDITED),
    };
    Ok(socket)
}
