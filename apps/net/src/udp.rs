//! UDP sockets that receive and send many datagrams with one system call (recvmmsg, sendmmsg).

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, getsockname, setsockopt,
    socket, sockopt,
};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Datagrams taken or given in one system call.
pub const BATCH: usize = 64;
/// The longest datagram, in bytes.
pub const MAX_DATAGRAM: usize = 65_536;
/// The longest datagram that is put together with others: longer ones might not fit into one packet,
/// and a batch of them not into the longest that the kernel takes.
const LONGEST_SEGMENT: usize = 1000;
/// Room for datagrams that wait in the kernel, in bytes.
const RECEIVE_BUFFER: usize = 8 << 20;
/// Room for the control messages of a datagram (address, time, count of drops), in words, so that it is
/// aligned.
const CONTROL_WORDS: usize = 16;

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
    /// Room for datagrams that wait in the kernel, in bytes.
    pub receive_buffer: usize,
}

impl Default for Options {
    /// Not shared, not timed, not segmenting, 8 MiB.
    fn default() -> Self {
        Self {
            is_shared: false,
            is_timed: false,
            is_segmenting: false,
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
}

impl Socket {
    /// Binds `count` sockets to one address, among which the system shares out the peers
    /// (SO_REUSEPORT).
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn bind_group(address: SocketAddr, count: usize) -> io::Result<Vec<Self>> {
        // Shared from the start, a second server of the same user could take half of the datagrams.
        let alone = Self::bind(address, Options::default())?;
        let address = alone.address;
        drop(alone);
        let options = Options { is_shared: true, ..Options::default() };
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
        bind(fd.as_raw_fd(), &SockaddrStorage::from(address))?;
        let bound = getsockname::<SockaddrStorage>(fd.as_raw_fd())?;
        let address = to_socket_addr(&bound).unwrap_or(address);
        Ok(Self { fd, address, is_segmenting: options.is_segmenting })
    }

    /// Sends what has no other address to `remote` from now on, and receives from there only.
    ///
    /// # Errors
    /// When there is no way to `remote`.
    pub fn connect(&self, remote: SocketAddr) -> io::Result<()> {
        Ok(connect(self.fd.as_raw_fd(), &SockaddrStorage::from(remote))?)
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

/// Buffers for what is received.
pub struct Inbox {
    longest: usize,
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
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Who sent it.
    pub remote: SocketAddr,
    /// Which of our addresses it was sent to.
    pub local: SocketAddr,
    /// What it says.
    pub bytes: &'a [u8],
    /// When it came, since the Unix epoch by the wall clock, if the socket is timed.
    pub at: Option<Duration>,
    /// How many the kernel has dropped on this socket so far, if the socket is timed and there were any.
    pub dropped: u32,
}

/// A datagram to send.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Where to; `None` is where the socket is connected to.
    pub remote: Option<SocketAddr>,
    /// Which of our addresses it leaves from, where the socket is bound to all.
    pub local: IpAddr,
    /// What it says.
    pub bytes: &'a [u8],
}

impl Inbox {
    /// Buffers for datagrams of at most `longest` bytes; what is longer is cut off.
    #[must_use]
    pub fn new(longest: usize) -> Self {
        // SAFETY: these C structures are valid when all their bytes are zero.
        let (name, slice, header) = unsafe {
            (
                MaybeUninit::<libc::sockaddr_storage>::zeroed().assume_init(),
                MaybeUninit::<libc::iovec>::zeroed().assume_init(),
                MaybeUninit::<libc::mmsghdr>::zeroed().assume_init(),
            )
        };
        Self {
            longest,
            bytes: vec![0; BATCH * longest],
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
    pub fn receive(
        &mut self,
        socket: &Socket,
        mut each: impl FnMut(Received<'_>),
    ) -> io::Result<usize> {
        for index in 0..BATCH {
            self.slices[index] = libc::iovec {
                iov_base: self.bytes[index * self.longest..].as_mut_ptr().cast(),
                iov_len: self.longest,
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
        // SAFETY: there are BATCH headers, and each points to a name, a slice of `longest` bytes
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
            let told = read_controls(&header.msg_hdr);
            let start = index * self.longest;
            each(Received {
                remote,
                local: SocketAddr::new(
                    told.local.unwrap_or(socket.address.ip()),
                    socket.address.port(),
                ),
                bytes: &self.bytes[start..start + (header.msg_len as usize).min(self.longest)],
                at: told.at,
                dropped: told.dropped,
            });
        }
        Ok(received)
    }
}

/// Buffers for what is sent.
#[derive(Default)]
pub struct Outbox {
    names: Vec<SockaddrStorage>,
    controls: Vec<[u64; CONTROL_WORDS]>,
    slices: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    /// How many datagrams each header stands for.
    counts: Vec<usize>,
    /// A way out has refused to take several datagrams as one.
    refuses_segments: bool,
}

// SAFETY: as for Inbox.
unsafe impl Send for Outbox {}

impl Outbox {
    /// Sends each datagram with `socket`, in order. Hands those that the system refuses
    /// to send to `refused`. What does not fit into the socket's buffer after a wait is lost, as
    /// datagrams may be.
    pub fn send<'a>(
        &mut self,
        socket: &Socket,
        datagrams: &[Outgoing<'a>],
        mut refused: impl FnMut(&Outgoing<'a>),
    ) {
        for chunk in datagrams.chunks(BATCH) {
            let mut rest = chunk;
            while !rest.is_empty() {
                self.prepare(socket, rest);
                rest = self.send_prepared(socket, rest, &mut refused);
            }
        }
    }

    /// Sends what is prepared; returns what has to be prepared in another way.
    fn send_prepared<'d, 'a>(
        &mut self,
        socket: &Socket,
        mut rest: &'d [Outgoing<'a>],
        refused: &mut impl FnMut(&Outgoing<'a>),
    ) -> &'d [Outgoing<'a>] {
        let mut next = 0;
        let mut waited = false;
        while next < self.headers.len() {
            // SAFETY: `prepare` has made the headers; what they point to lives in `self` and in the
            // datagrams, and is only read.
            let count = unsafe {
                libc::sendmmsg(
                    socket.fd.as_raw_fd(),
                    self.headers[next..].as_mut_ptr(),
                    (self.headers.len() - next) as libc::c_uint,
                    libc::MSG_DONTWAIT,
                )
            };
            if count > 0 {
                let sent = next..next + count as usize;
                next = sent.end;
                rest = &rest[self.counts[sent].iter().sum()..];
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
                io::ErrorKind::WouldBlock => return &[],
                _ if self.counts[next] > 1 => {
                    self.refuses_segments = true;
                    return rest;
                }
                _ => {
                    refused(&rest[0]);
                    rest = &rest[1..];
                    next += 1;
                }
            }
        }
        rest
    }

    /// Makes the headers: one for each datagram or, where the socket is for that, one for each run of
    /// datagrams of one length to one address, which the kernel takes apart (UDP_SEGMENT).
    fn prepare(&mut self, socket: &Socket, datagrams: &[Outgoing<'_>]) {
        let is_wildcard = socket.address.ip().is_unspecified();
        let may_join = socket.is_segmenting && !self.refuses_segments;
        self.counts.clear();
        self.counts.extend(
            datagrams
                .chunk_by(|one, other| {
                    may_join
                        && one.remote == other.remote
                        && one.local == other.local
                        && one.bytes.len() == other.bytes.len()
                        && (1..=LONGEST_SEGMENT).contains(&one.bytes.len())
                })
                .map(<[_]>::len),
        );
        self.slices.clear();
        self.slices.extend(datagrams.iter().map(|datagram| libc::iovec {
            // sendmmsg does not write to it.
            iov_base: datagram.bytes.as_ptr().cast_mut().cast(),
            iov_len: datagram.bytes.len(),
        }));
        let firsts = || {
            let mut first = 0;
            self.counts.iter().map(move |count| {
                first += count;
                &datagrams[first - count]
            })
        };
        let unused = socket.address;
        self.names.clear();
        self.names.extend(
            firsts().map(|datagram| SockaddrStorage::from(datagram.remote.unwrap_or(unused))),
        );
        self.controls.resize(self.counts.len(), [0; CONTROL_WORDS]);
        self.headers.clear();
        let mut first = 0;
        for (index, &count) in self.counts.iter().enumerate() {
            let datagram = &datagrams[first];
            // SAFETY: an mmsghdr is valid when all its bytes are zero.
            let mut header: libc::mmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
            if let Some(remote) = datagram.remote {
                let name = &self.names[index];
                header.msg_hdr.msg_name = (&raw const *name).cast_mut().cast();
                header.msg_hdr.msg_namelen = match remote {
                    SocketAddr::V4(_) => size_of::<libc::sockaddr_in>(),
                    SocketAddr::V6(_) => size_of::<libc::sockaddr_in6>(),
                } as libc::socklen_t;
            }
            header.msg_hdr.msg_iov = &raw mut self.slices[first];
            header.msg_hdr.msg_iovlen = count as _;
            header.msg_hdr.msg_control = self.controls[index].as_mut_ptr().cast();
            if is_wildcard && !datagram.local.is_unspecified() {
                write_local(&mut header.msg_hdr, datagram.local);
            }
            if count > 1 {
                let length = datagram.bytes.len() as u16;
                write_control(&mut header.msg_hdr, libc::SOL_UDP, libc::UDP_SEGMENT, length);
            }
            self.headers.push(header);
            first += count;
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

/// What the kernel tells beside a datagram.
#[derive(Default)]
struct Told {
    local: Option<IpAddr>,
    at: Option<Duration>,
    dropped: u32,
}

fn read_controls(header: &libc::msghdr) -> Told {
    let mut told = Told::default();
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
                    told.local = Some(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info: libc::in6_pktinfo = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    told.local = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let at: libc::timespec = data.cast::<libc::timespec>().read_unaligned();
                    told.at = Some(Duration::new(at.tv_sec as u64, at.tv_nsec as u32));
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    told.dropped = data.cast::<u32>().read_unaligned();
                }
                _ => {}
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    told
}

/// Makes `header` leave from `local`.
fn write_local(header: &mut libc::msghdr, local: IpAddr) {
    match local {
        IpAddr::V4(ip) => {
            // SAFETY: it is plain data, valid when all its bytes are zero.
            let mut info: libc::in_pktinfo = unsafe { MaybeUninit::zeroed().assume_init() };
            info.ipi_spec_dst.s_addr = u32::from(ip).to_be();
            write_control(header, libc::IPPROTO_IP, libc::IP_PKTINFO, info);
        }
        IpAddr::V6(ip) => {
            // SAFETY: as above.
            let mut info: libc::in6_pktinfo = unsafe { MaybeUninit::zeroed().assume_init() };
            info.ipi6_addr.s6_addr = ip.octets();
            write_control(header, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
        }
    }
}

/// Appends a control message to those of `header`, whose buffer has CONTROL_WORDS words.
fn write_control<T: Copy>(
    header: &mut libc::msghdr,
    level: libc::c_int,
    kind: libc::c_int,
    value: T,
) {
    let used = header.msg_controllen;
    // SAFETY: it only computes.
    let (length, space) = unsafe {
        let size = size_of::<T>() as libc::c_uint;
        (libc::CMSG_LEN(size), libc::CMSG_SPACE(size) as usize)
    };
    assert!(
        used + space <= size_of::<[u64; CONTROL_WORDS]>(),
        "the buffer holds what is used here"
    );
    // SAFETY: the buffer has room, as was just seen, and is aligned for a cmsghdr at each multiple of a
    // word, of which the space of a control message is one; `value` is plain data.
    unsafe {
        let control = header.msg_control.cast::<u8>().add(used).cast::<libc::cmsghdr>();
        (*control).cmsg_level = level;
        (*control).cmsg_type = kind;
        (*control).cmsg_len = length as _;
        libc::CMSG_DATA(control).cast::<T>().write_unaligned(value);
    }
    header.msg_controllen = used + space;
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let timed = Options { is_timed: true, ..Options::default() };
        let Ok(socket) = Socket::bind(bound.parse().unwrap(), timed) else {
            assert!(bound.starts_with('['), "IPv4 is everywhere");
            return;
        };
        let target: IpAddr = target.parse().unwrap();
        let local = SocketAddr::new(target, socket.address().port());
        assert!(socket.serves(local));
        let peer = Socket::bind(SocketAddr::new(target, 0), timed).unwrap();
        let many: Vec<Vec<u8>> = (0..BATCH + 3).map(|index| vec![index as u8; index]).collect();
        let mut outbox = Outbox::default();
        let there: Vec<_> = many
            .iter()
            .map(|bytes| Outgoing { remote: Some(local), local: peer.address().ip(), bytes })
            .collect();
        outbox.send(&peer, &there, |_| panic!("refused"));
        let mut inbox = Inbox::new(MAX_DATAGRAM);
        let received = receive(&mut inbox, &socket, many.len());
        assert!(received.iter().all(|(to, _)| *to == local), "{received:?}");
        assert!(received.iter().map(|(_, bytes)| bytes).eq(&many));
        let back: Vec<_> = many
            .iter()
            .map(|bytes| Outgoing { remote: Some(peer.address()), local: target, bytes })
            .collect();
        outbox.send(&socket, &back, |_| panic!("refused"));
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
        let socket = Socket::bind("127.0.0.1:0".parse().unwrap(), Options::default()).unwrap();
        socket.connect(socket.address()).unwrap();
        let too_long = vec![0; 70_000];
        let local = socket.address().ip();
        let to_self = |bytes, remote| Outgoing { remote, local, bytes };
        let datagrams = [
            to_self(&b"a"[..], None),
            to_self(&too_long[..], None),
            to_self(&b"b"[..], Some(socket.address())),
        ];
        let mut refused = Vec::new();
        Outbox::default().send(&socket, &datagrams, |datagram| refused.push(datagram.bytes.len()));
        assert_eq!(refused, [70_000]);
        let received = receive(&mut Inbox::new(MAX_DATAGRAM), &socket, 2);
        assert_eq!(received[0].1, b"a");
        assert_eq!(received[1].1, b"b");
    }

    #[test]
    fn datagrams_that_are_joined_arrive_apart() {
        let segmenting = Options { is_segmenting: true, ..Options::default() };
        let sender = Socket::bind("127.0.0.1:0".parse().unwrap(), segmenting).unwrap();
        let receiver = Socket::bind("127.0.0.1:0".parse().unwrap(), Options::default()).unwrap();
        // Runs of one length, single ones, empty ones, and some that are too long to be joined.
        let lengths = [500; 40].into_iter().chain([500, 7, 7, 0, 0, 1001, 1001, 1000, 1000, 3]);
        let many: Vec<Vec<u8>> =
            lengths.enumerate().map(|(index, length)| vec![index as u8; length]).collect();
        let (remote, local) = (Some(receiver.address()), sender.address().ip());
        let datagrams: Vec<_> =
            many.iter().map(|bytes| Outgoing { remote, local, bytes }).collect();
        Outbox::default().send(&sender, &datagrams, |_| panic!("refused"));
        let received = receive(&mut Inbox::new(MAX_DATAGRAM), &receiver, many.len());
        assert!(received.iter().map(|(_, bytes)| bytes).eq(&many));
    }

    #[test]
    fn what_cannot_go_joined_goes_alone() {
        let segmenting = Options { is_segmenting: true, ..Options::default() };
        let socket = Socket::bind("127.0.0.1:0".parse().unwrap(), segmenting).unwrap();
        let local = socket.address().ip();
        // Without a checksum the kernel joins nothing.
        let no_checksum = 1;
        // SAFETY: the option is an int, and so is what is pointed to.
        let result = unsafe {
            libc::setsockopt(
                socket.fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_NO_CHECK,
                (&raw const no_checksum).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        assert_eq!(result, 0);
        let one = Outgoing { remote: Some(socket.address()), local, bytes: b"once" };
        let mut outbox = Outbox::default();
        outbox.send(&socket, &[one; 5], |_| panic!("refused"));
        assert_eq!(receive(&mut Inbox::new(100), &socket, 5).len(), 5);
        assert!(outbox.refuses_segments);
    }

    #[test]
    fn a_timed_socket_tells_when_a_datagram_came_and_how_many_were_dropped() {
        let options = Options { is_timed: true, receive_buffer: 4096, ..Options::default() };
        let socket = Socket::bind("127.0.0.1:0".parse().unwrap(), options).unwrap();
        let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let before = now();
        let bytes = [0; 1000];
        let datagrams = [Outgoing {
            remote: Some(socket.address()),
            local: socket.address().ip(),
            bytes: &bytes,
        }; BATCH];
        let mut outbox = Outbox::default();
        outbox.send(&socket, &datagrams, |_| panic!("refused"));
        let mut inbox = Inbox::new(2000);
        let mut times = Vec::new();
        inbox.receive(&socket, |received| times.push(received.at.unwrap())).unwrap();
        assert!(times.len() < BATCH, "the buffer is small");
        assert!(times.iter().all(|&at| at >= before && at <= now()));
        outbox.send(&socket, &datagrams[..1], |_| panic!("refused"));
        let mut dropped = 0;
        inbox.receive(&socket, |received| dropped = received.dropped).unwrap();
        assert_eq!(dropped as usize, BATCH - times.len());
    }
}
