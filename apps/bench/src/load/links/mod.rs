//! The sockets and connections of a worker.

mod tcp;
mod udp;

use super::engine::{Output, Place};
use clap::ValueEnum;
use net::{Clock, wall_clock};
use nix::sys::epoll::EpollEvent;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use serde::{Deserialize, Serialize};
use sip::{Duration, Instant, Transport};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use tcp::TcpLinks;
use udp::UdpLinks;

/// How many sockets a load comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Sharing {
    /// One socket or connection for each thread
    #[default]
    Thread,
    /// One for each user
    User,
    /// A new connection for each operation (TCP): measures connection rates
    Operation,
}

/// Why there is no socket.
#[derive(Debug)]
pub(crate) enum LinkError {
    /// There is no way from here to the server.
    NoRoute(SocketAddr, io::Error),
    /// A socket could not be made.
    Socket(IpAddr, io::Error),
    /// The server took no connection.
    Connect(SocketAddr, io::Error),
    /// Sockets for single operations are connections.
    OperationNeedsTcp,
    /// The system allows fewer open files than there are to be sockets.
    TooMany {
        /// Sockets that were asked for.
        wanted: usize,
        /// Files that may be open.
        allowed: u64,
    },
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoute(target, error) => write!(f, "no way to {target}: {error}"),
            Self::Socket(address, error) => write!(f, "no socket on {address}: {error}"),
            Self::Connect(target, error) => {
                write!(f, "no TCP connection to {target}: {error}; is the server running?")
            }
            Self::OperationNeedsTcp => {
                f.write_str("--sockets operation needs a tcp: target; over UDP take thread or user")
            }
            Self::TooMany { wanted, allowed } => write!(
                f,
                "{wanted} sockets are wanted and {allowed} open files allowed; raise it with \
                 'ulimit -n' or take fewer users"
            ),
        }
    }
}

impl std::error::Error for LinkError {}

/// What a worker's sockets are made from.
#[derive(Clone, Debug)]
pub(crate) struct LinkPlan {
    pub(crate) target: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) sharing: Sharing,
    /// Whether datagrams of one length go to the kernel as one, where there is one socket.
    pub(crate) is_segmenting: bool,
    /// Users of this worker.
    pub(crate) users: usize,
    /// The address of ours that the target is reached from.
    pub(crate) local: IpAddr,
}

/// A message that came in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    /// When, by the kernel's account. What is read from a connection in one piece has the time of
    /// its last part.
    pub(crate) received: Instant,
    pub(crate) link: u32,
    pub(crate) remote: SocketAddr,
    pub(crate) bytes: &'a [u8],
}

/// What went over the links, and what went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkCounts {
    /// Datagrams that the kernel dropped because nobody took them in time.
    pub(crate) drops: u64,
    /// Messages that could not be sent.
    pub(crate) unsent: u64,
    /// How often the server's machine told that nobody listens there.
    #[serde(default)]
    pub(crate) refused: u64,
    /// Connections that were opened.
    pub(crate) connections: u64,
    /// Messages sent and received, and how many octets they had.
    pub(crate) sent: u64,
    pub(crate) sent_octets: u64,
    pub(crate) received: u64,
    pub(crate) received_octets: u64,
}

impl LinkCounts {
    /// Both together.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            drops: self.drops + other.drops,
            unsent: self.unsent + other.unsent,
            refused: self.refused + other.refused,
            connections: self.connections + other.connections,
            sent: self.sent + other.sent,
            sent_octets: self.sent_octets + other.sent_octets,
            received: self.received + other.received,
            received_octets: self.received_octets + other.received_octets,
        }
    }

    /// What came after `before`.
    pub(crate) const fn since(self, before: Self) -> Self {
        Self {
            drops: self.drops - before.drops,
            unsent: self.unsent - before.unsent,
            refused: self.refused - before.refused,
            connections: self.connections - before.connections,
            sent: self.sent - before.sent,
            sent_octets: self.sent_octets - before.sent_octets,
            received: self.received - before.received,
            received_octets: self.received_octets - before.received_octets,
        }
    }
}

/// All sockets of a worker.
pub(crate) enum Links {
    Udp(UdpLinks),
    Tcp(TcpLinks),
}

impl Links {
    /// Opens them.
    ///
    /// # Errors
    /// [`LinkError`] where one cannot be had.
    pub(crate) fn open(plan: &LinkPlan, clock: Clock) -> Result<Self, LinkError> {
        match plan.transport {
            Transport::Udp => UdpLinks::open(plan, clock).map(Self::Udp),
            _ => TcpLinks::open(plan, clock).map(Self::Tcp),
        }
    }

    /// What each link is called in messages, by number.
    pub(crate) fn places(&self) -> Vec<Place> {
        match self {
            Self::Udp(links) => links.places(),
            Self::Tcp(links) => links.places(),
        }
    }

