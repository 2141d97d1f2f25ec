//! The execution of the decision on a request: the request is forwarded or redirected, or rejected.

use super::budget::OverLimit;
use super::call_changes;
use super::context::Context;
use super::decide::{Decision, RequestRoute, max_breadth, passed_key, required_of_proxies};
use super::edge::{is_first_hop, leads_to_domain};
use super::ending::note_refusal;
use super::plan::Plan;
use super::record_route::Names;
use super::refusal::{Refusal, Refused};
use super::route::Preprocessed;
use super::sender::Authorization;
use super::stateless;
use super::tables::Tables;
use super::target::{Target, Targets};
use super::token::Identity;
use super::via_branch::{DialogFields, loop_hash};
use crate::core::event::Env;
use crate::core::incoming::{
    ALLOW_REGISTRAR, Incoming, answer, for_server, refuse_extensions, refuse_for_now, reply,
    reply_flow,
};
use crate::core::lines::{write_contact, write_line};
use crate::core::numbers::DialedRefusal;
use crate::core::payers::Payers;
use crate::core::settings::Trust;
use crate::core::source::Evidence;
use crate::core::trunks::is_of_trunk;
use alloc::string::String;
use alloc::vec::Vec;
use lock_api::RawMutex;
use sip::{Method, Status};

/// The Warning for a callee without a registered SIPS URI (RFC 5630 section 6.3).
const SIPS_NOT_ALLOWED: &[u8] = b"380 barebell \"SIPS Not Allowed\"";

/// Executes the `decision` on a request.
pub(super) fn execute<R: RawMutex>(
    tables: &Tables<R>,
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    decision: Decision,
    env: &mut Env<'_>,
) {
    let sent_before = env.out.transmits.len();
    match decision {
        Decision::Server => {
            for_server(incoming, env);
            note_refusal(incoming, sent_before, false, None, env);
        }
        Decision::Refuse(Refused { refusal, is_proven }) => {
            refuse(incoming, &refusal, env);
            note_refusal(incoming, sent_before, is_proven, refusal.reason().as_deref(), env);
        }
        Decision::Redirect(targets) => redirect(incoming, &targets, env),
        Decision::Forward(route) => forward(tables, incoming, found, route, env),
    }
}

