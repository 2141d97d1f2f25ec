//! Operations as a user agent plays them, both ends of a call: without I/O.
//!
//! An [`Engine`] is told when an operation is to start, what came in and when, and what time it is;
//! it fills an [`Output`] with what is to be sent. It is a real client: transactions with the
//! timers of RFC 3261, credentials by challenge, ACK and BYE along the route set of the dialog.

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
use sip::transaction::Timeout;
use sip::{Instant, Message, StartLine};
use slot::End;
use slot::{CalleeState, Request, Slots};
use std::net::SocketAddr;
use std::ops::Range;
use wheel::{Entry, Wheel};

/// What is to be sent.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// The messages, one after the other.
    pub(crate) bytes: Vec<u8>,
    /// Where each lies, and where it goes.
    pub(crate) transmits: Vec<Transmit>,
    /// Links of single operations, which are over.
    pub(crate) closed: Vec<u32>,
}

/// A message to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Transmit {
    /// With which socket or connection.
    pub(crate) link: u32,
    /// Where to; `None` is the server.
    pub(crate) remote: Option<SocketAddr>,
    /// Which octets of [`Output::bytes`].
    pub(crate) range: Range<usize>,
    /// How far in its call it stands: what has the same number may be sent in any order, and the
    /// others in that of the numbers.
    pub(crate) stage: Stage,
    /// Whose time of sending it is.
    mark: Option<(Entry, Mark)>,
}

/// Where a message stands in its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Request,
    Ringing,
    Answer,
    Ack,
    Bye,
    ByeAnswer,
}

/// What it means for an operation that a message was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Request,
    Ringing,
    Answer,
    ByeAnswer,
}

/// One worker's operations.
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
    /// For what a message is made from.
    scratch: Vec<u8>,
    /// Sequence numbers of registrations: they rise for each user.
    registrations: u32,
    /// The users whose operations have ended, and how, if somebody wants to know.
    pub(crate) ended: Option<Vec<(u32, Outcome)>>,
    /// What is counted.
    pub(crate) tally: Tally,
    /// What is to be sent; the owner sends it, calls [`Engine::sent`] and clears it.
    pub(crate) out: Output,
}

impl Engine {
    /// An engine for `parties`, whose links are `places`.
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
            // All of one length, so that messages are, too.
            registrations: 1_000_000,
            ended: None,
            tally: Tally::new(now, now..now),
            out: Output::default(),
        }
    }

    /// Counts into `tally` from now on. What still comes for operations of before counts nowhere.
    pub(crate) fn begin(&mut self, tally: Tally) {
        self.slots.close_books();
        self.tally = tally;
    }

    /// How many users there are.
    pub(crate) fn parties(&self) -> usize {
        self.parties.len()
    }

    /// A user whose binding will end soon, who is to start [`Task::Refresh`].
    pub(crate) fn refresh_due(&mut self, now: Instant) -> Option<u32> {
        self.bindings.due(now)
    }

    /// Whether the user is registered by us.
    pub(crate) fn is_registered(&self, user: u32, now: Instant) -> bool {
        self.bindings.has(user, now)
    }

    /// Starts `task` for the user `user`, which was to start at `scheduled`. The users of calls lie
    /// half of all users apart. With `link`, it goes over that instead of the user's own.
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

    /// A message came at `received` on `link` from `remote`.
    pub(crate) fn receive(
        &mut self,
        received: Instant,
        now: Instant,
        link: u32,
        remote: SocketAddr,
        bytes: &[u8],
    ) {
        let Ok(message) = Message::parse(bytes) else {
            // A keep-alive is no fault.
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

    /// What was in the output has been sent, at `at`.
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

    /// Does what is due at `now`.
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

    /// When to call [`Engine::on_timer`] next.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.wheel.next()
    }

    /// How many operations are under way.
    pub(crate) fn in_flight(&self) -> usize {
        self.slots.live()
    }

    /// Gives up what is still under way.
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
                // No ACK: the other side cannot know, but the call has failed.
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
                self.send_bye(index, now);
            }
            return;
        }
        if now >= slot.until {
            self.time_out(index, now);
            return;
        }
        match slot.transaction.poll(&self.settings.timers, now) {
            // A session that was set up is ended in any case.
            Timeout::Retransmit if !self.settings.retransmits && slot.request != Request::Bye => {}
            Timeout::Retransmit => {
                let is_measured = slot.is_measured;
                self.tally.retransmitted(is_measured, now);
                self.write_request(index, None);
            }
            Timeout::TimedOut => self.time_out(index, now),
            Timeout::None | Timeout::Terminated => {}
        }
    }

    /// The current request got no final response.
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

    /// Lets the slot come up in the wheel when it is next due, unless it does already.
    fn schedule(&mut self, index: u32) {
        let slot = self.slots.get(index);
        let due = slot.due();
        if due < slot.looked {
            let entry = Entry { slot: index, generation: slot.generation };
            slot.looked = self.wheel.insert(due, entry);
        }
    }

    /// Something came that is no SIP message, or belongs to nothing.
    fn stray(&mut self, now: Instant) {
        if self.tally.measures(now) {
            self.tally.counts().received += 1;
            self.tally.counts().malformed += 1;
        }
    }

    /// Something came for an operation that is over.
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

    /// Closes the message that begins at `start` of the output.
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
    /// Forgets what has been sent.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.transmits.clear();
        self.closed.clear();
    }
}

/// The operation that a message belongs to by its Call-ID.
fn key_of_call(message: &Message<'_>, salt: u32) -> Option<Key> {
    Key::parse(message.value(HeaderName::CallId)?, salt)
}
