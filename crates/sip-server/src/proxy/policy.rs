//! The routing and the authorization of requests: the policy of the proxy and of the redirect
//! server (RFC 3261 sections 16.3 to 16.5 and 8.3).

use crate::authentication::note_failure;
use crate::config::{Mode, State};
use crate::event::Env;
use crate::incoming::{
    ALLOW_REGISTRAR, Incoming, UNSECURED, answer, for_server, refuse_extensions, refuse_for_now,
    reply, reply_flow,
};
use crate::lines::write_line;
use crate::overload::Share;
use crate::proxy::edge::{is_first_hop, leads_to_domain};
use crate::proxy::registered::{
    flow_now, gruu_targets, keep_as_many_as_may_be, registered_targets, targets_of,
};
use crate::proxy::via_branch::{Said, Visit, loop_hash, visit};
use crate::proxy::{
    Context, Destination, Grant, Identity, Lacking, Names, NextHop, NoRoute, Onward, Payers, Plan,
    Preprocessed, Target, Targets, join_flows, keep_scheme, stateless,
};
use crate::registrar;
use crate::server::Server;
use crate::settings::Trust;
use crate::source::Evidence;
use crate::sponsor::{Asked, Sponsor, find_sponsor};
use crate::timings::{Step, timed};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use lock_api::RawMutex;
use sip::message::RequestHead;
use sip::uri::is_sips;
use sip::{Duration, HeaderName, Message, Method, Status};
use smallvec::SmallVec;

/// The Max-Breadth of a request without one (RFC 5393 section 5.3.3), and the maximum of any
/// request, because the sender chooses the value.
const MAX_BREADTH: u32 = 60;

/// The Warning for a callee without a registered SIPS URI (RFC 5630 section 6.3).
const SIPS_NOT_ALLOWED: &[u8] = b"380 barebell \"SIPS Not Allowed\"";

/// Forwards or redirects a request, or rejects it.
pub(crate) fn route<R: RawMutex>(
    server: &Server<R>,
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    env: &mut Env<'_>,
) {
    let Incoming { message, head, flow, .. } = incoming;
    let grant = Grant::find(server, message, head, found, env);
    let flow_to_end = grant.and_then(|grant| grant.flow).or(found.edge_flow);
    let onward = match found.destination(flow_to_end, flow, env.settings) {
        Destination::Server => return for_server(incoming, env),
        Destination::Onward(onward) => onward,
    };
    match decide(server, incoming, found, grant, onward, env) {
        Err(refusal) => refuse(incoming, &refusal, env),
        Ok(way) if env.settings.config.mode == Mode::Redirect => {
            redirect(incoming, &way.targets, env);
        }
        Ok(way) => forward(server, incoming, found, way, env),
    }
}

/// The route of an authorized request.
struct Way {
    sponsor: Sponsor,
    targets: Targets,
    /// The identity of the called user, if it is a user of this server.
    answerer: Identity,
    /// Complete Route lines that replace the received ones. `None` leaves them unchanged.
    routes: Option<Vec<u8>>,
}

/// The reason for not forwarding a request.
enum Refusal {
    /// A response has been sent already.
    Answered,
    /// The request is answered with this status.
    Status(Status),
    /// This server is a registrar only.
    OnlyRegistrar,
    /// The request URI is a SIPS URI, and the request came unencrypted.
    Unsecured,
    /// The request URI is a SIPS URI, and the callee is not reachable by one.
    OnlyUnsecured,
    /// The request requires proxy extensions that this server does not support.
    Extensions,
    /// The client may retry after this many seconds.
    ForNow { seconds: u64 },
}

/// Sends the response to a request that is not forwarded. An ACK has no response.
fn refuse(incoming: &Incoming<'_, '_>, refusal: &Refusal, env: &mut Env<'_>) {
    let Incoming { message, head, flow, .. } = incoming;
    if head.method == Method::Ack {
        return;
    }
    match *refusal {
        Refusal::Answered => {}
        Refusal::Status(status) => {
            answer(incoming, status, env);
        }
        Refusal::OnlyRegistrar => {
            reply(message, flow, Status::METHOD_NOT_ALLOWED, env, |out, _| {
                write_line(out, b"Allow", ALLOW_REGISTRAR);
            });
        }
        Refusal::Unsecured => {
            reply(message, flow, UNSECURED, env, |_, _| {});
        }
        Refusal::OnlyUnsecured => {
            env.counters.unavailable.add();
            reply(message, flow, Status::TEMPORARILY_UNAVAILABLE, env, |out, _| {
                write_line(out, b"Warning", SIPS_NOT_ALLOWED);
            });
        }
        Refusal::Extensions => refuse_extensions(incoming, &required_of_proxies(message), env),
        Refusal::ForNow { seconds } => {
            refuse_for_now(incoming, Status::SERVICE_UNAVAILABLE, seconds, env);
        }
    }
}

