//! A live capture of a network interface (packet(7)).

use super::file::Frame;
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind,
    recvmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use std::fmt;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// An error of a live capture.
#[derive(Debug)]
pub(crate) enum InterfaceError {
    /// The interface does not exist; with the names of those that exist.
    Unknown(String, Vec<String>),
    /// Root is required.
    NotAllowed(String),
    /// The link type of the interface is not supported (`ARPHRD_` of the kernel).
    Kind(String, u16),
    /// A system call failed.
    System(String, Errno),
}

impl fmt::Display for InterfaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name, known) => {
                write!(f, "there is no interface {name}; there are {}", known.join(", "))
            }
            Self::NotAllowed(name) => write!(
                f,
                "cannot capture on {name}: that needs root, or the capability CAP_NET_RAW"
            ),
            Self::Kind(name, kind) => write!(
                f,
                "the link type of {name} is not supported ({kind}): expected Ethernet, loopback \
                 or IP; \
                 tcpdump -w - -i {name} | barebell-bench capture - may know it"
            ),
            Self::System(name, error) => write!(f, "cannot capture on {name}: {error}"),
        }
    }
}

impl std::error::Error for InterfaceError {}

/// Link types of interfaces (`if_arp.h` of the kernel).
const ETHERNET: u16 = 1;
const LOOPBACK: u16 = 772;
const TUNNEL: u16 = 768;
const TUNNEL6: u16 = 769;
const NONE: u16 = 65_534;

/// The type of a sent packet (`PACKET_OUTGOING`).
const OUTGOING: u8 = 4;

/// The largest packet that is read whole: the kernel captures before segmentation by the card.
const LARGEST: usize = 256 << 10;
/// The size of the kernel's buffer.
const KEPT: usize = 32 << 20;
/// The interval of checks for the end, in milliseconds.
const TURN: u16 = 100;
/// The most packets that are read per check, and at the end.
const BATCH: usize = 1_000;
const LAST: usize = 100_000;

/// A captured interface.
pub(super) struct Interface {
    name: String,
    socket: OwnedFd,
    index: usize,
    is_loopback: bool,
    link: i32,
    /// Packets that the kernel dropped.
    pub(super) dropped: u64,
}

impl Interface {
    /// Opens a live capture of an interface.
    ///
    /// # Errors
    /// See [`InterfaceError`].
    pub(super) fn open(name: &str) -> Result<Self, InterfaceError> {
        let system = |error| InterfaceError::System(name.to_owned(), error);
        let addresses = getifaddrs().map_err(system)?;
        let links: Vec<(String, LinkAddr)> = addresses
            .filter_map(|one| Some((one.interface_name, *one.address?.as_link_addr()?)))
            .collect();
        let Some((_, address)) = links.iter().find(|(known, _)| known == name) else {
            let known = links.into_iter().map(|(known, _)| known).collect();
            return Err(InterfaceError::Unknown(name.to_owned(), known));
        };
        let link = match address.hatype() {
            ETHERNET | LOOPBACK => 1,
            TUNNEL | TUNNEL6 | NONE => 101,
            other => return Err(InterfaceError::Kind(name.to_owned(), other)),
        };
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let every = SockProtocol::EthAll;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, every).map_err(
            |error| match error {
                Errno::EPERM | Errno::EACCES => InterfaceError::NotAllowed(name.to_owned()),
                error => system(error),
            },
        )?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true).map_err(system)?;
        setsockopt(&socket, sockopt::RxqOvfl, &1).map_err(system)?;
        // Without the permission, the default size applies; the kernel counts the drops.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &KEPT);
        bind(socket.as_raw_fd(), address).map_err(system)?;
        Ok(Self {
            name: name.to_owned(),
            socket,
            index: address.ifindex(),
            is_loopback: address.hatype() == LOOPBACK,
            link,
            dropped: 0,
        })
    }

    /// Calls `each` with every packet for the given time, or until `ending` is set.
    ///
    /// # Errors
    /// A system call failed.
    pub(super) fn read(
        &mut self,
        duration: Option<Duration>,
        ending: &AtomicBool,
        mut each: impl FnMut(Frame<'_>),
    ) -> Result<(), InterfaceError> {
        let end = duration.and_then(|duration| Instant::now().checked_add(duration));
        let is_over =
            || end.is_some_and(|end| Instant::now() >= end) || ending.load(Ordering::SeqCst);
        let mut buffer = vec![0; LARGEST];
        let mut control = nix::cmsg_space!(TimeSpec, u32);
        loop {
            let ends = is_over();
            let ready = {
                let mut waited = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
                poll(&mut waited, PollTimeout::from(if ends { 0 } else { TURN }))
            };
            match ready {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(InterfaceError::System(self.name.clone(), error)),
            }
            // Packets in the buffer at the end are read, up to a limit in case packets come faster
            // than they are read.
            for _ in 0..if ends { LAST } else { BATCH } {
                match self.receive(&mut buffer, &mut control, &mut each) {
                    Ok(()) => {}
                    Err(Errno::EAGAIN | Errno::EINTR) => break,
                    Err(error) => return Err(InterfaceError::System(self.name.clone(), error)),
                }
            }
            if ends {
                return Ok(());
            }
        }
    }

    fn receive(
        &mut self,
        buffer: &mut [u8],
        control: &mut [u8],
        each: &mut impl FnMut(Frame<'_>),
    ) -> Result<(), Errno> {
        let mut parts = [IoSliceMut::new(buffer)];
        let fd = self.socket.as_raw_fd();
        let read = recvmsg::<LinkAddr>(fd, &mut parts, Some(control), MsgFlags::empty())?;
        let (mut time, mut dropped) = (None, 0);
        for message in read.cmsgs()? {
            match message {
                ControlMessageOwned::ScmTimestampns(at) => time = Some(Duration::from(at)),
                ControlMessageOwned::RxqOvfl(count) => dropped = count,
                _ => {}
            }
        }
        let is_whole = !read.flags.contains(MsgFlags::MSG_TRUNC);
        let (length, address) = (read.bytes, read.address);
        self.dropped = self.dropped.max(dropped.into());
        let Some(address) = address else { return Ok(()) };
        // Before the bind, the socket received from all interfaces. On loopback, each packet is
        // captured when it is sent and when it is received.
        let is_ours = address.ifindex() == self.index;
        let is_copy = self.is_loopback && address.pkttype() == OUTGOING;
        if let Some(time) = time.filter(|_| is_ours && !is_copy) {
            let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            each(Frame { time, link: self.link, bytes: &buffer[..length], whole: is_whole });
        }
        Ok(())
    }
}
