//! Subscriptions that go to the owner's notifier, the changes of calls that it is told, and the
//! pickup of a ringing call by another phone.

#[cfg(feature = "office")]
use super::call_changes;
use super::call_changes::{has_notifier, sees_calls};
#[cfg(feature = "office")]
use super::media::param_of_pass;
#[cfg(feature = "office")]
use super::media_target;
use super::refusal::Refusal;
#[cfg(feature = "office")]
use super::route::Preprocessed;
use super::sender::{Authorization, speaker};
use super::target::{Takeover, Target, Targets};
use crate::core::address_of_record::AddressOfRecord;
#[cfg(feature = "office")]
use crate::core::address_of_record::uri_of;
use crate::core::call_services::Group;
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::incoming::Incoming;
use crate::core::lines::{write_address, write_line};
use crate::core::next_hop::NextHop;
#[cfg(feature = "office")]
use crate::core::output::Meeting;
use crate::core::shared::Shared;
use crate::core::watching::{CallChange, CallerPlace, RingingCall, Watch, WatchedParty};
use alloc::boxed::Box;
#[cfg(feature = "office")]
use alloc::format;
#[cfg(feature = "office")]
use alloc::string::String;
use alloc::vec::Vec;
use lock_api::RawMutex;
use sip::header::NameAddr;
use sip::uri::{escape_param, is_sips};
use sip::{Endpoint, HeaderName, Message, Method, Status, Uri};

/// An event package that the notifier serves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Package {
    MessageSummary,
    Dialog,
}

/// The event package of a SUBSCRIBE that the notifier serves.
fn package_of(message: &Message<'_>, env: &Env<'_>) -> Option<Package> {
    if !has_notifier(env.settings) || message.method() != Some(Method::Subscribe) {
        return None;
    }
    let event = message.value(HeaderName::Event)?;
    let name = event.split(|byte| *byte == b';').next()?.trim_ascii();
    let watching = &env.settings.config.watching;
    if watching.messages && name.eq_ignore_ascii_case(b"message-summary") {
        Some(Package::MessageSummary)
    } else if sees_calls(env.settings) && name.eq_ignore_ascii_case(b"dialog") {
        Some(Package::Dialog)
    } else {
        None
    }
}

/// The targets of a request to `user` that the owner's notifier serves, or that takes over the call
/// that rings there. `None` if it is neither.
pub(super) fn targets_of<R: RawMutex>(
    shared: &Shared<R>,
    incoming: &Incoming<'_, '_>,
    user: &AddressOfRecord,
    authorization: &Authorization,
    env: &mut Env<'_>,
) -> Option<Result<Targets, Refusal>> {
    let asker = |env: &Env<'_>| speaker(shared, authorization, &incoming.head.from_uri, env);
    if let Some(package) = package_of(incoming.message, env) {
        return Some(notifier_of(shared, incoming, user, package, asker(env), env));
    }
    if !is_call(incoming) || !sees_calls(env.settings) {
        return None;
    }
    #[cfg(feature = "office")]
    if let Some((call, user)) = named(incoming, env) {
        let (user, asker) = (shared.location.canonical(user.as_bytes()), asker(env));
        return Some(taken_over(shared, incoming, (&user, Some(call)), asker, env));
    }
    let pickup = env.settings.config.watching.pickup.as_bytes();
    let called = user.as_bytes().strip_prefix(pickup).filter(|_| !pickup.is_empty())?;
    let (user, asker) = (shared.location.canonical(called), asker(env));
    Some(taken_over(shared, incoming, (&user, None), asker, env))
}

/// True for an INVITE that begins a dialog.
fn is_call(incoming: &Incoming<'_, '_>) -> bool {
    incoming.head.method == Method::Invite && incoming.head.to.tag().is_none()
}

/// True for a call, but not for the second leg of one of the owner's B2BUA.
fn is_new_call(incoming: &Incoming<'_, '_>) -> bool {
    is_call(incoming) && !incoming.flow.is_internal()
}

/// The URI of a user with the ringing call that the Replaces of `incoming` names, if that call is
/// picked up at the media server. The key of a phone sends such an INVITE to the caller, as it is
/// told that (RFC 4235), or to the user: a provider, or a caller without Replaces, would refuse it.
#[cfg(feature = "office")]
pub(super) fn picked_up(
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    env: &Env<'_>,
) -> Option<Box<[u8]>> {
    if found.edge_flow.is_some() || !found.left().is_empty() || !sees_calls(env.settings) {
        return None;
    }
    named(incoming, env).map(|(_, user)| uri_of(user.as_bytes()))
}

