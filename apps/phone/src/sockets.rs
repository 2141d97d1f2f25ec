//! The listening sockets of SIP for each address family, and the classification of their errors.

use net::tls::TlsError;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, RecvMsg, SockFlag, SockType, SockaddrIn6, SockaddrStorage,
    bind, setsockopt, socket, sockopt,
};
use sip_ua::Failure;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsRawFd;

/// The sockets of one address family.
pub(crate) struct Family {
    /// The address of both transports, which may be unspecified.
    pub(crate) local: SocketAddr,
    pub(crate) udp: UdpSocket,
    pub(crate) listener: TcpListener,
}

/// Opens the sockets at `wanted`. An address family that this machine lacks is left out.
pub(crate) fn open_families(wanted: SocketAddr) -> io::Result<Vec<Family>> {
    let is_any = wanted.is_ipv6() && wanted.ip().is_unspecified();
    let first = match Family::open(wanted) {
        Err(error) if is_any && is_missing(&error) => None,
        first => Some(first?),
    };
    let port = first.as_ref().map_or(wanted.port(), |first| first.local.port());
    let second = match is_any.then(|| Family::open((Ipv4Addr::UNSPECIFIED, port).into())) {
        Some(Err(error)) if first.is_some() && is_missing(&error) => None,
        second => second.transpose()?,
    };
    Ok(second.into_iter().chain(first).collect())
}

/// Returns true if this machine lacks the address family.
fn is_missing(error: &io::Error) -> bool {
    let missing = [libc::EAFNOSUPPORT, libc::EADDRNOTAVAIL, libc::EPROTONOSUPPORT];
    error.raw_os_error().is_some_and(|number| missing.contains(&number))
}

impl Family {
    fn open(wanted: SocketAddr) -> io::Result<Self> {
        let udp = udp_socket(wanted)?;
        let local = udp.local_addr()?;
        let listener = net::listen(local)?;
        udp.set_nonblocking(true)?;
        // Otherwise a closed port is detected only after 32 s.
        match local {
            SocketAddr::V4(_) => setsockopt(&udp, sockopt::Ipv4RecvErr, &true)?,
            SocketAddr::V6(_) => setsockopt(&udp, sockopt::Ipv6RecvErr, &true)?,
        }
        Ok(Self { local, udp, listener })
    }
}

/// A socket for the address family of `local` alone.
fn udp_socket(local: SocketAddr) -> io::Result<UdpSocket> {
    let SocketAddr::V6(address) = local else { return UdpSocket::bind(local) };
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Inet6, SockType::Datagram, flags, None)?;
    setsockopt(&socket, sockopt::Ipv6V6Only, &true)?;
    bind(socket.as_raw_fd(), &SockaddrIn6::from(address))?;
    Ok(socket.into())
}

/// Returns true for an error in the error queue, caused by an earlier datagram.
pub(crate) fn is_of_queue(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
    )
}

/// The reason why a message was not sent.
pub(crate) fn failure_of(error: &io::Error) -> Failure {
    let is_of_certificate = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<TlsError>())
        .is_some_and(TlsError::is_of_certificate);
    match error.kind() {
        _ if is_of_certificate => Failure::Untrusted,
        io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::AddrNotAvailable
        // Linux: from a socket of loopback to another address.
        | io::ErrorKind::InvalidInput => Failure::NoRoute,
        _ => Failure::Unreachable,
    }
}

/// The reason why a datagram was not delivered, from the error queue.
pub(crate) fn failure_told(told: &RecvMsg<'_, '_, SockaddrStorage>) -> Failure {
    let number = told.cmsgs().ok().and_then(|mut all| {
        all.find_map(|one| match one {
            ControlMessageOwned::Ipv4RecvErr(error, _)
            | ControlMessageOwned::Ipv6RecvErr(error, _) => Some(error.ee_errno),
            _ => None,
        })
    });
    let error = number.map(|number| io::Error::from_raw_os_error(number.cast_signed()));
    error.map_or(Failure::Unreachable, |error| failure_of(&error))
}
