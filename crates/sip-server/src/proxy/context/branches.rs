//! The branches of a request: they are opened to its targets, and to alternatives if a target fails
//! (RFC 3261 section 16.6, RFC 3263 section 4.3, RFC 5626 section 7).

use super::super::ending::Failing;
use super::super::fork::{Cancel, Fork, ForkState, Sent};
use super::super::joining;
use super::super::media::other_keys;
use super::super::plan::{PATIENCE_WITH_TRUNK, write_request};
use super::super::search::{Aim, Search};
use super::super::target::Target;
use super::super::via_branch::{self, ViaBranch};
use super::Context;
use crate::core::event::Env;
use crate::core::flow::{Connection, Flow};
use crate::core::next_hop::NextHop;
use crate::core::output::Event;
use crate::core::ticket::{Handle, Ticket, Waiting};
use alloc::vec::Vec;
use sip::transaction::{ClientTransaction, TransactionKind};
use sip::{Location, Message, Status, Transport};

/// The maximum number of branches of one context. A branch index is one byte.
const MAX_BRANCHES: usize = 255;

impl Context {
    /// Opens branches to all waiting targets of the highest preference.
    pub(super) fn open_next(
        &mut self,
        search: &mut Search,
        request: &Message<'_>,
        env: &mut Env<'_>,
    ) {
        let Some(q) = search.waiting.last().map(|target| target.q) else { return };
        let room = MAX_BRANCHES.saturating_sub(self.branches.len());
        let max_breadth = search.plan.max_breadth as usize;
        let of_same_q = search.waiting.iter().rev().take_while(|target| target.q == q).count();
        let width = of_same_q.min(max_breadth).min(room);
        if width == 0 {
            search.waiting.clear();
            search.fail(Status::MAX_BREADTH_EXCEEDED);
            return;
        }
        for opened in 0..width {
            let Some(target) = search.waiting.pop() else { return };
            // The shares of the branches sum up to `max_breadth`.
            let share = (max_breadth + width - 1 - opened) / width;
            self.open(search, target, share as u32, request, env);
        }
    }

    /// Opens a branch to `target`. If that fails, opens one to the next flow to the same phone.
    pub(super) fn open(
        &mut self,
        search: &mut Search,
        mut target: Target,
        breadth: u32,
        request: &Message<'_>,
        env: &mut Env<'_>,
    ) {
        while self.branches.len() < MAX_BRANCHES {
            let index = self.try_to_open(search, target, breadth, request, env);
            if !matches!(self.branches[index].state, ForkState::Over) {
                return;
            }
            let Some(next) = search.aims[index].target.next_flow() else { return };
            target = next;
        }
    }

    /// Adds a branch to `target` and returns its index. The branch is over at once if the request
    /// cannot be sent.
    fn try_to_open(
        &mut self,
        search: &mut Search,
        target: Target,
        breadth: u32,
        request: &Message<'_>,
        env: &mut Env<'_>,
    ) -> usize {
        let aim = Aim { target, breadth, alternatives: Vec::new(), tcp_tried: None };
        let index = self.push_branch(search, aim, env);
        #[cfg(feature = "office")]
        if self.waits_for_phone(search, index, request, env) {
            return index;
        }
        self.begin(search, index, request, env);
        index
    }

    /// Sends the request to the target of the new branch `index`, or looks it up. The branch is
    /// over at once if the request cannot be sent.
    pub(super) fn begin(
        &mut self,
        search: &mut Search,
        index: usize,
        request: &Message<'_>,
        env: &mut Env<'_>,
    ) {
        match search.aims[index].target.next_hop.clone() {
            NextHop::Flow(flow) if env.settings.leads_here(&flow) => {
                env.counters.unreachable.add();
                search.fail(Status::SERVICE_UNAVAILABLE);
            }
            NextHop::Flow(flow) => self.send_on(search, index, flow, request, env),
            NextHop::Address { transport, remote, .. } => {
                let transport = transport.unwrap_or(Transport::Udp);
                let location = Location { transport, remote, local: None };
                let origin = search.aims[index].target.origin;
                if env.may_send(&search.plan.arrived_on, origin, &location) {
                    self.send_to(search, index, location, request, env);
                } else {
                    search.fail(Status::SERVICE_UNAVAILABLE);
                }
            }
            NextHop::Name(destination) => {
                self.branches[index].state = ForkState::Locating;
                env.counters.dns_queries.add();
                let kind = Waiting::Branch { handle: self.handle, index: index as u8 };
                let (ticket, payers) = (Ticket(kind), search.plan.payers);
                env.out.events.push(Event::Locate { destination, ticket, payers });
            }
        }
    }

