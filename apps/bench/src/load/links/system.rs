//! System interfaces of links: clocks and waiting.

use net::{Clock, wall_clock};
use nix::sys::epoll::EpollEvent;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use sip::{Duration, Instant};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// The kernel's timestamps are of the wall clock, which may be set; the clock of the load is not.
/// Both are read for each batch: a difference between them would be missing from every delay.
#[derive(Clone, Copy)]
pub(crate) struct Clocks {
    pub(super) now: Instant,
    wall: Instant,
}

impl Clocks {
    pub(crate) fn read(clock: &Clock) -> Self {
        // This order makes delays longer, not shorter, if the thread is preempted in between.
        let wall = wall_clock();
        Self { now: clock.now(), wall }
    }

    /// Converts the kernel's time `at` to the clock of the load; without one, the time of reading.
    pub(crate) fn time_of(&self, at: Option<std::time::Duration>) -> Instant {
        let at = at.map_or(self.wall, |at| Instant::ZERO + Duration::from(at));
        // A message that came after the reading of the clocks is later than now.
        self.now + at.since(self.wall) - self.wall.since(at)
    }
}

/// Waits until one of the descriptors is readable, at most for `longest`.
pub(crate) fn wait_readable<const N: usize>(fds: [BorrowedFd<'_>; N], longest: Duration) {
    use nix::poll::{PollFd, PollFlags, ppoll};
    let mut fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    let micros = i64::try_from(longest.as_micros()).unwrap_or(i64::MAX / 1000);
    let timeout = TimeSpec::from_duration(std::time::Duration::from_micros(micros as u64));
    // The caller checks for messages, interrupted or not.
    let _ = ppoll(&mut fds, Some(timeout), None);
}

/// Sleeps for `span` of the monotonic clock.
pub(crate) fn sleep(span: Duration) {
    // The caller checks the clock after an early wake-up.
    let _ = clock_nanosleep(
        ClockId::CLOCK_MONOTONIC,
        ClockNanosleepFlags::empty(),
        &TimeSpec::from_duration(span.into()),
    );
}

/// Returns `address` in the form of Via and URIs.
pub(super) fn host_port(address: SocketAddr) -> Vec<u8> {
    address.to_string().into_bytes()
}

/// Returns empty events for a call of `epoll_wait`.
pub(super) fn no_events() -> Vec<EpollEvent> {
    vec![EpollEvent::empty(); net::BATCH]
}

pub(super) fn epoll_fd(epoll: &nix::sys::epoll::Epoll) -> BorrowedFd<'_> {
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
