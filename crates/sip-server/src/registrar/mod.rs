//! The registrar (RFC 3261 section 10.3, Path of RFC 3327).

mod order;
mod outcome;
mod register;

use crate::core::authentication::{Asker, authenticate};
use crate::core::event::Env;
use crate::core::incoming::{Incoming, UNSECURED, answer, refuse_extensions, reply};
use crate::core::lines::{write_line, write_number_line};
use crate::core::push;
use crate::core::settings::Trust;
use crate::core::shared::Shared;
use crate::core::timings::{Step, timed};
use alloc::vec::Vec;
use lock_api::RawMutex;
use order::{GRUU, OUTBOUND};
use outcome::Outcome;
use register::register;
use sip::header::write_date;
use sip::uri::is_sips;
use sip::{HeaderName, Message, Status, Uri};
use smallvec::SmallVec;

/// The maximum length in bytes of a user part that registers. No user has a longer one, and without
/// authentication strangers choose it.
const MAX_USER: usize = 512;

/// Answers a REGISTER for a domain of this server.
pub(crate) fn on_register<R: RawMutex>(
    shared: &Shared<R>,
    incoming: &Incoming<'_, '_>,
    env: &mut Env<'_>,
) {
    let Incoming { message, head, flow, .. } = incoming;
    if is_sips(head.uri_bytes) && !flow.transport.is_secure() {
        return reply(message, flow, UNSECURED, env, |_, _| {});
    }
    let unsupported: SmallVec<[&[u8]; 2]> = message
        .elements(HeaderName::Require)
        .filter(|option| {
            let gruu = env.settings.config.registrar.gruu.then_some(GRUU);
            let mut known = [&b"path"[..], OUTBOUND].into_iter().chain(gruu);
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
                (domain, shared.location.address_of_record(&user, name))
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
        match authenticate(shared, Asker::Registrar, domain, incoming, env) {
            Some(user) if user == address => {
                if incoming.trust == Trust::Stranger {
                    shared.known_sources.note(incoming.account.source, &user, env.now);
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
        register(message, head, &address, flow, &shared.location, env)
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
                    write_line(out, b"Require", OUTBOUND);
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
    push::write_feature_caps(message, &env.settings.config, &env.keys.gruu, env.now, out);
    // Phones without a clock of their own set it from Date (RFC 3261 section 10.3 step 8).
    out.extend_from_slice(b"Date: ");
    write_date(out, env.time_of_day());
    out.extend_from_slice(b"\r\n");
    let mut supported = message.elements(HeaderName::Supported);
    if supported.any(|option| option.eq_ignore_ascii_case(b"path")) {
        message.values(HeaderName::Path).for_each(|path| write_line(out, b"Path", path));
    }
}
