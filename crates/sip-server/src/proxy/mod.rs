//! The proxy (RFC 3261 section 16): the routing of requests, and the forwarding of requests and
//! responses.

#[cfg(feature = "office")]
mod alerts;
mod authorization;
mod best_response;
mod budget;
mod call_changes;
#[cfg(feature = "office")]
mod caller_names;
mod calls;
mod context;
#[cfg(feature = "office")]
mod continuation;
mod decide;
mod dialogs;
mod edge;
mod ending;
mod execute;
mod fork;
mod forward;
mod grant;
mod hangup;
mod joining;
#[cfg(feature = "office")]
mod keep_alive;
#[cfg(feature = "office")]
mod kept;
mod media;
mod media_refusal;
mod media_services;
#[cfg(feature = "office")]
mod media_target;
mod numbers;
#[cfg(feature = "office")]
mod parking;
mod pass;
mod passed;
mod plan;
mod record_route;
#[cfg(feature = "office")]
mod referral;
mod refusal;
mod registered;
mod retargeting;
mod route;
mod search;
mod sender;
mod services;
mod stateless;
mod stuck;
mod tables;
mod target;
mod token;
mod transactions;
mod trunk_flow;
mod via_branch;
mod watching;
mod way_back;

#[cfg(feature = "office")]
pub(crate) use continuation::continue_calls;
pub(crate) use hangup::Hangup;
#[cfg(feature = "office")]
pub(crate) use keep_alive::keep_alive;
pub(crate) use route::{Preprocessed, has_token, is_served, preprocess};
pub(crate) use tables::Tables;

use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::incoming::{Incoming, answer};
use crate::core::shared::Shared;
#[cfg(feature = "office")]
use crate::core::ticket::Sleeper;
use crate::core::ticket::{Ticket, Waiting};
use crate::core::trunks::is_of_trunk;
use core::net::SocketAddr;
use decide::decide;
use execute::execute;
use grant::note_response;
use lock_api::RawMutex;
use sip::{Location, Message, Method, Status};
use via_branch::{Answer, DialogFields, ViaBranch};
use way_back::ResponseOutcome;

/// Forwards or redirects a request, or rejects it.
pub(crate) fn on_request<R: RawMutex>(
    shared: &Shared<R>,
    tables: &Tables<R>,
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    env: &mut Env<'_>,
) {
    #[cfg(feature = "office")]
    if let Some(uri) = watching::picked_up(incoming, found, env)
        && let Some(found) = found.picking_up(&uri)
    {
        return route(shared, tables, incoming, &found, env);
    }
    let uri = joining::replacing(incoming, found, env);
    match uri.as_deref().and_then(|uri| found.replacing(uri)) {
        Some(found) => route(shared, tables, incoming, &found, env),
        None => route(shared, tables, incoming, found, env),
    }
}

fn route<R: RawMutex>(
    shared: &Shared<R>,
    tables: &Tables<R>,
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    env: &mut Env<'_>,
) {
    let decision = match is_of_trunk(&incoming.flow) {
        true => trunk_flow::decide(incoming, found, env),
        false => decide(shared, tables, incoming, found, env),
    };
    execute(tables, incoming, found, decision, env);
}

/// Passes the request to its transaction, if there is one with this `key`. Returns true if the
/// transaction has handled it.
pub(crate) fn meets_transaction<R: RawMutex>(
    tables: &Tables<R>,
    incoming: &Incoming<'_, '_>,
    key: u64,
    env: &mut Env<'_>,
) -> bool {
    let Incoming { message, head, .. } = incoming;
    let handled = tables.transactions.with_key(key, env, |context, env| match head.method {
        Method::Ack => !context.on_ack(env),
        Method::Cancel => {
            answer(incoming, Status::OK, env);
            context.on_cancel(message, env);
            true
        }
        _ => {
            context.on_retransmission(message.as_bytes().len(), env);
            true
        }
    });
    match handled {
        Some(handled) => handled,
        None if head.method == Method::Cancel => {
            answer(incoming, Status::CALL_DOES_NOT_EXIST, env);
            true
        }
        None => false,
    }
}