    /// The link by which the requests of the user at `index` leave.
    pub(crate) fn way_of(&self, index: usize) -> u32 {
        match self {
            Self::Udp(links) => links.way_of(index),
            Self::Tcp(links) => links.link_of(index),
        }
    }

    /// The link where the user at `index` is to be called.
    pub(crate) fn link_of(&self, index: usize) -> u32 {
        match self {
            Self::Udp(links) => links.link_of(index),
            Self::Tcp(links) => links.link_of(index),
        }
    }

    /// A link for one operation alone, where each has its own.
    pub(crate) fn link_for_operation(&mut self) -> Option<u32> {
        match self {
            Self::Udp(_) => None,
            Self::Tcp(links) => links.link_for_operation(),
        }
    }

    /// Sends what is in `out`, which it may bring into another order, and closes the links of
    /// operations that are over.
    pub(crate) fn send(&mut self, out: &mut Output) {
        match self {
            Self::Udp(links) => links.send(out),
            Self::Tcp(links) => links.send(out),
        }
    }

    /// Takes a batch of what has come, and hands each message to `each`. Whether there may be more.
    pub(crate) fn receive(&mut self, each: &mut dyn FnMut(Incoming<'_>)) -> bool {
        match self {
            Self::Udp(links) => links.receive(each),
            Self::Tcp(links) => links.receive(each),
        }
    }

    /// Whether each message has a time of receipt of its own, however late it is read.
    pub(crate) const fn are_timed(&self) -> bool {
        match self {
            Self::Udp(_) => true,
            Self::Tcp(_) => false,
        }
    }

    /// Waits until something comes, at most for `longest`.
    pub(crate) fn wait_for_messages(&mut self, longest: Duration) {
        let fd = match self {
            Self::Udp(links) => links.poll_fd(),
            Self::Tcp(links) => links.poll_fd(),
        };
        wait_readable(fd, longest);
    }

    /// The counts so far.
    pub(crate) fn counts(&self) -> LinkCounts {
        match self {
            Self::Udp(links) => links.counts(),
            Self::Tcp(links) => links.counts(),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Udp(links) => links.len(),
            Self::Tcp(links) => links.len(),
        }
    }
}

/// The kernel's times are those of the wall clock, which may be set; ours is not. Both are read
/// anew for each batch: what lies between would be missing from every delay.
#[derive(Clone, Copy)]
struct Clocks {
    now: Instant,
    wall: Instant,
}

impl Clocks {
    fn read(clock: &Clock) -> Self {
        // In this order: what stops the thread in between makes delays longer, and not shorter.
        let wall = wall_clock();
        Self { now: clock.now(), wall }
    }

    /// Our time when the kernel's was `at`; that of reading, if the kernel says none.
    fn time_of(&self, at: Option<std::time::Duration>) -> Instant {
        let at = at.map_or(self.wall, |at| Instant::from_micros(at.as_micros() as u64));
        // What came since the clocks were read came later than now.
        self.now + at.since(self.wall) - self.wall.since(at)
    }
}

fn wait_readable(fd: BorrowedFd<'_>, longest: Duration) {
    use nix::poll::{PollFd, PollFlags, ppoll};
    let mut fds = [PollFd::new(fd, PollFlags::POLLIN)];
    let micros = i64::try_from(longest.as_micros()).unwrap_or(i64::MAX / 1000);
    let timeout = TimeSpec::from_duration(std::time::Duration::from_micros(micros as u64));
    // Interrupted or not, the caller looks what there is.
    let _ = ppoll(&mut fds, Some(timeout), None);
}

/// Sleeps until `when` by the monotonic clock, whose time now is that of `now`.
pub(crate) fn sleep(span: Duration) {
    let span = std::time::Duration::from_micros(span.as_micros());
    // Woken early, the caller looks at the clock.
    let _ = clock_nanosleep(
        ClockId::CLOCK_MONOTONIC,
        ClockNanosleepFlags::empty(),
        &TimeSpec::from_duration(span),
    );
}

/// `address` as it stands in Via and in URIs.
fn host_port(address: SocketAddr) -> Vec<u8> {
    address.to_string().into_bytes()
}

/// Empty events for a call of `epoll_wait`.
fn no_events() -> Vec<EpollEvent> {
    vec![EpollEvent::empty(); net::BATCH]
}

fn epoll_fd(epoll: &nix::sys::epoll::Epoll) -> BorrowedFd<'_> {
    epoll.0.as_fd()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_times_become_ours() {
        let (now, wall) = (Instant::from_micros(5_000_000), Instant::from_micros(90_000_000));
        let clocks = Clocks { now, wall };
        let time_of = |micros| clocks.time_of(Some(std::time::Duration::from_micros(micros)));
        assert_eq!(time_of(90_000_000), now);
        assert_eq!(time_of(89_999_000), Instant::from_micros(4_999_000));
        assert_eq!(time_of(90_000_700), Instant::from_micros(5_000_700));
        assert_eq!(clocks.time_of(None), now);
    }
}
