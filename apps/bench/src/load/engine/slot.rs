//! The operations under way.

use super::key::Key;
use crate::load::tally::Outcome;
use crate::record::Operation;
use sip::dialog::Dialog;
use sip::transaction::{ClientTransaction, Timers, TransactionKind};
use sip::{Duration, Instant, Method};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

/// The number of free slots before one is reused, so that late messages still find their slot
/// unused.
const RESERVE: usize = 256;

/// The limit of slots for the calls of a sender on another machine.
const MAX_ADOPTED: usize = 1 << 16;

/// A task: an [`Operation`], or a preparation for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Task {
    /// A REGISTER, with or without an existing binding.
    Register,
    /// A REGISTER that refreshes an expiring binding; it is not an operation of the load.
    Refresh,
    /// The removal of the user's own binding.
    Logout,
    /// The removal of all bindings of the user.
    Clear,
    /// A call to another user.
    Invite,
    /// A call to a user that does not exist.
    InviteNotFound,
    /// A call that is redirected.
    InviteRedirect,
    /// An OPTIONS request to the server.
    Options,
}

impl Task {
    /// Returns the task of an operation.
    pub(crate) const fn of(operation: Operation) -> Self {
        match operation {
            Operation::Register | Operation::RegisterUpdate => Self::Register,
            Operation::RegisterLogout => Self::Logout,
            Operation::Invite => Self::Invite,
            Operation::InviteNotFound => Self::InviteNotFound,
            Operation::InviteRedirect => Self::InviteRedirect,
            Operation::Options => Self::Options,
        }
    }
}

/// The request that waits for its final response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Register,
    Options,
    Invite,
    Bye,
    /// No request: the call is on.
    Hold,
}

impl Request {
    /// Returns the method of the request.
    pub(crate) const fn method(self) -> Method<'static> {
        match self {
            Self::Register => Method::Register,
            Self::Options => Method::Options,
            Self::Invite => Method::Invite,
            Self::Bye | Self::Hold => Method::Bye,
        }
    }
}

/// An end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Caller,
    Callee,
}

/// The state of the callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CalleeState {
    /// No INVITE has come.
    Idle,
    /// 180 was sent.
    Ringing,
    /// 200 was sent.
    Answered,
    /// ACK or BYE has come.
    Confirmed,
}

/// The callee's side of a call.
#[derive(Debug)]
pub(crate) struct Callee {
    pub(crate) state: CalleeState,
    /// The time of receipt of the INVITE.
    pub(crate) invited: Instant,
    /// The times of sending of the 180 and the 200.
    pub(crate) ringing_sent: Instant,
    pub(crate) answer_sent: Instant,
    /// The time of receipt of the BYE, and the time of sending of its 200.
    pub(crate) bye: Instant,
    pub(crate) bye_answered: Instant,
    /// The highest CSeq received.
    pub(crate) heard: u32,
    /// The final response to the INVITE; after a CANCEL before that, the 487.
    pub(crate) answer: Answer,
    pub(crate) refusal: Vec<u8>,
}

/// A final response to an INVITE, which is retransmitted until its ACK comes (RFC 3261 section
/// 13.3.1.4).
#[derive(Debug)]
pub(crate) struct Answer {
    /// The response, and the CSeq of its INVITE, if there was one.
    pub(crate) bytes: Vec<u8>,
    pub(crate) cseq: Option<u32>,
    /// The time of the next transmission, the interval, and the end of retransmissions.
    pub(crate) again: Instant,
    pub(crate) interval: Duration,
    pub(crate) end: Instant,
    pub(crate) is_acknowledged: bool,
    /// The link and the source of the INVITE.
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

    /// Returns true if the response was sent. (A written response is sent after the ringing time.)
    pub(crate) fn is_sent(&self) -> bool {
        self.interval > Duration::ZERO
    }

    /// Returns true if the response was sent and its ACK has not come.
    pub(crate) fn is_waiting(&self) -> bool {
        self.end < Instant::MAX
    }

