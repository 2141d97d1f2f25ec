//! The decision on a request: its authorization and its targets (RFC 3261 sections 16.3 to 16.5 and
//! 8.3). [`execute`](super::execute) carries it out.

#[cfg(feature = "office")]
use super::alerts;
use super::authorization::{Asked, authorize};
use super::call_changes;
use super::edge::leads_to_domain;
use super::grant::Grant;
use super::joining;
#[cfg(feature = "office")]
use super::kept;
use super::media_services;
#[cfg(feature = "office")]
use super::media_target;
use super::numbers::{self, Numbered};
#[cfg(feature = "office")]
use super::parking;
#[cfg(feature = "office")]
use super::referral;
use super::refusal::{Refusal, Refused};
#[cfg(feature = "office")]
use super::registered::asleep_in_dialog;
use super::registered::{
    flow_now, gruu_targets, keep_as_many_as_may_be, registered_targets, targets_of,
};
use super::route::{Destination, Onward, Preprocessed};
use super::sender::Authorization;
use super::services::{self, Stages};
use super::tables::Tables;
use super::target::{Target, Targets, join_flows, keep_scheme};
use super::token::Identity;
use super::via_branch::{Visit, loop_hash, visit};
use super::watching;
use crate::core::authentication::{UNKNOWN_FOR, note_failure};
use crate::core::config::{Joining, Mode, State};
use crate::core::event::Env;
use crate::core::incoming::{Incoming, UNSECURED};
use crate::core::next_hop::{NextHop, NoRoute};
use crate::core::overload::Share;
use crate::core::settings::Trust;
use crate::core::shared::Shared;
use crate::core::timings::{Step, timed};
use crate::core::watching::CallChange;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use lock_api::RawMutex;
use sip::message::RequestHead;
use sip::uri::is_sips;
use sip::{Duration, HeaderName, Message, Method, Status, Uri};
use smallvec::SmallVec;

/// The Max-Breadth of a request without one (RFC 5393 section 5.3.3), and the maximum of any
/// request, because the sender chooses the value.
const MAX_BREADTH: u32 = 60;

/// The decision on a request.
pub(super) enum Decision {
    /// The request is for this server itself.
    Server,
    /// The request is not forwarded.
    Refuse(Refused),
    /// The sender is told the contacts of the called user (RFC 3261 section 8.3).
    Redirect(Targets),
    /// The request is forwarded.
    Forward(RequestRoute),
}

/// The route of an authorized request: its authorization and its targets.
pub(super) struct RequestRoute {
    pub(super) authorization: Authorization,
    pub(super) targets: Targets,
    /// The identity of the called user, if it is a user of this server.
    pub(super) answerer: Identity,
    /// Complete Route lines that replace the received ones. `None` leaves them unchanged.
    pub(super) routes: Option<Vec<u8>>,
    /// True if the request may go to the B2BUA of the owner.
    pub(super) may_join: bool,
    /// The request URI for the B2BUA, if it is that of a user that the numbers of the owner name.
    pub(super) named: Option<Box<[u8]>>,
    /// The stages of a call with call services. `targets` are those of the first one.
    pub(super) stages: Option<Box<Stages>>,
    /// The beginning of a call that the owner is told.
    pub(super) beginning: Option<Box<CallChange>>,
    /// True if Call-Info, Alert-Info and the like of a user are forwarded.
    #[cfg(feature = "office")]
    pub(super) keeps_alerts: bool,
    /// The value of Refer-To that replaces the received one. `None` leaves it unchanged.
    #[cfg(feature = "office")]
    pub(super) refer_to: Option<Box<[u8]>>,
}

/// The data on a request that its targets come with.
struct Found {
    /// See [`RequestRoute::answerer`].
    answerer: Identity,
    routes: Option<Vec<u8>>,
    stages: Option<Box<Stages>>,
}

/// The option tags in Proxy-Require.
pub(super) fn required_of_proxies<'m>(request: &Message<'m>) -> SmallVec<[&'m [u8]; 2]> {
    request.elements(HeaderName::ProxyRequire).collect()
}

