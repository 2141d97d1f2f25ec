//! The calls through the owner's B2BUA (`Config::joining`). The proxy stays in front of both legs:
//! the INVITE of the caller goes to the B2BUA on the internal flow of the caller, with a
//! [`Pass`], and the INVITE of the B2BUA comes back on that flow.

use super::media::other_keys;
use super::pass::Pass;
use super::plan::Plan;
use super::route::Preprocessed;
use super::target::{Detour, Target, Targets};
use crate::core::config::{Joining, Relaying};
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::incoming::Incoming;
use crate::core::next_hop::NextHop;
use alloc::vec::Vec;
use relay::Keying;
use sip::{HeaderName, Message, Method};
use smallvec::SmallVec;

/// True if the request may go to the B2BUA: it begins a call. A call that comes from the B2BUA may
/// not, nor one with a further Route, nor one of another registrar's domain, `is_by_edge`.
pub(super) fn may_join(
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    is_by_edge: bool,
    env: &Env<'_>,
) -> bool {
    let Incoming { head, flow, .. } = incoming;
    env.settings.has_b2bua()
        && head.method == Method::Invite
        && head.to.tag().is_none()
        && !flow.is_internal()
        && !is_by_edge
        && found.left().is_empty()
}

/// The request URI with which a new INVITE goes to the B2BUA, since it replaces one of its calls
/// (RFC 3891). `None` if it replaces none.
pub(super) fn replacing(
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    env: &Env<'_>,
) -> Option<Vec<u8>> {
    let mut values = incoming.message.elements(HeaderName::Replaces);
    let (value, calls) = (values.next()?, env.joined_calls?);
    let may_join = may_join(incoming, found, found.edge_flow.is_some(), env);
    // The end of the dialog rejects a request with several.
    let is_one = values.next().is_none();
    (may_join && is_one).then(|| calls.replacing(found.uri_bytes, value)).flatten()
}

/// The B2BUA as the only target of `incoming`, if all calls go through it, or this one replaces a
/// call of it.
pub(super) fn first_target(
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    env: &Env<'_>,
) -> Option<Target> {
    let is_wanted = found.replaces_joined || env.settings.config.joining == Joining::All;
    let detour = Detour { only: None, changes_keys: false };
    is_wanted.then(|| target(found.uri_bytes, &incoming.flow, detour, 1000, env))
}

/// The B2BUA as the target of a request to `uri` that arrived on `flow`.
fn target(uri: &[u8], flow: &Flow, detour: Detour, q: u16, env: &Env<'_>) -> Target {
    Target {
        uri: SmallVec::from_slice(uri),
        path: Vec::new(),
        next_hop: NextHop::Flow(flow.internal()),
        q,
        flow_bound: true,
        origin: env.settings.scope_of(flow),
        is_registered: false,
        keying: None,
        takes_digits: false,
        detour: Some(detour),
        flows: None,
    }
}

/// The B2BUA as the next target after `refused` has refused the session description of the new call
/// `request`. `None` if there is none.
pub(super) fn next_target(
    request: &Message<'_>,
    refused: &Target,
    plan: &Plan,
    env: &Env<'_>,
) -> Option<Target> {
    if !plan.may_join || refused.detour.is_some() {
        return None;
    }
    let keying = other_keys(request, env);
    let converts_codecs = converts_codecs(request, env);
    if keying.is_none() && !converts_codecs {
        return None;
    }
    // Without other keys the callee may lack the codecs. Those of encrypted media are converted
    // only with other keys. The B2BUA tries other keys itself if that fails.
    let changes_keys = keying == Some(Keying::Clear) || !converts_codecs;
    let detour = Detour { only: Some(refused.chosen(env)), changes_keys };
    Some(target(request.request_uri()?, &plan.arrived_on, detour, refused.q, env))
}

/// True if the relay may offer further codecs than those of `request`.
fn converts_codecs(request: &Message<'_>, env: &Env<'_>) -> bool {
    let config = &env.settings.config;
    env.relay.is_some()
        && config.relaying != Relaying::Off
        && !config.transcode.is_empty()
        && request.session_description().is_some()
}

/// Keeps the targets that the pass of a call allows, with the keying that it asks for, and the
/// digits that the caller takes.
pub(super) fn apply(pass: &Pass, request: &Message<'_>, targets: &mut Targets, env: &Env<'_>) {
    if let Some(only) = pass.only {
        targets.retain(|target| target.chosen(env) == only);
    }
    let keying = if pass.changes_keys { other_keys(request, env) } else { None };
    for target in targets {
        (target.keying, target.takes_digits) = (keying, pass.takes_digits);
    }
}
