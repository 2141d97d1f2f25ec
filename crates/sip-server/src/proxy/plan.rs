//! The routing decisions that all branches of a request share, and the serialization of the request
//! by them.

use super::edge::write_path;
use super::forward::{Changes, SenderFields};
use super::media::{MediaPlan, body_of_request, takes_digits};
use super::pass::{OnTrunk, Pass};
use super::record_route::{Names, Ways, write_record_route};
use super::stuck::Stuck;
use super::target::{Detour, Target};
use super::via_branch::ViaBranch;
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::payers::Payers;
#[cfg(feature = "office")]
use crate::core::trunks::TrunkMedia;
use crate::core::trunks::is_of_trunk;
use alloc::borrow::Cow;
use alloc::boxed::Box;
#[cfg(feature = "office")]
use alloc::sync::Arc;
use alloc::vec::Vec;
use sip::uri::escape_param;
use sip::{Duration, Message};

/// The time until the first response of a trunk to a call. The B2BUA tries the next trunk after it.
pub(super) const PATIENCE_WITH_TRUNK: Duration = Duration::from_secs(8);

/// The routing decisions that all branches of a request share.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) loop_hash: u32,
    /// Set if this server inserts a Record-Route. Holds the names of both ends of the dialog.
    pub(crate) record_route: Option<Names>,
    /// True for a REGISTER of a phone that is to be reached through this server.
    pub(crate) is_edge: bool,
    /// True if the request is for a phone of another registrar that is reached through this server.
    /// That registrar expects a 430 if the flow has failed.
    pub(crate) is_by_edge: bool,
    /// True if the request may go to the B2BUA of the owner.
    pub(crate) may_join: bool,
    /// The request URI for the B2BUA, if it is that of a user that the numbers of the owner name.
    pub(crate) named: Option<Box<[u8]>>,
    /// Complete Route lines that replace the received ones. `None` leaves them unchanged.
    pub(crate) routes: Option<Vec<u8>>,
    /// The handling of the header fields that name the sender.
    pub(crate) sender_fields: SenderFields,
    /// Length of the received request in bytes.
    pub(crate) received: usize,
    pub(crate) max_forwards: Option<u8>,
    /// The maximum number of branches open at once (RFC 5393 section 5.3.3).
    pub(crate) max_breadth: u32,
    /// The flow that the request came on.
    pub(crate) arrived_on: Flow,
    /// The flow that responses are sent on.
    pub(crate) upstream: Flow,
    /// True for a call to a trunk: the B2BUA needs to know the response of the trunk from those of
    /// this server, and tries another trunk.
    pub(crate) is_to_trunk: bool,
    /// True if Call-Info, Alert-Info and the like of a user are forwarded to the called user.
    #[cfg(feature = "office")]
    pub(crate) keeps_alerts: bool,
    /// The value of Refer-To that replaces the received one. `None` leaves it unchanged.
    #[cfg(feature = "office")]
    pub(crate) refer_to: Option<Box<[u8]>>,
    /// True for the second leg of a call from a trunk.
    #[cfg(feature = "office")]
    pub(crate) is_from_trunk: bool,
    /// The media of the trunk of the call, if they have rules of their own.
    #[cfg(feature = "office")]
    pub(crate) trunk_media: Option<Arc<TrunkMedia>>,
    /// The accounts that are charged for the request.
    pub(crate) payers: Payers,
}

impl Plan {
    /// True if the request is of a user agent in this process, with the credentials of a trunk: its
    /// realms may be those of this server.
    pub(super) const fn has_credentials_of_trunk(&self) -> bool {
        self.is_to_trunk || is_of_trunk(&self.arrived_on)
    }

