//! Figures from the times of calls: invite delay, call setup delay, SRD, SDD.

use super::calls::{Call, CallOutcome, CallTimes, Hop};
use super::registrations::record;
use super::transactions::T1;
use crate::record::Histogram;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;

/// All calls.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Calls {
    /// Started calls; the second leg of a back-to-back user agent counts with the first.
    pub(crate) attempts: u64,
    /// Calls with 2xx and ACK.
    pub(crate) established: u64,
    /// Calls with 2xx whose ACK is not in the capture.
    pub(crate) answered: u64,
    /// Calls that the caller cancelled (487).
    pub(crate) cancelled: u64,
    /// Rejected calls.
    pub(crate) refused: u64,
    /// Calls with provisional responses only.
    pub(crate) unfinished: u64,
    /// Lost INVITEs: no response.
    pub(crate) lost_invites: u64,
    /// Lost calls: no final response, including lost INVITEs.
    pub(crate) lost: u64,
    /// Calls near the end of the capture whose response may follow.
    pub(crate) pending: u64,
    /// Calls whose initial INVITE was challenged.
    pub(crate) challenged: u64,
    /// The rejected and cancelled calls, by status.
    pub(crate) failures: BTreeMap<u16, u64>,
    /// Invite delay: TInv2 - TInv1; if the server challenged before forwarding, from the INVITE
    /// that answered the challenge.
    pub(crate) invite_delay: Histogram,
    /// Call setup delay of established calls: TSDP_OK2 - TInv1, as the generator defines it. The
    /// time to the ACK is that of the caller.
    pub(crate) setup_delay: Histogram,
    /// The time from the caller's first INVITE to its challenge.
    pub(crate) challenge_delay: Histogram,
    /// SRD of successful sessions (RFC 6076 section 4.3.1).
    pub(crate) srd: Histogram,
    /// SRD of failed sessions (RFC 6076 section 4.3.2).
    pub(crate) srd_failed: Histogram,
    /// SDD (RFC 6076 section 4.4).
    pub(crate) sdd: Histogram,
    /// SDT of completed sessions (RFC 6076 section 4.5).
    pub(crate) sdt: Histogram,
    /// Calls beyond the limit.
    pub(crate) left_out: u64,
    /// Messages that are not in the flows because of the limit.
    pub(crate) steps_left_out: u64,
    /// All calls, in chronological order.
    pub(crate) list: Vec<Call>,
}

impl Calls {
    /// Computes the figures of `list`, in a capture that ends at `end`.
    pub(super) fn finish(&mut self, end: u64) {
        for call in &mut self.list {
            call.finish(end);
        }
        join_legs(&mut self.list);
        for index in 0..self.list.len() {
            if self.list[index].leg_of.is_none() {
                let call = &self.list[index];
                let (times, outcome, status) = (call.times, call.outcome, call.status);
                let near = Near::of(&call.hops);
                self.count(&times, outcome, status, &near);
            }
        }
    }

    fn count(&mut self, times: &CallTimes, outcome: CallOutcome, status: Option<u16>, near: &Near) {
        self.attempts += 1;
        *match outcome {
            CallOutcome::Established => &mut self.established,
            CallOutcome::Answered => &mut self.answered,
            CallOutcome::Cancelled => &mut self.cancelled,
            CallOutcome::Refused => &mut self.refused,
            CallOutcome::Unfinished => &mut self.unfinished,
            CallOutcome::Lost => &mut self.lost_invites,
            CallOutcome::Pending => &mut self.pending,
        } += 1;
        self.lost = self.lost_invites + self.unfinished;
        match outcome {
            CallOutcome::Established | CallOutcome::Answered => {
                record(&mut self.srd, near.invite, near.progress.or(near.end));
                let sdt_begin = times.sdp_ok2_us.or(times.sdp_ok1_us);
                record(&mut self.sdt, sdt_begin, times.bye_us);
            }
            CallOutcome::Refused | CallOutcome::Cancelled => {
                *self.failures.entry(status.unwrap_or_default()).or_default() += 1;
                if outcome == CallOutcome::Refused {
                    record(&mut self.srd_failed, near.invite, near.end);
                }
            }
            _ => {}
        }
        if near.challenge.is_some() {
            self.challenged += 1;
            record(&mut self.challenge_delay, near.invite, near.challenge);
        }
        let forwarded = times.authorised_us.filter(|&time| Some(time) <= times.inv2_us);
        record(&mut self.invite_delay, forwarded.or(times.inv1_us), times.inv2_us);
        if outcome == CallOutcome::Established {
            record(&mut self.setup_delay, times.inv1_us, times.sdp_ok2_us);
        }
        record(&mut self.sdd, times.bye_us, times.bye_ok_us);
    }
}

