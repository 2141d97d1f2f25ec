//! A request on its way: the response context of RFC 3261 section 16, with its server transaction
//! and the client transaction of each branch.

mod branches;

use super::fork::{Cancel, ELSEWHERE, Fork, ForkState, reason_line, reason_lines};
use super::forward::{NO_CHALLENGE, ResponseChanges, SenderFields};
use super::plan::Plan;
use super::search::{Aim, Search};
use super::target::Targets;
use super::via_branch::{Handle, Said};
use super::way_back::{Heard, Passed, WayBack};
use crate::event::Env;
use crate::flow::{Connection, Flow};
use crate::output::Location;
use alloc::boxed::Box;
use alloc::vec::Vec;
use sip::transaction::{Kind, State, Timeout};
use sip::{HeaderName, Instant, Message, Method, Status, StatusLine};
use smallvec::SmallVec;

/// A request with its branches. It stays for half a minute after its final response, with what is
/// needed then: so it is small, but for what is in `search`.
pub(crate) struct Context {
    pub(crate) handle: Handle,
    kind: Kind,
    back: WayBack,
    /// Hash of what responses have to say, and whether the tag of To is part of it.
    said: u64,
    has_to_tag: bool,
    branches: SmallVec<[Fork; 1]>,
    /// Until there is a final response, and every branch has ended.
    search: Option<Box<Search>>,
    /// No further branch is opened: there was a CANCEL, a 2xx or a 6xx.
    is_closing: bool,
    is_cancelled: bool,
    /// Nobody waits for a final response any more.
    is_abandoned: bool,
    /// The connections that an INVITE depends on, and how many of them have been told of.
    on: SmallVec<[Connection; 2]>,
    told: u8,
    /// The connection of the caller, where the dialog cannot go on without it.
    caller: Option<Connection>,
}

/// Where a response came from.
struct From {
    /// The flow on which the request was sent.
    there: Flow,
    /// The connection that was opened for the request, if it came on that.
    opened: Option<Flow>,
}

impl Context {
    /// Begins with `request` and sends it to the best of `targets`.
    pub(crate) fn start(
        handle: Handle,
        request: &Message<'_>,
        plan: Plan,
        targets: Targets,
        env: &mut Env<'_>,
    ) -> Self {
        let kind = match request.method() {
            Some(Method::Invite) => Kind::Invite,
            _ => Kind::NonInvite,
        };
        let mut context = Self {
            handle,
            kind,
            back: WayBack::new(kind, request, &plan),
            said: plan.said,
            has_to_tag: plan.has_to_tag,
            branches: SmallVec::new(),
            search: None,
            is_closing: false,
            is_cancelled: false,
            is_abandoned: false,
            on: SmallVec::new(),
            told: 0,
            caller: None,
        };
        if kind == Kind::Invite {
            // A proxy on the way opens another one.
            let is_first_hop = request.elements(HeaderName::Via).nth(1).is_none();
            context.caller = plan.upstream.connection.filter(|_| is_first_hop);
            context.on.extend(context.caller);
            context.back.respond(request, plan.arrived_on.remote, Status::TRYING, env);
        }
        let mut search = Box::new(Search::new(plan, targets));
        context.open_next(&mut search, request, env);
        search.request.extend_from_slice(request.as_bytes());
        context.search = Some(search);
        context.conclude(env);
        context
    }

    /// The memory that the context takes, as far as its messages make it more or less.
    pub(crate) fn bytes(&self) -> usize {
        let search = self.search.as_ref().map_or(0, |search| search.bytes());
        let branches = self.branches.iter().map(Fork::bytes).sum::<usize>();
        size_of::<Self>() + self.back.bytes() + search + branches
    }

    /// Whether the context can be dropped.
    pub(crate) fn is_over(&self) -> bool {
        (self.is_abandoned || self.back.server.state() == State::Terminated)
            && self.branches.iter().all(|fork| fork.is_over())
    }

