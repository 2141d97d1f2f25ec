//! Where a request goes and whether it may: the policy of the proxy and of the redirect server (RFC
//! 3261 sections 16.3 to 16.5 and 8.3).

use crate::authentication::note_failure;
use crate::config::{Mode, State};
use crate::event::Env;
use crate::flow::Flow;
use crate::incoming::{
    ALLOW_REGISTRAR, Incoming, for_server, refuse_extensions, refuse_for_now, reply, reply_flow,
};
use crate::lines::{write_line, write_number_line};
use crate::location::AddressOfRecord;
use crate::overload::Share;
use crate::proxy::via_branch::{Said, Visit, loop_hash, visit};
use crate::proxy::{
    Context, Destination, Grant, Identity, Lacking, Leads, Names, NextHop, NoRoute, Payers, Plan,
    Preprocessed, Target, Targets, stateless,
};
use crate::registrar;
use crate::server::Server;
use crate::settings::Trust;
use crate::sponsor::{Asked, Sponsor, find_sponsor};
use crate::timings::{Step, timed};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::sync::atomic::Ordering;
use lock_api::RawMutex;
use sip::message::{RequestHead, reason_phrase};
use sip::{Duration, HeaderName, Message, Method, SipUri, Transport, Uri};
use smallvec::SmallVec;

/// Max-Breadth of a request that has none (RFC 5393 section 5.3.3), and the most that any has: the sender chooses it.
const MAX_BREADTH: u32 = 60;

