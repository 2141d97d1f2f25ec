//! Client transactions: RFC 3261 section 17.1, figures 5 and 6; RFC 6026 section 8.4.

use super::{Clock, Due, Kind, State, Timeout, Timer, Timers};
use crate::Instant;

/// What to do about a response that belongs to a client transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct ClientAction {
    /// Give the response to the transaction user. Otherwise it is a repetition.
    pub pass_up: bool,
    /// Send the ACK of section 17.1.1.3, to where the INVITE went. Never for a 2xx, which the
    /// transaction user acknowledges.
    pub send_ack: bool,
    /// The transaction is over: drop it.
    pub ended: bool,
}

/// The sending side of a request, from the moment the request was first sent.
///
/// An INVITE transaction in [`State::Proceeding`] has no timer: how long a phone may ring is for
/// the transaction user to say (timer C of a proxy). It ends the wait by a CANCEL, and, if no final
/// response comes within 64*T1 of it, by dropping the transaction (section 9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientTransaction {
    kind: Kind,
    reliable: bool,
    state: State,
    clock: Clock,
}

impl ClientTransaction {
    /// The transaction of a request that was sent at `now`, over a reliable transport or not.
    #[must_use]
    pub fn new(kind: Kind, reliable: bool, timers: &Timers, now: Instant) -> Self {
        let (state, again, end) = match kind {
            Kind::Invite => (State::Calling, Timer::A, Timer::B),
            Kind::NonInvite => (State::Trying, Timer::E, Timer::F),
        };
        let clock = Clock::start(now, again.span(timers, reliable), end.span(timers, reliable));
        Self { kind, reliable, state, clock }
    }

    /// A response has come: `status` below 200 is provisional, below 300 a success.
    ///
    /// A 2xx after another final response to an INVITE, or the reverse, is neither passed up nor
    /// acknowledged (figure 5).
    pub fn on_response(&mut self, status: u16, timers: &Timers, now: Instant) -> ClientAction {
        let waiting = matches!(self.state, State::Calling | State::Trying | State::Proceeding);
        let mut action = ClientAction { pass_up: waiting, ..ClientAction::default() };
        match (self.kind, status) {
            (Kind::Invite, ..200) if waiting => {
                self.state = State::Proceeding;
                self.clock = Clock::STOPPED;
            }
            (Kind::NonInvite, ..200) if waiting => self.state = State::Proceeding,
            (Kind::Invite, 200..300) if waiting => {
                self.wait(State::Accepted, Timer::M, timers, now);
            }
            (Kind::Invite, 200..300) => action.pass_up = self.state == State::Accepted,
            (Kind::Invite, 300..) if waiting => {
                action.send_ack = true;
                self.wait(State::Completed, Timer::D, timers, now);
            }
            (Kind::Invite, 300..) => action.send_ack = self.state == State::Completed,
            (Kind::NonInvite, 200..) if waiting => {
                self.wait(State::Completed, Timer::K, timers, now);
            }
            _ => {}
        }
        action.ended = self.state == State::Terminated;
        action
    }

    /// The request, or an ACK, could not be sent. Whether the transaction user is to be told; if
    /// so the transaction is over.
    ///
    /// Where nothing that was sent matters any more, after a response to an INVITE or a final
    /// response to another request, it goes on.
    pub fn on_transport_error(&mut self) -> bool {
        let fatal = match self.kind {
            Kind::Invite => matches!(self.state, State::Calling | State::Completed),
            Kind::NonInvite => matches!(self.state, State::Trying | State::Proceeding),
        };
        if fatal {
            self.state = State::Terminated;
            self.clock = Clock::STOPPED;
        }
        fatal
    }

    /// What is due at `now`. To be called until it is [`Timeout::None`].
    pub fn poll(&mut self, timers: &Timers, now: Instant) -> Timeout {
        let (kind, state) = (self.kind, self.state);
        let due = self.clock.poll(now, |last| match (kind, state) {
            (Kind::Invite, _) => last.times(2),
            (Kind::NonInvite, State::Proceeding) => timers.longest_interval(),
            (Kind::NonInvite, _) => last.times(2).min(timers.longest_interval()),
        });
        match due {
            Due::Nothing => Timeout::None,
            Due::Retransmit => Timeout::Retransmit,
            Due::End => {
                self.state = State::Terminated;
                match state {
                    State::Calling | State::Trying | State::Proceeding => Timeout::TimedOut,
                    _ => Timeout::Terminated,
                }
            }
        }
    }

    /// When to call [`ClientTransaction::poll`] next.
    #[must_use]
    pub fn next_timer(&self) -> Option<Instant> {
        self.clock.next()
    }

    /// Whether its only timer is one that ends it, with nothing to send or to tell then.
    #[must_use]
    pub fn only_waits(&self) -> bool {
        matches!(self.state, State::Completed | State::Accepted | State::Terminated)
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