/// The option tags in Proxy-Require.
fn required_of_proxies<'m>(request: &Message<'m>) -> SmallVec<[&'m [u8]; 2]> {
    request.elements(HeaderName::ProxyRequire).collect()
}

/// Authorizes a request that is not for this server itself, and finds its targets.
fn decide<R: RawMutex>(
    server: &Server<R>,
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    grant: Option<Grant>,
    onward: Result<Onward<'_>, NoRoute>,
    env: &mut Env<'_>,
) -> Result<Way, Refusal> {
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
        return Err(Refusal::Unsecured);
    }
    let onward = onward.map_err(|no_route| without_route(no_route, env))?;
    let mut targets = match &onward {
        // The target of a request within a dialog is known.
        Onward::Elsewhere { uri, .. }
            if grant.is_none()
                && found.edge_flow.is_none()
                && *uri == found.uri_bytes
                && found.left().is_empty() =>
        {
            registered_targets(server, incoming, found, env)
        }
        _ => Targets::new(),
    };
    let is_by_edge =
        found.edge_flow.is_some() || leads_to_domain(&found.uri, found.left(), env.settings);
    let is_for_us = !targets.is_empty() || matches!(onward, Onward::User { .. }) || is_by_edge;
    let follows_invite = grant.is_none() && follows_invite(server, incoming, hash, env);
    // The trusted registrar that sends a request to its phone has authenticated the sender, or this
    // server did when it forwarded the request to the registrar.
    let is_vouched = found.edge_flow.is_some() && incoming.trust == Trust::Trusted;
    let asked = Asked { incoming, is_for_us, is_by_edge, grant, follows_invite, is_vouched };
    let sponsor = find_sponsor(server, &asked, env).ok_or(Refusal::Answered)?;
    if let Some(grant) = grant {
        grant.note_move(server, message, head, flow, env);
    }
    let (answerer, routes) =
        find_targets(server, &asked, found, onward, &sponsor, &mut targets, env)?;
    let is_for_sips = is_sips(found.uri_bytes);
    if !targets.is_empty() {
        keep_scheme(&mut targets, is_for_sips);
        if targets.is_empty() {
            return Err(Refusal::OnlyUnsecured);
        }
        join_flows(&mut targets);
        keep_as_many_as_may_be(&mut targets, env);
    }
    if visit == Visit::Spiral {
        // A spiral may open few branches at once, but could continue with the remaining targets
        // each time it returns, without an end.
        targets.truncate(max_breadth(message) as usize);
    }
    Ok(Way { sponsor, targets, answerer, routes })
}