pub(crate) fn route<R: RawMutex>(
    server: &Server<R>,
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    env: &mut Env<'_>,
) {
    let Incoming { message, head, flow, trust, .. } = incoming;
    let config = &env.settings.config;
    let is_ack = head.method == Method::Ack;
    let grant = Grant::find(server, message, head, found, env);
    let flow_to_end = grant.and_then(|grant| grant.flow);
    let destination = found.destination(flow_to_end, flow, env.settings);
    let refuse = |status: u16, env: &mut Env<'_>| {
        if !is_ack {
            reply(message, flow, status, reason_phrase(status), env, |_, _| {});
        }
    };
    if let Destination::Server = destination {
        return for_server(incoming, env);
    }
    if config.mode == Mode::Registrar {
        return if !is_ack {
            reply(message, flow, 405, reason_phrase(405), env, |out, _| {
                write_line(out, b"Allow", ALLOW_REGISTRAR);
            });
        };
    }
    if is_too_much(head, env) {
        env.counters.overload_refused.add();
        return refuse_for_now(incoming, reason_phrase(503), 5, env);
    }
    if head.max_forwards == Some(0) {
        env.counters.too_many_hops.add();
        return refuse(483, env);
    }
    let unsupported: SmallVec<[&[u8]; 2]> = message.elements(HeaderName::ProxyRequire).collect();
    if !unsupported.is_empty() && !is_ack {
        return refuse_extensions(incoming, &unsupported, env);
    }
    let hash = || loop_hash(&env.keys.branch, message, head, found.uri_bytes);
    let visit = visit(message, hash);
    if visit == Visit::Loop {
        env.counters.loops.add();
        return refuse(482, env);
    }
    match destination {
        Destination::Nobody(NoRoute::Scheme) => return refuse(416, env),
        // That says nothing of this server, which a 503 would.
        Destination::Nobody(NoRoute::Transport) => return refuse(480, env),
        Destination::Nobody(NoRoute::Number) => {
            env.counters.not_found.add();
            return refuse(404, env);
        }
        _ => {}
    }
    let registered = match &destination {
        // Where a dialog goes is known.
        Destination::Elsewhere { uri, .. }
            if grant.is_none() && *uri == found.uri_bytes && found.left().is_empty() =>
        {
            registered_targets(server, incoming, found, env)
        }
        _ => Targets::new(),
    };
    let is_for_us = !registered.is_empty() || matches!(destination, Destination::User { .. });
    let follows_invite = grant.is_none()
        && config.state == State::Stateless
        && matches!(head.method, Method::Ack | Method::Cancel)
        && server.passed.has(passed_key(server, message, hash()));
    let asked = Asked { incoming, is_for_us, grant, follows_invite };
    let Some(sponsor) = find_sponsor(server, &asked, env) else { return };
    let payers = match trust {
        Trust::Trusted => server.transactions.payers(None, None),
        Trust::Stranger => server.transactions.payers(Some(flow.remote.ip()), sponsor.proved()),
    };
    if let Some(grant) = grant {
        grant.note_move(server, message, head, flow, env);
    }
    // Else, however few it opens at once, it could go on for ever with what is left each time it comes by.
    let most_at_once = match visit {
        Visit::Spiral => max_breadth(message) as usize,
        _ => usize::MAX,
    };
    let user = match destination {
        Destination::Server | Destination::Nobody(_) => return,
        Destination::Elsewhere { next_hop, flow_bound, uri, routes } => {
            if config.mode == Mode::Redirect {
                return refuse(404, env);
            }
            // The request URI for a strict router is that router's.
            let is_phones = flow_bound && uri == found.uri_bytes;
            let to_end = flow_to_end.filter(|_| is_phones);
            let now_on = to_end.and_then(|known| flow_now(server, head, found, known, env));
            let mut targets = if registered.is_empty() {
                Targets::from_iter([Target {
                    uri: SmallVec::from_slice(uri),
                    path: Vec::new(),
                    next_hop: now_on.map_or(next_hop, NextHop::Flow),
                    q: 1000,
                    flow_bound,
                    origin: grant.map_or(env.settings.scope(flow.remote.ip()), |grant| grant.scope),
                }])
            } else {
                at_most_as_many_as_may_be(registered, env)
            };
            targets.truncate(most_at_once);
            let answerer = grant.map_or(Identity::NOBODY, |grant| grant.other_identity);
            let plan = plan(routes, hash(), &sponsor, answerer, &asked, env);
            return forward(server, incoming, plan, targets, payers, env);
        }
        Destination::User { user, domain } => {
            let name = env.settings.domain_name(domain);
            server.subscribers.address_of_record(&user, name)
        }
    };
    if head.method == Method::Publish {
        // Event state of our users would be kept here, and is not.
        return refuse(489, env);
    }
    let targets = timed(env.stopwatch, Step::FindUser, || targets_of(server, &user, env));
    let targets = match targets {
        Ok(mut targets) => {
            targets.truncate(most_at_once);
            targets
        }
        Err(status) => {
            match status {
                404 => env.counters.not_found.add(),
                _ => env.counters.unavailable.add(),
            }
            let source = flow.remote.ip();
            if matches!(sponsor, Sponsor::Nobody) && *trust == Trust::Stranger {
                if !server.sources.admit_miss(source, env.now, &config.limits) {
                    env.counters.foreign_limited.add();
                    return if !is_ack {
                        refuse_for_now(incoming, reason_phrase(503), 10, env);
                    };
                }
                // A proxy is not banned for what others dial.
                let is_proxied = message.elements(HeaderName::Via).nth(1).is_some();
                if status == 404 && flow.transport.is_stream() && !is_proxied {
                    note_failure(server, source, env);
                }
            }
            return refuse(status, env);
        }
    };
    if config.mode == Mode::Redirect {
        return redirect(incoming, &targets, env);
    }
    let answerer = Identity::new(&env.keys.token, user.as_bytes());
    let plan = plan(found.routes(), hash(), &sponsor, answerer, &asked, env);
    forward(server, incoming, plan, targets, payers, env);
}

/// The address of record of the user of ours that `uri` means, if it means one.
pub(crate) fn address_of<R: RawMutex>(
    server: &Server<R>,
    uri: &SipUri<'_>,
    env: &Env<'_>,
) -> Option<AddressOfRecord> {
    let (user, domain) = env.settings.user_of(uri, env.settings.domain_of(&uri.host)?)?;
    let name = env.settings.domain_name(domain);
    Some(server.subscribers.address_of_record(&user, name))
}

/// The flow to the phone that the request URI names, of the user that the request is to: within a dialog it may have
/// lost the one that is `known`, on which the dialog began, and have registered anew (RFC 5626 section 5.3.1). Another
/// phone of that user may have the same private contact, behind another NAT: so who is on the known flow is the one, then
/// who has its address, then who has registered last.
fn flow_now<R: RawMutex>(
    server: &Server<R>,
    head: &RequestHead<'_>,
    found: &Preprocessed<'_>,
    known: Flow,
    env: &Env<'_>,
) -> Option<Flow> {
    let (Uri::Sip(to), Uri::Sip(wanted)) = (head.to_uri, found.uri) else { return None };
    let is_wanted = |contact: &[u8]| {
        // Most phones write it the same way each time, which is quicker to see.
        contact == found.uri_bytes
            || matches!(Uri::parse(contact), Ok(Uri::Sip(contact)) if contact.is_same(&wanted))
    };
    let user = address_of(server, &to, env)?;
    server.subscribers.look_up(&user, |subscriber| {
        subscriber?
            .current(env.now)
            .filter(|binding| {
                binding.flow == known || (binding.flow_bound && is_wanted(&binding.contact))
            })
            .map(|binding| binding.flow)
            // Of those that are as good, the last.
            .max_by_key(|flow| (*flow == known, flow.remote.ip() == known.remote.ip()))
    })
}

