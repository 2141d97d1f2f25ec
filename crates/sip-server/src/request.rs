//! The processing of a received request: its checks, and its dispatch to its transaction, to the
//! registrar or to the proxy.

use crate::authentication::{Asker, authenticate};
use crate::config::State;
use crate::event::Env;
use crate::flow::Flow;
use crate::gate::{self, Admitted, ShutOut};
use crate::incoming::{Incoming, UNSECURED, answer, refuse_extensions, reply};
use crate::lines::{write_line, write_number_line};
use crate::proxy::policy::route;
use crate::proxy::{is_served, preprocess};
use crate::registrar::{self, Outcome};
use crate::server::Server;
use crate::settings::Trust;
use crate::source::Account;
use crate::timings::{Step, timed};
use alloc::vec::Vec;
use lock_api::RawMutex;
use sip::header::{NameAddr, write_date};
use sip::uri::is_sips;
use sip::{HeaderName, Message, Method, Status, Uri};
use smallvec::SmallVec;

/// The maximum length in bytes of a user part that registers. No user has a longer one, and without
/// authentication strangers choose it.
const MAX_USER: usize = 512;

pub(crate) fn on_request<R: RawMutex>(
    server: &Server<R>,
    message: &Message<'_>,
    flow: &Flow,
    env: &mut Env<'_>,
) {
    let trust = env.settings.trust(flow);
    let Admitted { account, returns } = match trust {
        Trust::Trusted => Admitted { account: Account::of(flow), returns: None },
        Trust::Stranger => match gate::admit(server, message, flow, env) {
            Ok(admitted) => admitted,
            Err(ShutOut::Banned) => return env.counters.banned_requests.add(),
            Err(ShutOut::TooMany) => return env.counters.rate_limited.add(),
        },
    };
    if acknowledges_refusal(message, env) {
        let key = server.transactions.key_of(message);
        server.transactions.with_key(key, env, |context, env| context.on_ack(env));
        return;
    }
    let watch = env.stopwatch;
    let head = match timed(watch, Step::ParseHeaders, || message.validate_request()) {
        Ok(head) => head,
        Err(fault) => {
            env.counters.malformed_requests.add();
            if message.method() != Some(Method::Ack) {
                let reason = alloc::format!("{fault}");
                reply(message, flow, Status(fault.status()).with_reason(&reason), env, |_, _| {});
            }
            return;
        }
    };
    let mut incoming =
        Incoming { message, head: &head, flow: *flow, trust, account, returns, key: None };
    let found = preprocess(message, &head, env);
    let registers = match (&found.uri, head.method) {
        // Behind a port translation phones send to the external port.
        (Uri::Sip(uri), Method::Register) if is_served(uri, env.settings) => {
            env.settings.domain_of(&uri.host).is_some()
        }
        _ => false,
    };
    if registers {
        // A REGISTER is answered without a transaction.
        return on_register(server, &incoming, env);
    }
    if env.settings.config.state == State::Stateful {
        let key = server.transactions.key_of(message);
        if meets_transaction(server, &incoming, key, env) {
            return;
        }
        incoming.key = Some(key);
    }
    route(server, &incoming, &found, env);
}

/// True if `request` is an ACK for a response that this server generated. It ends here, whatever
/// else it contains.
fn acknowledges_refusal(request: &Message<'_>, env: &Env<'_>) -> bool {
    if request.method() != Some(Method::Ack) {
        return false;
    }
    let to = request.value(HeaderName::To).and_then(|to| NameAddr::parse(HeaderName::To, to).ok());
    let tag = to.and_then(|to| <[u8; 16]>::try_from(to.tag()?).ok());
    // Tags of another length need no hash.
    tag.is_some_and(|tag| tag == env.to_tag(request))
}

