//! The transaction state machines of RFC 3261 section 17, with the Accepted state of RFC 6026.
//!
//! A transaction here is a small value: a state and two moments in time. It holds no message; its
//! owner keeps the bytes to send again, finds the transaction that a message belongs to, and asks
//! here what is to be done. `now` may be late: what is overdue happens once, never in a burst.

mod client;
mod key;
mod server;
#[cfg(test)]
mod tests;

pub use client::{ClientAction, ClientTransaction};
pub use key::{client_key, server_key};
pub use server::ServerTransaction;

use crate::{Deadline, Duration, Instant};

/// The base values that all timers of RFC 3261 are made from (section 17.1.1.2 and appendix A).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Estimate of the round-trip time, and the first interval of retransmission.
    pub t1: Duration,
    /// The longest interval of retransmission for all but INVITE requests. Counts as `t1` if less.
    pub t2: Duration,
    /// The longest that a message stays in the network.
    pub t4: Duration,
}

impl Default for Timers {
    /// 500 ms, 4 s and 5 s, as in the RFC.
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
/// Timer C, the patience of a proxy with a ringing phone, belongs to the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// INVITE client: the request again, at first.
    A,
    /// INVITE client: no response at all.
    B,
    /// INVITE client: wait for repeated final responses.
    D,
    /// Non-INVITE client: the request again, at first.
    E,
    /// Non-INVITE client: no final response.
    F,
    /// INVITE server: the final response again, at first.
    G,
    /// INVITE server: no ACK.
    H,
    /// INVITE server: wait for repeated ACKs.
    I,
    /// Non-INVITE server: wait for repeated requests.
    J,
    /// Non-INVITE client: wait for repeated final responses.
    K,
    /// INVITE server: wait for repeated requests, and ACKs, after a 2xx.
    L,
    /// INVITE client: wait for more 2xx.
    M,
}

impl Timer {
    /// How long after its start the timer fires; `None` if it is not used over such a transport.
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

/// Whether a transaction is of an INVITE or of another method. ACK has none of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// INVITE: figures 5 and 7 of RFC 3261, as amended by RFC 6026.
    Invite,
    /// Any other method but ACK: figures 6 and 8.
    NonInvite,
}

/// The states of the four machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// INVITE client: nothing has come back.
    Calling,
    /// Non-INVITE: no response has come back, or been sent.
    Trying,
    /// Provisional responses at most. An INVITE server starts here.
    Proceeding,
    /// There was a final response; to an INVITE, one from 300 to 699.
    Completed,
    /// INVITE server: the ACK has come.
    Confirmed,
    /// INVITE: there was a 2xx.
    Accepted,
    /// Over. The owner drops the transaction.
    Terminated,
}

/// What a timer that has fired asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Timeout {
    /// No timer is due.
    None,
    /// Send the request (client) or the last response (server) once more.
    Retransmit,
    /// The peer was silent too long (timers B, F, H): tell the transaction user. The transaction
    /// is over.
    TimedOut,
    /// The transaction is over, with nothing to tell (timers D, I, J, K, L, M).
    Terminated,
}

/// When to send again, and when to stop waiting.
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

    /// `None` spans never fire.
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

    /// What is due; after a retransmission the next one follows `interval` later.
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

/// `state` with a clock that ends it after `timer`; at once over if that is no time at all.
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
