//! The user agents of the operations, both ends of a call, without I/O.
//!
//! The inputs of an [`Engine`] are starts of operations, received messages with their times, and
//! the current time. It fills an [`Output`] with messages to send. It is a complete client:
//! transactions with the timers of RFC 3261, credentials for challenges, ACK and BYE along the
//! route set of the dialog.

mod bindings;
mod callee;
mod caller;
mod credentials;
pub(crate) mod key;
mod requests;
mod settings;
mod slot;
#[cfg(test)]
mod tests;
mod wheel;
pub(crate) mod write;

pub(crate) use settings::{Party, Settings};
pub(crate) use slot::Task;
pub(crate) use write::Place;

use super::tally::{Outcome, Tally};
use bindings::Bindings;
use credentials::Keys;
use key::Key;
use sip::header::HeaderName;
use sip::transaction::TimerAction;
use sip::{Instant, Message, StartLine};
use slot::End;
use slot::{CalleeState, Request, Slots};
use std::net::SocketAddr;
use std::ops::Range;
use wheel::{Entry, Wheel};

/// The messages to send.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// The concatenated messages.
    pub(crate) bytes: Vec<u8>,
    /// The range and the destination of each message.
    pub(crate) transmits: Vec<Transmit>,
    /// The links of single operations that have ended.
    pub(crate) closed: Vec<u32>,
}

/// A message to send.
#[derive(Clone, Debug)]
pub(crate) struct Transmit {
    /// The number of the socket or connection.
    pub(crate) link: u32,
    /// The destination; `None` is the server.
    pub(crate) remote: Option<SocketAddr>,
    /// The range in [`Output::bytes`].
    pub(crate) range: Range<usize>,
    /// The stage of the call. Messages of equal stage may be sent in any order; different stages
    /// are sent in ascending order.
    pub(crate) stage: Stage,
    /// The operation that records the time of sending.
    mark: Option<(Entry, Mark)>,
}

/// The stage of a message in its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Request,
    Ringing,
    Answer,
    Ack,
    Bye,
    ByeAnswer,
}

/// The event of the operation whose time is the time of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Request,
    Ringing,
    Answer,
    ByeAnswer,
}

/// The operations of one worker.
#[derive(Debug)]
pub(crate) struct Engine {
    settings: Settings,
    parties: Vec<Party>,
    places: Vec<Place>,
    session: Vec<u8>,
    slots: Slots,
    wheel: Wheel,
    due: Vec<Entry>,
    keys: Keys,
    bindings: Bindings,
    /// A buffer for parts of a message.
    scratch: Vec<u8>,
    /// The CSeq of registrations: it rises for each user.
    registrations: u32,
    /// The salt of the sender on another machine, if its calls are answered here.
    sender: Option<u32>,
    /// The users whose operations have ended, with the outcomes; `None` if they are not collected.
    pub(crate) ended: Option<Vec<(u32, Outcome)>>,
    /// The counts of the current load.
    pub(crate) tally: Tally,
    /// The messages to send. The owner sends them, calls [`Engine::sent`] and clears them.
    pub(crate) out: Output,
}

impl Engine {
    /// Returns an engine for `parties` with the links `places`.
    pub(crate) fn new(
        settings: Settings,
        parties: Vec<Party>,
        places: Vec<Place>,
        now: Instant,
    ) -> Self {
        let host = places.first().map(|place| String::from_utf8_lossy(&place.sent_by).into_owned());
        let host = host.unwrap_or_default();
        let host = host.rsplit_once(':').map_or("", |(host, _)| host).trim_matches(['[', ']']);
        Self {
            session: write::session_description(host),
            keys: Keys::new(parties.len(), settings.reuse_nonces),
            bindings: Bindings::new(parties.len(), settings.expires),
            scratch: Vec::new(),
            settings,
            parties,
            places,
            slots: Slots::default(),
            wheel: Wheel::new(now),
            due: Vec::new(),
            // A fixed number of digits keeps the lengths of messages equal.
            registrations: 1_000_000,
            sender: None,
            ended: None,
            tally: Tally::new(now, now..now),
            out: Output::default(),
        }
    }

    /// Starts a new tally. Messages for earlier operations are not counted in it.
    pub(crate) fn begin(&mut self, tally: Tally) {
        self.slots.close_books();
        self.tally = tally;
    }

    /// Answers the calls of the sender with the salt `salt` from now on, in place of own ones.
    pub(crate) const fn answer_calls_of(&mut self, salt: u32) {
        self.sender = Some(salt);
    }

