//! What is known of a request as long as it may still go to further places: where to, and the best
//! response so far (RFC 3261 sections 16.6 and 16.7).

use super::plan::Plan;
use super::target::{Target, Targets};
use crate::event::Env;
use crate::flow::Flow;
use crate::output::Location;
use crate::settings::Settings;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use sip::{HeaderName, Message, Status};
use smallvec::SmallVec;

/// How many times as much as was received goes to a host that has never answered anything.
pub(crate) const MOST_UNASKED: usize = 3;

/// Bytes of challenges that are gathered from all branches for one response.
const MAX_CHALLENGES: usize = 8192;

/// What is known of a request that has no final response yet.
pub(super) struct Search {
    pub(super) plan: Plan,
    /// The request as it came.
    pub(super) request: Vec<u8>,
    /// Targets not yet tried, the best last.
    pub(super) waiting: Targets,
    /// Bytes sent for the request to hosts that have never answered anything, not even this.
    spent: SmallVec<[(IpAddr, usize); 1]>,
    /// Where each branch goes.
    pub(super) aims: SmallVec<[Aim; 1]>,
    /// The best final response so far: its status, and the whole of it if another server made it.
    pub(super) best: Option<(u16, Vec<u8>)>,
    /// Lines of the challenges in all responses.
    pub(super) challenges: Vec<u8>,
    /// Whether challenges were left out there, for they were in our name.
    pub(super) was_stripped: bool,
}

/// Where a branch goes.
pub(super) struct Aim {
    pub(super) target: Target,
    /// The Max-Breadth that it is given.
    pub(super) breadth: u32,
    /// Where else to try if this place fails (RFC 3263 section 4.3).
    pub(super) alternatives: Vec<Location>,
    /// Where TCP was tried for the size of the request. Should it fail, UDP has to do there.
    pub(super) tcp_tried: Option<SocketAddr>,
}

impl Search {
    pub(super) fn new(plan: Plan, mut targets: Targets) -> Self {
        targets.reverse();
        targets.sort_by_key(|target| target.q);
        Self {
            plan,
            request: Vec::new(),
            waiting: targets,
            spent: SmallVec::new(),
            aims: SmallVec::new(),
            best: None,
            challenges: Vec::new(),
            was_stripped: false,
        }
    }

    /// The memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let targets = self.waiting.iter().chain(self.aims.iter().map(|aim| &aim.target));
        let best = self.best.as_ref().map_or(0, |(_, response)| response.capacity());
        size_of::<Self>()
            + self.request.capacity()
            + self.challenges.capacity()
            + best
            + targets.map(Target::bytes).sum::<usize>()
    }

    /// Whether `length` more bytes may be sent on `flow`: to a host that has never answered
    /// anything no more than three times what was received, or whoever registers a contact there,
    /// or names it, had this server flood it.
    pub(super) fn affords(&mut self, flow: &Flow, length: usize, env: &Env<'_>) -> bool {
        let host = flow.remote.ip();
        if env.is_asked(flow) {
            return true;
        }
        let spent = match self.spent.iter().position(|(known, _)| *known == host) {
            Some(at) => &mut self.spent[at].1,
            None => {
                self.spent.push((host, 0));
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

    /// Notes a failure of a branch that no response told of.
    pub(super) fn fail(&mut self, status: Status) {
        let status = status.code();
        if self.best.as_ref().is_none_or(|(best, _)| is_better(status, *best)) {
            self.best = Some((status, Vec::new()));
        }
    }

    /// Notes a response that is not passed back at once. Where it `distrusts`, challenges of our
    /// realms are left out: whoever called would answer them, and whoever was called could use the
    /// answer here.
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

/// Whether the status `one` says more to the caller than `other` (RFC 3261 section 16.7 step 6):
/// 6xx before all, else the lowest class; within 4xx those that ask for another try in another
/// form.
fn is_better(one: u16, other: u16) -> bool {
    fn rank(status: u16) -> (u16, u16) {
        // So far as it says anything, that one way to a place does not exist.
        let class = if status == 430 { 5 } else { status / 100 };
        let within = match status {
            401 | 407 | 415 | 420 | 484 => 0,
            // What a timeout or a failed delivery says is less than what a phone says.
            408 | 430 | 503 => 2,
            _ => 1,
        };
        (if class == 6 { 0 } else { class }, within)
    }
    rank(one) < rank(other)
}