/// Decides on a request.
pub(super) fn decide<R: RawMutex>(
    shared: &Shared<R>,
    tables: &Tables<R>,
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    env: &mut Env<'_>,
) -> Decision {
    let Incoming { message, head, flow, .. } = incoming;
    let grant = Grant::find(tables, message, head, found, env);
    let flow_to_end = grant.and_then(|grant| grant.flow).or(found.edge_flow);
    let destination = match found.to_trunk() {
        Some(trunk) => match numbers::onward_to(trunk, found, env) {
            Ok(onward) => Destination::Onward(Ok(onward)),
            Err(refusal) => return Decision::Refuse(refusal.into()),
        },
        None => found.destination(flow_to_end, flow, env.settings),
    };
    let onward = match destination {
        Destination::Server => return Decision::Server,
        Destination::Onward(onward) => onward,
    };
    match find_route(shared, tables, incoming, found, grant, onward, env) {
        Err(refused) => Decision::Refuse(refused),
        Ok(route) if env.settings.config.mode == Mode::Redirect => {
            Decision::Redirect(route.targets)
        }
        Ok(route)
            if is_new(head)
                && !flow.is_internal()
                && shared.is_draining.load(Ordering::Relaxed) =>
        {
            let is_proven = route.authorization.proved().is_some();
            Decision::Refuse(Refused { refusal: Refusal::Draining, is_proven })
        }
        Ok(route) => Decision::Forward(route),
    }
}

/// Authorizes a request that is not for this server itself, and finds its targets.
fn find_route<R: RawMutex>(
    shared: &Shared<R>,
    tables: &Tables<R>,
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    grant: Option<Grant>,
    onward: Result<Onward<'_>, NoRoute>,
    env: &mut Env<'_>,
) -> Result<RequestRoute, Refused> {
    let Incoming { message, head, flow, .. } = incoming;
    let hash = || loop_hash(&env.keys.branch, message, head, found.uri_bytes);
    let visit = visit_of(incoming, hash, env)?;
    // Some phones on TLS use a SIPS URI within a dialog that began with a SIP URI. The other end
    // may be on an unencrypted transport, as it was when the dialog began.
    let is_of_sip_dialog = !found.is_by_sips && grant.is_some_and(|grant| grant.flow.is_some());
    // The request came unencrypted, so encryption of the further hops would come too late.
    if is_sips(found.uri_bytes)
        && !flow.transport.is_secure()
        && !is_of_sip_dialog
        && onward.is_ok()
    {
        return Err(Refusal::Status(UNSECURED).into());
    }
    let onward = onward.map_err(|no_route| without_route(no_route, env))?;
    let mut targets = match &onward {
        // The target of a request within a dialog is known.
        Onward::Elsewhere { uri, .. }
            if grant.is_none()
                && found.edge_flow.is_none()
                && found.to_trunk().is_none()
                && *uri == found.uri_bytes
                && found.left().is_empty() =>
        {
            registered_targets(shared, incoming, found, env)
        }
        _ => Targets::new(),
    };
    let is_by_edge =
        found.edge_flow.is_some() || leads_to_domain(&found.uri, found.left(), env.settings);
    let is_for_us = !targets.is_empty() || matches!(onward, Onward::User { .. }) || is_by_edge;
    let follows_invite = grant.is_none() && follows_invite(tables, incoming, hash, env);
    // The trusted registrar that sends a request to its phone has authenticated the sender, or this
    // server did when it forwarded the request to the registrar.
    let is_vouched = found.edge_flow.is_some() && incoming.trust == Trust::Trusted;
    let pass = found.pass;
    let asked = Asked { incoming, is_for_us, is_by_edge, grant, pass, follows_invite, is_vouched };
    let authorization = authorize(shared, tables, &asked, env)?;
    #[cfg(feature = "office")]
    {
        referral::check(shared, incoming, &authorization, env)?;
        referral::check_party(shared, incoming, &authorization, env)?;
    }
    if let Some(grant) = grant {
        grant.note_move(tables, message, head, flow, env);
        call_changes::note_request(incoming, env);
    }
    // The B2BUA has the rights of the caller by its pass.
    let is_proven =
        authorization.proved().is_some() || pass.is_some_and(|pass| pass.payers.user.is_some());
    let refused = |refusal| Refused { refusal, is_proven };
    let numbered = numbers::resolve(shared, &asked, onward, &authorization, env);
    let Numbered { onward, attempts, named } = numbered.map_err(refused)?;
    let trunk = match authorization {
        Authorization::Trunk(trunk) => Some(trunk),
        _ => None,
    };
    let is_on_trunk = trunk.is_some() || !attempts.is_empty();
    if is_on_trunk && !joining::can_join(incoming, found, is_by_edge, env) {
        return Err(refused(Refusal::Status(Status::SERVER_INTERNAL_ERROR.into())));
    }
    let may_join = !is_on_trunk && joining::may_join(incoming, found, is_by_edge, env);
    let is_joined = trunk.is_some()
        || (may_join && (found.replaces_joined || env.settings.config.joining == Joining::All));
    let Found { answerer, routes, stages } = if attempts.is_empty() {
        let asked = (&asked, is_joined);
        find_targets(shared, asked, found, onward, &authorization, &mut targets, env)
            .map_err(refused)?
    } else {
        targets.clear();
        targets.push(joining::target_of_trunks(found.uri_bytes, flow, attempts, env));
        Found { answerer: Identity::NONE, routes: found.routes(), stages: None }
    };
    let is_for_sips = is_sips(found.uri_bytes);
    if !targets.is_empty() {
        keep_scheme(&mut targets, is_for_sips);
        if targets.is_empty() {
            return Err(refused(Refusal::OnlyUnsecured));
        }
        if let Some(pass) = found.pass.as_ref().filter(|_| joining::HAS_B2BUA) {
            joining::apply(pass, message, &mut targets, env)
                .map_err(|status| refused(Refusal::Status(status.into())))?;
            if targets.is_empty() {
                // The phone has registered anew.
                return Err(refused(Refusal::Status(Status::TEMPORARILY_UNAVAILABLE.into())));
            }
        }
        join_flows(&mut targets);
        keep_as_many_as_may_be(&mut targets, env);
    }
    if visit == Visit::Spiral {
        // A spiral may open few branches at once, but could continue with the remaining targets
        // each time it returns, without an end.
        targets.truncate(max_breadth(message) as usize);
    }
    let uri = named.as_deref().unwrap_or(found.uri_bytes);
    if let Some(trunk) = trunk
        && targets.iter().all(|target| target.detour.is_none())
    {
        targets.clear();
        targets.push(joining::target_from_trunk(uri, flow, trunk, env));
    }
    #[cfg(feature = "office")]
    let may_join = may_join && !targets.iter().any(media_target::is_target);
    if may_join {
        let sender = authorization.identity(env);
        joining::divert(incoming, (found, uri), sender, &mut targets, env);
    }
    let named_uri = named.as_deref().and_then(|named| Uri::parse(named).ok());
    let called = named_uri.as_ref().unwrap_or(&found.uri);
    // The user that a call is picked up from gets no call.
    let watched = (!found.picks_up).then_some(called);
    let beginning = watching::beginning(shared, incoming, watched, &authorization, env);
    #[cfg(feature = "office")]
    let beginning = beginning.or_else(|| watching::continued(incoming, found, env));
    Ok(RequestRoute {
        #[cfg(feature = "office")]
        keeps_alerts: !is_for_us
            || is_by_edge
            || alerts::are_kept(shared, incoming, &authorization, called, env),
        #[cfg(feature = "office")]
        refer_to: parking::refer_to(shared, incoming, &authorization, env),
        authorization,
        targets,
        answerer,
        routes,
        may_join,
        named,
        stages,
        beginning,
    })
}

