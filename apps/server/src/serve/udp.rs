//! UDP sockets that receive and send many datagrams with one system call (recvmmsg, sendmmsg).

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, getsockname, setsockopt, socket,
    sockopt,
};
use sip_server::Flow;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Datagrams taken or given in one system call.
pub(crate) const BATCH: usize = 64;
/// The longest datagram.
const MAX_DATAGRAM: usize = 65_536;
/// Room for datagrams that wait in the kernel, in bytes.
const RECEIVE_BUFFER: usize = 8 << 20;
/// Room for one control message with an address in it, in words, so that it is aligned.
const CONTROL_WORDS: usize = 8;

/// A bound socket.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    address: SocketAddr,
}

impl Socket {
    /// Binds `count` sockets to one address, among which the system shares out the peers
    /// (SO_REUSEPORT).
    ///
    /// # Errors
    /// When the address cannot be had.
    pub(crate) fn bind_group(address: SocketAddr, count: usize) -> io::Result<Vec<Self>> {
        // Shared from the start, a second server of the same user could take half of the datagrams.
        let alone = Self::bind(address, false)?;
        let address = alone.address;
        drop(alone);
        (0..count).map(|_| Self::bind(address, true)).collect()
    }

    /// Binds a socket, which on a wildcard address learns of each datagram which of our addresses
    /// it was sent to.
    fn bind(address: SocketAddr, is_shared: bool) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let fd = socket(family, SockType::Datagram, flags, None)?;
        setsockopt(&fd, sockopt::ReusePort, &is_shared)?;
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
        if setsockopt(&fd, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
            let _ = setsockopt(&fd, sockopt::RcvBuf, &RECEIVE_BUFFER);
        }
        bind(fd.as_raw_fd(), &SockaddrStorage::from(address))?;
        let bound = getsockname::<SockaddrStorage>(fd.as_raw_fd())?;
        let address = to_socket_addr(&bound).unwrap_or(address);
        Ok(Self { fd, address })
    }

    /// The address that it is bound to.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether messages from `local` are sent with this socket.
    pub(crate) fn serves(&self, local: SocketAddr) -> bool {
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

/// Buffers for what is received.
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    names: Vec<libc::sockaddr_storage>,
    controls: Vec<[u64; CONTROL_WORDS]>,
    slices: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers in `slices` and `headers` are made anew in each call from the vectors beside
// them, and are not used outside of it.
unsafe impl Send for Inbox {}

/// A datagram that was received.
pub(crate) struct Datagram<'a> {
    /// Who sent it.
    pub(crate) remote: SocketAddr,
    /// Which of our addresses it was sent to.
    pub(crate) local: SocketAddr,
    /// What it says.
    pub(crate) bytes: &'a [u8],
}

impl Inbox {
    pub(crate) fn new() -> Self {
        // SAFETY: these C structures are valid when all their bytes are zero.
        let (name, slice, header) = unsafe {
            (
                MaybeUninit::<libc::sockaddr_storage>::zeroed().assume_init(),
                MaybeUninit::<libc::iovec>::zeroed().assume_init(),
                MaybeUninit::<libc::mmsghdr>::zeroed().assume_init(),
            )
        };
        Self {
            bytes: vec![0; BATCH * MAX_DATAGRAM],
            names: vec![name; BATCH],
            controls: vec![[0; CONTROL_WORDS]; BATCH],
            slices: vec![slice; BATCH],
            headers: vec![header; BATCH],
        }
    }