/// Sends the response to a request that is not forwarded. An ACK has no response.
fn refuse(incoming: &Incoming<'_, '_>, refusal: &Refusal, env: &mut Env<'_>) {
    let Incoming { message, head, flow, .. } = incoming;
    if head.method == Method::Ack {
        return;
    }
    match *refusal {
        Refusal::Silent => {}
        Refusal::Status(status) => answer(incoming, status, env),
        Refusal::Number { refusal: DialedRefusal { status, ref words }, is_inside: true } => {
            answer(incoming, Status(status).with_reason(words), env);
        }
        // A caller outside learns nothing of the rules.
        Refusal::Number { refusal: DialedRefusal { status, .. }, is_inside: false } => {
            answer(incoming, Status(status), env);
        }
        Refusal::OnlyRegistrar => {
            reply(message, flow, Status::METHOD_NOT_ALLOWED, env, |out, _| {
                write_line(out, b"Allow", ALLOW_REGISTRAR);
            });
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
        Refusal::ForeignMethod => {
            reply(message, flow, Status::METHOD_NOT_ALLOWED, env, |out, env| {
                let methods = &env.settings.config.limits.foreign_methods;
                let allowed: Vec<&str> =
                    methods.iter().map(String::as_str).chain(["ACK", "CANCEL"]).collect();
                write_line(out, b"Allow", allowed.join(", ").as_bytes());
            });
        }
        Refusal::Draining => {
            let status = Status::SERVICE_UNAVAILABLE.with_reason("Shutting Down");
            refuse_for_now(incoming, status, 10, env);
        }
    }
}

/// Returns the plan of a request that goes `route`, and its targets.
fn plan(
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    route: RequestRoute,
    payers: Payers,
    env: &Env<'_>,
) -> (Plan, Targets) {
    let Incoming { message, head, flow, .. } = incoming;
    #[cfg(feature = "office")]
    let (refer_to, keeps_alerts) = (route.refer_to, route.keeps_alerts);
    let RequestRoute { authorization, targets, answerer, routes, may_join, named, .. } = route;
    let starts_dialog = match head.method {
        Method::Invite | Method::Refer => head.to.tag().is_none(),
        // The first of these to arrive creates the dialog, and this server does not always know
        // which one is the first (RFC 6665 section 4.3).
        Method::Subscribe | Method::Notify => true,
        _ => false,
    };
    let record_route = starts_dialog && env.settings.config.record_route;
    let is_in_house = answerer != Identity::NONE;
    let plan = Plan {
        loop_hash: loop_hash(&env.keys.branch, message, head, found.uri_bytes),
        record_route: record_route.then(|| Names { sender: authorization.identity(env), answerer }),
        is_edge: is_first_hop(message, head)
            && leads_to_domain(&found.uri, found.left(), env.settings),
        is_by_edge: found.edge_flow.is_some(),
        may_join,
        named,
        sender_fields: authorization.sender_fields(incoming, is_in_house, env),
        routes,
        received: message.as_bytes().len(),
        max_forwards: head.max_forwards,
        max_breadth: max_breadth(message),
        arrived_on: *flow,
        upstream: reply_flow(message, flow),
        is_to_trunk: found.to_trunk().is_some(),
        #[cfg(feature = "office")]
        refer_to,
        #[cfg(feature = "office")]
        keeps_alerts,
        #[cfg(feature = "office")]
        is_from_trunk: found.is_from_trunk(),
        #[cfg(feature = "office")]
        trunk_media: found
            .pass
            .and_then(|pass| pass.trunk)
            .and_then(|on| env.trunks()?.media(on.id())),
        payers,
    };
    (plan, targets)
}

/// Forwards the request in a transaction, or without one in stateless mode.
fn forward<R: RawMutex>(
    tables: &Tables<R>,
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    mut route: RequestRoute,
    env: &mut Env<'_>,
) {
    let Incoming { message, head, flow, trust, account, .. } = incoming;
    // The second leg of a call through the B2BUA is no further call.
    if head.method == Method::Invite && !flow.is_internal() {
        env.counters.invites.add();
    }
    let payers = match trust {
        _ if let Some(pass) = found.pass => pass.payers,
        _ if is_of_trunk(flow) => tables.transactions.payers(None, None),
        Trust::Trusted => tables.transactions.payers(None, None),
        Trust::Stranger => {
            let account = match route.authorization {
                Authorization::User(_) => account.with(Evidence::Nonce),
                Authorization::Dialog(_) => account.with(Evidence::Dialog),
                Authorization::Trunk(_) | Authorization::Unproved => *account,
            };
            tables.transactions.payers(Some(account), route.authorization.proved())
        }
    };
    let stages = route.stages.take();
    let beginning = route.beginning.take();
    let (plan, targets) = plan(incoming, found, route, payers, env);
    let Some(key) = incoming.key.filter(|_| head.method != Method::Ack) else {
        return forward_statelessly(tables, incoming, &plan, &targets, env);
    };
    // Memory for the received request, for the forwarded one, and for the state.
    let bytes = 2 * message.as_bytes().len() + Context::STATE;
    let (sent_before, is_proven) = (env.out.transmits.len(), payers.user.is_some());
    let started = tables.transactions.insert(key, payers, bytes, env, |handle, env| {
        call_changes::begin(beginning, handle, env);
        Context::start(handle, message, &DialogFields::of(head), plan, (targets, stages), env)
    });
    match started {
        Ok(()) => return,
        Err(OverLimit::Server) => {
            env.counters.transaction_limit.add();
            refuse_for_now(incoming, Status::SERVICE_UNAVAILABLE, 5, env);
        }
        Err(OverLimit::Share) => {
            env.counters.share_limit.add();
            refuse_for_now(
                incoming,
                Status::SERVER_INTERNAL_ERROR.with_reason("Too Much in Progress"),
                5,
                env,
            );
        }
    }
    note_refusal(incoming, sent_before, is_proven, None, env);
}

/// Sends the request to the best of `targets`. Keeps only a record that an INVITE was forwarded.
fn forward_statelessly<R: RawMutex>(
    tables: &Tables<R>,
    incoming: &Incoming<'_, '_>,
    plan: &Plan,
    targets: &[Target],
    env: &mut Env<'_>,
) {
    let Incoming { message, head, .. } = incoming;
    if head.method == Method::Invite {
        let max = env.settings.config.limits.max_transactions;
        tables.passed.note(passed_key(tables, message, plan.loop_hash), max);
    }
    // The first target is the best.
    let Some(target) = targets.first() else { return };
    let sent_before = env.out.transmits.len();
    let forwarded = stateless::forward(message, head, plan, target, env);
    if let Err(stuck) = forwarded
        && head.method != Method::Ack
    {
        answer(incoming, stuck.status(), env);
        note_refusal(incoming, sent_before, plan.payers.user.is_some(), None, env);
    }
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
                    write_contact(out, &target.uri, target.q);
                    out.extend_from_slice(b"\r\n");
                }
            });
        }
    }
}
