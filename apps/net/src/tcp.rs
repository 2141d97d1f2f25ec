//! TCP sockets that do not block.

use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// Listens on `address`; on one of IPv6 for IPv6 only.
///
/// # Errors
/// When the address cannot be had.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = new_socket(address)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Begins to connect to `remote`, from a port of `local`'s address if that is said. The connection
/// can be written to when it is there; where it cannot be made, [`TcpStream::take_error`] tells
/// why.
///
/// # Errors
/// When that is known at once.
pub fn connect(local: Option<SocketAddr>, remote: SocketAddr) -> io::Result<TcpStream> {
    let socket = new_socket(remote)?;
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
    fn where_nobody_listens_the_error_says_so() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let stream = connect(None, address).unwrap();
        await_flags(&stream, PollFlags::POLLOUT);
        let error = stream.take_error().unwrap().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