/// Finds the `targets` of a request that is authorized by `sponsor`, unless the lookup of
/// registered contacts has found them already. Returns the identity of the called user and the
/// Route lines that replace the received ones.
fn find_targets<R: RawMutex>(
    server: &Server<R>,
    asked: &Asked<'_, '_>,
    found: &Preprocessed<'_>,
    onward: Onward<'_>,
    sponsor: &Sponsor,
    targets: &mut Targets,
    env: &mut Env<'_>,
) -> Result<(Identity, Option<Vec<u8>>), Refusal> {
    let Asked { incoming, grant, .. } = *asked;
    let Incoming { head, flow, .. } = incoming;
    match onward {
        Onward::Elsewhere { .. } if env.settings.config.mode == Mode::Redirect => {
            Err(Refusal::Status(Status::NOT_FOUND))
        }
        Onward::Elsewhere { next_hop, flow_bound, uri, routes } => {
            if grant.is_some() && found.left().is_empty() {
                // A phone that uses a GRUU as its contact gets requests with its registered URI
                // (RFC 5627 section 5.1).
                let _ = gruu_targets(server, found, targets, env);
            }
            if targets.is_empty() {
                // If the next hop is a strict router, the request URI is that of the router.
                let known = grant.filter(|_| flow_bound && uri == found.uri_bytes);
                let known = known.and_then(|grant| grant.flow);
                let now_on = known.and_then(|known| flow_now(server, head, found, known, env));
                // The connection on which the dialog was created, while it is open (RFC 5923). A
                // certificate cannot be checked against a URI with an IP address.
                let carrier = grant.filter(|_| !flow_bound).and_then(|grant| grant.carrier);
                let carrier = carrier.filter(|carrier| {
                    server.location.is_open(carrier) && next_hop.may_be_on(carrier.transport)
                });
                let target = Target {
                    uri: SmallVec::from_slice(uri),
                    path: Vec::new(),
                    next_hop: now_on.map_or(next_hop, NextHop::Flow),
                    q: 1000,
                    flow_bound,
                    origin: grant.map_or(env.settings.scope_of(flow), |grant| grant.scope),
                    flows: None,
                };
                targets.push(match carrier {
                    Some(carrier) => target.first_on(carrier),
                    None => target,
                });
            }
            let answerer = grant.map_or(Identity::NOBODY, |grant| grant.other_identity);
            Ok((answerer, routes))
        }
        // This server keeps no event state for its users.
        Onward::User { .. } if head.method == Method::Publish => {
            Err(Refusal::Status(Status::BAD_EVENT))
        }
        Onward::User { user, domain } => {
            let name = env.settings.domain_name(domain);
            let user = server.location.address_of_record(&user, name);
            let user = timed(env.stopwatch, Step::FindUser, || {
                match gruu_targets(server, found, targets, env) {
                    Some(found) => found,
                    None => targets_of(server, &user, None, targets, env).map(|()| user),
                }
            });
            let user = user.map_err(|status| miss(server, incoming, sponsor, status, env))?;
            Ok((Identity::new(&env.keys.token, user.as_bytes()), found.routes()))
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
        return Err(Refusal::Status(Status::TOO_MANY_HOPS));
    }
    if head.method != Method::Ack && !required_of_proxies(message).is_empty() {
        return Err(Refusal::Extensions);
    }
    match visit(message, loop_hash) {
        Visit::Loop => {
            env.counters.loops.add();
            Err(Refusal::Status(Status::LOOP_DETECTED))
        }
        visit => Ok(visit),
    }
}

fn without_route(no_route: NoRoute, env: &Env<'_>) -> Refusal {
    Refusal::Status(match no_route {
        NoRoute::Scheme => Status::UNSUPPORTED_URI_SCHEME,
        // A 503 would say that this server is overloaded.
        NoRoute::Transport => Status::TEMPORARILY_UNAVAILABLE,
        NoRoute::Number => {
            env.counters.not_found.add();
            Status::NOT_FOUND
        }
    })
}

/// The response to a request for an unknown or unregistered user, according to `status`. A client
/// that causes many of these may be guessing names and is limited.
fn miss<R: RawMutex>(
    server: &Server<R>,
    incoming: &Incoming<'_, '_>,
    sponsor: &Sponsor,
    status: Status,
    env: &mut Env<'_>,
) -> Refusal {
    let Incoming { message, flow, trust, account, .. } = incoming;
    match status {
        Status::NOT_FOUND => env.counters.not_found.add(),
        _ => env.counters.unavailable.add(),
    }
    if matches!(sponsor, Sponsor::Nobody) && *trust == Trust::Stranger {
        if !server.admission.admit_miss(*account, env.now, &env.settings.config.limits) {
            env.counters.foreign_limited.add();
            return Refusal::ForNow { seconds: 10 };
        }
        // A proxy is not banned for the numbers that its clients dial.
        let is_proxied = message.elements(HeaderName::Via).nth(1).is_some();
        if status == Status::NOT_FOUND && flow.transport.is_stream() && !is_proxied {
            note_failure(server, account.source, env);
        }
    }
    Refusal::Status(status)
}

/// True if the request is the ACK or CANCEL of an INVITE that was forwarded without a transaction.
fn follows_invite<R: RawMutex>(
    server: &Server<R>,
    incoming: &Incoming<'_, '_>,
    loop_hash: impl FnOnce() -> u32,
    env: &Env<'_>,
) -> bool {
    let Incoming { message, head, .. } = incoming;
    env.settings.config.state == State::Stateless
        && matches!(head.method, Method::Ack | Method::Cancel)
        && server.passed.has(passed_key(server, message, loop_hash()))
}

/// The key of an INVITE that is forwarded without a transaction, and of its CANCEL and ACK. These
/// have the same branch parameter and the same routing fields.
fn passed_key<R: RawMutex>(server: &Server<R>, request: &Message<'_>, loop_hash: u32) -> u64 {
    server.transactions.key_of(request).wrapping_add(loop_hash.into())
}

/// Returns the plan of a request that goes `way`, and its targets.
fn plan(
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    way: Way,
    payers: Payers,
    env: &Env<'_>,
) -> (Plan, Targets) {
    let Incoming { message, head, flow, .. } = incoming;
    let Way { sponsor, targets, answerer, routes } = way;
    let starts_dialog = match head.method {
        Method::Invite | Method::Refer => head.to.tag().is_none(),
        // The first of these to arrive creates the dialog, and this server does not always know
        // which one is the first (RFC 6665 section 4.3).
        Method::Subscribe | Method::Notify => true,
        _ => false,
    };
    let record_route = starts_dialog && env.settings.config.record_route;
    let plan = Plan {
        loop_hash: loop_hash(&env.keys.branch, message, head, found.uri_bytes),
        record_route: record_route.then(|| Names { sender: sponsor.identity(env), answerer }),
        is_edge: is_first_hop(message, head)
            && leads_to_domain(&found.uri, found.left(), env.settings),
        is_by_edge: found.edge_flow.is_some(),
        said: Said::of(head).hash(&env.keys.branch),
        has_to_tag: head.to.tag().is_some(),
        sender_fields: sponsor.sender_fields(incoming, env),
        routes,
        received: message.as_bytes().len(),
        max_forwards: head.max_forwards,
        max_breadth: max_breadth(message),
        arrived_on: *flow,
        upstream: reply_flow(message, flow),
        payers,
    };
    (plan, targets)
}

/// The maximum number of branches of the request open at once (RFC 5393 section 5.3.3).
fn max_breadth(request: &Message<'_>) -> u32 {
    request
        .value(HeaderName::MaxBreadth)
        .and_then(|value| sip::header::number(HeaderName::MaxBreadth, value, u32::MAX).ok())
        .map_or(MAX_BREADTH, |asked| asked.min(MAX_BREADTH))
}

fn forward<R: RawMutex>(
    server: &Server<R>,
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    way: Way,
    env: &mut Env<'_>,
) {
    let Incoming { message, head, trust, account, .. } = incoming;
    if head.method == Method::Invite {
        env.counters.invites.add();
    }
    if is_new(head) && server.is_draining.load(Ordering::Relaxed) {
        return refuse_for_now(
            incoming,
            Status::SERVICE_UNAVAILABLE.with_reason("Shutting Down"),
            10,
            env,
        );
    }
    let payers = match trust {
        Trust::Trusted => server.transactions.payers(None, None),
        Trust::Stranger => {
            let account = match way.sponsor {
                Sponsor::User(_) => account.with(Evidence::Nonce),
                Sponsor::Dialog(_) => account.with(Evidence::Dialog),
                Sponsor::Nobody => *account,
            };
            server.transactions.payers(Some(account), way.sponsor.proved())
        }
    };
    let (plan, targets) = plan(incoming, found, way, payers, env);
    let Some(key) = incoming.key.filter(|_| head.method != Method::Ack) else {
        return forward_statelessly(server, incoming, &plan, &targets, env);
    };
    // Memory for the received request and for the forwarded one.
    let bytes = 2 * message.as_bytes().len();
    let started = server.transactions.insert(key, payers, bytes, env, |handle, env| {
        Context::start(handle, message, plan, targets, env)
    });
    match started {
        Ok(()) => {}
        Err(Lacking::Whole) => {
            env.counters.transaction_limit.add();
            refuse_for_now(incoming, Status::SERVICE_UNAVAILABLE, 5, env);
        }
        Err(Lacking::Share) => {
            env.counters.share_limit.add();
            refuse_for_now(
                incoming,
                Status::SERVER_INTERNAL_ERROR.with_reason("Too Much in Progress"),
                5,
                env,
            );
        }
    }
}

/// Sends the request to the best of `targets`. Keeps only a record that an INVITE was forwarded.
fn forward_statelessly<R: RawMutex>(
    server: &Server<R>,
    incoming: &Incoming<'_, '_>,
    plan: &Plan,
    targets: &[Target],
    env: &mut Env<'_>,
) {
    let Incoming { message, head, .. } = incoming;
    if head.method == Method::Invite {
        let max = env.settings.config.limits.max_transactions;
        server.passed.note(passed_key(server, message, plan.loop_hash), max);
    }
    // The first target is the best.
    let Some(target) = targets.first() else { return };
    let forwarded = stateless::forward(message, head, plan, target, env);
    if let Err(stuck) = forwarded
        && head.method != Method::Ack
    {
        answer(incoming, stuck.status(), env);
    }
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

/// Sends a 302 with the contacts of the user (RFC 3261 section 8.3).
fn redirect(incoming: &Incoming<'_, '_>, targets: &[Target], env: &mut Env<'_>) {
    let Incoming { message, head, flow, .. } = incoming;
    match head.method {
        Method::Ack => {}
        Method::Cancel => answer(incoming, Status::OK, env),
        _ => {
            env.counters.redirects.add();
            reply(message, flow, Status::MOVED_TEMPORARILY, env, |out, _| {
                for target in targets {
                    registrar::write_contact(out, &target.uri, target.q);
                    out.extend_from_slice(b"\r\n");
                }
            });
        }
    }
}
