//! Server transactions: RFC 3261 section 17.2, figures 7 and 8; RFC 6026 section 8.5.

use super::{Clock, Due, State, Timer, TimerAction, Timers, TransactionKind};
use crate::Instant;

/// The server transaction of a request, from its first reception on.
///
/// The owner sends a 100 (Trying) for an INVITE without another response within 200 ms (section
/// 17.2.1), by [`ServerTransaction::on_response`] as any other response. It also retransmits a 2xx
/// until its ACK (section 13.3.1.4), each time by [`ServerTransaction::on_response`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerTransaction {
    kind: TransactionKind,
    reliable: bool,
    state: State,
    clock: Clock,
}

impl ServerTransaction {
    /// Creates the transaction of a received request, over a reliable transport or not. It has no
    /// timer before a final response.
    #[must_use]
    pub fn new(kind: TransactionKind, reliable: bool) -> Self {
        let state = match kind {
            TransactionKind::Invite => State::Proceeding,
            TransactionKind::NonInvite => State::Trying,
        };
        Self { kind, reliable, state, clock: Clock::STOPPED }
    }

    /// Processes a retransmission of the request. Returns true if the last response has to be
    /// retransmitted.
    #[must_use]
    pub fn on_request_retransmission(&self) -> bool {
        matches!(self.state, State::Proceeding | State::Completed)
    }

    /// Processes a response of the transaction user. Returns true if it has to be sent. A response
    /// after the end is discarded.
    ///
    /// A proxy that forwards a 2xx to an INVITE after another final response (section 16.7, step 5)
    /// bypasses the transaction.
    #[must_use]
    pub fn on_response(&mut self, status: u16, timers: &Timers, now: Instant) -> bool {
        match (self.state, self.kind, status) {
            (State::Trying | State::Proceeding, _, ..200) => {
                self.state = State::Proceeding;
                true
            }
            (State::Proceeding, TransactionKind::Invite, 200..300) => {
                self.wait(State::Accepted, Timer::L, timers, now);
                true
            }
            (State::Proceeding, TransactionKind::Invite, 300..) => {
                self.state = State::Completed;
                self.clock = Clock::start(
                    now,
                    Timer::G.span(timers, self.reliable),
                    Timer::H.span(timers, self.reliable),
                );
                true
            }
            (State::Trying | State::Proceeding, TransactionKind::NonInvite, 200..) => {
                self.wait(State::Completed, Timer::J, timers, now);
                true
            }
            (State::Accepted, _, 200..300) => true,
            _ => false,
        }
    }

    /// Processes an ACK of the INVITE. Returns true if it belongs to the transaction user, as after
    /// a 2xx.
    #[must_use]
    pub fn on_ack(&mut self, timers: &Timers, now: Instant) -> bool {
        if self.kind == TransactionKind::Invite && self.state == State::Completed {
            self.wait(State::Confirmed, Timer::I, timers, now);
        }
        self.state == State::Accepted
    }

    /// Processes a failure to send a response. Returns true if the transaction user has to be
    /// informed.
    ///
    /// An INVITE transaction continues (RFC 6026): the response may be sent successfully after a
    /// retransmission of the request. A non-INVITE transaction ends (figure 8), see
    /// [`ServerTransaction::state`].
    pub fn on_transport_error(&mut self) -> bool {
        let tell = matches!(self.state, State::Proceeding | State::Completed | State::Accepted);
        if tell && self.kind == TransactionKind::NonInvite {
            self.state = State::Terminated;
            self.clock = Clock::STOPPED;
        }
        tell
    }

    /// Returns the action due at `now`. Called until it returns [`TimerAction::None`].
    pub fn poll(&mut self, timers: &Timers, now: Instant) -> TimerAction {
        match self.clock.poll(now, |last| last.times(2).min(timers.longest_interval())) {
            Due::Nothing => TimerAction::None,
            Due::Retransmit => TimerAction::Retransmit,
            Due::End => {
                let unacknowledged =
                    self.kind == TransactionKind::Invite && self.state == State::Completed;
                self.state = State::Terminated;
                if unacknowledged { TimerAction::TimedOut } else { TimerAction::Terminated }
            }
        }
    }

    /// The time of the next call of [`ServerTransaction::poll`].
    #[must_use]
    pub fn next_timer(&self) -> Option<Instant> {
        self.clock.next()
    }

    /// Returns true if the only timer ends the transaction silently.
    #[must_use]
    pub fn only_waits(&self) -> bool {
        match self.state {
            State::Accepted | State::Confirmed | State::Terminated => true,
            State::Completed => self.kind == TransactionKind::NonInvite,
            _ => false,
        }
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// The kind of transaction.
    #[must_use]
    pub fn kind(&self) -> TransactionKind {
        self.kind
    }

    fn wait(&mut self, state: State, timer: Timer, timers: &Timers, now: Instant) {
        (self.state, self.clock) = super::wait(state, timer, timers, self.reliable, now);
    }
}