/// Passes the request to its transaction, if there is one with this `key`. Returns true if the
/// transaction has handled it.
fn meets_transaction<R: RawMutex>(
    server: &Server<R>,
    incoming: &Incoming<'_, '_>,
    key: u64,
    env: &mut Env<'_>,
) -> bool {
    let Incoming { message, head, .. } = incoming;
    let handled = server.transactions.with_key(key, env, |context, env| match head.method {
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

fn on_register<R: RawMutex>(server: &Server<R>, incoming: &Incoming<'_, '_>, env: &mut Env<'_>) {
    let Incoming { message, head, flow, .. } = incoming;
    if is_sips(head.uri_bytes) && !flow.transport.is_secure() {
        return reply(message, flow, UNSECURED, env, |_, _| {});
    }
    let unsupported: SmallVec<[&[u8]; 2]> = message
        .elements(HeaderName::Require)
        .filter(|option| {
            let gruu = env.settings.config.registrar.gruu.then_some(registrar::GRUU);
            let mut known = [&b"path"[..], registrar::OUTBOUND].into_iter().chain(gruu);
            !known.any(|known| option.eq_ignore_ascii_case(known))
        })
        .collect();
    if !unsupported.is_empty() {
        return refuse_extensions(incoming, &unsupported, env);
    }
    let address = match head.to_uri {
        Uri::Sip(uri) => {
            let is_short = uri.user.is_some_and(|user| user.len() <= MAX_USER);
            let domain = env.settings.domain_of(&uri.host).filter(|_| is_short);
            domain.and_then(|domain| env.settings.user_of(&uri, domain)).map(|(user, domain)| {
                let name = env.settings.domain_name(domain);
                (domain, server.location.address_of_record(&user, name))
            })
        }
        _ => {
            return answer(incoming, Status::BAD_REQUEST.with_reason("To Is Not a SIP URI"), env);
        }
    };
    let Some((domain, address)) = address else {
        env.counters.not_found.add();
        return answer(incoming, Status::NOT_FOUND, env);
    };
    if env.settings.config.authentication.required {
        match authenticate(server, Asker::Registrar, domain, incoming, env) {
            Some(user) if user == address => {
                if incoming.trust == Trust::Stranger {
                    server.known_sources.note(incoming.account.source, &user, env.now);
                }
            }
            Some(_) => {
                env.counters.identity_mismatches.add();
                return answer(
                    incoming,
                    Status::FORBIDDEN.with_reason("To Is Not the Authenticated User"),
                    env,
                );
            }
            None => return,
        }
    }
    let outcome = timed(env.stopwatch, Step::AddUser, || {
        registrar::register(message, head, &address, flow, &server.location, env)
    });
    answer_register(incoming, &outcome, env);
}

fn answer_register(incoming: &Incoming<'_, '_>, outcome: &Outcome, env: &mut Env<'_>) {
    let Incoming { message, flow, .. } = incoming;
    match *outcome {
        Outcome::Done { ref lines, has_outbound } => {
            reply(message, flow, Status::OK, env, |out, env| {
                out.extend_from_slice(lines);
                if has_outbound {
                    write_line(out, b"Require", registrar::OUTBOUND);
                    let seconds = env.settings.config.registrar.flow_timer.as_secs();
                    // Behind another proxy Flow-Timer is up to that proxy.
                    let is_first_hop = message.elements(HeaderName::Via).nth(1).is_none();
                    if seconds > 0 && is_first_hop && flow.transport.is_stream() {
                        write_number_line(out, b"Flow-Timer", seconds);
                    }
                }
                write_end_of_done(message, out, env);
            });
        }
        Outcome::TooBrief => reply(message, flow, Status::INTERVAL_TOO_BRIEF, env, |out, env| {
            let seconds = env.settings.config.registrar.min_expires.as_secs();
            write_number_line(out, b"Min-Expires", seconds);
        }),
        Outcome::Refused(line) => answer(incoming, line, env),
    }
}

/// Appends the lines after the contacts of a 200 for the REGISTER `message`.
fn write_end_of_done(message: &Message<'_>, out: &mut Vec<u8>, env: &Env<'_>) {
    // Phones without a clock of their own set it from Date (RFC 3261 section 10.3 step 8).
    out.extend_from_slice(b"Date: ");
    write_date(out, env.time_of_day());
    out.extend_from_slice(b"\r\n");
    let mut supported = message.elements(HeaderName::Supported);
    if supported.any(|option| option.eq_ignore_ascii_case(b"path")) {
        message.values(HeaderName::Path).for_each(|path| write_line(out, b"Path", path));
    }
}
