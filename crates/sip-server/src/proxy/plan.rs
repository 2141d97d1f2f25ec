//! What is decided about a request before its branches are, and writing it by that.

use super::edge::write_path;
use super::forward::{Changes, SenderFields};
use super::record_route::{Ways, write_record_route};
use super::target::Target;
use super::via_branch::ViaBranch;
use super::{Names, Payers};
use crate::event::Env;
use crate::flow::Flow;
use alloc::vec::Vec;
use sip::Message;

/// What is decided about a request before its branches are.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) loop_hash: u32,
    /// Whether to put ourselves into the dialog's route set; then who its two sides are.
    pub(crate) record_route: Option<Names>,
    /// Whether it is a REGISTER whose sender is to be reached through us.
    pub(crate) is_edge: bool,
    /// Whether it is for a phone that is reached through us so: its registrar wants to know where
    /// the flow is gone.
    pub(crate) is_by_edge: bool,
    /// Hash of what responses have to say ([`Said`](super::via_branch::Said)), and whether the tag
    /// of To is part of it.
    pub(crate) said: u64,
    pub(crate) has_to_tag: bool,
    /// Whole Route lines that take the place of those there; `None` leaves them.
    pub(crate) routes: Option<Vec<u8>>,
    /// What becomes of what the request says of its sender.
    pub(crate) sender_fields: SenderFields,
    /// Bytes of the request as it came.
    pub(crate) received: usize,
    pub(crate) max_forwards: Option<u8>,
    /// How many branches may be open at once (RFC 5393 section 5.3.3).
    pub(crate) max_breadth: u32,
    /// Where it came from.
    pub(crate) arrived_on: Flow,
    /// Where responses go.
    pub(crate) upstream: Flow,
    /// What is charged for it.
    pub(crate) payers: Payers,
}

/// Sends `request` to `target` on `flow`, as `plan` says, and returns where it stands. `None` where
/// it is longer than a message may be with what is added.
pub(crate) fn write_request(
    plan: &Plan,
    target: &Target,
    breadth: u32,
    flow: &Flow,
    branch: ViaBranch,
    request: &Message<'_>,
    env: &mut Env<'_>,
) -> Option<core::ops::Range<usize>> {
    let before = env.out.transmits.len();
    let range = env.send(*flow, |env, bytes| {
        let ways = |lines: &mut Vec<u8>| {
            if let Some(names) = plan.record_route {
                let (from, uri) = (&plan.arrived_on, target.request_uri());
                let through = Ways { from, uri, to: flow, follows: target.flow_bound };
                write_record_route(request, names, &through, env, lines);
            }
            if plan.is_edge {
                write_path(&plan.arrived_on, flow, env, lines);
            }
        };
        let changes = Changes {
            uri: target.request_uri(),
            flow,
            branch,
            ways: &ways,
            routes: plan.routes.as_deref(),
            path: &target.path,
            source: plan.arrived_on.remote,
            settings: env.settings,
            sender_fields: &plan.sender_fields,
            max_breadth: Some(breadth),
        };
        changes.write(request, plan.max_forwards, bytes);
    })?;
    env.out.charge_after(before, plan.payers);
    env.counters.forwarded.add();
    Some(range)
}