    /// Takes the datagrams that wait in `socket`, at most [`BATCH`], and hands each to `each`.
    /// Returns how many there were.
    ///
    /// # Errors
    /// When the socket failed. Nothing waiting is no error.
    pub(crate) fn receive(
        &mut self,
        socket: &Socket,
        mut each: impl FnMut(Datagram<'_>),
    ) -> io::Result<usize> {
        for index in 0..BATCH {
            self.slices[index] = libc::iovec {
                iov_base: self.bytes[index * MAX_DATAGRAM..].as_mut_ptr().cast(),
                iov_len: MAX_DATAGRAM,
            };
            let header = &mut self.headers[index].msg_hdr;
            header.msg_name = (&raw mut self.names[index]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &raw mut self.slices[index];
            header.msg_iovlen = 1;
            header.msg_control = self.controls[index].as_mut_ptr().cast();
            header.msg_controllen = size_of::<[u64; CONTROL_WORDS]>() as _;
            header.msg_flags = 0;
        }
        // SAFETY: there are BATCH headers, and each points to a name, a slice of MAX_DATAGRAM bytes
        // and a control buffer of the stated sizes, which live in `self` and are not otherwise
        // touched during the call.
        let received = unsafe {
            libc::recvmmsg(
                socket.fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        if received < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                // An earlier datagram of ours was not wanted. Its transaction finds out by itself.
                io::ErrorKind::ConnectionRefused => Ok(0),
                _ => Err(error),
            };
        }
        let received = received as usize;
        for index in 0..received.min(BATCH) {
            let header = &self.headers[index];
            let Some(remote) = read_name(&self.names[index]) else { continue };
            let local = read_local(&header.msg_hdr).unwrap_or(socket.address.ip());
            let start = index * MAX_DATAGRAM;
            each(Datagram {
                remote,
                local: SocketAddr::new(local, socket.address.port()),
                bytes: &self.bytes[start..start + (header.msg_len as usize).min(MAX_DATAGRAM)],
            });
        }
        Ok(received)
    }
}

/// Buffers for what is sent.
#[derive(Default)]
pub(crate) struct Outbox {
    names: Vec<SockaddrStorage>,
    controls: Vec<[u64; CONTROL_WORDS]>,
    slices: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

// SAFETY: as for Inbox.
unsafe impl Send for Outbox {}

impl Outbox {
    /// Sends each datagram on its flow with `socket`, in order. Hands those that the system refuses
    /// to send to `refused`. What does not fit into the socket's buffer after a wait is lost, as
    /// datagrams may be.
    pub(crate) fn send<'a>(
        &mut self,
        socket: &Socket,
        datagrams: &[(Flow, &'a [u8])],
        mut refused: impl FnMut(&Flow, &'a [u8]),
    ) {
        for chunk in datagrams.chunks(BATCH) {
            self.prepare(socket, chunk);
            let mut sent = 0;
            let mut waited = false;
            while sent < chunk.len() {
                // SAFETY: `prepare` has made a header for each datagram of the chunk; what they
                // point to lives in `self` and in `datagrams`, and is only read.
                let count = unsafe {
                    libc::sendmmsg(
                        socket.fd.as_raw_fd(),
                        self.headers[sent..].as_mut_ptr(),
                        (chunk.len() - sent) as libc::c_uint,
                        libc::MSG_DONTWAIT,
                    )
                };
                if count > 0 {
                    sent += count as usize;
                    continue;
                }
                match io::Error::last_os_error().kind() {
                    io::ErrorKind::Interrupted => {}
                    // The error of an earlier datagram, told late; this one was not tried.
                    io::ErrorKind::ConnectionRefused => {}
                    io::ErrorKind::WouldBlock if !waited => {
                        waited = true;
                        wait_until_writable(socket);
                    }
                    io::ErrorKind::WouldBlock => return,
                    _ => {
                        let (flow, bytes) = &chunk[sent];
                        refused(flow, bytes);
                        sent += 1;
                    }
                }
            }
        }
    }

    fn prepare(&mut self, socket: &Socket, chunk: &[(Flow, &[u8])]) {
        let is_wildcard = socket.address.ip().is_unspecified();
        self.names.clear();
        self.names.extend(chunk.iter().map(|(flow, _)| SockaddrStorage::from(flow.remote)));
        self.controls.resize(chunk.len(), [0; CONTROL_WORDS]);
        self.slices.clear();
        self.slices.extend(chunk.iter().map(|(_, bytes)| libc::iovec {
            // sendmmsg does not write to it.
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        }));
        self.headers.clear();
        for (index, (flow, _)) in chunk.iter().enumerate() {
            // SAFETY: an mmsghdr is valid when all its bytes are zero.
            let mut header: libc::mmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
            let name = &self.names[index];
            header.msg_hdr.msg_name = (&raw const *name).cast_mut().cast();
            header.msg_hdr.msg_namelen = match flow.remote {
                SocketAddr::V4(_) => size_of::<libc::sockaddr_in>(),
                SocketAddr::V6(_) => size_of::<libc::sockaddr_in6>(),
            } as libc::socklen_t;
            header.msg_hdr.msg_iov = &raw mut self.slices[index];
            header.msg_hdr.msg_iovlen = 1;
            if is_wildcard && !flow.local.ip().is_unspecified() {
                let control = &mut self.controls[index];
                header.msg_hdr.msg_control = control.as_mut_ptr().cast();
                header.msg_hdr.msg_controllen = size_of::<[u64; CONTROL_WORDS]>() as _;
                write_local(&mut header.msg_hdr, flow.local.ip());
            }
            self.headers.push(header);
        }
    }
}

fn wait_until_writable(socket: &Socket) {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut fds = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
    // On failure the next attempt to send says why.
    let _ = poll(&mut fds, PollTimeout::from(20u8));
}

fn read_name(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the kernel says that it is a sockaddr_in, which is smaller than the storage.
            let name = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
            Some(SocketAddr::new(ip.into(), u16::from_be(name.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above, a sockaddr_in6.
            let name = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
            let port = u16::from_be(name.sin6_port);
            Some(SocketAddrV6::new(ip, port, 0, name.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// The address that a datagram was sent to, from its control messages.
fn read_local(header: &libc::msghdr) -> Option<IpAddr> {
    // SAFETY: the kernel has filled the control buffer that `header` points to and set its length;
    // the macros stay within it, and the data of each kind is what its level and type say. It need
    // not be aligned, so it is copied.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while !control.is_null() {
            let data = libc::CMSG_DATA(control);
            match ((*control).cmsg_level, (*control).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info: libc::in_pktinfo = data.cast::<libc::in_pktinfo>().read_unaligned();
                    return Some(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info: libc::in6_pktinfo = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    return Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                _ => control = libc::CMSG_NXTHDR(header, control),
            }
        }
    }
    None
}

/// Makes `header` leave from `local`.
fn write_local(header: &mut libc::msghdr, local: IpAddr) {
    // SAFETY: `header` points to a control buffer of CONTROL_WORDS words, aligned for a cmsghdr and
    // larger than one with an in6_pktinfo; both structures are plain data.
    unsafe {
        let control = libc::CMSG_FIRSTHDR(header);
        if control.is_null() {
            return;
        }
        let data = libc::CMSG_DATA(control);
        let length = match local {
            IpAddr::V4(ip) => {
                (*control).cmsg_level = libc::IPPROTO_IP;
                (*control).cmsg_type = libc::IP_PKTINFO;
                let mut info: libc::in_pktinfo = MaybeUninit::zeroed().assume_init();
                info.ipi_spec_dst.s_addr = u32::from(ip).to_be();
                data.cast::<libc::in_pktinfo>().write_unaligned(info);
                size_of::<libc::in_pktinfo>()
            }
            IpAddr::V6(ip) => {
                (*control).cmsg_level = libc::IPPROTO_IPV6;
                (*control).cmsg_type = libc::IPV6_PKTINFO;
                let mut info: libc::in6_pktinfo = MaybeUninit::zeroed().assume_init();
                info.ipi6_addr.s6_addr = ip.octets();
                data.cast::<libc::in6_pktinfo>().write_unaligned(info);
                size_of::<libc::in6_pktinfo>()
            }
        } as libc::c_uint;
        (*control).cmsg_len = libc::CMSG_LEN(length) as _;
        header.msg_controllen = libc::CMSG_SPACE(length) as _;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip::Transport;

    fn receive(inbox: &mut Inbox, socket: &Socket, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut received = Vec::new();
        while received.len() < count {
            inbox
                .receive(socket, |datagram| {
                    received.push((datagram.local, datagram.bytes.to_vec()));
                })
                .unwrap();
        }
        received
    }

    fn exchange(bound: &str, target: &str) {
        let Ok(socket) = Socket::bind(bound.parse().unwrap(), true) else {
            assert!(bound.starts_with('['), "IPv4 is everywhere");
            return;
        };
        let target: IpAddr = target.parse().unwrap();
        let local = SocketAddr::new(target, socket.address().port());
        assert!(socket.serves(local));
        let peer = Socket::bind(SocketAddr::new(target, 0), true).unwrap();
        let many: Vec<Vec<u8>> = (0..BATCH + 3).map(|index| vec![index as u8; index]).collect();
        let mut outbox = Outbox::default();
        let flow =
            |local, remote| Flow { transport: Transport::Udp, local, remote, connection: None };
        let there: Vec<_> =
            many.iter().map(|bytes| (flow(peer.address(), local), &bytes[..])).collect();
        outbox.send(&peer, &there, |_, _| panic!("refused"));
        let mut inbox = Inbox::new();
        let received = receive(&mut inbox, &socket, many.len());
        assert!(received.iter().all(|(to, _)| *to == local), "{received:?}");
        assert!(received.iter().map(|(_, bytes)| bytes).eq(&many));
        let back: Vec<_> =
            many.iter().map(|bytes| (flow(local, peer.address()), &bytes[..])).collect();
        outbox.send(&socket, &back, |_, _| panic!("refused"));
        assert!(receive(&mut inbox, &peer, many.len()).iter().map(|(_, bytes)| bytes).eq(&many));
    }

    #[test]
    fn batches_arrive_whole_and_in_order_with_the_address_they_were_sent_to() {
        exchange("127.0.0.1:0", "127.0.0.1");
        exchange("0.0.0.0:0", "127.0.0.2");
        exchange("[::]:0", "::1");
    }

    #[test]
    fn a_group_shares_a_port_with_nobody_else() {
        let group = Socket::bind_group("127.0.0.1:0".parse().unwrap(), 3).unwrap();
        assert_eq!(group.len(), 3);
        assert!(group.iter().all(|socket| socket.address() == group[0].address()));
        assert!(Socket::bind_group(group[0].address(), 1).is_err());
    }

    #[test]
    fn both_families_listen_on_one_port() {
        let v4 = Socket::bind_group("0.0.0.0:0".parse().unwrap(), 1).unwrap();
        let v6 = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), v4[0].address().port());
        match Socket::bind_group(v6, 1) {
            Ok(group) => assert_eq!(group[0].address(), v6),
            Err(error) => assert_ne!(error.kind(), io::ErrorKind::AddrInUse),
        }
    }

    #[test]
    fn what_the_system_refuses_is_handed_back_and_the_rest_is_sent() {
        let socket = Socket::bind("127.0.0.1:0".parse().unwrap(), true).unwrap();
        let flow = |remote: &str| Flow {
            transport: Transport::Udp,
            local: socket.address(),
            remote: remote.parse().unwrap(),
            connection: None,
        };
        let to_self = Flow { remote: socket.address(), ..flow("127.0.0.1:1") };
        let too_long = vec![0; 70_000];
        let datagrams = [(to_self, &b"a"[..]), (to_self, &too_long[..]), (to_self, &b"b"[..])];
        let mut refused = Vec::new();
        Outbox::default().send(&socket, &datagrams, |_, bytes| refused.push(bytes.len()));
        assert_eq!(refused, [70_000]);
        let received = receive(&mut Inbox::new(), &socket, 2);
        assert_eq!(received[0].1, b"a");
        assert_eq!(received[1].1, b"b");
    }
}
