//! Server transactions: RFC 3261 section 17.2, figures 7 and 8; RFC 6026 section 8.5.

use super::{Clock, Due, Kind, State, Timeout, Timer, Timers};
use crate::Instant;

/// The receiving side of a request, from the moment the request came first.
///
/// That an INVITE is answered 100 (Trying) if nothing else is within 200 ms is the owner's business
/// (section 17.2.1): it sends the 100 by [`ServerTransaction::on_response`] like any other.
/// So is the repetition of a 2xx until its ACK comes (section 13.3.1.4): each goes through
/// [`ServerTransaction::on_response`] too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerTransaction {
    kind: Kind,
    reliable: bool,
    state: State,
    clock: Clock,
}

impl ServerTransaction {
    /// The transaction of a request that came over a reliable transport or not. It has no timer
    /// until a final response is sent.
    #[must_use]
    pub fn new(kind: Kind, reliable: bool) -> Self {
        let state = match kind {
            Kind::Invite => State::Proceeding,
            Kind::NonInvite => State::Trying,
        };
        Self { kind, reliable, state, clock: Clock::STOPPED }
    }

    /// The request has come again. Whether to send the last response again, if there was one.
    #[must_use]
    pub fn on_request_retransmission(&self) -> bool {
        matches!(self.state, State::Proceeding | State::Completed)
    }

    /// The transaction user gives a response. Whether to send it; what comes too late is discarded.
    ///
    /// A proxy that has to forward a 2xx to an INVITE after another final response (section 16.7,
    /// step 5) sends it past the transaction.
    #[must_use]
    pub fn on_response(&mut self, status: u16, timers: &Timers, now: Instant) -> bool {
        match (self.state, self.kind, status) {
            (State::Trying | State::Proceeding, _, ..200) => {
                self.state = State::Proceeding;
                true
            }
            (State::Proceeding, Kind::Invite, 200..300) => {
                self.wait(State::Accepted, Timer::L, timers, now);
                true
            }
            (State::Proceeding, Kind::Invite, 300..) => {
                self.state = State::Completed;
                self.clock = Clock::start(
                    now,
                    Timer::G.span(timers, self.reliable),
                    Timer::H.span(timers, self.reliable),
                );
                true
            }
            (State::Trying | State::Proceeding, Kind::NonInvite, 200..) => {
                self.wait(State::Completed, Timer::J, timers, now);
                true
            }
            (State::Accepted, _, 200..300) => true,
            _ => false,
        }
    }

    /// An ACK for the INVITE has come. Whether it is for the transaction user, as after a 2xx.
    #[must_use]
    pub fn on_ack(&mut self, timers: &Timers, now: Instant) -> bool {
        if self.kind == Kind::Invite && self.state == State::Completed {
            self.wait(State::Confirmed, Timer::I, timers, now);
        }
        self.state == State::Accepted
    }

    /// A response could not be sent. Whether the transaction user is to be told.
    ///
    /// An INVITE transaction goes on, since RFC 6026: the request may come again, and sending then
    /// succeed. One of another method is over (figure 8), as [`ServerTransaction::state`] says.
    pub fn on_transport_error(&mut self) -> bool {
        let tell = matches!(self.state, State::Proceeding | State::Completed | State::Accepted);
        if tell && self.kind == Kind::NonInvite {
            self.state = State::Terminated;
            self.clock = Clock::STOPPED;
        }
        tell
    }

    /// What is due at `now`. To be called until it is [`Timeout::None`].
    pub fn poll(&mut self, timers: &Timers, now: Instant) -> Timeout {
        match self.clock.poll(now, |last| last.times(2).min(timers.longest_interval())) {
            Due::Nothing => Timeout::None,
            Due::Retransmit => Timeout::Retransmit,
            Due::End => {
                let unacknowledged = self.kind == Kind::Invite && self.state == State::Completed;
                self.state = State::Terminated;
                if unacknowledged { Timeout::TimedOut } else { Timeout::Terminated }
            }
        }
    }

    /// When to call [`ServerTransaction::poll`] next.
    #[must_use]
    pub fn next_timer(&self) -> Option<Instant> {
        self.clock.next()
    }

    /// Whether its only timer is one that ends it, with nothing to send or to tell then.
    #[must_use]
    pub fn only_waits(&self) -> bool {
        match self.state {
            State::Accepted | State::Confirmed | State::Terminated => true,
            State::Completed => self.kind == Kind::NonInvite,
            _ => false,
        }
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// INVITE or not.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    fn wait(&mut self, state: State, timer: Timer, timers: &Timers, now: Instant) {
        (self.state, self.clock) = super::wait(state, timer, timers, self.reliable, now);
    }
}