    /// Adds a branch on which nothing has been sent and returns its index.
    fn push_branch(&mut self, search: &mut Search, aim: Aim, env: &Env<'_>) -> usize {
        search.aims.push(aim);
        let index = self.branches.len();
        let seal = via_branch::seal(&env.keys.branch, &self.handle, index as u8);
        let (state, timer_c, cancel) = (ForkState::Over, None, Cancel::No);
        self.branches.push(Fork { seal, state, timer_c, cancel });
        index
    }

    pub(super) fn send_to(
        &mut self,
        search: &mut Search,
        index: usize,
        location: Location,
        request: &Message<'_>,
        env: &mut Env<'_>,
    ) {
        let (aim, arrived_at) = (&mut search.aims[index], search.plan.arrived_on.local);
        let length = request.as_bytes().len();
        let flows = aim.target.next_hop.flows_to(&location, length, arrived_at, env);
        let flow = match flows[..] {
            [tcp, udp] if aim.tcp_tried != Some(location.remote) => {
                aim.alternatives.insert(0, Location { local: Some(udp.local), ..location });
                aim.tcp_tried = Some(location.remote);
                tcp
            }
            [.., flow] => flow,
            [] => return search.fail(Status::SERVICE_UNAVAILABLE),
        };
        self.send_on(search, index, flow, request, env);
    }

    fn send_on(
        &mut self,
        search: &mut Search,
        index: usize,
        flow: Flow,
        request: &Message<'_>,
        env: &mut Env<'_>,
    ) {
        let (plan, aim) = (&search.plan, &search.aims[index]);
        let Handle { shard, slot, .. } = self.handle;
        let (seal, loop_hash) = (self.branches[index].seal, plan.loop_hash);
        let branch = ViaBranch::Stateful { shard, slot, index: index as u8, seal, loop_hash };
        let sent_before = env.out.transmits.len();
        let range = write_request(plan, &aim.target, aim.breadth, &flow, branch, request, env);
        let range = match range {
            Ok(range) => range,
            Err(stuck) => return search.fail(stuck.status()),
        };
        // The first request on the flow of a registered phone, or of an end of the dialog, is
        // always allowed.
        let follows = matches!(search.aims[index].target.next_hop, NextHop::Flow(_));
        if !search.affords(&flow, range.len(), env) && !follows {
            env.out.transmits.truncate(sent_before);
            search.fail(Status::SERVICE_UNAVAILABLE);
            return;
        }
        let fork = &mut self.branches[index];
        fork.state = ForkState::Sent(Sent {
            flow,
            client: ClientTransaction::new(
                self.kind,
                flow.transport.is_stream(),
                &env.settings.config.timers,
                env.now,
            ),
            message: env.out.bytes[range].to_vec(),
            is_final: false,
            is_provisional: false,
            patience: search.plan.is_to_trunk.then(|| env.now + PATIENCE_WITH_TRUNK),
        });
        if self.kind == TransactionKind::Invite {
            let is_new = |it: &Connection| !it.is_internal() && !self.on.contains(it);
            self.on.extend(flow.connection.filter(is_new));
            fork.timer_c = Some(env.now + env.settings.config.timer_c);
        }
    }

    /// Like [`Context::fail_over`], for a failure of the place itself and not only of the transport
    /// to it.
    pub(super) fn fail_over_elsewhere(
        &mut self,
        index: u8,
        changes_flow: bool,
        env: &mut Env<'_>,
    ) -> bool {
        let aims = self.search.as_mut().map(|search| &mut search.aims[..]).unwrap_or_default();
        if let Some(aim) = aims.get_mut(usize::from(index)) {
            aim.alternatives.retain(|place| Some(place.remote) != aim.tcp_tried);
        }
        self.fail_over(index, changes_flow, env)
    }

