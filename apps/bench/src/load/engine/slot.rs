//! The operations that are under way.

use super::key::Key;
use crate::load::tally::Outcome;
use sip::dialog::Dialog;
use sip::transaction::{ClientTransaction, Kind, Timers};
use sip::{Duration, Instant, Method};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

/// Slots that are free before one is used anew: what comes late should still find it empty.
const RESERVE: usize = 256;

/// What is to be done: an [`crate::record::Operation`], or what prepares for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Task {
    /// Register, whether there is a binding or not.
    Register,
    /// Register again because the binding would end, which is no operation of the load.
    Refresh,
    /// Remove the user's own binding.
    Logout,
    /// Remove all bindings of the user.
    Clear,
    /// A call to another user.
    Invite,
    /// A call to somebody who does not exist.
    InviteNotFound,
    /// A call that is to be redirected.
    InviteRedirect,
    /// OPTIONS to the server.
    Options,
}

/// The request that waits for its final response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Register,
    Options,
    Invite,
    Bye,
    /// None: the call is being held.
    Hold,
}

impl Request {
    /// Its method.
    pub(crate) const fn method(self) -> Method<'static> {
        match self {
            Self::Register => Method::Register,
            Self::Options => Method::Options,
            Self::Invite => Method::Invite,
            Self::Bye | Self::Hold => Method::Bye,
        }
    }
}

/// Which end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Caller,
    Callee,
}

/// How far the callee is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CalleeState {
    /// Not called.
    Idle,
    /// 180 was sent.
    Ringing,
    /// 200 was sent.
    Answered,
    /// ACK or BYE has come.
    Confirmed,
}

/// The called side of a call.
#[derive(Debug)]
pub(crate) struct Callee {
    pub(crate) state: CalleeState,
    /// When the INVITE came.
    pub(crate) invited: Instant,
    /// When 180, and 200, were sent.
    pub(crate) ringing_sent: Instant,
    pub(crate) answer_sent: Instant,
    /// When the BYE came, and when its 200 was sent.
    pub(crate) bye: Instant,
    pub(crate) bye_answered: Instant,
    /// The highest CSeq that has come.
    pub(crate) heard: u32,
    /// What answers the INVITE, and if it is cancelled before that, the 487.
    pub(crate) answer: Answer,
    pub(crate) refusal: Vec<u8>,
}

/// A final response to an INVITE, which is sent until its ACK comes (RFC 3261 section 13.3.1.4).
#[derive(Debug)]
pub(crate) struct Answer {
    /// The response; and which INVITE it is for, if there was one.
    pub(crate) bytes: Vec<u8>,
    pub(crate) cseq: Option<u32>,
    /// When to send it, again or for the first time; and when to stop.
    pub(crate) again: Instant,
    pub(crate) interval: Duration,
    pub(crate) end: Instant,
    pub(crate) is_acknowledged: bool,
    /// Where the INVITE came from.
    pub(crate) link: u32,
    pub(crate) remote: SocketAddr,
}

impl Answer {
    const fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            cseq: None,
            again: Instant::MAX,
            interval: Duration::ZERO,
            end: Instant::MAX,
            is_acknowledged: false,
            link: 0,
            remote: SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        }
    }

    fn reset(&mut self) {
        *self = Self::new(std::mem::take(&mut self.bytes));
    }

    /// Whether it was sent. (One that is written is sent when it has rung.)
    pub(crate) fn is_sent(&self) -> bool {
        self.interval > Duration::ZERO
    }

    /// Whether it was sent, and its ACK is still to come.
    pub(crate) fn is_waiting(&self) -> bool {
        self.end < Instant::MAX
    }

    /// Does not send it any more.
    pub(crate) const fn stop(&mut self) {
        self.again = Instant::MAX;
        self.end = Instant::MAX;
    }
}