/// What stands for an INVITE that goes on without a transaction, and for its CANCEL and ACK: they have its branch, and
/// all that decides where it goes.
fn passed_key<R: RawMutex>(server: &Server<R>, request: &Message<'_>, loop_hash: u32) -> u64 {
    server.transactions.key_of(request).wrapping_add(loop_hash.into())
}

/// The phone whose contact is the request URI, or the phones of one user who have the same. An address in a private
/// network may be another's as well: whoever can send there himself means that one, unless the phone has been seen at it.
fn registered_targets<R: RawMutex>(
    server: &Server<R>,
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    env: &Env<'_>,
) -> Targets {
    let Uri::Sip(uri) = &found.uri else { return Targets::new() };
    let origin = env.settings.scope(incoming.flow.remote.ip());
    let called = match incoming.head.to_uri {
        Uri::Sip(to) => address_of(server, &to, env),
        _ => None,
    };
    server.subscribers.look_up_contact(uri, called.as_ref(), env.now, |binding| {
        let flow = binding.flow;
        let is_elsewhere = uri.host.ip().is_none_or(|ip| {
            let transport = uri.transport().flatten().unwrap_or(Transport::Udp);
            let there = SocketAddr::new(ip, uri.port.unwrap_or(5060));
            ip.to_canonical() == flow.remote.ip()
                || !env.settings.may_reach(origin, transport, there)
        });
        match Target::of_binding(binding, env.settings) {
            // With the parameters that were asked for, too. All are as likely meant.
            Ok(Leads::Away(target)) if is_elsewhere => {
                Some(Target { uri: SmallVec::from_slice(found.uri_bytes), q: 1000, ..target })
            }
            _ => None,
        }
    })
}

fn plan(
    routes: Option<Vec<u8>>,
    loop_hash: u32,
    sponsor: &Sponsor,
    answerer: Identity,
    asked: &Asked<'_, '_>,
    env: &Env<'_>,
) -> Plan {
    let Incoming { message, head, flow, .. } = asked.incoming;
    let starts_dialog = match head.method {
        Method::Invite | Method::Refer => head.to.tag().is_none(),
        // The first of them that arrives starts it, and not always is that known (RFC 6665 section 4.3).
        Method::Subscribe | Method::Notify => true,
        _ => false,
    };
    let record_route = starts_dialog && env.settings.config.record_route;
    Plan {
        loop_hash,
        record_route: record_route.then(|| Names { sender: sponsor.identity(env), answerer }),
        said: Said::of(head).hash(&env.keys.branch),
        has_to_tag: head.to.tag().is_some(),
        sender_fields: sponsor.sender_fields(asked, env),
        routes,
        received: message.as_bytes().len(),
        max_forwards: head.max_forwards,
        max_breadth: max_breadth(message),
        arrived_on: *flow,
        upstream: reply_flow(message, flow),
    }
}

/// How many branches of the request may be open at once (RFC 5393 section 5.3.3).
fn max_breadth(request: &Message<'_>) -> u32 {
    request
        .value(HeaderName::MaxBreadth)
        .and_then(|value| sip::header::number(HeaderName::MaxBreadth, value, u32::MAX).ok())
        .map_or(MAX_BREADTH, |asked| asked.min(MAX_BREADTH))
}