/// The ringing call that the Replaces of `incoming` names, and a user that it rings, if the caller
/// has to meet the call that picks it up.
#[cfg(feature = "office")]
fn named(incoming: &Incoming<'_, '_>, env: &Env<'_>) -> Option<(RingingCall, Box<str>)> {
    let mut values = incoming.message.elements(HeaderName::Replaces);
    let value = values.next()?;
    // The end of the dialog rejects a request with several.
    let is_call = is_new_call(incoming) && values.next().is_none();
    let named = env.watched_calls.filter(|_| is_call)?.named(value);
    let has_media_server = env.settings.config.media_services.has_names();
    named
        .filter(|(call, _)| call.is_from_trunk || (has_media_server && !call.caller.takes_replaces))
}

/// True if `asker` and `user` are of one domain.
fn is_neighbour(asker: &AddressOfRecord, user: &AddressOfRecord) -> bool {
    let domain = |it: &AddressOfRecord| it.as_bytes().get(it.name().len()..).map(<[u8]>::to_vec);
    domain(asker) == domain(user)
}

/// The group `name`.
fn group_of<'e>(name: &AddressOfRecord, env: &Env<'e>) -> Option<&'e Group> {
    let groups = &env.settings.config.groups;
    groups.iter().find(|group| group.name.as_bytes() == name.as_bytes())
}

fn notifier_of<R: RawMutex>(
    shared: &Shared<R>,
    incoming: &Incoming<'_, '_>,
    user: &AddressOfRecord,
    package: Package,
    asker: Option<AddressOfRecord>,
    env: &Env<'_>,
) -> Result<Targets, Refusal> {
    let is_own = asker.as_ref() == Some(user);
    let may_watch = match (package, &asker) {
        (Package::Dialog, Some(asker)) => is_neighbour(asker, user),
        _ => is_own,
    };
    let Some(asker) = asker.filter(|_| may_watch) else {
        env.counters.watching_denied.add();
        return Err(Refusal::Status(Status::FORBIDDEN.with_reason("Watching Denied")));
    };
    if group_of(user, env).is_none() && shared.location.look_up(user, |found| found.is_none()) {
        return Err(Refusal::Status(Status::NOT_FOUND.into()));
    }
    let flow = incoming.flow.internal_to(Endpoint::Notifier);
    let scheme: &[u8] = if is_sips(incoming.head.uri_bytes) { b"sips" } else { b"sip" };
    let mut uri = [scheme, b":notifier@"].concat();
    write_address(&mut uri, flow.local);
    for (name, user) in [(&b";of="[..], user), (b";by=", &asker)] {
        uri.extend_from_slice(name);
        uri.extend_from_slice(&escape_param(user.as_bytes()));
    }
    if is_own || env.settings.config.watching.calls == Watch::Calls {
        uri.extend_from_slice(b";shows=calls");
    }
    Ok(Targets::from_iter([target(&uri, flow, Vec::new(), None, env)]))
}

/// The caller of the call that rings `user`, which may be `named`, for an INVITE of `asker` that
/// replaces the call.
fn taken_over<R: RawMutex>(
    shared: &Shared<R>,
    incoming: &Incoming<'_, '_>,
    (user, named): (&AddressOfRecord, Option<RingingCall>),
    asker: Option<AddressOfRecord>,
    env: &mut Env<'_>,
) -> Result<Targets, Refusal> {
    let may_watch = env.settings.config.watching.calls == Watch::Calls
        && asker.as_ref().is_some_and(|asker| is_neighbour(asker, user));
    if !may_watch {
        env.counters.watching_denied.add();
        return Err(Refusal::Status(Status::FORBIDDEN.with_reason("Pickup Denied")));
    }
    let group = group_of(user, env);
    if group.is_none() && shared.location.look_up(user, |found| found.is_none()) {
        return Err(Refusal::Status(Status::NOT_FOUND.into()));
    }
    let ringing = |user: &[u8]| env.watched_calls.and_then(|calls| calls.ringing(user));
    let ringing = match group {
        _ if named.is_some() => named,
        Some(group) => ringing(user.as_bytes())
            .or_else(|| group.members.iter().find_map(|member| ringing(member.as_bytes()))),
        None => ringing(user.as_bytes()),
    };
    let Some(RingingCall { caller, replaces, transaction, is_from_trunk }) = ringing else {
        let status = Status::CALL_DOES_NOT_EXIST.with_reason("No Call to Pick Up");
        return Err(Refusal::Status(status));
    };
    #[cfg(feature = "office")]
    {
        let has_media_server = env.settings.config.media_services.has_names();
        if has_media_server && (is_from_trunk || !caller.takes_replaces) {
            let Incoming { head, flow, .. } = incoming;
            let name = format!("{transaction:x}");
            let call = (head.uri_bytes, flow);
            let target = media_target::meeting(&name, asker.as_ref(), call, env);
            let user = asker.map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned());
            let user = user.unwrap_or_default().into_boxed_str();
            let transaction = call_changes::handle_of(transaction);
            env.out.meetings.push(Meeting { transaction, name, user });
            return Ok(Targets::from_iter([target]));
        }
        // An INVITE to the trunk would not count for it.
        if is_from_trunk {
            let status = Status::FORBIDDEN.with_reason("Pickup Needs the Media Server");
            return Err(Refusal::Status(status));
        }
    }
    #[cfg(not(feature = "office"))]
    let _ = (incoming, transaction, is_from_trunk);
    let mut lines = Vec::new();
    write_line(&mut lines, b"Replaces", &replaces);
    // Another phone of the caller would take it for a new call.
    write_line(&mut lines, b"Require", b"replaces");
    let CallerPlace { uri, routes, flow, .. } = caller;
    Ok(Targets::from_iter([target(&uri, flow, routes.into_vec(), Some(Takeover { lines }), env)]))
}