/// Finds the `targets` of a request that is authorized by `authorization`, unless the lookup of
/// registered contacts has found them already. The request goes to the B2BUA first if it
/// `is_joined`.
fn find_targets<R: RawMutex>(
    shared: &Shared<R>,
    (asked, is_joined): (&Asked<'_, '_>, bool),
    found: &Preprocessed<'_>,
    onward: Onward<'_>,
    authorization: &Authorization,
    targets: &mut Targets,
    env: &mut Env<'_>,
) -> Result<Found, Refusal> {
    let Asked { incoming, grant, .. } = *asked;
    let Incoming { head, flow, .. } = incoming;
    match onward {
        Onward::Elsewhere { .. } if env.settings.config.mode == Mode::Redirect => {
            Err(Refusal::Status(Status::NOT_FOUND.into()))
        }
        Onward::Elsewhere { next_hop, flow_bound, uri, routes } => {
            if grant.is_some() && found.left().is_empty() {
                // A phone that uses a GRUU as its contact gets requests with its registered URI
                // (RFC 5627 section 5.1).
                let _ = gruu_targets(shared, found, targets, env);
            }
            if targets.is_empty() {
                // If the next hop is a strict router, the request URI is that of the router.
                let known = grant.filter(|_| flow_bound && uri == found.uri_bytes);
                let known = known.and_then(|grant| grant.flow);
                let now_on = known.and_then(|known| flow_now(shared, head, found, known, env));
                // The connection on which the dialog was created, while it is open (RFC 5923). A
                // certificate cannot be checked against a URI with an IP address.
                let carrier = grant.filter(|_| !flow_bound).and_then(|grant| grant.carrier);
                let carrier = carrier.filter(|carrier| {
                    shared.location.is_open(carrier) && next_hop.may_be_on(carrier.transport)
                });
                let next_hop = now_on.map_or(next_hop, NextHop::Flow);
                let origin = grant.map_or(env.settings.scope_of(flow), |grant| grant.scope);
                let target = Target { flow_bound, ..Target::new(uri, next_hop, origin) };
                #[cfg(feature = "office")]
                let target = match now_on.or(known) {
                    Some(flow) => {
                        let asleep = asleep_in_dialog(shared, head, found, flow, env);
                        Target { asleep, ..target }
                    }
                    None => target,
                };
                targets.push(match carrier {
                    Some(carrier) => target.first_on(carrier),
                    None => target,
                });
            }
            let answerer = grant.map_or(Identity::NONE, |grant| grant.other_identity);
            Ok(Found { answerer, routes, stages: None })
        }
        // This server keeps no event state for its users.
        Onward::User { .. } if head.method == Method::Publish => {
            Err(Refusal::Status(Status::BAD_EVENT.into()))
        }
        Onward::User { user, domain } => {
            let name = env.settings.domain_name(domain);
            let user = shared.location.address_of_record(&user, name);
            if let Some(found_there) =
                watching::targets_of(shared, incoming, &user, authorization, env)
            {
                *targets = found_there?;
                let answerer = Identity::NONE;
                return Ok(Found { answerer, routes: found.routes(), stages: None });
            }
            let uri = found.uri_bytes;
            let call = media_services::NewCall {
                shared,
                incoming: asked.incoming,
                pass: asked.pass,
                uri,
                authorization,
            };
            if let Some(led) = call.lead_to_service(&user, targets, env) {
                let user = led.map_err(|refused| match refused {
                    media_services::Refused::Unknown(status) => {
                        miss(shared, incoming, authorization, status, env)
                    }
                    media_services::Refused::Stranger(line) => Refusal::Status(line),
                })?;
                let answerer = Identity::new(&env.keys.token, user.as_bytes());
                return Ok(Found { answerer, routes: found.routes(), stages: None });
            }
            let called = user.clone();
            let user = timed(env.stopwatch, Step::FindUser, || {
                if let Some(found) = gruu_targets(shared, found, targets, env) {
                    return found.map(|user| (user, None));
                }
                match services::begin(&call, found, &user, is_joined, targets, env) {
                    Some(stages) => stages.map(|stages| (user, stages)),
                    None => targets_of(shared, &user, None, targets, env).map(|()| (user, None)),
                }
            });
            let user = user.or_else(|status| {
                call.lead_to_mailbox(&called, status, targets, env).map(|()| (called.clone(), None))
            });
            #[cfg(feature = "office")]
            let user = {
                let (user, found) = match user {
                    Ok(user) => (user, Ok(())),
                    Err(status) => ((called.clone(), None), Err(status)),
                };
                let sender = (incoming, authorization);
                kept::lead_to_keeper(shared, sender, &called, found, targets, env).map(|()| user)
            };
            let (user, stages) =
                user.map_err(|status| miss(shared, incoming, authorization, status, env))?;
            let answerer = Identity::new(&env.keys.token, user.as_bytes());
            Ok(Found { answerer, routes: found.routes(), stages })
        }
    }
}