/// One operation.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) generation: u32,
    pub(crate) is_live: bool,
    pub(crate) is_measured: bool,
    pub(crate) task: Task,
    /// Who registers or calls, and who is called.
    pub(crate) user: u32,
    pub(crate) peer: u32,
    pub(crate) link: u32,
    /// Whether the link is for this operation alone.
    pub(crate) owns_link: bool,
    pub(crate) request: Request,
    pub(crate) attempt: u8,
    /// Challenges answered for this request.
    pub(crate) challenges: u8,
    /// How long a registration is to last, in seconds; and whether that is what the registrar
    /// wants, by which it was sent again.
    pub(crate) expires: u32,
    pub(crate) is_lengthened: bool,
    pub(crate) cseq: u32,
    pub(crate) transaction: ClientTransaction,
    /// When it was to start, and when its first message was sent.
    pub(crate) scheduled: Instant,
    pub(crate) started: Instant,
    /// When the current request was first sent; `Instant::MAX` until it is.
    pub(crate) sent: Instant,
    /// What the sendings of the current request before this one took.
    pub(crate) elapsed: Duration,
    /// What the operation took, and what its registration, if it began with one, took before.
    pub(crate) took: Duration,
    pub(crate) ahead: Duration,
    /// When to give up a call that rings, or to end one that is held.
    pub(crate) until: Instant,
    /// How long it took until the caller heard it ring.
    pub(crate) rung: Option<Duration>,
    /// When the call was answered.
    pub(crate) answered: Instant,
    /// When to look next, and when the entry in the wheel comes up.
    pub(crate) looked: Instant,
    pub(crate) callee: Callee,
    /// What the caller answers to an INVITE of the other side, and the highest CSeq that came from
    /// it.
    pub(crate) answer: Answer,
    pub(crate) heard: u32,
    /// How the operation before ended.
    pub(crate) last: Outcome,
    /// Of the request: the header field line with the credentials.
    pub(crate) authorization: Vec<u8>,
    /// The same of the INVITE that was answered, for its ACK.
    pub(crate) proof: Vec<u8>,
    /// The caller's side of the call, from its 2xx on.
    pub(crate) dialog: Option<Dialog>,
}

impl Slot {
    fn new() -> Self {
        let never = Instant::MAX;
        Self {
            generation: 0,
            is_live: false,
            is_measured: false,
            task: Task::Options,
            user: 0,
            peer: 0,
            link: 0,
            owns_link: false,
            request: Request::Options,
            attempt: 0,
            challenges: 0,
            expires: 0,
            is_lengthened: false,
            cseq: 0,
            transaction: ClientTransaction::new(
                Kind::NonInvite,
                false,
                &Timers::default(),
                Instant::ZERO,
            ),
            scheduled: never,
            started: never,
            sent: never,
            elapsed: Duration::ZERO,
            took: Duration::ZERO,
            ahead: Duration::ZERO,
            until: never,
            rung: None,
            answered: never,
            looked: never,
            callee: Callee {
                state: CalleeState::Idle,
                invited: never,
                ringing_sent: never,
                answer_sent: never,
                bye: never,
                bye_answered: never,
                heard: 0,
                answer: Answer::new(Vec::new()),
                refusal: Vec::new(),
            },
            answer: Answer::new(Vec::new()),
            heard: 0,
            last: Outcome::Succeeded,
            authorization: Vec::new(),
            proof: Vec::new(),
            dialog: None,
        }
    }

    /// Begins a new life. What is not set here was never read before it is set by the operation.
    fn reset(&mut self) {
        let never = Instant::MAX;
        self.generation = self.generation.wrapping_add(1);
        self.is_live = true;
        self.attempt = 0;
        self.challenges = 0;
        self.is_lengthened = false;
        self.cseq = 1;
        self.started = never;
        self.sent = never;
        self.elapsed = Duration::ZERO;
        self.took = Duration::ZERO;
        self.ahead = Duration::ZERO;
        self.until = never;
        self.rung = None;
        self.answered = never;
        self.looked = never;
        let callee = &mut self.callee;
        callee.state = CalleeState::Idle;
        callee.invited = never;
        callee.ringing_sent = never;
        callee.answer_sent = never;
        callee.bye = never;
        callee.bye_answered = never;
        callee.heard = 0;
        callee.answer.reset();
        self.answer.reset();
        self.heard = 0;
        self.authorization.clear();
        self.proof.clear();
        self.dialog = None;
    }

