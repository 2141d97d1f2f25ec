//! What links need of the system: its times, and to wait.

use net::{Clock, wall_clock};
use nix::sys::epoll::EpollEvent;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use sip::{Duration, Instant};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

/// The kernel's times are those of the wall clock, which may be set; ours is not. Both are read
/// anew for each batch: what lies between would be missing from every delay.
#[derive(Clone, Copy)]
pub(super) struct Clocks {
    pub(super) now: Instant,
    wall: Instant,
}

impl Clocks {
    pub(super) fn read(clock: &Clock) -> Self {
        // In this order: what stops the thread in between makes delays longer, and not shorter.
        let wall = wall_clock();
        Self { now: clock.now(), wall }
    }

    /// Our time when the kernel's was `at`; that of reading, if the kernel says none.
    pub(super) fn time_of(&self, at: Option<std::time::Duration>) -> Instant {
        let at = at.map_or(self.wall, |at| Instant::from_micros(at.as_micros() as u64));
        // What came since the clocks were read came later than now.
        self.now + at.since(self.wall) - self.wall.since(at)
    }
}

pub(super) fn wait_readable(fd: BorrowedFd<'_>, longest: Duration) {
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
pub(super) fn host_port(address: SocketAddr) -> Vec<u8> {
    address.to_string().into_bytes()
}

/// Empty events for a call of `epoll_wait`.
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