    /// Takes a slot for the call `key` of the sender, which has arrived on `link`.
    fn adopt(&mut self, key: Key, link: u32) -> bool {
        let party = self.parties.iter().position(|party| party.link == link);
        let Some(party) = party.filter(|_| self.slots.adopt(key)) else { return false };
        let slot = self.slots.get(key.slot);
        slot.peer = party as u32;
        slot.link = link;
        true
    }

    /// Returns the number of users.
    pub(crate) fn parties(&self) -> usize {
        self.parties.len()
    }

    /// Returns a user whose binding expires soon, for which the owner starts [`Task::Refresh`].
    pub(crate) fn refresh_due(&mut self, now: Instant) -> Option<u32> {
        self.bindings.due(now)
    }

    /// Returns true if this engine has registered the user.
    pub(crate) fn is_registered(&self, user: u32, now: Instant) -> bool {
        self.bindings.has(user, now)
    }

    /// Starts `task` for the user `user`; its scheduled start was `scheduled`. Caller and callee
    /// are half of all users apart. With `link`, it uses that link instead of the user's own.
    pub(crate) fn start(
        &mut self,
        now: Instant,
        scheduled: Instant,
        task: Task,
        user: u32,
        link: Option<u32>,
    ) -> u32 {
        let count = self.parties.len() as u32;
        let index = self.slots.take();
        let slot = self.slots.get(index);
        slot.task = task;
        slot.user = user % count;
        slot.peer = (user + count.div_ceil(2)) % count;
        slot.link = link.unwrap_or(self.parties[slot.user as usize].way);
        slot.owns_link = link.is_some();
        slot.scheduled = scheduled;
        slot.is_measured = self.tally.measures(scheduled) && task != Task::Refresh;
        slot.request = match task {
            Task::Register | Task::Refresh | Task::Logout | Task::Clear => Request::Register,
            Task::Options => Request::Options,
            Task::Invite if self.settings.register_first => Request::Register,
            Task::Invite | Task::InviteNotFound | Task::InviteRedirect => Request::Invite,
        };
        if slot.request == Request::Register {
            self.registrations += 1;
            slot.cseq = self.registrations;
        }
        if task == Task::Refresh {
            self.tally.counts().refreshed += u64::from(self.tally.measures(scheduled));
        } else {
            self.tally.offered(scheduled);
        }
        self.begin_request(index, now);
        index
    }

    /// Handles a message that was received at `received` on `link` from `remote`.
    pub(crate) fn receive(
        &mut self,
        received: Instant,
        now: Instant,
        link: u32,
        remote: SocketAddr,
        bytes: &[u8],
    ) {
        let Ok(message) = Message::parse(bytes) else {
            // A keep-alive is not an error.
            if bytes.iter().any(|byte| !byte.is_ascii_whitespace()) {
                self.stray(now);
            }
            return;
        };
        match message.start_line() {
            StartLine::Response { status, .. } => {
                self.on_response(&message, status, received, now, link);
            }
            StartLine::Request { method, .. } => {
                self.on_request(&message, method, received, now, link, remote);
            }
        }
    }

    /// Records `at` as the time of sending of the output.
    pub(crate) fn sent(&mut self, at: Instant) {
        for transmit in &mut self.out.transmits {
            let Some((entry, mark)) = transmit.mark.take() else { continue };
            let key = Key { slot: entry.slot, generation: entry.generation, attempt: 0 };
            let Some(slot) = self.slots.find(key) else { continue };
            match mark {
                Mark::Request => {
                    slot.sent = at;
                    if slot.started == Instant::MAX && slot.task != Task::Refresh {
                        slot.started = at;
                        self.tally.started(slot.scheduled, at);
                    }
                }
                Mark::Ringing => slot.callee.ringing_sent = at,
                Mark::Answer => slot.callee.answer_sent = at,
                Mark::ByeAnswer => slot.callee.bye_answered = at,
            }
        }
    }

    /// Handles the timers that are due at `now`.
    pub(crate) fn on_timer(&mut self, now: Instant) {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.take(now, &mut due);
        for entry in due.drain(..) {
            let key = Key { slot: entry.slot, generation: entry.generation, attempt: 0 };
            let Some(slot) = self.slots.find(key) else { continue };
            slot.looked = Instant::MAX;
            self.on_slot_timer(entry.slot, now);
            if self.slots.find(key).is_some() {
                self.schedule(entry.slot);
            }
        }
        self.due = due;
    }

