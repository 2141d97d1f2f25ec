//! UDP sockets that receive and send many datagrams with one system call (recvmmsg, sendmmsg).

mod control;
mod inbox;
mod outbox;
#[cfg(test)]
mod tests;

pub use inbox::{Inbox, Received};
pub use outbox::{Outbox, Outgoing};

use crate::filter;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, getsockname, setsockopt,
    socket, sockopt,
};
use socket2::SockRef;
use std::io;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Datagrams given in one system call, and mostly taken.
pub const BATCH: usize = 64;
/// The longest datagram, in bytes.
pub const MAX_DATAGRAM: usize = 65_536;
/// Room for datagrams that wait in the kernel, in bytes.
const RECEIVE_BUFFER: usize = 8 << 20;

/// How a socket is bound.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Other sockets may be bound to the same address, and share what comes (SO_REUSEPORT).
    pub is_shared: bool,
    /// The kernel tells of each datagram when it came (SO_TIMESTAMPNS), and how many it has dropped
    /// (SO_RXQ_OVFL).
    pub is_timed: bool,
    /// Datagrams of one length to one address go to the kernel as one, and on the way as many (UDP
    /// segmentation offload).
    pub is_segmenting: bool,
    /// Datagrams of one length and one peer that stand together on the way are received as one
    /// (UDP_GRO), where the kernel can do that. [`Inbox`] takes them apart.
    pub is_coalescing: bool,
    /// Room for datagrams that wait in the kernel, in bytes.
    pub receive_buffer: usize,
}

impl Default for Options {
    /// Not shared, not timed, not segmenting, not coalescing, 8 MiB.
    fn default() -> Self {
        Self {
            is_shared: false,
            is_timed: false,
            is_segmenting: false,
            is_coalescing: false,
            receive_buffer: RECEIVE_BUFFER,
        }
    }
}

/// A bound socket.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    address: SocketAddr,
    is_segmenting: bool,
    /// What [`Socket::admit`] has set last.
    admitted: AtomicU32,
    /// How many datagrams the kernel has dropped, as far as was told with those that came.
    dropped: AtomicU32,
    /// How often the system told that nobody takes what was sent.
    refused: AtomicU32,
    /// How many datagrams found no room, and were not sent.
    unsent: AtomicU32,
}

impl Socket {
    /// Binds `count` timed, segmenting and coalescing sockets to one address, among which the
    /// system shares out the peers (SO_REUSEPORT).
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn bind_group(address: SocketAddr, count: usize) -> io::Result<Vec<Self>> {
        // Shared from the start, a second server of the same user could take half of the datagrams.
        let alone = Self::bind(address, Options::default())?;
        let address = alone.address;
        drop(alone);
        let options = Options {
            is_shared: true,
            is_timed: true,
            is_segmenting: true,
            is_coalescing: true,
            ..Options::default()
        };
        (0..count).map(|_| Self::bind(address, options)).collect()
    }

    /// Binds a socket, which on a wildcard address learns of each datagram which of our addresses
    /// it was sent to.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn bind(address: SocketAddr, options: Options) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(family, SockType::Datagram, flags, None)?;
        setsockopt(&fd, sockopt::ReusePort, &options.is_shared)?;
        if options.is_timed {
            setsockopt(&fd, sockopt::ReceiveTimestampns, &true)?;
            setsockopt(&fd, sockopt::RxqOvfl, &1)?;
        }
        if address.is_ipv6() {
            setsockopt(&fd, sockopt::Ipv6V6Only, &true)?;
        }
        if address.ip().is_unspecified() {
            if address.is_ipv4() {
                setsockopt(&fd, sockopt::Ipv4PacketInfo, &true)?;
            } else {
                setsockopt(&fd, sockopt::Ipv6RecvPacketInfo, &true)?;
            }
        }
        // Beyond the system's limit only with privileges; what there is will do.
        if setsockopt(&fd, sockopt::RcvBufForce, &options.receive_buffer).is_err() {
            let _ = setsockopt(&fd, sockopt::RcvBuf, &options.receive_buffer);
        }
        // Kernels before Linux 5.0 cannot, and deliver all apart.
        if options.is_coalescing {
            let _ = setsockopt(&fd, sockopt::UdpGroSegment, &true);
        }
        bind(fd.as_raw_fd(), &SockaddrStorage::from(address))?;
        let bound = getsockname::<SockaddrStorage>(fd.as_raw_fd())?;
        let address = to_socket_addr(&bound).unwrap_or(address);
        Ok(Self {
            fd,
            address,
            is_segmenting: options.is_segmenting,
            admitted: AtomicU32::new(filter::ALL),
            dropped: AtomicU32::new(0),
            refused: AtomicU32::new(0),
            unsent: AtomicU32::new(0),
        })
    }

    /// Sends what has no other address to `remote` from now on, and receives from there only.
    ///
    /// # Errors
    /// When there is no way to `remote`.
    pub fn connect(&self, remote: SocketAddr) -> io::Result<()> {
        Ok(connect(self.fd.as_raw_fd(), &SockaddrStorage::from(remote))?)
    }

    /// Lets in `parts` of 65,536 of the datagrams that do not begin with one of `exempt`, at
    /// random. The kernel drops the others before they cost this program anything.
    ///
    /// Several that come as one are judged by the first. (UDP_GRO must stay as it is: the kernel
    /// tells where one ends only if the option is set when they are read, and what waits then would
    /// be read as a single datagram.)
    ///
    /// # Errors
    /// When the kernel takes no filter; then as many are let in as before.
    pub fn admit(&self, parts: u32, exempt: &[[u8; 4]]) -> io::Result<()> {
        if self.admitted.load(Ordering::Relaxed) == parts {
            return Ok(());
        }
        let socket = SockRef::from(&self.fd);
        if parts >= filter::ALL {
            socket.detach_filter()?;
        } else {
            socket.attach_filter(&filter::admit(parts, exempt))?;
        }
        self.admitted.store(parts, Ordering::Relaxed);
        Ok(())
    }

    /// How many datagrams the kernel has dropped here, for want of room or since they were not let
    /// in, as far as it has told: it tells with those that come, and may count several that came as
    /// one as one. Only of a timed socket.
    pub fn dropped(&self) -> u32 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// How often the other machine has told that nobody takes what was sent there (ICMP port
    /// unreachable), which a socket that is connected learns, and no other.
    pub fn refused(&self) -> u32 {
        self.refused.load(Ordering::Relaxed)
    }

    /// How many datagrams were not sent since the kernel had no room for them, also after a wait.
    pub fn unsent(&self) -> u32 {
        self.unsent.load(Ordering::Relaxed)
    }

    /// The address that it is bound to.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether messages from `local` are sent with this socket.
    pub fn serves(&self, local: SocketAddr) -> bool {
        let own = self.address;
        own.port() == local.port()
            && (own.ip() == local.ip()
                || own.ip().is_unspecified() && own.is_ipv4() == local.is_ipv4())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn to_socket_addr(storage: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = storage.as_sockaddr_in() {
        return Some(SocketAddrV4::from(*v4).into());
    }
    storage.as_sockaddr_in6().map(|v6| SocketAddrV6::from(*v6).into())
}
