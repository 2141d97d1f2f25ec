//! Client transactions: RFC 3261 section 17.1, figures 5 and 6; RFC 6026 section 8.4.

use super::{Clock, Due, State, Timer, TimerAction, Timers, TransactionKind};
use crate::Instant;

/// The action for a response of a client transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct ClientAction {
    /// Pass the response to the transaction user. False for a retransmission.
    pub pass_up: bool,
    /// Send the ACK of section 17.1.1.3 to the destination of the INVITE. False for a 2xx, which
    /// the transaction user acknowledges.
    pub send_ack: bool,
    /// The transaction has ended: drop it.
    pub ended: bool,
}

/// The client transaction of a request, from its first transmission on.
///
/// An INVITE transaction in [`State::Proceeding`] has no timer: the transaction user limits the
/// ringing time (timer C of a proxy). It sends a CANCEL, and drops the transaction if no final
/// response arrives within 64*T1 (section 9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientTransaction {
    kind: TransactionKind,
    reliable: bool,
    state: State,
    clock: Clock,
}

impl ClientTransaction {
    /// Creates the transaction of a request sent at `now`, over a reliable transport or not.
    #[must_use]
    pub fn new(kind: TransactionKind, reliable: bool, timers: &Timers, now: Instant) -> Self {
        let (state, again, end) = match kind {
            TransactionKind::Invite => (State::Calling, Timer::A, Timer::B),
            TransactionKind::NonInvite => (State::Trying, Timer::E, Timer::F),
        };
        let clock = Clock::start(now, again.span(timers, reliable), end.span(timers, reliable));
        Self { kind, reliable, state, clock }
    }

    /// Processes a response with this status code.
    ///
    /// A 2xx after another final response to an INVITE, or the reverse, is neither passed up nor
    /// acknowledged (figure 5).
    pub fn on_response(&mut self, status: u16, timers: &Timers, now: Instant) -> ClientAction {
        let waiting = matches!(self.state, State::Calling | State::Trying | State::Proceeding);
        let mut action = ClientAction { pass_up: waiting, ..ClientAction::default() };
        match (self.kind, status) {
            (TransactionKind::Invite, ..200) if waiting => {
                self.state = State::Proceeding;
                self.clock = Clock::STOPPED;
            }
            (TransactionKind::NonInvite, ..200) if waiting => self.state = State::Proceeding,
            (TransactionKind::Invite, 200..300) if waiting => {
                self.wait(State::Accepted, Timer::M, timers, now);
            }
            (TransactionKind::Invite, 200..300) => action.pass_up = self.state == State::Accepted,
            (TransactionKind::Invite, 300..) if waiting => {
                action.send_ack = true;
                self.wait(State::Completed, Timer::D, timers, now);
            }
            (TransactionKind::Invite, 300..) => action.send_ack = self.state == State::Completed,
            (TransactionKind::NonInvite, 200..) if waiting => {
                self.wait(State::Completed, Timer::K, timers, now);
            }
            _ => {}
        }
        action.ended = self.state == State::Terminated;
        action
    }

    /// Processes a failure to send the request or an ACK. Returns true if the transaction user has
    /// to be informed, in which case the transaction has ended.
    ///
    /// The transaction continues if no transmission is needed any more: after a response to an
    /// INVITE, or after a final response to another request.
    pub fn on_transport_error(&mut self) -> bool {
        let fatal = match self.kind {
            TransactionKind::Invite => matches!(self.state, State::Calling | State::Completed),
            TransactionKind::NonInvite => matches!(self.state, State::Trying | State::Proceeding),
        };
        if fatal {
            self.state = State::Terminated;
            self.clock = Clock::STOPPED;
        }
        fatal
    }

    /// Returns the action due at `now`. Called until it returns [`TimerAction::None`].
    pub fn poll(&mut self, timers: &Timers, now: Instant) -> TimerAction {
        let (kind, state) = (self.kind, self.state);
        let due = self.clock.poll(now, |last| match (kind, state) {
            (TransactionKind::Invite, _) => last.times(2),
            (TransactionKind::NonInvite, State::Proceeding) => timers.longest_interval(),
            (TransactionKind::NonInvite, _) => last.times(2).min(timers.longest_interval()),
        });
        match due {
            Due::Nothing => TimerAction::None,
            Due::Retransmit => TimerAction::Retransmit,
            Due::End => {
                self.state = State::Terminated;
                match state {
                    State::Calling | State::Trying | State::Proceeding => TimerAction::TimedOut,
                    _ => TimerAction::Terminated,
                }
            }
        }
    }

    /// The time of the next call of [`ClientTransaction::poll`].
    #[must_use]
    pub fn next_timer(&self) -> Option<Instant> {
        self.clock.next()
    }

    /// Returns true if the only timer ends the transaction silently.
    #[must_use]
    pub fn only_waits(&self) -> bool {
        matches!(self.state, State::Completed | State::Accepted | State::Terminated)
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