    /// Opens a branch to the B2BUA of the owner, for a target that has refused the session
    /// description. Returns false if nothing was opened.
    pub(super) fn join(&mut self, index: u8, env: &mut Env<'_>) -> bool {
        if self.is_closing || self.is_withdrawn(index) || self.kind != TransactionKind::Invite {
            return false;
        }
        let opened = self.with_search(|context, search, request| {
            let Some(aim) = search.aims.get(usize::from(index)) else { return false };
            let next = joining::next_target(request, &aim.target, &search.plan, env);
            let (Some(next), breadth) = (next, aim.breadth) else { return false };
            let count = context.branches.len();
            // The call goes on, and its second leg has a record of its own.
            search.failing = Failing::default();
            context.open(search, next, breadth, request, env);
            context.branches.len() > count
        });
        opened == Some(true)
    }

    /// Opens a branch to the target that a branch to the B2BUA of the owner was tried in place of.
    /// Returns false if nothing was opened.
    pub(super) fn go_direct(&mut self, index: u8, env: &mut Env<'_>) -> bool {
        let is_withdrawn = self.is_withdrawn(index);
        let opened = self.with_search(|context, search, request| {
            let Some(aim) = search.aims.get_mut(usize::from(index)) else { return false };
            let direct = joining::direct_target(request, &mut aim.target, &search.plan, env);
            let (Some(direct), breadth) = (direct, aim.breadth) else { return false };
            let count = context.branches.len();
            if !context.is_closing && !is_withdrawn {
                context.open(search, direct, breadth, request, env);
            }
            context.branches.len() > count
        });
        opened == Some(true)
    }

    /// Takes note of the answer to the B2BUA of the owner on branch `index`, if it leads there.
    pub(super) fn note_answer(&mut self, index: u8, env: &Env<'_>) {
        if self.aim(index).is_some_and(|aim| aim.target.detour.is_some()) {
            self.with_search(|_, search, request| {
                let aim = search.aims.get(usize::from(index));
                aim.map(|aim| joining::note_answer(request, &aim.target, &search.plan, env))
            });
        }
    }

    /// Opens a new branch to the target of a failed branch on the same flow, with an offer of other
    /// keys. Returns false if nothing was opened.
    pub(super) fn change_keys(&mut self, index: u8, env: &mut Env<'_>) -> bool {
        let is_joined = env.settings.has_b2bua() || self.back.flow().is_internal();
        let is_closing = self.is_closing || self.is_withdrawn(index);
        if is_closing || self.kind != TransactionKind::Invite || is_joined {
            return false;
        }
        let tried = self.with_search(|context, search, request| {
            let at = usize::from(index);
            let (Some(aim), Some(ForkState::Sent(sent))) =
                (search.aims.get(at), context.branches.get(at).map(|fork| &fork.state))
            else {
                return false;
            };
            let keying = other_keys(request, env).filter(|_| aim.target.keying.is_none());
            if keying.is_none() || context.branches.len() >= MAX_BRANCHES {
                return false;
            }
            let (flow, breadth) = (sent.flow, aim.breadth);
            let target = Target { keying, ..aim.target.clone() };
            let aim = Aim { target, breadth, alternatives: Vec::new(), tcp_tried: aim.tcp_tried };
            let index = context.push_branch(search, aim, env);
            context.send_on(search, index, flow, request, env);
            true
        });
        tried == Some(true)
    }

    /// Opens a new branch to the next place for the target of a failed branch, or to the next flow
    /// to the same phone if `changes_flow`. Returns false if nothing was opened.
    pub(super) fn fail_over(&mut self, index: u8, changes_flow: bool, env: &mut Env<'_>) -> bool {
        if self.is_closing || self.is_withdrawn(index) {
            return false;
        }
        let tried = self.with_search(|context, search, request| {
            let Some(aim) = search.aims.get_mut(usize::from(index)) else { return false };
            if context.branches.len() >= MAX_BRANCHES {
                return false;
            }
            if aim.alternatives.is_empty() {
                let next = changes_flow.then(|| aim.target.next_flow()).flatten();
                let (Some(next), breadth) = (next, aim.breadth) else {
                    return false;
                };
                context.open(search, next, breadth, request, env);
                return true;
            }
            let mut alternatives = core::mem::take(&mut aim.alternatives);
            let next = alternatives.remove(0);
            let (target, breadth, tcp_tried) = (aim.target.clone(), aim.breadth, aim.tcp_tried);
            let aim = Aim { target, breadth, alternatives, tcp_tried };
            let index = context.push_branch(search, aim, env);
            context.send_to(search, index, next, request, env);
            true
        });
        tried == Some(true)
    }
}