/// Checks if a request may be forwarded (RFC 3261 section 16.3), and returns if it has passed this
/// server before.
fn visit_of(
    incoming: &Incoming<'_, '_>,
    loop_hash: impl FnOnce() -> u32,
    env: &Env<'_>,
) -> Result<Visit, Refusal> {
    let Incoming { message, head, .. } = incoming;
    if env.settings.config.mode == Mode::Registrar {
        return Err(Refusal::OnlyRegistrar);
    }
    if is_too_much(head, env) {
        env.counters.overload_refused.add();
        return Err(Refusal::ForNow { seconds: 5 });
    }
    if head.max_forwards == Some(0) {
        env.counters.too_many_hops.add();
        return Err(Refusal::Status(Status::TOO_MANY_HOPS.into()));
    }
    if head.method != Method::Ack && !required_of_proxies(message).is_empty() {
        return Err(Refusal::Extensions);
    }
    match visit(message, loop_hash) {
        Visit::Loop => {
            env.counters.loops.add();
            Err(Refusal::Status(Status::LOOP_DETECTED.into()))
        }
        visit => Ok(visit),
    }
}

fn without_route(no_route: NoRoute, env: &Env<'_>) -> Refusal {
    let status = match no_route {
        NoRoute::Scheme => Status::UNSUPPORTED_URI_SCHEME,
        // A 503 would say that this server is overloaded.
        NoRoute::Transport => Status::TEMPORARILY_UNAVAILABLE,
        NoRoute::Number => {
            env.counters.not_found.add();
            Status::NOT_FOUND
        }
    };
    Refusal::Status(status.into())
}

