//! A request on its way: the response context of RFC 3261 section 16, with its server transaction
//! and the client transaction of each branch.

use super::Env;
use super::branch::{Branch, Handle};
use super::fork::{Cancel, Fork, ForkState, Sent};
use super::forward::ResponseChanges;
use super::plan::{Plan, write_request};
use super::target::{NextHop, Target};
use crate::flow::Flow;
use crate::output::{Event, Location, Ticket, TicketKind};
use alloc::boxed::Box;
use alloc::vec::Vec;
use sip::message::{Response, reason_phrase};
use sip::transaction::{ClientTransaction, Kind, ServerTransaction, State, Timeout};
use sip::{HeaderName, Instant, Message, Method, Transport};
use smallvec::SmallVec;

/// Requests that are longer go over a congestion-controlled transport where the target leaves the
/// choice (RFC 3261 section 18.1.1).
pub(crate) const MAX_UDP_REQUEST: usize = 1300;

/// Branches that one context may ever have: a byte numbers them.
const MAX_BRANCHES: usize = 255;

/// Bytes of challenges that are gathered from all branches for one response.
const MAX_CHALLENGES: usize = 8192;

/// A request with its branches.
pub(crate) struct Context {
    pub(crate) handle: Handle,
    /// Of the server transaction.
    pub(crate) key: u64,
    kind: Kind,
    server: ServerTransaction,
    plan: Plan,
    /// The request as it came; empty once it is not needed any more.
    request: Vec<u8>,
    /// Targets not yet tried, the best last.
    waiting: Vec<Target>,
    branches: SmallVec<[Box<Fork>; 1]>,
    /// No further branch is opened: there was a CANCEL, a 2xx or a 6xx.
    is_closing: bool,
    is_cancelled: bool,
    /// Nobody waits for a final response any more.
    is_abandoned: bool,
    best: Option<(u16, Vec<u8>)>,
    challenges: Vec<u8>,
    /// The last response that was sent back, as long as it may have to be sent again.
    last_response: Vec<u8>,
    /// When the timer queue will remind of this context.
    pub(crate) reminder: Instant,
}

/// Room for the lines that the proxy adds, when it is guessed whether a request fits a datagram.
const OUR_LINES: usize = 200;

impl Context {
    /// Begins with `request` and sends it to the best of `targets`.
    pub(crate) fn start(
        handle: Handle,
        key: u64,
        request: &Message<'_>,
        plan: Plan,
        mut targets: Vec<Target>,
        env: &mut Env<'_>,
    ) -> Self {
        let kind = match request.method() {
            Some(Method::Invite) => Kind::Invite,
            _ => Kind::NonInvite,
        };
        targets.reverse();
        targets.sort_by_key(|target| target.q);
        let mut context = Self {
            handle,
            key,
            kind,
            server: ServerTransaction::new(kind, plan.upstream.transport.is_reliable()),
            plan,
            request: Vec::new(),
            waiting: targets,
            branches: SmallVec::new(),
            is_closing: false,
            is_cancelled: false,
            is_abandoned: false,
            best: None,
            challenges: Vec::new(),
            last_response: Vec::new(),
            reminder: Instant::MAX,
        };
        if kind == Kind::Invite {
            context.respond_to(request, 100, env);
        }
        context.open_next(request, env);
        if !context.is_over() {
            context.request.extend_from_slice(request.as_bytes());
        }
        context.conclude(env);
        context
    }

    /// Whether the context can be dropped.
    pub(crate) fn is_over(&self) -> bool {
        (self.is_abandoned || self.server.state() == State::Terminated)
            && self.branches.iter().all(|fork| fork.is_over())
    }

