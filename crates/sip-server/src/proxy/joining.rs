//! The calls through the owner's B2BUA (`Config::joining`). The proxy stays in front of both legs:
//! the INVITE of the caller goes to the B2BUA on the internal flow of the caller, with a
//! [`Pass`], and the INVITE of the B2BUA comes back on that flow.

use super::media::{last_keys, other_keys, uri_of};
use super::pass::{Chosen, Pass};
use super::plan::Plan;
use super::route::Preprocessed;
use super::target::{Detour, Target, Targets};
use super::token::Identity;
use crate::core::config::{Joining, Relaying};
use crate::core::declined::DeclinedOffer;
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::incoming::Incoming;
use crate::core::next_hop::NextHop;
use crate::core::numbers::TrunkAttempt;
use crate::core::source::Source;
use crate::core::trunks::TrunkId;
use alloc::boxed::Box;
use alloc::vec::Vec;
use relay::Keying;
use sip::{HeaderName, Message, Method, Status};
use smallvec::SmallVec;

/// True if there may be a B2BUA beside the engine. Without one its code is left out.
pub(super) const HAS_B2BUA: bool = cfg!(feature = "office");

/// True if the request may go to the B2BUA: it begins a call. A call that comes from the B2BUA may
/// not, nor one with a further Route, nor one of another registrar's domain, `is_by_edge`.
pub(super) fn may_join(
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    is_by_edge: bool,
    env: &Env<'_>,
) -> bool {
    HAS_B2BUA && env.settings.has_b2bua() && is_new_call(incoming, found, is_by_edge)
}

/// True if the call goes to a trunk or comes from one, and can go to the B2BUA.
pub(super) fn can_join(
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    is_by_edge: bool,
    env: &Env<'_>,
) -> bool {
    env.settings.reaches_b2bua() && is_new_call(incoming, found, is_by_edge)
}

