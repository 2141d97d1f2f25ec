//! Receiving datagrams.

use super::control::{CONTROL_WORDS, read_controls};
use super::{MAX_ATTEMPTS, Socket};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The size of a cache line of the processor, in bytes.
const CACHE_LINE: usize = 64;

/// The buffers of received datagrams.
pub struct Inbox {
    longest: usize,
    /// The distance between the buffers of two datagrams, in bytes.
    stride: usize,
    bytes: Vec<u8>,
    names: Vec<libc::sockaddr_storage>,
    controls: Vec<[u64; CONTROL_WORDS]>,
    slices: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    /// The number of headers that the kernel changed in the last call.
    changed: usize,
}

// SAFETY: the pointers in `slices` and `headers` point into the vectors beside them. The heap
// memory of these vectors stays in place when they move, as they never grow. The pointers are used
// in calls of `receive` only.
unsafe impl Send for Inbox {}

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The address of the sender.
    pub remote: SocketAddr,
    /// The local address to which it was sent.
    pub local: SocketAddr,
    /// The payload.
    pub bytes: &'a [u8],
    /// The time of its arrival by the wall clock, since the Unix epoch, if the socket is timed.
    pub at: Option<Duration>,
    /// The number of datagrams that the kernel has dropped on this socket so far, if the socket is
    /// timed. 0 if it has not dropped any.
    pub dropped: u32,
}

impl Inbox {
    /// Buffers for `places` datagrams of at most `longest` bytes. Longer datagrams are truncated. A
    /// socket that is [coalescing](super::Options::is_coalescing) needs buffers of
    /// [`MAX_DATAGRAM`](super::MAX_DATAGRAM) bytes.
    #[must_use]
    pub fn new(places: usize, longest: usize) -> Self {
        // SAFETY: these C structures are valid when all their bytes are zero.
        let (name, slice, header) = unsafe {
            (
                MaybeUninit::<libc::sockaddr_storage>::zeroed().assume_init(),
                MaybeUninit::<libc::iovec>::zeroed().assume_init(),
                MaybeUninit::<libc::mmsghdr>::zeroed().assume_init(),
            )
        };
        // At distances of a power of two all buffers would compete for the same few cache lines.
        let stride = longest.next_multiple_of(CACHE_LINE) + 17 * CACHE_LINE;
        Self {
            longest,
            stride,
            bytes: vec![0; places * stride],
            names: vec![name; places],
            controls: vec![[0; CONTROL_WORDS]; places],
            slices: vec![slice; places],
            headers: vec![header; places],
            changed: places,
        }
    }

    /// Receives the datagrams that wait in `socket`, as many as there are buffers, and passes each
    /// to `each`. Returns the number of buffers used. Several datagrams received as one use one
    /// buffer. If all buffers are used, more datagrams may wait.
    ///
    /// # Errors
    /// The socket has failed. An empty queue is not an error.
    pub fn receive(
        &mut self,
        socket: &Socket,
        each: impl FnMut(Received<'_>),
    ) -> io::Result<usize> {
        self.receive_into(self.headers.len(), socket, each)
    }

    /// Like [`receive`](Self::receive), with at most `places` buffers.
    ///
    /// # Errors
    /// The socket has failed. An empty queue is not an error.
    pub fn receive_into(
        &mut self,
        places: usize,
        socket: &Socket,
        mut each: impl FnMut(Received<'_>),
    ) -> io::Result<usize> {
        let places = places.min(self.headers.len());
        let mut attempts = 0;
        let received = loop {
            attempts += 1;
            match self.receive_once(places, socket) {
                Ok(received) => break received,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => return Ok(0),
                    // The ICMP error of an earlier datagram. Datagrams may wait behind it.
                    kind if attempts < MAX_ATTEMPTS => socket.note(kind),
                    io::ErrorKind::ConnectionRefused => return Ok(0),
                    _ => return Err(error),
                },
            }
        };
        for index in 0..received.min(self.headers.len()) {
            let header = &self.headers[index];
            let Some(remote) = read_name(&self.names[index]) else { continue };
            let told = read_controls(&header.msg_hdr);
            if told.dropped > 0 {
                socket.dropped.store(told.dropped, Ordering::Relaxed);
            }
            let start = index * self.stride;
            let all = &self.bytes[start..start + (header.msg_len as usize).min(self.longest)];
            let local = told.local.unwrap_or(socket.address.ip());
            let local = SocketAddr::new(local, socket.address.port());
            let mut take = |bytes| {
                each(Received { remote, local, bytes, at: told.at, dropped: told.dropped });
            };
            match told.segment {
                Some(length) => all.chunks(length).for_each(take),
                None => take(all),
            }
        }
        Ok(received)
    }

    /// Calls recvmmsg for at most `places` datagrams, and returns the number of headers that the
    /// kernel filled.
    fn receive_once(&mut self, places: usize, socket: &Socket) -> io::Result<usize> {
        for index in 0..self.changed {
            self.slices[index] = libc::iovec {
                iov_base: self.bytes[index * self.stride..].as_mut_ptr().cast(),
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
        // SAFETY: the count is at most that of the headers. Each header points to a name, a slice
        // of `longest` bytes and a control buffer of the stated sizes. They live in `self`, in
        // vectors that never grow, and are not otherwise accessed during the call.
        let received = unsafe {
            libc::recvmmsg(
                socket.fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                places as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        self.changed = if received < 0 { self.headers.len() } else { received as usize };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }
}

fn read_name(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: by its family the address is a sockaddr_in, which is smaller than the
            // storage.
            let name = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
            Some(SocketAddr::new(ip.into(), u16::from_be(name.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for a sockaddr_in6.
            let name = unsafe { &*(&raw const *name).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
            let port = u16::from_be(name.sin6_port);
            Some(SocketAddrV6::new(ip, port, 0, name.sin6_scope_id).into())
        }
        _ => None,
    }
}