/// The hop nearest to the caller in the capture, with all its transactions.
struct Near {
    invite: Option<u64>,
    challenge: Option<u64>,
    progress: Option<u64>,
    /// The decisive final response, and its status.
    end: Option<u64>,
    status: Option<u16>,
    has_response: bool,
    /// The last INVITE.
    last: Option<u64>,
}

impl Near {
    fn of(hops: &[Hop]) -> Self {
        let vias = hops.iter().map(|hop| hop.vias).min();
        let near = || hops.iter().filter(move |hop| Some(hop.vias) == vias);
        let last = near().filter(|hop| hop.invite_us.is_some()).max_by_key(|hop| hop.invite_us);
        let deciding = near().find(|hop| hop.is_answered()).or_else(|| last.or(near().next_back()));
        Self {
            invite: near().filter_map(|hop| hop.invite_us).min(),
            challenge: near()
                .filter(|hop| hop.is_challenged())
                .filter_map(|hop| hop.final_us)
                .min(),
            progress: near().filter_map(|hop| hop.progress_us).min(),
            end: deciding.and_then(|hop| hop.final_us),
            status: deciding.and_then(|hop| hop.status),
            has_response: deciding.is_some_and(Hop::has_response),
            last: last.and_then(|hop| hop.invite_us),
        }
    }
}

impl Call {
    fn finish(&mut self, end: u64) {
        let near = Near::of(&self.hops);
        self.status = near.status;
        self.outcome = match near.status {
            Some(200..300) if self.times.ack_us.is_some() => CallOutcome::Established,
            Some(200..300) => CallOutcome::Answered,
            Some(487) => CallOutcome::Cancelled,
            Some(_) => CallOutcome::Refused,
            None if near.has_response => CallOutcome::Unfinished,
            None if near.last.is_some_and(|last| end.saturating_sub(last) < T1) => {
                CallOutcome::Pending
            }
            None => CallOutcome::Lost,
        };
        let callers = || self.hops.iter().filter(|hop| hop.vias == 1);
        let first = callers().filter_map(|hop| hop.invite_us).min();
        let is_challenged = callers().any(Hop::is_challenged);
        let last = callers().filter_map(|hop| hop.invite_us).max();
        let answer = |hop: &&Hop| hop.is_answered();
        // Of several branches to callees the answered one counts. Of several proxies in a row the
        // last one counts, since it is next to the callee.
        let servers = || self.hops.iter().filter(|hop| hop.vias > 1);
        let farthest = servers().map(|hop| hop.vias).max();
        let callee = servers()
            .filter(answer)
            .max_by_key(|hop| hop.vias)
            .or_else(|| servers().find(|hop| Some(hop.vias) == farthest));
        self.times = CallTimes {
            inv1_us: first,
            authorised_us: last.filter(|_| is_challenged && last != first),
            inv2_us: callee.and_then(|hop| hop.invite_us),
            rng_us: self.hops.iter().filter_map(|hop| hop.ringing_us).min(),
            sdp_ok1_us: callee.filter(answer).and_then(|hop| hop.final_us),
            sdp_ok2_us: callers().find(answer).and_then(|hop| hop.final_us),
            ..self.times
        };
    }
}

/// Joins the two legs of a back-to-back user agent, which have different Call-IDs: the second leg
/// comes from the address and port to which the first goes, has the same users in From and To, and
/// begins before the first has ended.
fn join_legs(calls: &mut [Call]) {
    let user = |address: &str| address.split('@').next().unwrap_or_default().to_owned();
    let leg = |call: &Call| (user(&call.from), user(&call.to));
    let mut order: Vec<usize> = (0..calls.len())
        .filter(|&index| calls[index].hops.iter().all(|hop| hop.vias == 1))
        .filter(|&index| calls[index].times.inv1_us.is_some())
        .collect();
    order.sort_by_key(|&index| calls[index].times.inv1_us);
    let mut waiting: HashMap<(SocketAddr, (String, String)), VecDeque<usize>> = HashMap::new();
    for index in order {
        let Some(hop) = calls[index].hops.first() else { continue };
        let (from, to, users) = (hop.source, hop.destination, leg(&calls[index]));
        if users.1.is_empty() {
            continue;
        }
        let begun = calls[index].times.inv1_us;
        let first = waiting.get_mut(&(from, users.clone())).and_then(|queue| {
            while let Some(first) = queue.pop_front() {
                let ended = Near::of(&calls[first].hops).end;
                if ended.is_none() || ended >= begun {
                    return Some(first);
                }
            }
            None
        });
        if let Some(first) = first {
            let second = calls[index].times;
            calls[index].leg_of = Some(calls[first].call_id.clone());
            let times = &mut calls[first].times;
            times.inv2_us = second.inv1_us;
            times.sdp_ok1_us = second.sdp_ok2_us;
            times.rng_us = second.rng_us.or(times.rng_us);
        }
        waiting.entry((to, users)).or_default().push_back(index);
    }
}
