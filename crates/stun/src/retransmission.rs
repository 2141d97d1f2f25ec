//! The retransmissions of a request (RFC 8489 section 6.2).

use core::time::Duration;

/// The initial retransmission timeout (RTO). It doubles with each request.
const RETRANSMISSION: Duration = Duration::from_millis(500);
/// The number of requests sent (Rc).
const REQUESTS: u32 = 7;
/// The wait for a response to the last request, as a multiple of [`RETRANSMISSION`] (Rm).
const LAST_WAIT: u32 = 16;
/// The wait for a response on a connection (Ti), where the request is sent once.
const ON_STREAM: Duration = Duration::from_millis(39_500);

/// The action that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Send the request.
    Send,
    /// Nothing to do until [`Retransmission::next`].
    Wait,
    /// No response arrived in 39.5 s.
    TimedOut,
}

/// The times at which a request is sent.
#[derive(Clone, Debug)]
pub(crate) struct Retransmission {
    sent: u32,
    next: Duration,
    is_on_stream: bool,
}

impl Retransmission {
    /// A request that is sent at `now`, in datagrams or on a stream.
    pub(crate) const fn new(now: Duration, is_on_stream: bool) -> Self {
        Self { sent: 0, next: now, is_on_stream }
    }

    /// The time of the next action.
    pub(crate) const fn next(&self) -> Duration {
        self.next
    }

    /// Returns true if the request was sent.
    pub(crate) const fn is_sent(&self) -> bool {
        self.sent > 0
    }

    /// Returns the action at `now`.
    pub(crate) fn poll(&mut self, now: Duration) -> Due {
        if now < self.next {
            return Due::Wait;
        }
        let requests = if self.is_on_stream { 1 } else { REQUESTS };
        if self.sent == requests {
            return Due::TimedOut;
        }
        let is_last = self.sent + 1 == REQUESTS;
        let wait = if is_last { LAST_WAIT } else { 1 << self.sent };
        self.sent += 1;
        self.next = now + if self.is_on_stream { ON_STREAM } else { RETRANSMISSION * wait };
        Due::Send
    }
}