/// Forwards a response, unless it answers no request of this server.
pub(crate) fn on_response<R: RawMutex>(
    tables: &Tables<R>,
    message: &Message<'_>,
    flow: &Flow,
    env: &mut Env<'_>,
) {
    let branch = message.top_via().ok().and_then(|via| ViaBranch::parse(via.branch()?));
    let branch = branch.filter(|_| message.framing_fault().is_none());
    let answer = branch.and_then(|branch| Some((branch, Answer::read(message)?)));
    let Some((branch, answer)) = answer else {
        #[cfg(feature = "office")]
        if keep_alive::is_answer(message) {
            return env.counters.kept_alive.add();
        }
        return env.counters.dropped.add();
    };
    let outcome = match branch {
        ViaBranch::Stateful { .. } => {
            let transactions = &tables.transactions;
            let said = &answer.said;
            let outcome = transactions.with_branch(&branch, said, env, |context, index, env| {
                context.on_response(index, &answer, flow, env)
            });
            outcome.unwrap_or(ResponseOutcome::Unmatched)
        }
        ViaBranch::Stateless { origin, local, .. } => {
            stateless::pass_back(&answer, origin, local, flow, env)
        }
    };
    match outcome {
        ResponseOutcome::Success { moved } => note_response(tables, &answer, moved, env),
        ResponseOutcome::Accepted => {}
        ResponseOutcome::Unmatched => env.counters.dropped.add(),
    }
}

/// Handles an ICMP error for a datagram to `remote`. `quoted` is the beginning of its payload. The
/// branch in its Via fails.
pub(crate) fn on_unreachable<R: RawMutex>(
    tables: &Tables<R>,
    remote: SocketAddr,
    quoted: &[u8],
    env: &mut Env<'_>,
) {
    let Some(branch) = ViaBranch::of_quoted(quoted) else { return };
    tables.transactions.with_own_branch(&branch, env, |context, index, env| {
        context.on_unreachable(index, remote, quoted, env);
    });
}

/// Continues with a request after the look-up of its destination.
pub(crate) fn on_located<R: RawMutex>(
    tables: &Tables<R>,
    ticket: Ticket,
    locations: &[Location],
    env: &mut Env<'_>,
) {
    match ticket.0 {
        Waiting::Branch { handle, index } => {
            tables.transactions.with_handle(handle, env, |context, env| {
                context.on_located(index, locations, env);
            });
        }
        #[cfg(feature = "office")]
        Waiting::Phone(sleeper) => {
            let Sleeper { handle, index, .. } = *sleeper;
            tables.transactions.with_handle(handle, env, |context, env| {
                context.on_not_woken(index, env);
            });
        }
        Waiting::Message { bytes, arrived_on, origin, leaves_transport, payers } => {
            let before = env.out.transmits.len();
            stateless::send_located(&bytes, &arrived_on, origin, leaves_transport, locations, env);
            env.out.charge_after(before, payers);
        }
    }
}

/// Continues with the request of `ticket` if the phone that it waits for has registered. Otherwise
/// returns the ticket.
#[cfg(feature = "office")]
pub(crate) fn on_registered<R: RawMutex>(
    shared: &Shared<R>,
    tables: &Tables<R>,
    ticket: Ticket,
    env: &mut Env<'_>,
) -> Option<Ticket> {
    let Waiting::Phone(sleeper) = &ticket.0 else { return None };
    let Sleeper { handle, index, ref phone } = **sleeper;
    let Some(target) = registered::woken(shared, phone, env) else { return Some(ticket) };
    tables.transactions.with_handle(handle, env, |context, env| {
        context.on_woken(index, target, env);
    });
    None
}

/// Returns true if the request of `ticket` still waits for a phone: it was not cancelled, and its
/// transaction has not ended.
#[cfg(feature = "office")]
pub(crate) fn is_waiting<R: RawMutex>(tables: &Tables<R>, ticket: &Ticket) -> bool {
    let Waiting::Phone(sleeper) = &ticket.0 else { return false };
    let Sleeper { handle, index, .. } = **sleeper;
    tables.transactions.read(handle, |context| context.is_waiting(index)).unwrap_or(false)
}

/// Handles a forwarded request with this `branch` that could not be sent on `flow`.
pub(crate) fn on_undeliverable<R: RawMutex>(
    tables: &Tables<R>,
    request: &Message<'_>,
    branch: &[u8],
    flow: &Flow,
    env: &mut Env<'_>,
) {
    match ViaBranch::parse(branch) {
        Some(branch @ ViaBranch::Stateful { .. }) => {
            let Some(said) = DialogFields::read(request) else { return };
            tables.transactions.with_branch(&branch, &said, env, |context, index, env| {
                context.on_undeliverable(index, env);
            });
        }
        Some(ViaBranch::Stateless { .. }) => stateless::send_as_datagram(request, flow, env),
        None => {}
    }
}