/// The response to a request for an unknown or unregistered user, according to `status`. A client
/// that causes many of these may be guessing names and is limited.
fn miss<R: RawMutex>(
    shared: &Shared<R>,
    incoming: &Incoming<'_, '_>,
    authorization: &Authorization,
    status: Status,
    env: &mut Env<'_>,
) -> Refusal {
    let Incoming { message, flow, account, .. } = incoming;
    match status {
        Status::NOT_FOUND if shared.lacks_users.load(Ordering::Relaxed) => {
            env.counters.unknown_for_now.add();
            return Refusal::ForNow { seconds: UNKNOWN_FOR };
        }
        Status::NOT_FOUND => env.counters.not_found.add(),
        _ => env.counters.unavailable.add(),
    }
    if authorization.is_of_stranger(incoming) {
        if !shared.admission.admit_miss(*account, env.now, &env.settings.config.limits) {
            env.counters.foreign_limited.add();
            return Refusal::ForNow { seconds: 10 };
        }
        // A proxy is not banned for the numbers that its clients dial.
        let is_proxied = message.elements(HeaderName::Via).nth(1).is_some();
        if status == Status::NOT_FOUND && flow.transport.is_stream() && !is_proxied {
            note_failure(shared, account.source, env);
        }
    }
    Refusal::Status(status.into())
}

/// True if the request is the ACK or CANCEL of an INVITE that was forwarded without a transaction.
fn follows_invite<R: RawMutex>(
    tables: &Tables<R>,
    incoming: &Incoming<'_, '_>,
    loop_hash: impl FnOnce() -> u32,
    env: &Env<'_>,
) -> bool {
    let Incoming { message, head, .. } = incoming;
    env.settings.config.state == State::Stateless
        && matches!(head.method, Method::Ack | Method::Cancel)
        && tables.passed.has(passed_key(tables, message, loop_hash()))
}

/// The key of an INVITE that is forwarded without a transaction, and of its CANCEL and ACK. These
/// have the same branch parameter and the same routing fields.
pub(super) fn passed_key<R: RawMutex>(
    tables: &Tables<R>,
    request: &Message<'_>,
    loop_hash: u32,
) -> u64 {
    tables.transactions.key_of(request).wrapping_add(loop_hash.into())
}

/// The maximum number of branches of the request open at once (RFC 5393 section 5.3.3).
pub(super) fn max_breadth(request: &Message<'_>) -> u32 {
    request
        .value(HeaderName::MaxBreadth)
        .and_then(|value| sip::header::number(HeaderName::MaxBreadth, value, u32::MAX).ok())
        .map_or(MAX_BREADTH, |asked| asked.min(MAX_BREADTH))
}

/// True if the request begins a transaction outside a dialog, so that a rejection leaves no state
/// behind.
fn is_new(head: &RequestHead<'_>) -> bool {
    head.to.tag().is_none() && !matches!(head.method, Method::Ack | Method::Cancel)
}

/// True if the server is too overloaded for the request. All requests of a call get the same
/// decision, so that a client that was challenged is served.
fn is_too_much(head: &RequestHead<'_>, env: &Env<'_>) -> bool {
    let max_wait = env.settings.config.limits.max_wait;
    let is_late = max_wait > Duration::ZERO && env.waited > max_wait;
    (is_late || env.served < Share::ALL)
        && is_new(head)
        && (is_late || !env.served.has(env.keys.call_id.hash_one(head.call_id)))
}
