//! A call: it goes through the steps of the scenario, by received messages and by time.

use super::counts::Cause;
use super::default;
use super::dialog::Dialog;
use super::expand::expand;
use super::message;
use super::perform::perform;
use super::script::{Expected, Kind, Need, Pause, Receive, Step};
use super::world::World;
use sip::{Duration, Instant};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The longest time between two retransmissions of a request other than INVITE (T2).
const T2: Duration = Duration::from_secs(4);
/// The number of steps without waiting after which a loop has no end.
const ENDLESS: usize = 100_000;
/// The number of received messages that are remembered, to recognize retransmissions.
const REMEMBERED: usize = 8;

/// A call.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) dialog: Dialog,
    /// The current step.
    step: usize,
    state: State,
    /// The end of the waiting or of the pause.
    deadline: Option<Instant>,
    resend: Option<Resend>,
    /// The step of the last sent message.
    sent_step: Option<usize>,
    /// The last received messages.
    received: Vec<Received>,
    /// The methods of requests that were sent.
    methods: Vec<Vec<u8>>,
    /// Transactions with a final response.
    finals: Vec<(u32, Vec<u8>)>,
    /// The branches of named transactions.
    branches: Vec<Vec<u8>>,
    /// The last INVITE that was sent, and its progress.
    invite: Vec<u8>,
    progress: Progress,
    started: Instant,
    /// The starts of the response times.
    timers: Vec<Option<Instant>>,
    is_counted: bool,
    /// The number of steps since the call waited.
    run: usize,
}

/// The state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Waiting,
    Pausing,
    /// The call has succeeded, and answers retransmissions.
    Lingering,
    Over,
}

/// A message that is retransmitted.
#[derive(Clone, Debug)]
struct Resend {
    at: Instant,
    delay: Duration,
    count: u32,
    bytes: Vec<u8>,
    step: usize,
}

/// A received message, by its hash, and the message that was sent after it.
#[derive(Clone, Debug)]
struct Received {
    hash: u64,
    step: usize,
    reply: Option<(Vec<u8>, usize)>,
}

/// The progress of an INVITE that was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Progress {
    #[default]
    None,
    Sent,
    Provisional,
    /// Not yet acknowledged: 2xx, or another final response.
    Accepted,
    Rejected,
    Established,
}

impl Call {
    pub(super) fn new(dialog: Dialog, world: &World, now: Instant) -> Self {
        Self {
            dialog,
            step: 0,
            state: State::Running,
            deadline: None,
            resend: None,
            sent_step: None,
            received: Vec::new(),
            methods: Vec::new(),
            finals: Vec::new(),
            branches: vec![Vec::new(); world.script.names.transactions.len()],
            invite: Vec::new(),
            progress: Progress::None,
            started: now,
            timers: vec![Some(now); world.script.names.timers.len()],
            is_counted: false,
            run: 0,
        }
    }