    /// The part of the plan that the media depend on.
    fn media_plan(&self, env: &Env<'_>) -> MediaPlan<'_> {
        MediaPlan {
            named: self.named.as_deref(),
            is_proven: self.is_proven(env),
            #[cfg(feature = "office")]
            trunk: self.trunk_media.as_deref(),
            #[cfg(not(feature = "office"))]
            trunk: None,
            is_to_trunk: self.is_to_trunk,
        }
    }

    /// True if the sender is an authenticated user, or at an address of a trusted network.
    pub(crate) fn is_proven(&self, env: &Env<'_>) -> bool {
        self.payers.user.is_some() || env.settings.is_trusted(&self.arrived_on)
    }
}

/// Sends `request` to `target` on `flow` according to `plan`. Returns its range in the output
/// buffer.
///
/// # Errors
/// The request with the added lines is longer than a message may be, or its media cannot be
/// relayed.
pub(crate) fn write_request(
    plan: &Plan,
    target: &Target,
    breadth: u32,
    flow: &Flow,
    branch: ViaBranch,
    request: &Message<'_>,
    env: &mut Env<'_>,
) -> Result<core::ops::Range<usize>, Stuck> {
    let ways = [&plan.arrived_on, flow];
    let body = body_of_request((request, &plan.media_plan(env)), ways, target, &branch, env);
    let body = body.map_err(Stuck::Media)?;
    let path = path_to(target, flow, request, plan, env);
    let before = env.out.transmits.len();
    let range = env.send(*flow, |env, bytes| {
        let ways = |lines: &mut Vec<u8>| {
            if let Some(names) = plan.record_route {
                let (from, uri) = (&plan.arrived_on, target.request_uri());
                let through = Ways { from, uri, to: flow, follows: target.flow_bound };
                write_record_route(request, names, &through, env, lines);
            }
            lines.extend(target.takeover.iter().flat_map(|takeover| &takeover.lines));
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
            path: &path,
            source: plan.arrived_on.remote,
            settings: env.settings,
            sender_fields: &plan.sender_fields,
            max_breadth: Some(breadth),
            body: body.as_deref(),
            retargeted: target.retargeted.as_deref(),
            keeps_credentials: plan.has_credentials_of_trunk(),
            // A phone that a forward leads to may not allow them.
            #[cfg(feature = "office")]
            keeps_alerts: plan.keeps_alerts && target.retargeted.is_none(),
            #[cfg(not(feature = "office"))]
            keeps_alerts: true,
            #[cfg(feature = "office")]
            refer_to: plan.refer_to.as_deref(),
            #[cfg(not(feature = "office"))]
            refer_to: None,
        };
        changes.write(request, plan.max_forwards, bytes);
    });
    let range = range.ok_or(Stuck::TooLong)?;
    env.out.charge_after(before, plan.payers);
    env.counters.forwarded.add();
    Ok(range)
}

/// The Path to `target` on `flow`, to be written as the first Route. Empty for none.
fn path_to<'t>(
    target: &'t Target,
    flow: &Flow,
    request: &Message<'_>,
    plan: &Plan,
    env: &Env<'_>,
) -> Cow<'t, [u8]> {
    let detour = target.detour.as_ref().filter(|_| cfg!(feature = "office"));
    let (Some(detour), Some(names)) = (detour, plan.record_route) else {
        return Cow::Borrowed(&target.path);
    };
    let Detour { only, changes_keys, ref attempts, from_trunk, .. } = **detour;
    let pass = Pass {
        identity: names.sender,
        payers: plan.payers,
        only,
        changes_keys,
        is_last_offer: false,
        takes_digits: takes_digits(request),
        trunk: from_trunk.map(OnTrunk::From),
    };
    if attempts.is_empty() {
        return Cow::Owned(pass.route(target.request_uri(), flow, b"", env));
    }
    let mut path = Vec::new();
    for attempt in attempts {
        let pass = Pass { trunk: Some(OnTrunk::To(attempt.trunk)), ..pass };
        let number = attempt.number.as_bytes();
        let mut more = [b";number=", &*escape_param(number)].concat();
        for (name, value) in [
            (&b";identity="[..], &attempt.identity),
            (b";payer=", &attempt.payer),
            (b";class=", &attempt.class),
            (b";stranger=", &attempt.stranger),
        ] {
            if let Some(value) = value {
                more.extend_from_slice(name);
                more.extend_from_slice(&escape_param(value.as_bytes()));
            }
        }
        if attempt.is_emergency {
            more.extend_from_slice(b";emergency");
        }
        if !path.is_empty() {
            path.extend_from_slice(b", ");
        }
        path.extend_from_slice(&pass.route(number, flow, &more, env));
    }
    Cow::Owned(path)
}