fn is_new_call(incoming: &Incoming<'_, '_>, found: &Preprocessed<'_>, is_by_edge: bool) -> bool {
    let Incoming { head, flow, .. } = incoming;
    head.method == Method::Invite
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

/// The B2BUA as the target of a call to `uri` that goes to a trunk.
pub(super) fn target_of_trunks(
    uri: &[u8],
    flow: &Flow,
    attempts: Vec<TrunkAttempt>,
    env: &Env<'_>,
) -> Target {
    target(uri, flow, Detour { attempts, ..Detour::default() }, 1000, env)
}

/// The B2BUA as the target of a call from `trunk` to the user with the URI `uri`.
pub(super) fn target_from_trunk(uri: &[u8], flow: &Flow, trunk: TrunkId, env: &Env<'_>) -> Target {
    target(uri, flow, Detour { from_trunk: Some(trunk), ..Detour::default() }, 1000, env)
}

/// Leads the call `incoming` of `sender` to `uri` through the B2BUA: if all calls go through it, or
/// this one replaces a call of it, otherwise to those of `targets` that have refused such an offer
/// before.
pub(super) fn divert(
    incoming: &Incoming<'_, '_>,
    (found, uri): (&Preprocessed<'_>, &[u8]),
    sender: Identity,
    targets: &mut Targets,
    env: &Env<'_>,
) {
    let Incoming { message, flow, .. } = incoming;
    let to = |detour, q| target(uri, flow, detour, q, env);
    if found.replaces_joined || env.settings.config.joining == Joining::All {
        targets.clear();
        targets.push(to(Detour::default(), 1000));
        return;
    }
    if !env.declined.knows(Source::of(flow.remote.ip()), env.now) {
        return;
    }
    let Some(changes_keys) = other_offer(message, env) else { return };
    for target in targets {
        let only = target.chosen(env);
        let offer = offer_to(only, message, flow, sender, env);
        if offer.is_some_and(|offer| env.declined.has(offer, env.now)) {
            env.counters.declined_before.add();
            let detour = Detour { only: Some(only), changes_keys, ..Detour::default() };
            let joined = Target {
                uri: SmallVec::from_slice(target.called(uri)),
                retargeted: target.retargeted.clone(),
                ..to(detour, target.q)
            };
            let direct = core::mem::replace(target, joined);
            if let Some(detour) = &mut target.detour {
                detour.instead_of = Some(Box::new(direct));
            }
        }
    }
}

/// Records that the callee of the new call `request` has answered the B2BUA after it had refused
/// the offer of the caller, if `target` is the B2BUA. A call without such a refusal, since one was
/// remembered, renews nothing: the callee gets the offer of the caller at times.
pub(super) fn note_answer(request: &Message<'_>, target: &Target, plan: &Plan, env: &Env<'_>) {
    if !HAS_B2BUA || target.detour.as_ref().is_none_or(|detour| detour.instead_of.is_some()) {
        return;
    }
    if let Some(offer) = declined(request, target, plan, env) {
        env.declined.note(offer, env.now);
    }
}

/// The target that is tried after its callee has refused the offer of the B2BUA, `refused`, as it
/// had refused that of `request` before. This is forgotten.
pub(super) fn direct_target(
    request: &Message<'_>,
    refused: &mut Target,
    plan: &Plan,
    env: &Env<'_>,
) -> Option<Target> {
    let detour = refused.detour.as_mut().filter(|_| HAS_B2BUA)?;
    let direct = detour.instead_of.take()?;
    if let Some(offer) = declined(request, refused, plan, env) {
        env.declined.forget(offer);
    }
    Some(*direct)
}

/// The offer of `request`, if its callee gets one of the B2BUA, `target`, instead.
fn declined(
    request: &Message<'_>,
    target: &Target,
    plan: &Plan,
    env: &Env<'_>,
) -> Option<DeclinedOffer> {
    let only = target.detour.as_ref()?.only?;
    offer_to(only, request, &plan.arrived_on, plan.record_route?.sender, env)
}

/// The offer in `request` of the `sender` on `flow` to the target `only`. Other callers have other
/// offers, since a callee may refuse something else in theirs. `None` for an offer that the B2BUA
/// replaces by one in clear, if the sender is not proved: another one could have it refused in the
/// name of the sender, by keys that are malformed.
fn offer_to(
    only: Chosen,
    request: &Message<'_>,
    flow: &Flow,
    sender: Identity,
    env: &Env<'_>,
) -> Option<DeclinedOffer> {
    if sender == Identity::NONE && other_keys(request, env) == Some(Keying::Clear) {
        return None;
    }
    let shape = shape_of(request.session_description()?);
    let (sender, only) = (sender.bits().to_le_bytes(), only.bits().to_le_bytes());
    let parts = [&sender[..], uri_of(request, HeaderName::From), &only, &shape];
    Some(env.declined.offer(Source::of(flow.remote.ip()), parts))
}

/// The media, codecs and keying of a session description, without what changes with each call.
fn shape_of(description: &[u8]) -> Vec<u8> {
    let mut shape = Vec::new();
    for line in description.split(|byte| *byte == b'\n') {
        let words = line.trim_ascii_end().split(|byte| *byte == b' ').enumerate();
        let is_kept = |place: usize, word: &[u8]| match line {
            // The port, unless it switches the medium off.
            [b'm', b'=', ..] => place != 1 || word == b"0",
            _ if line.starts_with(b"a=rtpmap:") => true,
            // The number and the suite.
            _ if line.starts_with(b"a=crypto:") => place < 2,
            _ => line.starts_with(b"a=fingerprint:") && place == 0,
        };
        for (_, word) in words.filter(|(place, word)| is_kept(*place, word)) {
            shape.extend_from_slice(word);
            shape.push(b' ');
        }
    }
    shape
}

/// The B2BUA as the target of a request to `uri` that arrived on `flow`.
fn target(uri: &[u8], flow: &Flow, detour: Detour, q: u16, env: &Env<'_>) -> Target {
    let next_hop = NextHop::Flow(flow.internal());
    Target {
        q,
        flow_bound: true,
        detour: Some(Box::new(detour)),
        ..Target::new(uri, next_hop, env.settings.scope_of(flow))
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
    if !HAS_B2BUA || !plan.may_join || refused.detour.is_some() {
        return None;
    }
    let changes_keys = other_offer(request, env)?;
    let detour = Detour { only: Some(refused.chosen(env)), changes_keys, ..Detour::default() };
    let uri = plan.named.as_deref().or_else(|| request.request_uri())?;
    Some(Target {
        retargeted: refused.retargeted.clone(),
        ..target(refused.called(uri), &plan.arrived_on, detour, refused.q, env)
    })
}

/// True if the offer of the B2BUA for `request` has other SRTP keys, false if it has other codecs.
/// `None` if it has neither.
fn other_offer(request: &Message<'_>, env: &Env<'_>) -> Option<bool> {
    let keying = other_keys(request, env);
    let converts_codecs = converts_codecs(request, env);
    // Without other keys the callee may lack the codecs. Those of encrypted media are converted
    // only with other keys. The B2BUA tries other keys itself if that fails.
    let changes_keys = keying == Some(Keying::Clear) || !converts_codecs;
    (keying.is_some() || converts_codecs).then_some(changes_keys)
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
///
/// # Errors
/// There is no further offer for targets that have refused two.
pub(super) fn apply(
    pass: &Pass,
    request: &Message<'_>,
    targets: &mut Targets,
    env: &Env<'_>,
) -> Result<(), Status> {
    if let Some(only) = pass.only {
        targets.retain(|target| target.chosen(env) == only);
    }
    let keying = match (pass.is_last_offer, pass.changes_keys) {
        (true, _) => Some(last_keys(request, env).ok_or(Status::NOT_ACCEPTABLE_HERE)?),
        (false, true) => other_keys(request, env),
        (false, false) => None,
    };
    for target in targets {
        (target.keying, target.takes_digits) = (keying, pass.takes_digits);
    }
    Ok(())
}
