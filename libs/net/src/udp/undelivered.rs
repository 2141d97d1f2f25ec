//! ICMP errors for sent datagrams, from the error queue of a socket (MSG_ERRQUEUE).

use super::{Socket, to_socket_addr};
use libc::{SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6, sock_extended_err};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

/// The maximum number of errors read in one call. A flood of errors does not stop the caller.
const MOST: usize = 32;
/// The maximum length of a quoted payload, in bytes. Longer ones are truncated. A router quotes at
/// most 576 bytes of a packet by IPv4 (RFC 1812), and 1280 by IPv6 (RFC 4443).
const LONGEST: usize = 1280;
/// The size of the buffer for the control messages of an error, in bytes.
const CONTROL_BYTES: usize = 256;
/// ICMPv4 Destination Unreachable (RFC 792).
const UNREACHABLE: u8 = 3;
/// The last of its codes network, host, protocol and port unreachable, which begin with 0. A
/// packet that is too big has another code: the system sends it in fragments.
const PORT: u8 = 3;
/// ICMPv4 Parameter Problem.
const PARAMETER: u8 = 12;
/// ICMPv6 Destination Unreachable (RFC 4443).
const UNREACHABLE6: u8 = 1;
/// ICMPv6 Parameter Problem.
const PARAMETER6: u8 = 4;

/// A sent datagram that was not delivered, by an ICMP error. Any host may have forged the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undelivered<'a> {
    /// The destination of the datagram.
    pub remote: SocketAddr,
    /// The beginning of its payload, which may be empty.
    pub payload: &'a [u8],
}

impl Socket {
    /// Reads ICMP errors, and passes those of unreachable destinations (RFC 3261 section 18.4) to
    /// `each`. Reads at most 32 errors; epoll reports EPOLLERR while there are more. Only for a
    /// socket that [reports errors](super::Options::reports_errors).
    pub fn undelivered(&self, mut each: impl FnMut(Undelivered<'_>)) {
        let mut bytes = [0; LONGEST];
        // Vec aligns it for the headers of control messages.
        let mut controls = vec![0; CONTROL_BYTES];
        for _ in 0..MOST {
            let mut slices = [IoSliceMut::new(&mut bytes)];
            let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            let fd = self.fd.as_raw_fd();
            let read = recvmsg::<SockaddrStorage>(fd, &mut slices, Some(&mut controls), flags);
            let Ok(read) = read else { return };
            let is_unreachable = read.cmsgs().is_ok_and(|mut controls| {
                controls.any(|control| match control {
                    ControlMessageOwned::Ipv4RecvErr(error, _)
                    | ControlMessageOwned::Ipv6RecvErr(error, _) => is_unreachable(&error),
                    _ => false,
                })
            });
            let (remote, length) = (read.address.as_ref().and_then(to_socket_addr), read.bytes);
            if let Some(remote) = remote
                && is_unreachable
            {
                each(Undelivered { remote, payload: &bytes[..length] });
            }
        }
    }
}

/// Returns true if `error` means that the destination cannot be reached.
const fn is_unreachable(error: &sock_extended_err) -> bool {
    match (error.ee_origin, error.ee_type) {
        (SO_EE_ORIGIN_ICMP, UNREACHABLE) => error.ee_code <= PORT,
        (SO_EE_ORIGIN_ICMP, PARAMETER) => true,
        (SO_EE_ORIGIN_ICMP6, kind) => matches!(kind, UNREACHABLE6 | PARAMETER6),
        _ => false,
    }
}