    /// Returns the time for the next [`Engine::on_timer`].
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.wheel.next()
    }

    /// Returns the number of operations under way.
    pub(crate) fn in_flight(&self) -> usize {
        self.slots.live()
    }

    /// Ends all operations that are still under way, as lost.
    pub(crate) fn abandon(&mut self, now: Instant) {
        for index in self.slots.live_indices() {
            self.end(index, Outcome::Lost, now);
        }
    }

    fn on_slot_timer(&mut self, index: u32, now: Instant) {
        for end in [End::Callee, End::Caller] {
            let slot = self.slots.get(index);
            let is_first = end == End::Callee && slot.callee.state == CalleeState::Ringing;
            let answer = slot.answer(end);
            if now >= answer.end {
                // No ACK came: the other end is not informed, but the call has failed.
                self.end(index, Outcome::TimedOut, now);
                return;
            }
            if now >= answer.again {
                match is_first {
                    true => self.send_first_answer(index, now),
                    false => self.send_answer_again(index, end, now),
                }
            }
        }
        let slot = self.slots.get(index);
        if slot.request == Request::Hold {
            if now >= slot.until {
                self.hang_up(index, now);
            }
            return;
        }
        if now >= slot.until {
            self.time_out(index, now);
            return;
        }
        match slot.transaction.poll(&self.settings.timers, now) {
            // A session that was set up is ended in any case.
            TimerAction::Retransmit
                if !self.settings.retransmits && slot.request != Request::Bye => {}
            TimerAction::Retransmit => {
                let is_measured = slot.is_measured;
                self.tally.retransmitted(is_measured, now);
                self.write_request(index, None);
            }
            TimerAction::TimedOut => self.time_out(index, now),
            TimerAction::None | TimerAction::Terminated => {}
        }
    }

    /// Handles the timeout of the current request without a final response.
    fn time_out(&mut self, index: u32, now: Instant) {
        let slot = self.slots.get(index);
        if slot.is_measured {
            let method = slot.request.method();
            self.tally.finished(method, 0);
        }
        self.end(index, Outcome::TimedOut, now);
    }

    fn end(&mut self, index: u32, outcome: Outcome, now: Instant) {
        let slot = self.slots.get(index);
        let is_measured = slot.is_measured;
        if slot.owns_link {
            self.out.closed.push(slot.link);
        }
        if slot.task == Task::Refresh {
            if outcome != Outcome::Succeeded {
                self.bindings.failed(slot.user, now);
            }
        } else {
            if let Some(ended) = &mut self.ended {
                ended.push((slot.user, outcome));
            }
            self.tally.ended(outcome, is_measured, now);
        }
        self.slots.release(index, outcome);
    }

    /// Inserts the slot into the wheel at its next due time, unless an entry comes up before that.
    fn schedule(&mut self, index: u32) {
        let slot = self.slots.get(index);
        let due = slot.due();
        if due < slot.looked {
            let entry = Entry { slot: index, generation: slot.generation };
            slot.looked = self.wheel.insert(due, entry);
        }
    }

    /// Counts received data that is not a SIP message, or belongs to no operation.
    fn stray(&mut self, now: Instant) {
        if self.tally.measures(now) {
            self.tally.counts().received += 1;
            self.tally.counts().malformed += 1;
        }
    }

    /// Counts a message for an operation that has ended.
    fn past(&mut self, key: Key, is_ack: bool, now: Instant) {
        let (outcome, is_measured) =
            self.slots.past(key).unwrap_or((Outcome::TimedOut, self.tally.measures(now)));
        let is_first_ack = is_ack && self.slots.acknowledge_past(key);
        if is_measured {
            let counts = self.tally.counts();
            counts.received += 1;
            match outcome {
                Outcome::Succeeded if is_first_ack => {}
                Outcome::Succeeded | Outcome::Refused => counts.repeated += 1,
                Outcome::TimedOut | Outcome::Lost => counts.late += 1,
            }
        }
    }

    /// Adds the message from `start` to the end of the output buffer.
    fn push(
        &mut self,
        start: usize,
        (link, remote): (u32, Option<SocketAddr>),
        stage: Stage,
        mark: Option<(Entry, Mark)>,
        is_measured: bool,
    ) {
        self.tally.counts().sent += u64::from(is_measured);
        let range = start..self.out.bytes.len();
        self.out.transmits.push(Transmit { link, remote, range, stage, mark });
    }
}

impl Output {
    /// Clears the output.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.transmits.clear();
        self.closed.clear();
    }
}

/// Returns the key in the Call-ID of a message.
fn key_of_call(message: &Message<'_>, salt: u32) -> Option<Key> {
    Key::parse(message.value(HeaderName::CallId)?, salt)
}