    /// When something of this operation is due.
    pub(crate) fn due(&self) -> Instant {
        let transaction = match self.request {
            Request::Hold => Instant::MAX,
            _ => self.transaction.next_timer().unwrap_or(Instant::MAX),
        };
        let answers = [&self.answer, &self.callee.answer];
        let answers = answers.map(|answer| answer.again.min(answer.end));
        transaction.min(self.until).min(answers[0]).min(answers[1])
    }

    /// What this end of the call answers to INVITEs.
    pub(super) const fn answer(&mut self, end: End) -> &mut Answer {
        match end {
            End::Caller => &mut self.answer,
            End::Callee => &mut self.callee.answer,
        }
    }

    /// The highest CSeq that this end has heard from the other.
    pub(super) const fn heard(&mut self, end: End) -> &mut u32 {
        match end {
            End::Caller => &mut self.heard,
            End::Callee => &mut self.callee.heard,
        }
    }
}

/// All slots of a worker.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    all: Vec<Slot>,
    free: VecDeque<u32>,
}

impl Slots {
    /// Takes a slot for a new operation.
    pub(crate) fn take(&mut self) -> u32 {
        let index = match self.free.front() {
            Some(_) if self.free.len() >= RESERVE => self.free.pop_front().unwrap_or_default(),
            _ => {
                self.all.push(Slot::new());
                self.all.len() as u32 - 1
            }
        };
        self.all[index as usize].reset();
        index
    }

    /// Ends the operation in a slot.
    pub(crate) fn release(&mut self, index: u32, outcome: Outcome) {
        let slot = &mut self.all[index as usize];
        slot.is_live = false;
        slot.last = outcome;
        self.free.push_back(index);
    }

    /// The slot at `index`, which is one that was taken.
    pub(crate) fn get(&mut self, index: u32) -> &mut Slot {
        &mut self.all[index as usize]
    }

    /// The operation that `key` names, if it is under way.
    pub(crate) fn find(&mut self, key: Key) -> Option<&mut Slot> {
        self.all
            .get_mut(key.slot as usize)
            .filter(|slot| slot.is_live && slot.generation == key.generation)
    }

    /// How the operation that `key` names has ended and whether it was measured, if its slot has
    /// not been used since.
    pub(crate) fn past(&self, key: Key) -> Option<(Outcome, bool)> {
        self.all
            .get(key.slot as usize)
            .filter(|slot| slot.generation == key.generation)
            .map(|slot| (slot.last, slot.is_measured))
    }

    /// Notes an ACK for the operation that `key` names, which is over. Whether it is the first: a
    /// BYE can overtake it.
    pub(crate) fn acknowledge_past(&mut self, key: Key) -> bool {
        self.all
            .get_mut(key.slot as usize)
            .filter(|slot| slot.generation == key.generation)
            .is_some_and(|slot| !std::mem::replace(&mut slot.callee.answer.is_acknowledged, true))
    }

    /// Lets nothing that is still to come count for the operations so far.
    pub(crate) fn close_books(&mut self) {
        for slot in &mut self.all {
            slot.is_measured = false;
        }
    }

    /// How many operations are under way.
    pub(crate) fn live(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// The slots of the operations that are under way.
    pub(crate) fn live_indices(&self) -> Vec<u32> {
        (0..self.all.len() as u32).filter(|&index| self.all[index as usize].is_live).collect()
    }
}