    /// When [`Context::on_timer`] has something to do.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        let timers = self.branches.iter().filter_map(|fork| fork.next_timer());
        timers.chain(self.back.server.next_timer()).min()
    }

    /// The request came again, with this many bytes.
    pub(crate) fn on_retransmission(&mut self, length: usize, env: &mut Env<'_>) {
        env.counters.retransmissions_received.add();
        if self.back.on_retransmission(length) {
            self.repeat_response(env);
        }
    }

    /// An ACK came. True where it has to go on, since it is for a 2xx.
    pub(crate) fn on_ack(&mut self, env: &Env<'_>) -> bool {
        self.back.server.on_ack(&env.settings.config.timers, env.now)
    }

    /// The CANCEL `cancel` came (RFC 3261 section 16.10). What it says of its reason goes on (RFC
    /// 3326 section 2), but not from strangers, who could hide from the user that they have called.
    pub(crate) fn on_cancel(&mut self, cancel: &Message<'_>, env: &mut Env<'_>) {
        if self.kind == Kind::NonInvite || self.has_final() {
            return;
        }
        self.is_cancelled = true;
        let is_known = self
            .search
            .as_ref()
            .is_some_and(|search| search.plan.sender_fields != SenderFields::Removed);
        let reason = if is_known { reason_lines(cancel) } else { Vec::new() };
        self.close_others(None, &reason, env);
        self.conclude(env);
    }

    /// Whether `message` is of the dialog and the request that this context is for.
    pub(crate) fn has_said(&self, message: &Message<'_>, env: &Env<'_>) -> bool {
        let Some(said) = Said::read(message) else { return false };
        let to_tag = if self.has_to_tag { said.to_tag } else { &[] };
        Said { to_tag, ..said }.hash(&env.keys.branch) == self.said
    }

    /// A response to what was sent with `method` on branch `index` came on `flow`.
    pub(crate) fn on_response(
        &mut self,
        index: u8,
        response: &Message<'_>,
        method: Method<'_>,
        flow: &Flow,
        env: &mut Env<'_>,
    ) -> Heard {
        // A CANCEL is this server's own, and has its Via alone.
        let may_pass = method == Method::Cancel || self.back.has_port(response);
        let status = response.status().filter(|_| may_pass);
        let Some(status) = status else { return Heard::Nothing };
        let timers = env.settings.config.timers;
        let Some(fork) = self.branches.get_mut(usize::from(index)) else { return Heard::Nothing };
        // The branch is not enough (RFC 3261 section 17.1.3).
        let kind = match method {
            Method::Cancel => {
                let Cancel::Sent(cancel) = &mut fork.cancel else { return Heard::Nothing };
                let _ = cancel.client.on_response(status, &timers, env.now);
                return Heard::Noted;
            }
            Method::Invite => Kind::Invite,
            _ => Kind::NonInvite,
        };
        if kind != self.kind {
            return Heard::Nothing;
        }
        let ForkState::Sent(sent) = &mut fork.state else { return Heard::Nothing };
        let there = sent.flow;
        let is_stream = sent.flow.transport.is_stream();
        if !is_stream && flow.remote.ip() == there.remote.ip() {
            // The branch cannot be guessed, so the host there has the request.
            env.answered.note(there.remote.ip());
        }
        // Where there was a connection already, it is one that is followed in any case.
        let is_opened = is_stream
            && sent.flow.connection.is_none()
            && (flow.transport, flow.remote) == (sent.flow.transport, sent.flow.remote);
        let from = From { there, opened: is_opened.then_some(*flow) };
        let action = sent.client.on_response(status, &timers, env.now);
        if action.send_ack {
            sent.acknowledge(response, env);
        }
        if !action.pass_up {
            self.conclude(env);
            return Heard::Noted;
        }
        if status < 200 {
            self.on_provisional(index, status, &from, response, env);
            return Heard::Noted;
        }
        let heard = self.on_final(index, status, &from, response, env);
        self.conclude(env);
        heard
    }

    /// A provisional response came `from` there, on a branch on which something was sent.
    fn on_provisional(
        &mut self,
        index: u8,
        status: u16,
        from: &From,
        response: &Message<'_>,
        env: &mut Env<'_>,
    ) {
        let passes = status > 100;
        let timer_c =
            (passes && self.kind == Kind::Invite).then_some(env.now + env.settings.config.timer_c);
        self.branches[usize::from(index)].on_provisional(timer_c, env);
        if passes {
            self.pass(status, from, response, env);
        }
    }

    /// A final response came `from` there, on a branch on which something was sent.
    fn on_final(
        &mut self,
        index: u8,
        status: u16,
        from: &From,
        response: &Message<'_>,
        env: &mut Env<'_>,
    ) -> Heard {
        let is_success = status < 300;
        let is_acknowledged = self.kind == Kind::Invite && !is_success;
        self.branches[usize::from(index)].on_final(is_acknowledged);
        if is_success {
            // Repetitions of a 2xx, and the 2xx of other branches, all go back.
            if self.kind == Kind::Invite && self.back.server.state() != State::Accepted {
                env.counters.answered.add();
            }
            let passed = self.pass(status, from, response, env);
            self.close_others(Some(index), ELSEWHERE, env);
            return passed.map_or(Heard::Noted, |passed| Heard::Success { moved: passed.moved });
        }
        let has_failed_over = match status {
            // A phone that says so does not want the call on another flow either; a proxy on the
            // way to it may.
            503 => {
                let is_by_path = self.aim(index).is_some_and(|aim| !aim.target.path.is_empty());
                self.fail_over_elsewhere(index, is_by_path, env)
            }
            // What says that the flow is of no use, and not that the phone does not want the call.
            408 | 430 => self.fail_over(index, true, env),
            _ => false,
        };
        if has_failed_over {
            return Heard::Noted;
        }
        if status == 430 && self.aim(index).is_some_and(|aim| aim.target.flows.is_some()) {
            // There was no other one, and whoever called knows nothing of flows.
            self.fail(Status::SERVICE_UNAVAILABLE);
            return Heard::Noted;
        }
        if let Some(search) = &mut self.search {
            search.remember(status, response, env.settings.distrusts(&from.there));
        }
        if status >= 600 {
            self.close_others(Some(index), &reason_line(Status(status)), env);
        }
        Heard::Noted
    }

    /// Sends a response `from` there back, without what only those who are trusted may say.
    fn pass(
        &mut self,
        status: u16,
        from: &From,
        response: &Message<'_>,
        env: &mut Env<'_>,
    ) -> Option<Passed> {
        let distrusts = env.settings.distrusts(&from.there);
        let changes = ResponseChanges { distrusts, ..ResponseChanges::default() };
        self.back.pass(self.handle, status, &changes, from.opened, response, env)
    }

    /// The DNS has answered for branch `index`.
    pub(crate) fn on_located(&mut self, index: u8, locations: &[Location], env: &mut Env<'_>) {
        let Some(fork) = self.branches.get_mut(usize::from(index)) else { return };
        if !matches!(fork.state, ForkState::Locating) {
            return;
        }
        fork.state = ForkState::Over;
        self.with_search(|context, search, request| {
            let index = usize::from(index);
            let Some(aim) = search.aims.get_mut(index) else { return };
            // Decided before anything is sent or opened, so that nothing is found out by it.
            let origin = aim.target.origin;
            let mut open = locations.iter().filter(|place| env.may_reach(origin, place));
            match open.next() {
                Some(_) if context.is_closing => {}
                Some(&first) => {
                    aim.alternatives = open.copied().collect();
                    context.send_to(search, index, first, request, env);
                }
                None => {
                    env.counters.undeliverable.add();
                    search.fail(Status::SERVICE_UNAVAILABLE);
                    if !context.is_closing
                        && let Some(next) = search.aims[index].target.next_flow()
                    {
                        let breadth = search.aims[index].breadth;
                        context.open(search, next, breadth, request, env);
                    }
                }
            }
        });
        self.conclude(env);
    }

    /// A message of branch `index` could not be delivered.
    pub(crate) fn on_undeliverable(&mut self, index: u8, env: &mut Env<'_>) {
        let Some(fork) = self.branches.get_mut(usize::from(index)) else { return };
        let ForkState::Sent(sent) = &mut fork.state else { return };
        if sent.client.on_transport_error() && !sent.is_final {
            sent.is_final = true;
            if !self.fail_over(index, true, env) {
                self.fail_delivery();
            }
        }
        self.conclude(env);
    }

    /// The connections that it depends on of which it has not told yet.
    pub(super) fn newly_on(&mut self) -> &[Connection] {
        let told = usize::from(self.told).min(self.on.len());
        self.told = self.on.len() as u8;
        &self.on[told..]
    }

    /// The connections that it depends on.
    pub(super) fn is_on(&self) -> &[Connection] {
        &self.on
    }

    /// A connection that it depends on has ended: a phone that rang there is given up, and where it
    /// is the caller's, the others stop ringing.
    pub(crate) fn on_ended(&mut self, connection: Connection, env: &mut Env<'_>) {
        if self.has_final() {
            return;
        }
        if self.caller == Some(connection) {
            self.is_cancelled = true;
            self.close_others(None, &[], env);
        }
        for index in 0..self.branches.len() {
            let fork = &mut self.branches[index];
            let is_lost = matches!(&fork.state, ForkState::Sent(sent)
                if sent.flow.connection == Some(connection) && !sent.is_final);
            if is_lost {
                (fork.state, fork.timer_c) = (ForkState::Over, None);
                env.counters.lost_branches.add();
                if !self.fail_over(index as u8, true, env) {
                    self.fail_delivery();
                }
            }
        }
        self.conclude(env);
    }

    /// Notes that a branch has failed for its flow.
    fn fail_delivery(&mut self) {
        let is_by_edge = self.search.as_ref().is_some_and(|it| it.plan.is_by_edge);
        self.fail(match is_by_edge {
            true => Status::FLOW_FAILED,
            false => Status::SERVICE_UNAVAILABLE,
        });
    }

    /// Does what is due.
    pub(crate) fn on_timer(&mut self, env: &mut Env<'_>) {
        let timers = env.settings.config.timers;
        loop {
            match self.back.server.poll(&timers, env.now) {
                Timeout::None => break,
                Timeout::Retransmit => self.repeat_response(env),
                Timeout::TimedOut | Timeout::Terminated => {}
            }
        }
        for index in 0..self.branches.len() {
            let fork = &mut self.branches[index];
            fork.poll_cancel(env);
            let search = &mut self.search;
            let timed_out = fork.poll(env, |flow, length, env| match search {
                Some(search) => search.affords(flow, length, env),
                None => true,
            });
            if fork.timer_c.is_some_and(|at| at <= env.now) {
                fork.timer_c = None;
                // RFC 3261 section 16.8; the 487 that follows ends the branch.
                fork.request_cancel(&reason_line(Status::REQUEST_TIMEOUT), env);
            }
            if timed_out {
                env.counters.timeouts.add();
                if !self.fail_over_elsewhere(index as u8, true, env) {
                    self.fail(Status::REQUEST_TIMEOUT);
                }
            }
        }
        self.conclude(env);
    }

    /// Whether the sender of the request waits for nothing more.
    pub(crate) fn has_final(&self) -> bool {
        self.is_abandoned || !matches!(self.back.server.state(), State::Trying | State::Proceeding)
    }

    /// Lets `act` go on with the search, and the request that it is for, if it is not over.
    fn with_search<T>(
        &mut self,
        act: impl FnOnce(&mut Self, &mut Search, &Message<'_>) -> T,
    ) -> Option<T> {
        let mut search = self.search.take()?;
        let bytes = core::mem::take(&mut search.request);
        let result = Message::parse(&bytes).ok().map(|request| act(self, &mut search, &request));
        search.request = bytes;
        self.search = Some(search);
        result
    }

    /// Where the branch `index` goes, as long as that is known.
    fn aim(&self, index: u8) -> Option<&Aim> {
        self.search.as_ref()?.aims.get(usize::from(index))
    }

    /// Notes a failure of a branch that no response told of.
    fn fail(&mut self, status: Status) {
        if let Some(search) = &mut self.search {
            search.fail(status);
        }
    }

    /// Opens no further branch, and cancels those that are open but for `index`, with the lines of
    /// `reason`.
    fn close_others(&mut self, index: Option<u8>, reason: &[u8], env: &mut Env<'_>) {
        self.is_closing = true;
        if let Some(search) = &mut self.search {
            search.waiting.clear();
        }
        if self.kind == Kind::NonInvite {
            return;
        }
        for (at, fork) in self.branches.iter_mut().enumerate() {
            if Some(at) != index.map(usize::from) {
                fork.request_cancel(reason, env);
            }
        }
    }

    /// When every branch has ended: tries the next targets, or answers with the best response.
    fn conclude(&mut self, env: &mut Env<'_>) {
        while !self.has_final() && self.branches.iter().all(Fork::has_ended) {
            let Some(search) = &self.search else { return };
            if search.waiting.is_empty() || self.is_closing {
                self.answer_best(env);
                break;
            }
            let open = |context: &mut Self, search: &mut Search, request: &Message<'_>| {
                context.open_next(search, request, env);
            };
            if self.with_search(open).is_none() {
                break;
            }
        }
        if self.has_final() && self.branches.iter().all(Fork::has_ended) {
            self.search = None;
        }
    }

    fn answer_best(&mut self, env: &mut Env<'_>) {
        let Some(search) = &mut self.search else { return };
        match search.best.take() {
            // That a way is gone on which the CANCEL went is its end.
            Some((430 | 503, bytes)) if self.is_cancelled && bytes.is_empty() => {
                self.respond(Status::REQUEST_TERMINATED, env);
            }
            // The client gave up at the same time (RFC 4320 section 4.2).
            Some((408, _)) if self.kind == Kind::NonInvite => self.is_abandoned = true,
            Some((status, bytes)) if !bytes.is_empty() => {
                let Ok(response) = Message::parse(&bytes) else { return };
                let challenges = core::mem::take(&mut search.challenges);
                let is_challenge = matches!(status, 401 | 407);
                let asks = env.settings.config.authentication.required;
                let changed = match status {
                    // What is overloaded is that server, not this one (RFC 3261 section 16.7 step
                    // 6).
                    503 => Some(Status::SERVER_INTERNAL_ERROR.into()),
                    401 | 407 if search.was_stripped && challenges.is_empty() => Some(NO_CHALLENGE),
                    _ => None,
                };
                let changes = ResponseChanges {
                    status: changed,
                    challenges: is_challenge.then_some(&challenges),
                    distrusts: Some(env.settings).filter(|_| asks && !is_challenge),
                    ..ResponseChanges::default()
                };
                let status = changed.map_or(status, |line: StatusLine<'_>| line.status.code());
                self.back.pass(self.handle, status, &changes, None, &response, env);
            }
            // That one place cannot be reached says nothing of this server (RFC 3261 section
            // 21.5.4).
            Some((503, _)) => self.respond(Status::TEMPORARILY_UNAVAILABLE, env),
            Some((status, _)) => self.respond(Status(status), env),
            None if self.is_cancelled => self.respond(Status::REQUEST_TERMINATED, env),
            None => self.respond(Status::REQUEST_TIMEOUT, env),
        }
    }

    /// Sends a response of our own.
    fn respond(&mut self, status: Status, env: &mut Env<'_>) {
        self.with_search(|context, search, request| {
            context.back.respond(request, search.plan.arrived_on.remote, status, env);
        });
    }

    /// Sends the last response again, if one was sent; as long as there is none that is kept,
    /// a 100.
    fn repeat_response(&mut self, env: &mut Env<'_>) {
        if !self.back.repeat(env) && self.kind == Kind::Invite && !self.has_final() {
            env.counters.retransmissions_sent.add();
            self.respond(Status::TRYING, env);
        }
    }
}
