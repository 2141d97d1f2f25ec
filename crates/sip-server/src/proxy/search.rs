//! The state of a request without a final response: the remaining targets, and the best response so
//! far (RFC 3261 sections 16.6 and 16.7).

use super::best_response::is_better;
use super::ending::Failing;
use super::plan::Plan;
use super::services::Stages;
use super::target::{Target, Targets, sort};
use crate::core::event::{Env, MOST_UNASKED};
use crate::core::flow::Flow;
use crate::core::settings::Settings;
use crate::core::source::Source;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use sip::{HeaderName, Instant, Location, Message, Status};
use smallvec::SmallVec;

/// Maximum length in bytes of the challenges that are collected from all branches.
const MAX_CHALLENGES: usize = 8192;

/// The state of a request that has no final response yet.
pub(super) struct Search {
    pub(super) plan: Plan,
    /// The time of the request.
    pub(super) began: Instant,
    /// The request as received.
    pub(super) request: Vec<u8>,
    /// Targets not yet tried, the best last.
    pub(super) waiting: Targets,
    /// Bytes sent for this request to sources that have never answered.
    spent: SmallVec<[(Source, usize); 1]>,
    /// The destination of each branch, by its index.
    pub(super) aims: SmallVec<[Aim; 1]>,
    /// The best final response so far: its status, and the complete message if it came from another
    /// server.
    pub(super) best: Option<(u16, Vec<u8>)>,
    /// The challenge lines of all responses.
    pub(super) challenges: Vec<u8>,
    /// True if challenges for the realms of this server were left out.
    pub(super) was_stripped: bool,
    /// True if the B2BUA has refused the call because of a limit.
    pub(super) is_full: bool,
    /// The end of the relayed call that the request begins.
    pub(super) failing: Failing,
    /// The stages of a call with call services.
    pub(super) stages: Option<Box<Stages>>,
}

/// The destination of a branch.
pub(super) struct Aim {
    pub(super) target: Target,
    /// The Max-Breadth of the branch.
    pub(super) breadth: u32,
    /// The places to try if this one fails (RFC 3263 section 4.3).
    pub(super) alternatives: Vec<Location>,
    /// The address at which TCP was tried because of the size of the request. If TCP fails, UDP is
    /// used there.
    pub(super) tcp_tried: Option<SocketAddr>,
}

impl Search {
    pub(super) fn new(plan: Plan, targets: Targets, began: Instant) -> Self {
        Self {
            plan,
            began,
            request: Vec::new(),
            waiting: in_order(targets),
            spent: SmallVec::new(),
            aims: SmallVec::new(),
            best: None,
            challenges: Vec::new(),
            is_full: false,
            was_stripped: false,
            failing: Failing::default(),
            stages: None,
        }
    }

    /// The memory that the search uses, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let targets = self.waiting.iter().chain(self.aims.iter().map(|aim| &aim.target));
        let best = self.best.as_ref().map_or(0, |(_, response)| response.capacity());
        let stages = self.stages.as_ref().map_or(0, |stages| stages.bytes());
        size_of::<Self>()
            + self.request.capacity()
            + self.challenges.capacity()
            + best
            + stages
            + targets.map(Target::bytes).sum::<usize>()
    }

    /// True if `length` more bytes may be sent on `flow`. A source that has never answered gets
    /// three times the bytes received at most. Otherwise a client could register or name its
    /// address as a target and have this server flood it.
    pub(super) fn affords(&mut self, flow: &Flow, length: usize, env: &Env<'_>) -> bool {
        let source = Source::of(flow.remote.ip());
        if env.is_asked(flow) {
            return true;
        }
        let spent = match self.spent.iter().position(|(known, _)| *known == source) {
            Some(at) => &mut self.spent[at].1,
            None => {
                self.spent.push((source, 0));
                let last = self.spent.len() - 1;
                &mut self.spent[last].1
            }
        };
        let affords = *spent + length <= MOST_UNASKED * self.plan.received;
        if affords {
            *spent += length;
        } else {
            env.counters.unasked.add();
        }
        affords
    }

    /// Records a failure of a branch without a response.
    pub(super) fn fail(&mut self, status: Status) {
        let status = status.code();
        if self.best.as_ref().is_none_or(|(best, _)| is_better(status, *best)) {
            self.best = Some((status, Vec::new()));
        }
    }

    /// Forgets a refusal of the session description: the callee has responded to another one.
    pub(super) fn forget_refusal(&mut self) {
        self.best.take_if(|(status, _)| matches!(status, 415 | 488 | 606));
    }

    /// Records a response that is not forwarded at once. If `distrusts` is set, challenges for our
    /// realms are left out: the caller would answer them, and the callee could replay the answer to
    /// this server.
    pub(super) fn remember(
        &mut self,
        status: u16,
        response: &Message<'_>,
        distrusts: Option<&Settings>,
    ) {
        if matches!(status, 401 | 407) {
            let names = [HeaderName::WwwAuthenticate, HeaderName::ProxyAuthenticate];
            for field in response.fields_of(&names) {
                let is_ours = distrusts.is_some_and(|settings| settings.has_own_realm(field.value));
                let fits = self.challenges.len() + field.line.len() <= MAX_CHALLENGES;
                self.was_stripped |= is_ours;
                if fits && !is_ours {
                    self.challenges.extend_from_slice(field.line);
                }
            }
        }
        if self.best.as_ref().is_none_or(|(best, _)| is_better(status, *best)) {
            self.best = Some((status, response.as_bytes().to_vec()));
        }
    }
}

/// Returns `targets`, the best one first, in the order of [`Search::waiting`].
pub(super) fn in_order(mut targets: Targets) -> Targets {
    targets.reverse();
    sort(&mut targets);
    targets
}
