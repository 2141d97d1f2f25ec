//! The transaction state machines of RFC 3261 section 17, with the Accepted state of RFC 6026.
//!
//! A transaction is a small value: a state and two due times, without messages. Its owner stores
//! the message to retransmit, finds the transaction of a message, and gets actions from the
//! transaction. `now` may be late: an overdue timer fires once.

mod client;
mod key;
mod server;
#[cfg(test)]
mod tests;

pub use client::{ClientAction, ClientTransaction};
pub use key::{client_key, server_key};
pub use server::ServerTransaction;

use crate::{Deadline, Duration, Instant};

/// The base values of all timers (RFC 3261 section 17.1.1.2 and appendix A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// The estimated round-trip time, and the initial retransmission interval.
    pub t1: Duration,
    /// The maximum retransmission interval of non-INVITE requests. At least `t1`.
    pub t2: Duration,
    /// The maximum lifetime of a message in the network.
    pub t4: Duration,
}

impl Default for Timers {
    /// 500 ms, 4 s and 5 s (RFC 3261).
    fn default() -> Self {
        Self {
            t1: Duration::from_millis(500),
            t2: Duration::from_secs(4),
            t4: Duration::from_secs(5),
        }
    }
}

impl Timers {
    fn longest_interval(&self) -> Duration {
        self.t2.max(self.t1)
    }
}

/// The timers by their letters (RFC 3261 appendix A, table 4; L and M: RFC 6026 section 8.11).
///
/// Timer C, which limits the ringing time, belongs to the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// INVITE client: retransmission of the request, first interval.
    A,
    /// INVITE client: no response.
    B,
    /// INVITE client: wait for retransmitted final responses.
    D,
    /// Non-INVITE client: retransmission of the request, first interval.
    E,
    /// Non-INVITE client: no final response.
    F,
    /// INVITE server: retransmission of the final response, first interval.
    G,
    /// INVITE server: no ACK.
    H,
    /// INVITE server: wait for retransmitted ACKs.
    I,
    /// Non-INVITE server: wait for retransmitted requests.
    J,
    /// Non-INVITE client: wait for retransmitted final responses.
    K,
    /// INVITE server: wait for retransmitted requests and ACKs after a 2xx.
    L,
    /// INVITE client: wait for further 2xx responses.
    M,
}

impl Timer {
    /// The duration of the timer. `None` if it is not used with such a transport.
    #[must_use]
    pub fn span(self, timers: &Timers, reliable: bool) -> Option<Duration> {
        let t1_times_64 = timers.t1.times(64);
        match (self, reliable) {
            (Self::A | Self::E | Self::G, false) => Some(timers.t1),
            (Self::A | Self::E | Self::G, true) => None,
            (Self::B | Self::F | Self::H | Self::L | Self::M, _) => Some(t1_times_64),
            (Self::D, false) => Some(t1_times_64.max(Duration::from_secs(32))),
            (Self::J, false) => Some(t1_times_64),
            (Self::I | Self::K, false) => Some(timers.t4),
            (Self::D | Self::I | Self::J | Self::K, true) => Some(Duration::ZERO),
        }
    }
}

/// The kind of transaction. ACK has no transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionKind {
    /// INVITE: figures 5 and 7 of RFC 3261, as amended by RFC 6026.
    Invite,
    /// Any other method except ACK: figures 6 and 8.
    NonInvite,
}

/// The states of the four machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// INVITE client: no response received.
    Calling,
    /// Non-INVITE: no response received or sent.
    Trying,
    /// Only provisional responses. The initial state of an INVITE server.
    Proceeding,
    /// A final response; to an INVITE, one from 300 to 699.
    Completed,
    /// INVITE server: the ACK was received.
    Confirmed,
    /// INVITE: a 2xx.
    Accepted,
    /// The transaction has ended and is dropped by its owner.
    Terminated,
}

/// The action of a fired timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum TimerAction {
    /// No timer is due.
    None,
    /// Retransmit the request (client) or the last response (server).
    Retransmit,
    /// The peer did not answer in time (timers B, F, H): inform the transaction user. The
    /// transaction has ended.
    TimedOut,
    /// The transaction has ended silently (timers D, I, J, K, L, M).
    Terminated,
}

/// The retransmission timer and the end of the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Clock {
    retransmit: Deadline,
    interval: Duration,
    end: Deadline,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Nothing,
    Retransmit,
    End,
}

impl Clock {
    const STOPPED: Self =
        Self { retransmit: Deadline::NEVER, interval: Duration::ZERO, end: Deadline::NEVER };

    /// A timer without a duration never fires.
    fn start(now: Instant, interval: Option<Duration>, end: Option<Duration>) -> Self {
        Self {
            retransmit: interval.map(|span| now + span).into(),
            interval: interval.unwrap_or(Duration::ZERO),
            end: end.map(|span| now + span).into(),
        }
    }

    fn next(&self) -> Option<Instant> {
        self.retransmit.min(self.end).time()
    }

    /// The due action. After a retransmission the next one follows after `interval`.
    fn poll(&mut self, now: Instant, interval: impl Fn(Duration) -> Duration) -> Due {
        if self.end.passed(now).is_some() {
            *self = Self::STOPPED;
            return Due::End;
        }
        let Some(due) = self.retransmit.passed(now) else { return Due::Nothing };
        self.interval = interval(self.interval);
        let on_schedule = due + self.interval;
        let next = if on_schedule > now { on_schedule } else { now + self.interval };
        self.retransmit = next.into();
        Due::Retransmit
    }
}

/// `state` with a clock that ends it after `timer`. Ends at once if the duration is zero.
fn wait(
    state: State,
    timer: Timer,
    timers: &Timers,
    reliable: bool,
    now: Instant,
) -> (State, Clock) {
    match timer.span(timers, reliable) {
        Some(Duration::ZERO) => (State::Terminated, Clock::STOPPED),
        span => (state, Clock::start(now, None, span)),
    }
}
