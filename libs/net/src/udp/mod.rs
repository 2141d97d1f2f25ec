//! UDP sockets that receive and send several datagrams with one system call (recvmmsg, sendmmsg).

mod control;
mod inbox;
mod outbox;
#[cfg(test)]
mod tests;
mod undelivered;

pub use control::disconnect;
pub use inbox::{Inbox, Received};
pub use outbox::{Outbox, Outgoing};
pub use undelivered::Undelivered;

use crate::filter;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, getsockname, getsockopt,
    setsockopt, socket, sockopt,
};
use socket2::SockRef;
use std::io;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// The maximum number of datagrams sent with one system call, and a suitable number of places of an
/// [`Inbox`].
pub const BATCH: usize = 64;
/// The maximum length of a datagram, in bytes.
pub const MAX_DATAGRAM: usize = 65_536;
/// The default size of the kernel's receive buffer, in bytes.
pub const RECEIVE_BUFFER: usize = 8 << 20;

/// The maximum number of attempts to send or to receive while the system reports errors. Such an
/// error may be the ICMP error of an earlier datagram, which the system reports once, to the next
/// call. More errors may have arrived since.
const MAX_ATTEMPTS: usize = 8;

/// The options of a socket.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Other sockets may be bound to the same address, and share the datagrams (SO_REUSEPORT).
    pub is_shared: bool,
    /// The kernel reports the arrival time of each datagram (SO_TIMESTAMPNS), and the number of
    /// dropped ones (SO_RXQ_OVFL).
    pub is_timed: bool,
    /// Datagrams of equal length to one address are passed to the kernel as one, which segments
    /// them (UDP segmentation offload).
    pub is_segmenting: bool,
    /// Consecutive datagrams of equal length from one peer are received as one (UDP_GRO), if the
    /// kernel supports it. [`Inbox`] separates them.
    pub is_coalescing: bool,
    /// The kernel queues ICMP errors for sent datagrams (IP_RECVERR), for
    /// [`Socket::undelivered`].
    pub reports_errors: bool,
    /// The size of the kernel's receive buffer, in bytes.
    pub receive_buffer: usize,
}

impl Default for Options {
    /// Not shared, not timed, not segmenting, not coalescing, without ICMP errors, 8 MiB.
    fn default() -> Self {
        Self {
            is_shared: false,
            is_timed: false,
            is_segmenting: false,
            is_coalescing: false,
            reports_errors: false,
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
    /// The value last set by [`Socket::admit`].
    admitted: AtomicU32,
    /// The number of datagrams dropped by the kernel, as last reported with a received one.
    dropped: AtomicU32,
    /// Counts ICMP port unreachable errors reported by the system.
    refused: AtomicU32,
    /// Counts datagrams not sent for want of buffer space.
    unsent: AtomicU32,
}

impl Socket {
    /// Binds `count` timed, segmenting and coalescing sockets that report ICMP errors to one
    /// address. The system distributes the peers among them (SO_REUSEPORT). It also distributes
    /// the errors, whichever socket has sent the datagram.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind_group(address: SocketAddr, count: usize) -> io::Result<Vec<Self>> {
        // Detects another server: with SO_REUSEPORT from the start, a second server of the same
        // user could take half of the datagrams.
        let alone = Self::bind(address, Options::default())?;
        let address = alone.address;
        drop(alone);
        let options = Options {
            is_shared: true,
            is_timed: true,
            is_segmenting: true,
            is_coalescing: true,
            reports_errors: true,
            ..Options::default()
        };
        (0..count).map(|_| Self::bind(address, options)).collect()
    }

    /// Binds a socket. On a wildcard address it reports the local address of each datagram.
    ///
    /// # Errors
    /// The address cannot be bound.
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
        if options.reports_errors {
            if address.is_ipv4() {
                setsockopt(&fd, sockopt::Ipv4RecvErr, &true)?;
            } else {
                setsockopt(&fd, sockopt::Ipv6RecvErr, &true)?;
            }
        }
        // Exceeding the system's limit requires privileges. Otherwise the kernel gives its limit.
        if setsockopt(&fd, sockopt::RcvBufForce, &options.receive_buffer).is_err() {
            let _ = setsockopt(&fd, sockopt::RcvBuf, &options.receive_buffer);
        }
        // Kernels before Linux 5.0 lack it, and deliver each datagram separately.
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

    /// Sets the default destination to `remote`, and receives from there only.
    ///
    /// # Errors
    /// There is no route to `remote`.
    pub fn connect(&self, remote: SocketAddr) -> io::Result<()> {
        Ok(connect(self.fd.as_raw_fd(), &SockaddrStorage::from(remote))?)
    }

    /// Accepts `parts` of 65,536 of the datagrams that do not begin with one of `exempt`, at
    /// random. The kernel drops the others without any cost for this program.
    ///
    /// Datagrams coalesced into one are accepted or dropped by the first. (UDP_GRO must stay
    /// enabled: the kernel reports the segment length only if the option is set at the time of
    /// reading. Otherwise coalesced datagrams in the queue would be read as a single one.)
    ///
    /// # Errors
    /// The kernel does not accept the filter. The former filter stays in force.
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

    /// The number of datagrams dropped by the kernel, for want of buffer space or by the filter.
    /// The kernel reports it with received datagrams, and may count coalesced ones as one. Only for
    /// a timed socket.
    pub fn dropped(&self) -> u32 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The number of ICMP port unreachable errors reported by calls that send and receive. Only a
    /// connected socket, and one that [reports errors](Options::reports_errors), receives them.
    pub fn refused(&self) -> u32 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts an error of `kind` that a call has reported.
    fn note(&self, kind: io::ErrorKind) {
        if kind == io::ErrorKind::ConnectionRefused {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The number of datagrams not sent because the kernel had no buffer space for them, even after
    /// a wait.
    pub fn unsent(&self) -> u32 {
        self.unsent.load(Ordering::Relaxed)
    }

    /// The bound address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The size of the kernel's receive buffer in bytes: as requested, or the system's limit
    /// (`net.core.rmem_max`), which only privileged programs exceed. The kernel counts its own
    /// overhead apart.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn receive_buffer(&self) -> io::Result<usize> {
        // The kernel reports twice the value, for its overhead.
        Ok(getsockopt(&self.fd, sockopt::RcvBuf)? / 2)
    }

    /// Returns true if messages from `local` are sent with this socket.
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
