//! A request in progress: the response context of RFC 3261 section 16, with its server transaction
//! and the client transaction of each branch.

mod branches;
mod conclusion;
mod relayed;
mod responses;
mod stages;
#[cfg(feature = "office")]
mod waking;

use super::fork::{Fork, ForkState, reason_line, reason_lines};
use super::plan::Plan;
use super::search::{Aim, Search};
use super::services::Stages;
use super::target::Targets;
use super::via_branch::DialogFields;
use super::way_back::WayBack;
use crate::core::event::Env;
use crate::core::flow::Connection;
use crate::core::ticket::Handle;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use sip::transaction::{State, TimerAction, TransactionKind};
use sip::{HeaderName, Instant, Location, Message, Method, Status, Transport};
use smallvec::SmallVec;

/// A request with its branches. It is kept for half a minute after its final response. The data
/// that is not needed after that response is in `search`, so that the rest is small.
pub(crate) struct Context {
    pub(crate) handle: Handle,
    kind: TransactionKind,
    back: WayBack,
    /// Hash of the identifying fields that a response must repeat, and a flag for the To tag being
    /// part of it.
    said: u64,
    has_to_tag: bool,
    branches: SmallVec<[Fork; 1]>,
    /// Present until there is a final response and every branch has ended.
    search: Option<Box<Search>>,
    /// No further branch is opened, because of a CANCEL, a 2xx or a 6xx.
    is_closing: bool,
    is_cancelled: bool,
    /// The client no longer waits for a final response.
    is_abandoned: bool,
    /// The connections that an INVITE depends on, and the number of them that are registered in
    /// `Calls` already.
    on: SmallVec<[Connection; 2]>,
    told: u8,
    /// The connection of the caller, if the dialog cannot continue without it.
    caller: Option<Connection>,
}

impl Context {
    /// The approximate memory of a context beside the request, in bytes.
    pub(crate) const STATE: usize = size_of::<Self>() + size_of::<Search>() + 1024;

    /// Creates the context of `request`, which has the fields `said`, and sends the request to the
    /// best of `targets`, which are those of the first of the `stages` of a call with call
    /// services.
    pub(crate) fn start(
        handle: Handle,
        request: &Message<'_>,
        said: &DialogFields<'_>,
        plan: Plan,
        (targets, stages): (Targets, Option<Box<Stages>>),
        env: &mut Env<'_>,
    ) -> Self {
        let kind = match request.method() {
            Some(Method::Invite) => TransactionKind::Invite,
            _ => TransactionKind::NonInvite,
        };
        let mut context = Self {
            handle,
            kind,
            back: WayBack::new(kind, request, said.to_tag.is_empty(), &plan, env),
            said: said.hash(&env.keys.branch),
            has_to_tag: !said.to_tag.is_empty(),
            branches: SmallVec::new(),
            search: None,
            is_closing: false,
            is_cancelled: false,
            is_abandoned: false,
            on: SmallVec::new(),
            told: 0,
            caller: None,
        };
        if kind == TransactionKind::Invite {
            // A proxy between the caller and this server opens another connection.
            let is_first_hop = request.elements(HeaderName::Via).nth(1).is_none();
            // An internal flow does not end.
            let is_there = is_first_hop && !plan.upstream.is_internal();
            context.caller = plan.upstream.connection.filter(|_| is_there);
            context.on.extend(context.caller);
            context.back.respond(request, plan.arrived_on.remote, Status::TRYING, env);
        }
        let mut search = Box::new(Search::new(plan, targets, env.now));
        search.stages = stages;
        context.announce(&mut search, request, env);
        context.open_next(&mut search, request, env);
        search.request.extend_from_slice(request.as_bytes());
        context.search = Some(search);
        context.conclude(env);
        context
    }

    /// The memory that the context uses, in bytes, as far as it depends on the messages.
    pub(crate) fn bytes(&self) -> usize {
        let search = self.search.as_ref().map_or(0, |search| search.bytes());
        let branches = self.branches.iter().map(Fork::bytes).sum::<usize>();
        size_of::<Self>() + self.back.bytes() + search + branches
    }

