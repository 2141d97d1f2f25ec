//! Sending datagrams.

use super::control::{CONTROL_WORDS, write_control, write_local};
use super::{BATCH, MAX_ATTEMPTS, Socket};
use nix::sys::socket::SockaddrStorage;
use smallvec::SmallVec;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering;

/// The maximum length of datagrams that are joined: longer ones might not fit into one packet, and
/// a batch of them might exceed the limit of the kernel.
const LONGEST_SEGMENT: usize = 1000;

/// A datagram to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The destination. `None` is the address to which the socket is connected.
    pub remote: Option<SocketAddr>,
    /// The source address, if the socket is bound to a wildcard address.
    pub local: IpAddr,
    /// The payload.
    pub bytes: &'a [u8],
}

/// The buffers of datagrams to be sent.
#[derive(Default)]
pub struct Outbox {
    names: Vec<SockaddrStorage>,
    controls: Vec<[u64; CONTROL_WORDS]>,
    slices: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    /// The number of datagrams of each header.
    counts: Vec<usize>,
    /// True once the system has rejected joined datagrams.
    pub(super) refuses_segments: bool,
}

// SAFETY: as for Inbox.
unsafe impl Send for Outbox {}

impl Outbox {
    /// Sends `datagrams` with `socket`, in order. Passes those that the system rejects to
    /// `refused`. Datagrams that do not fit into the socket's buffer even after a wait are lost and
    /// counted.
    pub fn send<'a>(
        &mut self,
        socket: &Socket,
        datagrams: impl IntoIterator<Item = Outgoing<'a>>,
        mut refused: impl FnMut(&Outgoing<'a>),
    ) {
        let mut datagrams = datagrams.into_iter();
        loop {
            let batch: SmallVec<[Outgoing<'a>; BATCH]> = datagrams.by_ref().take(BATCH).collect();
            let mut rest = &batch[..];
            while !rest.is_empty() {
                self.prepare(socket, rest);
                rest = self.send_prepared(socket, rest, &mut refused);
            }
            if batch.len() < BATCH {
                return;
            }
        }
    }

    /// Sends the prepared headers. Returns the datagrams to be prepared again, without joining.
    fn send_prepared<'d, 'a>(
        &mut self,
        socket: &Socket,
        mut rest: &'d [Outgoing<'a>],
        refused: &mut impl FnMut(&Outgoing<'a>),
    ) -> &'d [Outgoing<'a>] {
        let mut next = 0;
        let mut waited = false;
        let mut attempts = 0;
        while next < self.headers.len() {
            // SAFETY: `prepare` has created the headers. The memory to which they point lives in
            // `self` and in the datagrams, and is only read.
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
                attempts = 0;
                continue;
            }
            attempts += 1;
            match io::Error::last_os_error().kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock if !waited => {
                    waited = true;
                    wait_until_writable(socket);
                }
                io::ErrorKind::WouldBlock => {
                    let lost = u32::try_from(rest.len()).unwrap_or(u32::MAX);
                    socket.unsent.fetch_add(lost, Ordering::Relaxed);
                    return &[];
                }
                // The ICMP error of an earlier datagram, reported late, or the error of this one.
                kind if attempts < MAX_ATTEMPTS => socket.note(kind),
                _ if self.counts[next] > 1 => {
                    self.refuses_segments = true;
                    return rest;
                }
                _ => {
                    refused(&rest[0]);
                    rest = &rest[1..];
                    next += 1;
                    attempts = 0;
                }
            }
        }
        rest
    }

    /// Creates the headers: one for each datagram or, if the socket is segmenting, one for each run
    /// of datagrams of equal length to one address, which the kernel segments (UDP_SEGMENT).
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
    // If that fails, the next attempt to send reports the error.
    let _ = poll(&mut fds, PollTimeout::from(20u8));
}