    /// When [`Context::on_timer`] has something to do.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.branches
            .iter()
            .filter_map(|fork| fork.next_timer())
            .chain(self.server.next_timer())
            .min()
    }

    /// The request came again.
    pub(crate) fn on_retransmission(&mut self, env: &mut Env<'_>) {
        env.counters.retransmissions_received.add();
        if self.server.on_request_retransmission() {
            self.resend_response(env);
        }
    }

    /// An ACK came. True where it has to go on, since it is for a 2xx.
    pub(crate) fn on_ack(&mut self, env: &Env<'_>) -> bool {
        self.server.on_ack(&env.settings.config.timers, env.now)
    }

    /// A CANCEL came (RFC 3261 section 16.10).
    pub(crate) fn on_cancel(&mut self, env: &mut Env<'_>) {
        if self.kind == Kind::NonInvite || self.has_final() {
            return;
        }
        self.is_cancelled = true;
        self.close_others(None, env);
        self.conclude(env);
    }

    /// A response to branch `index` came. False where it fits nothing that was sent.
    pub(crate) fn on_response(
        &mut self,
        index: u8,
        response: &Message<'_>,
        env: &mut Env<'_>,
    ) -> bool {
        let Some(status) = response.status() else { return false };
        let Ok(cseq) =
            sip::header::CSeq::parse(response.value(HeaderName::CSeq).unwrap_or_default())
        else {
            return false;
        };
        let timers = env.settings.config.timers;
        let Some(fork) = self.branches.get_mut(usize::from(index)) else { return false };
        // The branch is not enough (RFC 3261 section 17.1.3).
        let kind = match cseq.method {
            Method::Cancel => {
                let Cancel::Sent { client, .. } = &mut fork.cancel else { return false };
                let _ = client.on_response(status, &timers, env.now);
                return true;
            }
            Method::Invite => Kind::Invite,
            _ => Kind::NonInvite,
        };
        if kind != self.kind {
            return false;
        }
        let ForkState::Sent(sent) = &mut fork.state else { return false };
        let action = sent.client.on_response(status, &timers, env.now);
        if action.send_ack {
            sent.acknowledge(response, env);
        }
        if !action.pass_up {
            self.conclude(env);
            return true;
        }
        if status < 200 {
            sent.is_provisional = true;
            if matches!(fork.cancel, Cancel::Wanted) {
                fork.send_cancel(env);
            }
            if status > 100 {
                if self.kind == Kind::Invite {
                    fork.timer_c = env.now + env.settings.config.timer_c;
                }
                self.pass_back(status, ResponseChanges::default(), response, env);
            }
            return true;
        }
        sent.is_final = true;
        fork.timer_c = Instant::MAX;
        match status {
            200..300 => {
                // Repetitions of a 2xx, and the 2xx of other branches, all go back.
                sent.message = Vec::new();
                if self.kind == Kind::Invite && self.server.state() != State::Accepted {
                    env.counters.answered.add();
                }
                self.pass_back(status, ResponseChanges::default(), response, env);
                self.waiting.clear();
                self.close_others(Some(index), env);
            }
            503 if !self.is_closing && self.fail_over_elsewhere(index, env) => {}
            300.. => {
                self.remember(status, response);
                if status >= 600 {
                    self.close_others(Some(index), env);
                }
            }
            _ => {}
        }
        self.conclude(env);
        true
    }

    /// The DNS has answered for branch `index`.
    pub(crate) fn on_located(&mut self, index: u8, locations: &[Location], env: &mut Env<'_>) {
        let Some(fork) = self.branches.get_mut(usize::from(index)) else { return };
        if !matches!(fork.state, ForkState::Locating) {
            return;
        }
        fork.state = ForkState::Over;
        match locations.split_first() {
            Some(_) if self.is_closing => {}
            Some((first, rest)) => {
                fork.alternatives = rest.to_vec();
                let first = *first;
                let request = core::mem::take(&mut self.request);
                if let Ok(request) = Message::parse(&request) {
                    self.send_to(usize::from(index), first, &request, env);
                }
                self.request = request;
            }
            None => {
                env.counters.undeliverable.add();
                self.fail(503);
            }
        }
        self.conclude(env);
    }

    /// A message of branch `index` could not be delivered.
    pub(crate) fn on_undeliverable(&mut self, index: u8, env: &mut Env<'_>) {
        let Some(fork) = self.branches.get_mut(usize::from(index)) else { return };
        let ForkState::Sent(sent) = &mut fork.state else { return };
        if sent.client.on_transport_error() && !sent.is_final {
            sent.is_final = true;
            if !self.fail_over(index, env) {
                self.fail(503);
            }
        }
        self.conclude(env);
    }

    /// Does what is due.
    pub(crate) fn on_timer(&mut self, env: &mut Env<'_>) {
        let timers = env.settings.config.timers;
        loop {
            match self.server.poll(&timers, env.now) {
                Timeout::None => break,
                Timeout::Retransmit => self.resend_response(env),
                Timeout::TimedOut | Timeout::Terminated => {}
            }
        }
        for index in 0..self.branches.len() {
            let fork = &mut self.branches[index];
            fork.poll_cancel(env);
            let timed_out = fork.poll(env);
            if fork.timer_c <= env.now {
                fork.timer_c = Instant::MAX;
                // RFC 3261 section 16.8; the 487 that follows ends the branch.
                fork.request_cancel(env);
            }
            if timed_out {
                env.counters.timeouts.add();
                let can_fail_over = !self.is_closing;
                if !(can_fail_over && self.fail_over_elsewhere(index as u8, env)) {
                    self.fail(408);
                }
            }
        }
        self.conclude(env);
    }

    /// Whether the sender of the request waits for nothing more.
    pub(crate) fn has_final(&self) -> bool {
        self.is_abandoned || !matches!(self.server.state(), State::Trying | State::Proceeding)
    }

    /// Opens branches to all waiting targets of the highest preference.
    fn open_next(&mut self, request: &Message<'_>, env: &mut Env<'_>) {
        let Some(q) = self.waiting.last().map(|target| target.q) else { return };
        let room = MAX_BRANCHES.saturating_sub(self.branches.len());
        let breadth = (self.plan.max_breadth as usize).min(room);
        let of_same_q = self.waiting.iter().rev().take_while(|target| target.q == q).count();
        let width = of_same_q.min(breadth);
        if width == 0 {
            self.waiting.clear();
            self.fail(440);
            return;
        }
        for opened in 0..width {
            let Some(target) = self.waiting.pop() else { return };
            // The breadth is shared out so that the parts sum up to the whole.
            let share = (self.plan.max_breadth as usize + width - 1 - opened) / width;
            self.open(target, share as u32, request, env);
        }
    }

    fn open(&mut self, target: Target, breadth: u32, request: &Message<'_>, env: &mut Env<'_>) {
        let index = self.branches.len();
        let next_hop = target.next_hop.clone();
        self.branches.push(Box::new(Fork {
            target,
            breadth,
            alternatives: Vec::new(),
            tcp_tried: None,
            state: ForkState::Over,
            timer_c: Instant::MAX,
            cancel: Cancel::No,
        }));
        match next_hop {
            NextHop::Flow(flow) => self.send_on(index, flow, request, env),
            NextHop::Address { transport, remote, near } => {
                let transport = transport.unwrap_or(Transport::Udp);
                let local = env.settings.local_for(transport, remote.ip(), near.as_slice());
                let location = Location { transport, remote, local };
                self.send_to(index, location, request, env);
            }
            NextHop::Name(destination) => {
                self.branches[index].state = ForkState::Locating;
                env.counters.dns_queries.add();
                let kind = TicketKind::Branch { handle: self.handle, index: index as u8 };
                env.out.events.push(Event::Locate { destination, ticket: Ticket(kind) });
            }
        }
    }

    fn send_to(
        &mut self,
        index: usize,
        location: Location,
        request: &Message<'_>,
        env: &mut Env<'_>,
    ) {
        let Location { transport, remote, local } = location;
        let near = [self.plan.arrived_on.local];
        let local_for = |transport| env.settings.local_for(transport, remote.ip(), &near);
        let Some(local) = local.or_else(|| local_for(transport)) else {
            // There is no way from any of our addresses to that one.
            env.counters.undeliverable.add();
            self.fail(503);
            return;
        };
        let fork = &mut self.branches[index];
        let is_free = match &fork.target.next_hop {
            NextHop::Address { transport, .. } => transport.is_none(),
            NextHop::Name(destination) => destination.transport.is_none(),
            NextHop::Flow(_) => false,
        };
        let is_large = request.as_bytes().len() + OUR_LINES > MAX_UDP_REQUEST;
        if is_free
            && is_large
            && transport == Transport::Udp
            && fork.tcp_tried != Some(remote)
            && let Some(tcp) = env.settings.local_for(Transport::Tcp, remote.ip(), &[local])
        {
            fork.alternatives.insert(0, Location { transport, remote, local: Some(local) });
            let flow = Flow { transport: Transport::Tcp, local: tcp, remote, connection: None };
            fork.tcp_tried = Some(remote);
            self.send_on(index, flow, request, env);
            return;
        }
        let flow = Flow { transport, local, remote, connection: None };
        self.send_on(index, flow, request, env);
    }

    fn send_on(&mut self, index: usize, flow: Flow, request: &Message<'_>, env: &mut Env<'_>) {
        let plan = &self.plan;
        let fork = &mut self.branches[index];
        let handle = self.handle;
        let branch = Branch::Stateful { handle, index: index as u8, loop_hash: plan.loop_hash };
        let range = write_request(plan, &fork.target, fork.breadth, &flow, branch, request, env);
        let Some(range) = range else {
            self.fail(513);
            return;
        };
        fork.state = ForkState::Sent(Box::new(Sent {
            flow,
            client: ClientTransaction::new(
                self.kind,
                flow.transport.is_reliable(),
                &env.settings.config.timers,
                env.now,
            ),
            message: env.out.bytes[range].to_vec(),
            is_final: false,
            is_provisional: false,
        }));
        if self.kind == Kind::Invite {
            fork.timer_c = env.now + env.settings.config.timer_c;
        }
    }

    /// As [`Context::fail_over`], where the place itself failed and not only the way to it.
    fn fail_over_elsewhere(&mut self, index: u8, env: &mut Env<'_>) -> bool {
        if let Some(fork) = self.branches.get_mut(usize::from(index)) {
            fork.alternatives.retain(|place| Some(place.remote) != fork.tcp_tried);
        }
        self.fail_over(index, env)
    }

    /// Tries the next place for the target of a branch that failed, in a branch of its own.
    fn fail_over(&mut self, index: u8, env: &mut Env<'_>) -> bool {
        let Some(fork) = self.branches.get_mut(usize::from(index)) else { return false };
        if fork.alternatives.is_empty() || self.branches.len() >= MAX_BRANCHES {
            return false;
        }
        let fork = &mut self.branches[usize::from(index)];
        let mut alternatives = core::mem::take(&mut fork.alternatives);
        let next = alternatives.remove(0);
        let (target, breadth, tcp_tried) = (fork.target.clone(), fork.breadth, fork.tcp_tried);
        let request = core::mem::take(&mut self.request);
        let parsed = Message::parse(&request);
        if let Ok(message) = &parsed {
            let index = self.branches.len();
            self.branches.push(Box::new(Fork {
                target,
                breadth,
                alternatives,
                tcp_tried,
                state: ForkState::Over,
                timer_c: Instant::MAX,
                cancel: Cancel::No,
            }));
            self.send_to(index, next, message, env);
        }
        let sent = parsed.is_ok();
        self.request = request;
        sent
    }

    /// Notes a failure of a branch that no response told of.
    fn fail(&mut self, status: u16) {
        if self.best.as_ref().is_none_or(|(best, _)| is_better(status, *best)) {
            self.best = Some((status, Vec::new()));
        }
    }

    fn remember(&mut self, status: u16, response: &Message<'_>) {
        if matches!(status, 401 | 407) {
            for field in response.fields() {
                if matches!(field.name, HeaderName::WwwAuthenticate | HeaderName::ProxyAuthenticate)
                    && self.challenges.len() + field.line.len() <= MAX_CHALLENGES
                {
                    self.challenges.extend_from_slice(field.line);
                }
            }
        }
        if self.best.as_ref().is_none_or(|(best, _)| is_better(status, *best)) {
            self.best = Some((status, response.as_bytes().to_vec()));
        }
    }

    /// Opens no further branch, and cancels those that are open but for `index`.
    fn close_others(&mut self, index: Option<u8>, env: &mut Env<'_>) {
        self.is_closing = true;
        self.waiting.clear();
        if self.kind == Kind::NonInvite {
            return;
        }
        for (at, fork) in self.branches.iter_mut().enumerate() {
            if Some(at) != index.map(usize::from) {
                fork.request_cancel(env);
            }
        }
    }

    /// When every branch has ended: tries the next targets, or answers with the best response.
    fn conclude(&mut self, env: &mut Env<'_>) {
        while !self.has_final() && self.branches.iter().all(|fork| fork.has_ended()) {
            if self.waiting.is_empty() || self.is_closing {
                self.answer_best(env);
                break;
            }
            let request = core::mem::take(&mut self.request);
            if let Ok(message) = Message::parse(&request) {
                self.open_next(&message, env);
            } else {
                self.waiting.clear();
            }
            self.request = request;
        }
        if self.has_final() && self.branches.iter().all(|fork| fork.has_ended()) {
            self.request = Vec::new();
            self.best = None;
        }
    }

    fn answer_best(&mut self, env: &mut Env<'_>) {
        match self.best.take() {
            // The client gave up at the same time (RFC 4320 section 4.2).
            Some((408, _)) if self.kind == Kind::NonInvite => self.is_abandoned = true,
            Some((status, bytes)) if !bytes.is_empty() => {
                let Ok(response) = Message::parse(&bytes) else { return };
                let challenges = core::mem::take(&mut self.challenges);
                // What is overloaded is that server, not this one (RFC 3261 section 16.7 step 6).
                let changed = (status == 503).then_some((500, reason_phrase(500)));
                let changes = ResponseChanges {
                    status: changed,
                    challenges: matches!(status, 401 | 407).then_some(&challenges),
                };
                let status = changed.map_or(status, |(status, _)| status);
                self.pass_back(status, changes, &response, env);
            }
            Some((status, _)) => self.respond(status, env),
            None => self.respond(if self.is_cancelled { 487 } else { 408 }, env),
        }
    }

    /// Sends a response of another server back.
    fn pass_back(
        &mut self,
        status: u16,
        changes: ResponseChanges<'_>,
        response: &Message<'_>,
        env: &mut Env<'_>,
    ) {
        let timers = &env.settings.config.timers;
        let late_success = self.kind == Kind::Invite
            && (200..300).contains(&status)
            && matches!(
                self.server.state(),
                State::Completed | State::Confirmed | State::Terminated
            );
        if !self.server.on_response(status, timers, env.now) && !late_success {
            return;
        }
        let range = env.out.send(self.plan.upstream, |bytes| changes.write(response, bytes));
        self.keep_response(status, &env.out.bytes[range.unwrap_or_default()]);
    }

    /// Sends a response of our own to the request that was kept.
    fn respond(&mut self, status: u16, env: &mut Env<'_>) {
        let kept = core::mem::take(&mut self.request);
        if let Ok(request) = Message::parse(&kept) {
            self.respond_to(&request, status, env);
        }
        self.request = kept;
    }

    /// Sends a response of our own to `request`, whose context this is.
    fn respond_to(&mut self, request: &Message<'_>, status: u16, env: &mut Env<'_>) {
        if !self.server.on_response(status, &env.settings.config.timers, env.now) {
            return;
        }
        let tag = (status > 100).then(|| env.to_tag(request));
        let response = Response {
            request,
            source: self.plan.arrived_on.remote,
            status,
            reason: reason_phrase(status),
            to_tag: tag.as_ref().map(|tag| &tag[..]),
        };
        let range = env.out.send(self.plan.upstream, |bytes| response.write(bytes, |_| {}));
        self.keep_response(status, &env.out.bytes[range.unwrap_or_default()]);
    }

    /// A 2xx to an INVITE is sent again by the one who made it.
    fn keep_response(&mut self, status: u16, bytes: &[u8]) {
        self.last_response.clear();
        if self.kind == Kind::NonInvite || !(200..300).contains(&status) {
            self.last_response.extend_from_slice(bytes);
        } else {
            self.last_response = Vec::new();
        }
    }

    fn resend_response(&self, env: &mut Env<'_>) {
        if self.last_response.is_empty() {
            return;
        }
        env.counters.retransmissions_sent.add();
        env.out.send(self.plan.upstream, |bytes| bytes.extend_from_slice(&self.last_response));
    }
}

/// Whether the status `one` says more to the caller than `other` (RFC 3261 section 16.7 step 6):
/// 6xx before all, else the lowest class; within 4xx those that ask for another try in another form.
fn is_better(one: u16, other: u16) -> bool {
    fn rank(status: u16) -> (u16, u16) {
        let class = status / 100;
        let within = match status {
            401 | 407 | 415 | 420 | 484 => 0,
            // What a timeout or a failed delivery says is less than what a phone says.
            408 | 503 => 2,
            _ => 1,
        };
        (if class == 6 { 0 } else { class }, within)
    }
    rank(one) < rank(other)
}