    /// True if the context can be dropped.
    pub(crate) fn is_over(&self) -> bool {
        (self.is_abandoned || self.back.server.state() == State::Terminated)
            && self.branches.iter().all(|fork| fork.is_over())
    }

    /// The time at which [`Context::on_timer`] must be called.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        let timers = self.branches.iter().filter_map(|fork| fork.next_timer());
        timers.chain(self.back.server.next_timer()).chain(self.end_of_stage()).min()
    }

    /// Handles a retransmission of the request of `length` bytes.
    pub(crate) fn on_retransmission(&mut self, length: usize, env: &mut Env<'_>) {
        env.counters.retransmissions_received.add();
        if self.back.on_retransmission(length) {
            self.repeat_response(env);
        }
    }

    /// Handles an ACK. Returns true if the ACK is for a 2xx and must be forwarded.
    pub(crate) fn on_ack(&mut self, env: &Env<'_>) -> bool {
        self.back.server.on_ack(&env.settings.config.timers, env.now)
    }

    /// Handles the CANCEL `cancel` (RFC 3261 section 16.10). Its Reason is forwarded (RFC 3326
    /// section 2), but not from a stranger, which could hide from the user that a call was made.
    pub(crate) fn on_cancel(&mut self, cancel: &Message<'_>, env: &mut Env<'_>) {
        if self.kind == TransactionKind::NonInvite || self.has_final() {
            return;
        }
        self.is_cancelled = true;
        let is_known =
            self.search.as_ref().is_some_and(|search| !search.plan.sender_fields.are_removed());
        let reason = if is_known { reason_lines(cancel) } else { Vec::new() };
        if let Some(search) = &mut self.search {
            search.failing.cancelled(cancel);
        }
        self.close_others(None, &reason, env);
        self.conclude(env);
    }

    /// True if a message with the fields `said` belongs to the dialog and the request of this
    /// context.
    pub(crate) fn has_said(&self, said: &DialogFields<'_>, env: &Env<'_>) -> bool {
        let to_tag = if self.has_to_tag { said.to_tag } else { &[] };
        DialogFields { to_tag, ..*said }.hash(&env.keys.branch) == self.said
    }

    /// True if `seal` is that of branch `index`.
    pub(crate) fn has_seal(&self, index: u8, seal: u64) -> bool {
        self.branches.get(usize::from(index)).is_some_and(|fork| fork.seal == seal)
    }

    /// Handles the result of the DNS lookup for branch `index`.
    pub(crate) fn on_located(&mut self, index: u8, locations: &[Location], env: &mut Env<'_>) {
        let Some(fork) = self.branches.get_mut(usize::from(index)) else { return };
        if !matches!(fork.state, ForkState::Locating) {
            return;
        }
        fork.state = ForkState::Over;
        self.with_search(|context, search, request| {
            let index = usize::from(index);
            let Some(aim) = search.aims.get_mut(index) else { return };
            // The check comes before anything is sent or opened, so that a client cannot probe
            // addresses.
            let (origin, from) = (aim.target.origin, search.plan.arrived_on);
            let mut open = locations.iter().filter(|place| env.may_send(&from, origin, place));
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

    /// Handles a transport error of a message of branch `index`.
    pub(crate) fn on_undeliverable(&mut self, index: u8, env: &mut Env<'_>) {
        let Some(fork) = self.branches.get_mut(usize::from(index)) else { return };
        let ForkState::Sent(sent) = &mut fork.state else { return };
        if sent.client.on_transport_error() && !sent.is_final {
            sent.is_final = true;
            let is_internal = sent.flow.is_internal();
            if is_internal && self.has_to_tag {
                // The owner no longer has the B2BUA of the dialog.
                self.fail(Status::CALL_DOES_NOT_EXIST);
            } else if !self.fail_over(index, true, env) {
                self.fail_delivery(index);
            }
        }
        self.conclude(env);
    }

    /// Handles an ICMP error for a datagram of branch `index` to `remote` that begins with
    /// `quoted`. Only the request itself counts, not its CANCEL or ACK, which have the same branch.
    pub(crate) fn on_unreachable(
        &mut self,
        index: u8,
        remote: SocketAddr,
        quoted: &[u8],
        env: &mut Env<'_>,
    ) {
        let Some(fork) = self.branches.get(usize::from(index)) else { return };
        let ForkState::Sent(sent) = &fork.state else { return };
        let is_sent_there = sent.flow.transport == Transport::Udp && sent.flow.remote == remote;
        if is_sent_there && !sent.is_final && sent.message.starts_with(quoted) {
            env.counters.undeliverable.add();
            self.on_undeliverable(index, env);
        }
    }

    /// Returns the connections that the context depends on and has not returned before.
    pub(super) fn newly_on(&mut self) -> &[Connection] {
        let told = usize::from(self.told).min(self.on.len());
        self.told = self.on.len() as u8;
        &self.on[told..]
    }

    /// The connections that the context depends on.
    pub(super) fn is_on(&self) -> &[Connection] {
        &self.on
    }

    /// Handles the end of a connection that the context depends on. The branches on it have failed.
    /// If it is the connection of the caller, all branches are cancelled.
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
            if let ForkState::Sent(sent) = &mut fork.state
                && sent.flow.connection == Some(connection)
                && !sent.is_final
            {
                sent.is_final = true;
                (fork.state, fork.timer_c) = (ForkState::Over, None);
                env.counters.lost_branches.add();
                if !self.fail_over(index as u8, true, env) {
                    self.fail_delivery(index as u8);
                }
            }
        }
        self.conclude(env);
    }

    /// Records that branch `index` has failed because its flow has failed.
    fn fail_delivery(&mut self, index: u8) {
        if self.is_withdrawn(index) {
            return;
        }
        let is_by_edge = self.search.as_ref().is_some_and(|it| it.plan.is_by_edge);
        self.fail(match is_by_edge {
            true => Status::FLOW_FAILED,
            false => Status::SERVICE_UNAVAILABLE,
        });
    }

    /// Runs the timers that are due.
    pub(crate) fn on_timer(&mut self, env: &mut Env<'_>) {
        let timers = env.settings.config.timers;
        loop {
            match self.back.server.poll(&timers, env.now) {
                TimerAction::None => break,
                TimerAction::Retransmit => self.repeat_response(env),
                TimerAction::TimedOut | TimerAction::Terminated => {}
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
                // RFC 3261 section 16.8: the 487 that follows ends the branch.
                fork.request_cancel(&reason_line(Status::REQUEST_TIMEOUT), env);
                if let Some(search) = search.as_mut().filter(|search| search.stages.is_some()) {
                    search.fail(Status::REQUEST_TIMEOUT);
                }
            }
            if timed_out {
                env.counters.timeouts.add();
                let goes_on = self.fail_over_elsewhere(index as u8, true, env);
                if !goes_on && !self.is_withdrawn(index as u8) {
                    self.fail(Status::REQUEST_TIMEOUT);
                }
            }
        }
        self.end_stage_in_time(env);
        self.conclude(env);
    }

    /// True if this is the first INVITE of a call.
    fn begins_call(&self) -> bool {
        self.kind == TransactionKind::Invite && !self.has_to_tag && !self.back.flow().is_internal()
    }

    /// True if the client expects no further response.
    pub(crate) fn has_final(&self) -> bool {
        self.is_abandoned || !matches!(self.back.server.state(), State::Trying | State::Proceeding)
    }

    /// Calls `act` with the search and the parsed request. Returns `None` if the search has ended.
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

    /// The destination of branch `index`, until the search has ended.
    fn aim(&self, index: u8) -> Option<&Aim> {
        self.search.as_ref()?.aims.get(usize::from(index))
    }

    /// Records a failure of a branch without a response.
    fn fail(&mut self, status: Status) {
        if let Some(search) = &mut self.search {
            search.fail(status);
        }
    }
}
