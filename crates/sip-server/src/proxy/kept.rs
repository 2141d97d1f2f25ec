//! Messages (RFC 3428) that the owner keeps for users without a reachable phone.

use super::sender::Authorization;
use super::target::{Target, Targets};
use crate::core::address_of_record::AddressOfRecord;
use crate::core::config::{Mode, State};
use crate::core::event::Env;
use crate::core::incoming::Incoming;
use crate::core::next_hop::NextHop;
use crate::core::shared::Shared;
use alloc::vec::Vec;
use lock_api::RawMutex;
use sip::uri::escape_param;
use sip::{Encode, Endpoint, Method, Status};

/// Adds the owner as the last target of the message `incoming` to `user`, if all phones of the user
/// sleep, or the user has none: then `found` is 480, and a stranger is charged as for each request
/// to such a user.
///
/// # Errors
/// The error in `found`, if the message is not kept.
pub(super) fn lead_to_keeper<R: RawMutex>(
    shared: &Shared<R>,
    (incoming, authorization): (&Incoming<'_, '_>, &Authorization),
    user: &AddressOfRecord,
    found: Result<(), Status>,
    targets: &mut Targets,
    env: &Env<'_>,
) -> Result<(), Status> {
    let Incoming { head, flow, account, .. } = incoming;
    let config = &env.settings.config;
    let is_kept = config.keeps_messages
        && (config.mode, config.state) == (Mode::Proxy, State::Stateful)
        && head.method == Method::Message
        && head.to.tag().is_none()
        && !flow.is_internal();
    let is_away = match found {
        Ok(()) => !targets.is_empty() && targets.iter().all(|target| target.asleep.is_some()),
        Err(status) => status == Status::TEMPORARILY_UNAVAILABLE,
    };
    if !is_kept || !is_away {
        return found;
    }
    let is_of_stranger = authorization.is_of_stranger(incoming);
    if is_of_stranger
        && found.is_err()
        && !shared.admission.admit_miss(*account, env.now, &config.limits)
    {
        return found;
    }
    let mut path = Vec::new();
    let of = escape_param(user.as_bytes());
    // A server that does not authenticate has no users that could be preferred to strangers.
    let is_proved = !is_of_stranger || !config.authentication.required;
    let proved = if is_proved { ";proved" } else { "" };
    ("<sip:keeper@keeper.invalid;lr;of=", &*of, proved, ">").encode(&mut path);
    let next_hop = NextHop::Flow(flow.internal_to(Endpoint::Keeper));
    let origin = env.settings.scope_of(flow);
    let target = Target::new(head.uri_bytes, next_hop, origin);
    // It is the last one in the order of preference.
    targets.push(Target { path, flow_bound: true, q: 0, ..target });
    Ok(())
}