fn target(
    uri: &[u8],
    flow: Flow,
    path: Vec<u8>,
    takeover: Option<Takeover>,
    env: &Env<'_>,
) -> Target {
    Target {
        path,
        flow_bound: true,
        takeover: takeover.map(Box::new),
        ..Target::new(uri, NextHop::Flow(flow), env.settings.scope_of(&flow))
    }
}

/// The continuation of a call from a trunk by the owner's B2BUA, with the INVITE `incoming`.
#[cfg(feature = "office")]
pub(super) fn continued(
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    env: &Env<'_>,
) -> Option<Box<CallChange>> {
    let Incoming { message, head, .. } = incoming;
    let is_call = head.method == Method::Invite && head.to.tag().is_none();
    if !is_call || !found.is_from_trunk() || !sees_calls(env.settings) {
        return None;
    }
    let call_id = param_of_pass(message, "caller")?;
    Some(Box::new(CallChange::Continued { call_id: call_id.as_ref().into(), transaction: 0 }))
}

/// The beginning of the call `incoming` to `uri`, if it has a callee, if the owner is told of it.
/// Its transaction has no number yet.
pub(super) fn beginning<R: RawMutex>(
    shared: &Shared<R>,
    incoming: &Incoming<'_, '_>,
    uri: Option<&Uri<'_>>,
    authorization: &Authorization,
    env: &Env<'_>,
) -> Option<Box<CallChange>> {
    let Incoming { message, head, flow, .. } = incoming;
    if !is_new_call(incoming) || !sees_calls(env.settings) {
        return None;
    }
    let caller = speaker(shared, authorization, &head.from_uri, env);
    let callee = match uri {
        Some(Uri::Sip(uri)) => shared.address_of(uri, env),
        _ => None,
    };
    let is_to_group = callee.as_ref().is_some_and(|it| group_of(it, env).is_some());
    let is_user = |it: &AddressOfRecord| shared.location.look_up(it, |found| found.is_some());
    let callee = callee.filter(|it| is_to_group || is_user(it));
    if caller.is_none() && callee.is_none() {
        return None;
    }
    let party = |user: Option<AddressOfRecord>, identity: &[u8]| {
        let user = user.as_ref().and_then(|user| core::str::from_utf8(user.as_bytes()).ok());
        WatchedParty { user: user.map(Box::from), identity: identity.into() }
    };
    let contact = message.elements(HeaderName::Contact).next();
    let contact = contact.and_then(|it| NameAddr::parse(HeaderName::Contact, it).ok());
    let routes: Vec<&[u8]> = message.elements(HeaderName::RecordRoute).collect();
    Some(Box::new(CallChange::Begun {
        transaction: 0,
        call_id: head.call_id.into(),
        caller_tag: head.from.tag().unwrap_or_default().into(),
        parties: [party(caller, head.from.uri_bytes), party(callee, head.to.uri_bytes)],
        caller: CallerPlace {
            uri: contact.map_or(head.from.uri_bytes, |contact| contact.uri_bytes).into(),
            routes: routes.join(&b", "[..]).into(),
            flow: *flow,
            takes_replaces: message
                .elements(HeaderName::Supported)
                .any(|it| it.eq_ignore_ascii_case(b"replaces")),
        },
        is_to_group,
    }))
}