    /// Returns true if the call has ended.
    pub(super) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Returns the time of the next timer.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        let resend = self.resend.as_ref().map(|resend| resend.at);
        [resend, self.deadline].into_iter().flatten().min()
    }

    /// Executes steps until the call waits or has ended.
    pub(super) fn advance(&mut self, world: &mut World, now: Instant) {
        self.run = 0;
        self.state = State::Running;
        self.deadline = None;
        while self.state == State::Running {
            self.run += 1;
            if self.run > ENDLESS {
                return self.fail(Cause::Loop, world, now);
            }
            let Some(step) = world.script.steps.get(self.step).cloned() else {
                return self.succeed(world, now);
            };
            if let Some((variable, expected)) = step.condition
                && self.dialog.get(variable, world).is_set() != expected
            {
                self.step = self.following(&step, world);
                continue;
            }
            if let Err(cause) = self.execute(&step, world, now) {
                return self.fail(cause, world, now);
            }
        }
    }

    fn execute(&mut self, step: &Step, world: &mut World, now: Instant) -> Result<(), Cause> {
        match &step.kind {
            Kind::Receive(receive) => {
                self.state = State::Waiting;
                let timeout = receive.timeout.or(world.settings.receive_timeout);
                self.deadline = timeout.map(|timeout| now + timeout);
                return Ok(());
            }
            Kind::Send(_) => self.send(step, world, now)?,
            Kind::Pause(pause) => {
                let millis = match pause {
                    Pause::Default => world.settings.pause.as_micros() as f64 / 1e3,
                    Pause::Random(distribution) => distribution.sample(&mut world.rng),
                    Pause::Variable(variable) => {
                        self.dialog.get(*variable, world).number().unwrap_or_default()
                    }
                };
                let length = Duration::from_micros((millis.max(0.0) * 1e3) as u64);
                self.state = State::Pausing;
                self.deadline = Some(now + length);
                world.counts.steps[self.step].count += 1;
            }
            Kind::TimeWait(length) => {
                self.count_success(world, now);
                self.state = State::Lingering;
                self.deadline = Some(now + *length);
                world.counts.steps[self.step].count += 1;
            }
            Kind::Nothing => world.counts.steps[self.step].count += 1,
        }
        self.note(step, world, now);
        let jump = perform(&step.actions, &mut self.dialog, world, self.step, now)?;
        if self.state == State::Running {
            self.step = jump.unwrap_or_else(|| self.following(step, world));
        }
        Ok(())
    }

    fn send(&mut self, step: &Step, world: &mut World, now: Instant) -> Result<(), Cause> {
        let Kind::Send(send) = &step.kind else { return Ok(()) };
        let at = self.step;
        self.dialog.visits[at] += 1;
        let first = send.message.pieces.first();
        let is_next = matches!(first, Some(super::template::Piece::Text(text))
            if !text.starts_with(b"SIP/2.0 ") && !text.starts_with(b"ACK ")
                && !text.starts_with(b"CANCEL "));
        if is_next {
            self.dialog.cseq += 1;
        }
        let bytes = expand(&send.message, &mut self.dialog, world, at, now)?;
        let is_lost = step.lost > 0.0 && world.rng.f64() < step.lost;
        let counts = &mut world.counts.steps[at];
        counts.count += 1;
        counts.lost += u64::from(is_lost);
        self.sent_step = Some(at);
        if message::status(&bytes).is_none() {
            self.sent_request(&bytes);
        }
        if let Some(transaction) = send.begins {
            self.branches[transaction] = message::branch(&bytes).unwrap_or_default().to_vec();
        }
        self.resend = send.retransmission.filter(|_| world.settings.is_lossy).map(|delay| Resend {
            at: now + delay,
            delay,
            count: 0,
            bytes: bytes.clone(),
            step: at,
        });
        if let Some(received) = self.received.last_mut() {
            received.reply = Some((bytes.clone(), at));
        }
        if !is_lost {
            world.out.push((self.dialog.peer, bytes));
        }
        Ok(())
    }

    fn sent_request(&mut self, bytes: &[u8]) {
        let method = message::method(bytes);
        match method {
            b"ACK" => {
                if self.progress == Progress::Accepted {
                    self.progress = Progress::Established;
                } else if self.progress == Progress::Rejected {
                    self.progress = Progress::None;
                }
                return;
            }
            b"INVITE" => {
                self.invite = bytes.to_vec();
                self.progress = Progress::Sent;
            }
            b"BYE" | b"CANCEL" => self.progress = Progress::None,
            _ => {}
        }
        if let Some((number, method)) = message::cseq(bytes) {
            self.finals.retain(|(old, name)| *old != number || name != method);
        }
        if !self.methods.iter().any(|known| known == method) {
            self.methods.push(method.to_vec());
        }
    }

    /// Starts and stops response times, and counts.
    fn note(&mut self, step: &Step, world: &mut World, now: Instant) {
        if let Some(timer) = step.stop_timer
            && let Some(start) = self.timers[timer]
        {
            let name = world.script.names.timers[timer].clone();
            world.counts.response_times.entry(name).or_default().record(now.since(start));
            if !step.repeats_timer {
                self.timers[timer] = None;
            }
        }
        if let Some(timer) = step.start_timer {
            self.timers[timer] = Some(now);
        }
        if let Some(counter) = step.counter {
            let name = world.script.names.counters[counter].clone();
            *world.counts.counters.entry(name).or_default() += 1;
        }
    }

    /// Returns the step after `step`: that of its `next`, if the test and the chance allow it.
    fn following(&self, step: &Step, world: &mut World) -> usize {
        let goes = step.test.is_none_or(|test| self.dialog.get(test, world).is_set());
        match step.next.filter(|_| goes && (step.chance >= 1.0 || world.rng.f64() < step.chance)) {
            Some(next) => next,
            None => self.step + 1,
        }
    }

    /// Handles a received message.
    pub(super) fn receive(&mut self, bytes: &[u8], world: &mut World, now: Instant) {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let hash = hasher.finish();
        if world.settings.is_lossy && self.repeats(hash, world) {
            return;
        }
        if self.state == State::Lingering || self.state == State::Over {
            world.counts.late += 1;
            return;
        }
        let Some(at) = self.expected_at(bytes, world) else {
            return self.unexpected(bytes, world, now);
        };
        let Some(step) = world.script.steps.get(at).cloned() else { return };
        let Kind::Receive(receive) = &step.kind else { return };
        if step.lost > 0.0 && world.rng.f64() < step.lost {
            world.counts.steps[at].lost += 1;
            return;
        }
        world.counts.steps[at].count += 1;
        if self.received.len() >= REMEMBERED {
            self.received.remove(0);
        }
        self.received.push(Received { hash, step: at, reply: None });
        self.store(bytes, receive);
        if self.resend.as_ref().is_some_and(|resend| at > resend.step) {
            self.resend = None;
        }
        self.note(&step, world, now);
        let jump = match perform(&step.actions, &mut self.dialog, world, at, now) {
            Ok(jump) => jump,
            Err(cause) => return self.fail(cause, world, now),
        };
        // A call stays at an optional message, which may come again, unless it branches.
        let branches = step.next.is_some()
            && step.test.is_none_or(|test| self.dialog.get(test, world).is_set());
        if let Some(target) = jump {
            self.step = target;
        } else if receive.optional == Need::Required || branches {
            self.step = at;
            self.step = self.following(&step, world);
        } else {
            return;
        }
        self.advance(world, now);
    }

    fn store(&mut self, bytes: &[u8], receive: &Receive) {
        let dialog = &mut self.dialog;
        bytes.clone_into(&mut dialog.last);
        dialog.store_peer(bytes, receive.ignores_sdp);
        if receive.stores_routes {
            dialog.store_routes(bytes);
        }
        if receive.stores_challenge {
            dialog.store_challenge(bytes);
        }
        let Some((number, method)) = message::cseq(bytes) else { return };
        match message::status(bytes) {
            None => dialog.cseq = number,
            Some(status) => {
                if method == b"INVITE" {
                    self.progress = match status {
                        100..200 if self.progress == Progress::Sent => Progress::Provisional,
                        100..200 => self.progress,
                        200..300 => Progress::Accepted,
                        _ => Progress::Rejected,
                    };
                }
                if status >= 200
                    && !self.finals.iter().any(|(old, name)| *old == number && name == method)
                {
                    self.finals.push((number, method.to_vec()));
                }
            }
        }
    }

    /// Answers a retransmission of a received message as before. Returns true if it is one.
    fn repeats(&mut self, hash: u64, world: &mut World) -> bool {
        let Some(received) = self.received.iter().find(|received| received.hash == hash) else {
            return false;
        };
        world.counts.steps[received.step].retransmitted += 1;
        if let Some((reply, step)) = &received.reply {
            world.counts.steps[*step].retransmitted += 1;
            world.out.push((self.dialog.peer, reply.clone()));
        }
        true
    }

    /// Returns the step that expects a message: the current one, a later one after optional ones,
    /// or an earlier optional one.
    fn expected_at(&self, bytes: &[u8], world: &World) -> Option<usize> {
        let steps = &world.script.steps;
        let receive = |at: usize| match &steps[at].kind {
            Kind::Receive(receive) => Some(receive),
            _ => None,
        };
        for at in self.step..steps.len() {
            match receive(at) {
                Some(receive) if self.matches(receive, bytes) => return Some(at),
                Some(receive) if receive.optional != Need::Required => {}
                _ => break,
            }
        }
        let mut is_contiguous = true;
        for at in (0..self.step.min(steps.len())).rev() {
            let optional = receive(at).map_or(Need::Required, |receive| receive.optional);
            is_contiguous &= optional != Need::Required;
            let is_open = is_contiguous || optional == Need::Global;
            if is_open && receive(at).is_some_and(|receive| self.matches(receive, bytes)) {
                return Some(at);
            }
        }
        None
    }

    fn matches(&self, receive: &Receive, bytes: &[u8]) -> bool {
        match (&receive.expected, message::status(bytes)) {
            (Expected::Response(expected), Some(status)) => {
                let Some((number, method)) = message::cseq(bytes) else { return false };
                let is_sent = match receive.transaction {
                    Some(transaction) => {
                        message::branch(bytes) == Some(&self.branches[transaction][..])
                    }
                    None => self.methods.iter().any(|known| known == method),
                };
                let is_over =
                    self.finals.iter().any(|(old, name)| *old == number && name == method);
                *expected == status && is_sent && !is_over
            }
            (Expected::Request(method), None) => message::method(bytes) == method,
            (Expected::Pattern(regex), None) => regex.is_match(message::method(bytes)),
            _ => false,
        }
    }

    fn unexpected(&mut self, bytes: &[u8], world: &mut World, now: Instant) {
        let cseq = message::cseq(bytes);
        if message::status(bytes).is_some()
            && cseq.is_some_and(|(number, method)| {
                self.finals.iter().any(|(old, name)| *old == number && name == method)
            })
        {
            // Another response of a transaction that has ended.
            world.counts.late += 1;
            return;
        }
        let method = message::method(bytes);
        let is_other = [&b"INFO"[..], b"NOTIFY", b"OPTIONS", b"UPDATE"].contains(&method);
        if world.settings.answers_others && is_other {
            world.counts.answered += 1;
            world.out.push((self.dialog.peer, default::response(bytes, "200 OK")));
            return;
        }
        let name = match message::status(bytes) {
            Some(status) => format!("{status} to {}", text(cseq.map_or(b"", |(_, method)| method))),
            None => text(method),
        };
        world.counts.note_unexpected(&name);
        if let Some(counts) = world.counts.steps.get_mut(self.step) {
            counts.unexpected += 1;
        }
        bytes.clone_into(&mut self.dialog.last);
        if message::status(bytes).is_some() {
            let last = std::mem::take(&mut self.dialog.last);
            self.store_final(&last);
            self.dialog.last = last;
        } else if method == b"BYE" || method == b"CANCEL" {
            world.out.push((self.dialog.peer, default::response(bytes, "200 OK")));
            self.progress = Progress::None;
        }
        self.fail(Cause::UnexpectedMessage, world, now);
    }

    fn store_final(&mut self, bytes: &[u8]) {
        let is_invite = message::cseq(bytes).is_some_and(|(_, method)| method == b"INVITE");
        match message::status(bytes) {
            Some(200..300) if is_invite => self.progress = Progress::Accepted,
            Some(300..) if is_invite => self.progress = Progress::Rejected,
            _ => {}
        }
    }

    /// Handles the timers that are due.
    pub(super) fn expire(&mut self, world: &mut World, now: Instant) {
        if let Some(resend) = self.resend.as_mut().filter(|resend| resend.at <= now) {
            let is_invite = resend.bytes.starts_with(b"INVITE ");
            let settings = &world.settings;
            let most = match is_invite {
                true => settings.invite_retransmissions,
                false => settings.other_retransmissions,
            };
            if resend.count >= most {
                world.counts.steps[resend.step].timed_out += 1;
                return self.fail(Cause::Retransmissions, world, now);
            }
            resend.count += 1;
            resend.delay = resend.delay.times(2);
            if !is_invite {
                resend.delay = resend.delay.min(T2);
            }
            resend.at = now + resend.delay;
            world.counts.steps[resend.step].retransmitted += 1;
            world.out.push((self.dialog.peer, resend.bytes.clone()));
        }
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        self.deadline = None;
        let step = world.script.steps.get(self.step).cloned();
        match (self.state, step.as_deref()) {
            (State::Waiting, Some(Step { kind: Kind::Receive(receive), .. })) => {
                world.counts.steps[self.step].timed_out += 1;
                match receive.on_timeout {
                    Some(step) => {
                        self.step = step;
                        self.advance(world, now);
                    }
                    None => self.fail(Cause::Timeout, world, now),
                }
            }
            (State::Pausing, Some(step)) => {
                self.step = self.following(step, world);
                self.advance(world, now);
            }
            _ => self.state = State::Over,
        }
    }

    /// Ends the call as unfinished.
    pub(super) fn abandon(&mut self, world: &mut World, now: Instant) {
        match self.is_counted {
            true => self.state = State::Over,
            false => self.fail(Cause::Unfinished, world, now),
        }
    }

    fn succeed(&mut self, world: &mut World, now: Instant) {
        self.count_success(world, now);
        self.state = State::Over;
    }

    fn count_success(&mut self, world: &mut World, now: Instant) {
        if !std::mem::replace(&mut self.is_counted, true) {
            world.counts.succeeded += 1;
            world.counts.call_length.record(now.since(self.started));
        }
    }

    fn fail(&mut self, cause: Cause, world: &mut World, now: Instant) {
        self.state = State::Over;
        if std::mem::replace(&mut self.is_counted, true) {
            return;
        }
        world.counts.note_failure(cause);
        world.counts.call_length.record(now.since(self.started));
        if world.settings.ends_failed {
            self.end_dialog(world);
        }
    }

    /// Sends what ends the call at the peer: CANCEL, or ACK and BYE.
    fn end_dialog(&mut self, world: &mut World) {
        let branch = |part: &str| {
            format!("z9hG4bK-{:x}-{}-{part}", world.settings.stamp, self.dialog.number)
        };
        let last = &self.dialog.last;
        let contact = message::value(last, "Contact").map(message::address);
        let target = match &self.dialog.next_url[..] {
            [] => contact,
            url => Some(url),
        };
        let uri = message::first_line(&self.invite).split(|&octet| octet == b' ').nth(1);
        let target = target.or(uri);
        let of = |method: &str, target, part: &str| {
            default::request(method, &self.invite, last, target, &branch(part))
        };
        let messages = match self.progress {
            Progress::None | Progress::Sent => Vec::new(),
            Progress::Provisional => vec![of("CANCEL", None, "")],
            Progress::Rejected => vec![of("ACK", None, "")],
            Progress::Accepted => vec![of("ACK", target, "ack"), of("BYE", target, "bye")],
            Progress::Established => vec![of("BYE", target, "bye")],
        };
        let peer = self.dialog.peer;
        world.out.extend(messages.into_iter().map(|bytes| (peer, bytes)));
    }
}

/// Returns a method as text for counts.
fn text(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(24)].escape_ascii().to_string()
}

#[cfg(test)]
mod tests;
