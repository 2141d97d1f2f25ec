//! Non-blocking TCP sockets.

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, SockRef, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

/// The maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// The size of the send buffer, in bytes: data not yet acknowledged by the peer. Linux uses twice
/// as much memory.
const SEND_BUFFER: usize = 256 << 10;
/// The limit of unsent bytes in the send buffer: it bounds the data for a peer that acknowledges
/// everything and reads nothing.
const NOT_SENT: u32 = 32 << 10;

/// Listens on `address`, for connections with [`bound_output`]. An IPv6 socket accepts IPv6 only.
///
/// # Errors
/// The address cannot be bound.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = new_socket(address)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    bound_output(&socket)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Begins to connect to `remote`, from a port of the address of `local` if given. The socket
/// becomes writable when the connection is established. If it fails, [`TcpStream::take_error`]
/// returns the error.
///
/// # Errors
/// The connection fails at once.
pub fn connect(local: Option<SocketAddr>, remote: SocketAddr) -> io::Result<TcpStream> {
    connect_in_class(local, remote, 0)
}

/// The same with a class of service: the byte in the header of IPv4 or IPv6.
///
/// # Errors
/// The connection fails at once.
pub fn connect_in_class(
    local: Option<SocketAddr>,
    remote: SocketAddr,
    class: u8,
) -> io::Result<TcpStream> {
    let socket = new_socket(remote)?;
    set_class(&socket, remote.is_ipv4(), class);
    socket.set_tcp_nodelay(true)?;
    if let Some(mut local) = local {
        local.set_port(0);
        socket.bind(&local.into())?;
    }
    match socket.connect(&remote.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// Limits the memory for output of a socket. Accepted connections inherit the limits of the
/// listening socket.
///
/// # Errors
/// The system refuses the limits.
pub fn bound_output(socket: &impl AsFd) -> io::Result<()> {
    let socket = SockRef::from(socket);
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.set_tcp_notsent_lowat(NOT_SENT)
}

/// Sets the class of service of a socket of IPv4, or of IPv6 only. A network without classes
/// carries packets, too: a failure is ignored.
pub fn set_class(socket: &impl AsFd, is_ipv4: bool, class: u8) {
    let class = class.into();
    let _ = match is_ipv4 {
        true => setsockopt(socket, sockopt::Ipv4Tos, &class),
        false => setsockopt(socket, sockopt::Ipv6TClass, &class),
    };
}

fn new_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;

    fn await_flags(fd: impl AsFd, flags: PollFlags) {
        let mut fds = [PollFd::new(fd.as_fd(), flags)];
        assert_eq!(poll(&mut fds, PollTimeout::from(60_000u16)), Ok(1));
    }

    #[test]
    fn a_connection_is_there_when_it_can_be_written_to() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let listener = listen(any.parse().unwrap()).unwrap();
            let address = listener.local_addr().unwrap();
            let stream = connect(Some(address), address).unwrap();
            await_flags(&stream, PollFlags::POLLOUT);
            assert!(stream.take_error().unwrap().is_none());
            await_flags(&listener, PollFlags::POLLIN);
            let (_, remote) = listener.accept().unwrap();
            assert_eq!(remote, stream.local_addr().unwrap());
            assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn the_system_keeps_little_for_a_peer_that_does_not_read() {
        use std::io::Write;
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let peer = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        peer.set_recv_buffer_size(4096).unwrap();
        peer.connect(&listener.local_addr().unwrap().into()).unwrap();
        await_flags(&listener, PollFlags::POLLIN);
        let (mut socket, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut taken = 0;
        while let Ok(count) = socket.write(&[0; 16 << 10]) {
            taken += count;
        }
        assert!(taken <= 192 << 10, "{taken} bytes");
    }

    #[test]
    fn a_refused_connection_is_named() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let stream = connect(None, address).unwrap();
        await_flags(&stream, PollFlags::POLLOUT);
        let error = stream.take_error().unwrap().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