    /// Stops the retransmissions.
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
    /// The user that registers or calls, and the user that is called.
    pub(crate) user: u32,
    pub(crate) peer: u32,
    pub(crate) link: u32,
    /// True if the link serves this operation only.
    pub(crate) owns_link: bool,
    pub(crate) request: Request,
    pub(crate) attempt: u8,
    /// The number of answered challenges for this request.
    pub(crate) challenges: u8,
    /// The requested expiry in seconds; and true if the registrar required it with a 423 and the
    /// REGISTER was sent again.
    pub(crate) expires: u32,
    pub(crate) is_lengthened: bool,
    pub(crate) cseq: u32,
    pub(crate) transaction: ClientTransaction,
    /// The scheduled start, and the time of sending of the first message.
    pub(crate) scheduled: Instant,
    pub(crate) started: Instant,
    /// The time of the first transmission of the current request; `Instant::MAX` before it.
    pub(crate) sent: Instant,
    /// The delay of earlier transactions of the current request, such as a challenged one.
    pub(crate) elapsed: Duration,
    /// The delay of the operation, and the delay of a registration before it.
    pub(crate) took: Duration,
    pub(crate) ahead: Duration,
    /// The time to give up a ringing call, or to end an answered one.
    pub(crate) until: Instant,
    /// The time from the INVITE to the first 180 at the caller.
    pub(crate) rung: Option<Duration>,
    /// The time of the answer to the call.
    pub(crate) answered: Instant,
    /// The time at which the entry in the wheel comes up.
    pub(crate) looked: Instant,
    pub(crate) callee: Callee,
    /// The caller's response to an INVITE of the other end, and the highest CSeq received from it.
    pub(crate) answer: Answer,
    pub(crate) heard: u32,
    /// The outcome of the previous operation.
    pub(crate) last: Outcome,
    /// The header field line with the credentials of the request.
    pub(crate) authorization: Vec<u8>,
    /// The header field line with the credentials of the answered INVITE, for its ACK.
    pub(crate) proof: Vec<u8>,
    /// The caller's side of the dialog, from the 2xx on.
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
                TransactionKind::NonInvite,
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

    /// Resets the slot for a new operation. Each field that is not reset here is set by the
    /// operation before it is read.
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

    /// Returns the next due time of the operation.
    pub(crate) fn due(&self) -> Instant {
        let transaction = match self.request {
            Request::Hold => Instant::MAX,
            _ => self.transaction.next_timer().unwrap_or(Instant::MAX),
        };
        let answers = [&self.answer, &self.callee.answer];
        let answers = answers.map(|answer| answer.again.min(answer.end));
        transaction.min(self.until).min(answers[0]).min(answers[1])
    }

    /// Returns the response of this end of the call to INVITEs.
    pub(super) const fn answer(&mut self, end: End) -> &mut Answer {
        match end {
            End::Caller => &mut self.answer,
            End::Callee => &mut self.callee.answer,
        }
    }

    /// Returns the highest CSeq that this end received from the other.
    pub(super) const fn heard(&mut self, end: End) -> &mut u32 {
        match end {
            End::Caller => &mut self.heard,
            End::Callee => &mut self.callee.heard,
        }
    }
}

/// The slots of a worker.
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

    /// Takes the slot of `key` for a call that a sender on another machine has started. Returns
    /// false if the slot is in use, or beyond the limit.
    pub(crate) fn adopt(&mut self, key: Key) -> bool {
        let index = key.slot as usize;
        if index >= MAX_ADOPTED || self.all.get(index).is_some_and(|slot| slot.is_live) {
            return false;
        }
        while self.all.len() <= index {
            self.free.push_back(self.all.len() as u32);
            self.all.push(Slot::new());
        }
        self.free.retain(|&free| free != key.slot);
        let slot = &mut self.all[index];
        slot.reset();
        slot.generation = key.generation;
        slot.task = Task::Invite;
        // No request of this end waits for a response.
        slot.request = Request::Hold;
        slot.is_measured = false;
        slot.owns_link = false;
        true
    }

    /// Ends the operation in a slot.
    pub(crate) fn release(&mut self, index: u32, outcome: Outcome) {
        let slot = &mut self.all[index as usize];
        slot.is_live = false;
        slot.last = outcome;
        self.free.push_back(index);
    }

    /// Returns the slot at `index`.
    pub(crate) fn get(&mut self, index: u32) -> &mut Slot {
        &mut self.all[index as usize]
    }

    /// Returns the operation of `key`, if it is under way.
    pub(crate) fn find(&mut self, key: Key) -> Option<&mut Slot> {
        self.all
            .get_mut(key.slot as usize)
            .filter(|slot| slot.is_live && slot.generation == key.generation)
    }

    /// Returns the outcome of the operation of `key`, and true if it was measured, as long as its
    /// slot was not reused.
    pub(crate) fn past(&self, key: Key) -> Option<(Outcome, bool)> {
        self.all
            .get(key.slot as usize)
            .filter(|slot| slot.generation == key.generation)
            .map(|slot| (slot.last, slot.is_measured))
    }

    /// Records an ACK for the ended operation of `key`. Returns true if it is the first: a BYE can
    /// overtake it.
    pub(crate) fn acknowledge_past(&mut self, key: Key) -> bool {
        self.all
            .get_mut(key.slot as usize)
            .filter(|slot| slot.generation == key.generation)
            .is_some_and(|slot| !std::mem::replace(&mut slot.callee.answer.is_acknowledged, true))
    }

    /// Excludes the operations so far from further counting.
    pub(crate) fn close_books(&mut self) {
        for slot in &mut self.all {
            slot.is_measured = false;
        }
    }

    /// Returns the number of operations under way.
    pub(crate) fn live(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// Returns the slots of the operations under way.
    pub(crate) fn live_indices(&self) -> Vec<u32> {
        (0..self.all.len() as u32).filter(|&index| self.all[index as usize].is_live).collect()
    }
}