fn forward<R: RawMutex>(
    server: &Server<R>,
    incoming: &Incoming<'_, '_>,
    plan: Plan,
    targets: Targets,
    payers: Payers,
    env: &mut Env<'_>,
) {
    let Incoming { message, head, flow, .. } = incoming;
    if head.method == Method::Invite {
        env.counters.invites.add();
    }
    if is_new(head) && server.is_draining.load(Ordering::Relaxed) {
        return refuse_for_now(incoming, "Shutting Down", 10, env);
    }
    let Some(key) = incoming.key.filter(|_| head.method != Method::Ack) else {
        if head.method == Method::Invite {
            let max = env.settings.config.limits.max_transactions;
            server.passed.note(passed_key(server, message, plan.loop_hash), max);
        }
        // The best is the first.
        if let Some(target) = targets.first() {
            let forwarded = stateless::forward(message, head, &plan, target, env);
            if let Err(stuck) = forwarded
                && head.method != Method::Ack
            {
                let status = stuck.status();
                reply(message, flow, status, reason_phrase(status), env, |_, _| {});
            }
        }
        return;
    };
    // The request, and what is sent.
    let bytes = 2 * message.as_bytes().len();
    let started = server.transactions.insert(key, payers, bytes, env, |handle, env| {
        Context::start(handle, message, plan, targets, env)
    });
    match started {
        Ok(()) => {}
        Err(Lacking::Whole) => {
            env.counters.transaction_limit.add();
            refuse_for_now(incoming, reason_phrase(503), 5, env);
        }
        Err(Lacking::Share) => {
            env.counters.share_limit.add();
            reply(message, flow, 500, "Too Much in Progress", env, |out, _| {
                write_number_line(out, b"Retry-After", 5);
            });
        }
    }
}

/// Whether the request begins something new, and can be refused without leaving anything behind.
fn is_new(head: &RequestHead<'_>) -> bool {
    head.to.tag().is_none() && !matches!(head.method, Method::Ack | Method::Cancel)
}

/// Whether the server is too far behind to take on the request. It is of one mind about all that belongs to a
/// call: what it has challenged it serves.
fn is_too_much(head: &RequestHead<'_>, env: &Env<'_>) -> bool {
    let max_wait = env.settings.config.limits.max_wait;
    let is_late = max_wait > Duration::ZERO && env.waited > max_wait;
    (is_late || env.served < Share::ALL)
        && is_new(head)
        && (is_late || !env.served.has(env.keys.call_id.hash_one(head.call_id)))
}

/// How many users one after the other a request may be led to by contacts that are addresses of record of ours.
const MOST_USERS: usize = 10;

/// The targets that a user's bindings are (RFC 3261 section 16.5), at most as many as may be, the best first. A contact
/// that leads to this server again means the bindings of another user.
fn targets_of<R: RawMutex>(
    server: &Server<R>,
    user: &AddressOfRecord,
    env: &mut Env<'_>,
) -> Result<Targets, u16> {
    let mut users: SmallVec<[AddressOfRecord; 1]> = SmallVec::from_iter([user.clone()]);
    let mut targets = Targets::new();
    let mut looked_at = 0;
    while let Some(user) = users.get(looked_at).cloned() {
        let found = server.subscribers.look_up(&user, |subscriber| {
            let subscriber = subscriber?;
            for binding in subscriber.current(env.now) {
                match Target::of_binding(binding, env.settings) {
                    Ok(Leads::Away(target)) => targets.push(target),
                    Ok(Leads::Back(other, domain)) => {
                        let name = env.settings.domain_name(domain);
                        let other = server.subscribers.address_of_record(&other, name);
                        if users.len() < MOST_USERS && !users.contains(&other) {
                            users.push(other);
                        }
                    }
                    Err(_) => {}
                }
            }
            Some(())
        });
        if found.is_none() && looked_at == 0 {
            return Err(404);
        }
        looked_at += 1;
    }
    if targets.len() > 1 {
        // Of those that are as good, the newest are most likely there.
        targets.reverse();
        targets.sort_by_key(|target| core::cmp::Reverse(target.q));
    }
    let targets = at_most_as_many_as_may_be(targets, env);
    if targets.is_empty() { Err(480) } else { Ok(targets) }
}

/// `targets` without the last of them, where there are too many.
fn at_most_as_many_as_may_be(mut targets: Targets, env: &Env<'_>) -> Targets {
    let max = env.settings.config.limits.max_forks;
    for _ in max..targets.len() {
        env.counters.fork_limit.add();
    }
    targets.truncate(max);
    targets
}

/// Says where the user is (RFC 3261 section 8.3).
fn redirect(incoming: &Incoming<'_, '_>, targets: &[Target], env: &mut Env<'_>) {
    let Incoming { message, head, flow, .. } = incoming;
    match head.method {
        Method::Ack => {}
        Method::Cancel => reply(message, flow, 200, "OK", env, |_, _| {}),
        _ => {
            env.counters.redirects.add();
            reply(message, flow, 302, reason_phrase(302), env, |out, _| {
                for target in targets {
                    registrar::write_contact(out, &target.uri, target.q);
                    out.extend_from_slice(b"\r\n");
                }
            });
        }
    }
}
