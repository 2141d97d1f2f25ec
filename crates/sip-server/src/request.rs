//! A request comes in: checked, given to its transaction, to the registrar, or to the proxy.

use crate::authentication::{Asker, Verdict, judge, write_challenges};
use crate::config::{Mode, State};
use crate::flow::Flow;
use crate::output::Event;
use crate::proxy::{Env, preprocess, write_line, write_number_line};
use crate::registrar::{self, Outcome};
use crate::routing::route;
use crate::server::Server;
use crate::settings::DomainIndex;
use crate::sources::Admission;
use crate::subscribers::AddressOfRecord;
use alloc::vec::Vec;
use core::net::IpAddr;
use lock_api::RawMutex;
use sip::message::{RequestHead, Response, reason_phrase};
use sip::{HeaderName, Message, Method, Uri};
use smallvec::SmallVec;

/// A request that is to be answered or forwarded.
pub(crate) struct Incoming<'i, 'm> {
    pub(crate) message: &'i Message<'m>,
    pub(crate) head: RequestHead<'m>,
    pub(crate) flow: Flow,
}

const ALLOW: &[u8] = b"INVITE, ACK, CANCEL, BYE, REGISTER, OPTIONS, MESSAGE, SUBSCRIBE, NOTIFY, \
    REFER, INFO, UPDATE, PRACK";
pub(crate) const ALLOW_REGISTRAR: &[u8] = b"REGISTER, OPTIONS";

pub(crate) fn on_request<R: RawMutex>(
    server: &Server<R>,
    message: &Message<'_>,
    flow: &Flow,
    env: &mut Env<'_>,
) {
    let source = flow.remote.ip();
    let limits = &env.settings.config.limits;
    let is_trusted = env.settings.is_trusted(source);
    if !is_trusted {
        match server.sources.admit(source, env.now, limits) {
            Admission::Granted => {}
            Admission::RateExceeded => return env.counters.rate_limited.add(),
            Admission::Banned => return env.counters.banned_requests.add(),
        }
    }
    let head = match message.check() {
        Ok(head) => head,
        Err(fault) => {
            env.counters.malformed_requests.add();
            if message.method() != Some(Method::Ack) {
                let reason = alloc::format!("{fault}");
                reply(message, flow, fault.status(), &reason, env, |_, _| {});
            }
            return;
        }
    };
    let incoming = Incoming { message, head, flow: *flow };
    if head.method == Method::Ack
        && head.to.tag().is_some_and(|tag| tag == &env.to_tag(message)[..])
    {
        // It acknowledges a refusal that was made without a transaction.
        let key = server.transactions.key_of(message, &head);
        server.transactions.with_key(key, env, |context, env| context.on_ack(env));
        return;
    }
    if env.settings.config.state == State::Stateful && meets_transaction(server, &incoming, env) {
        return;
    }
    let found = preprocess(message, &head, env.settings, env.keys);
    let registers = match (&found.uri, head.method) {
        (Uri::Sip(uri), Method::Register) if !uri.secure => {
            env.settings.is_us(&uri.host, uri.port).is_some()
        }
        _ => false,
    };
    if registers {
        return on_register(server, &incoming, is_trusted, env);
    }
    route(server, &incoming, &found, is_trusted, env);
}

/// Gives the request to the transaction that it belongs to, if it does.
fn meets_transaction<R: RawMutex>(
    server: &Server<R>,
    incoming: &Incoming<'_, '_>,
    env: &mut Env<'_>,
) -> bool {
    let Incoming { message, head, flow } = incoming;
    let key = server.transactions.key_of(message, head);
    let handled = server.transactions.with_key(key, env, |context, env| match head.method {
        Method::Ack => !context.on_ack(env),
        Method::Cancel => {
            reply(message, flow, 200, "OK", env, |_, _| {});
            context.on_cancel(env);
            true
        }
        _ => {
            context.on_retransmission(env);
            true
        }
    });
    match handled {
        Some(handled) => handled,
        None if head.method == Method::Cancel => {
            reply(message, flow, 481, reason_phrase(481), env, |_, _| {});
            true
        }
        None => false,
    }
}

fn on_register<R: RawMutex>(
    server: &Server<R>,
    incoming: &Incoming<'_, '_>,
    is_trusted: bool,
    env: &mut Env<'_>,
) {
    let Incoming { message, head, flow } = incoming;
    let unsupported: SmallVec<[&[u8]; 2]> = message
        .elements(HeaderName::Require)
        .filter(|option| !option.eq_ignore_ascii_case(b"path"))
        .collect();
    if !unsupported.is_empty() {
        return refuse_extensions(incoming, &unsupported, env);
    }
    let address = match head.to.uri() {
        Ok(Uri::Sip(uri)) => {
            env.settings.domain_of(&uri.host).zip(uri.user).map(|(domain, user)| {
                let user = sip::uri::unescape(user);
                let name = env.settings.domain_name(domain);
                (domain, server.subscribers.address_of_record(user, name))
            })
        }
        _ => return reply(message, flow, 400, "To Is Not a SIP URI", env, |_, _| {}),
    };
    let Some((domain, address)) = address else {
        env.counters.not_found.add();
        return reply(message, flow, 404, reason_phrase(404), env, |_, _| {});
    };
    if env.settings.config.authentication.required {
        match authenticate(server, Asker::Registrar, domain, incoming, is_trusted, env) {
            Some(user) if user == address => {}
            Some(_) => {
                env.counters.identity_mismatches.add();
                return reply(
                    message,
                    flow,
                    403,
                    "To Is Not the Authenticated User",
                    env,
                    |_, _| {},
                );
            }
            None => return,
        }
    }
    let outcome = registrar::register(message, head, &address, flow, &server.subscribers, env);
    match outcome {
        Outcome::Done(contacts) => reply(message, flow, 200, "OK", env, |out, _| {
            out.extend_from_slice(&contacts);
            let mut supported = message.elements(HeaderName::Supported);
            if supported.any(|option| option.eq_ignore_ascii_case(b"path")) {
                message.values(HeaderName::Path).for_each(|path| write_line(out, b"Path", path));
            }
        }),
        Outcome::TooBrief => reply(message, flow, 423, reason_phrase(423), env, |out, env| {
            let seconds = env.settings.config.registrar.min_expires.as_secs();
            write_number_line(out, b"Min-Expires", seconds);
        }),
        Outcome::Refused(status, reason) => reply(message, flow, status, reason, env, |_, _| {}),
    }
}

/// The user that a request proves to come from. `None` where it does not; then it has been
/// answered.
pub(crate) fn authenticate<R: RawMutex>(
    server: &Server<R>,
    asker: Asker,
    domain: DomainIndex,
    incoming: &Incoming<'_, '_>,
    is_trusted: bool,
    env: &mut Env<'_>,
) -> Option<AddressOfRecord> {
    let Incoming { message, head, flow } = incoming;
    let limits = &env.settings.config.limits;
    let source = flow.remote.ip();
    let verdict = judge(server, asker, domain, incoming, env);
    let stale = verdict == Verdict::Stale;
    match verdict {
        Verdict::User(user) => {
            env.counters.authenticated.add();
            if !is_trusted {
                server.sources.refund(source, env.now, limits);
            }
            return Some(user);
        }
        Verdict::Absent => {}
        Verdict::Stale => env.counters.stale_nonces.add(),
        Verdict::Wrong { is_source_proved } => {
            env.counters.authentication_failures.add();
            let from = head.from.uri_bytes.escape_ascii();
            let notice = alloc::format!("{from} at {flow} did not log in: wrong user or password");
            env.out.events.push(Event::Notice(notice));
            if is_source_proved && !is_trusted {
                note_failure(server, source, env);
            }
        }
    }
    env.counters.challenges.add();
    let status = asker.status();
    reply(message, flow, status, reason_phrase(status), env, |out, env| {
        write_challenges(server, asker, domain, stale, message, env, out);
    });
    None
}

pub(crate) fn note_failure<R: RawMutex>(server: &Server<R>, source: IpAddr, env: &mut Env<'_>) {
    let limits = &env.settings.config.limits;
    if server.sources.note_failure(source, env.now, limits) {
        env.counters.bans.add();
        let notice = alloc::format!(
            "{source} is banned for {} s: {} failed authentications or unknown users within {} s",
            limits.ban_time.as_secs(),
            limits.ban_failures,
            limits.ban_window.as_secs(),
        );
        env.out.events.push(Event::Notice(notice));
    }
}

/// Answers a request to the server itself.
pub(crate) fn for_server(incoming: &Incoming<'_, '_>, env: &mut Env<'_>) {
    let Incoming { message, head, flow } = incoming;
    let unsupported: SmallVec<[&[u8]; 2]> = message.elements(HeaderName::Require).collect();
    match head.method {
        Method::Ack => {}
        Method::Options if !unsupported.is_empty() => {
            refuse_extensions(incoming, &unsupported, env);
        }
        Method::Options => reply(message, flow, 200, "OK", env, |out, env| {
            let allow = match env.settings.config.mode {
                Mode::Registrar => ALLOW_REGISTRAR,
                Mode::Proxy | Mode::Redirect => ALLOW,
            };
            write_line(out, b"Allow", allow);
            write_line(out, b"Accept", b"*/*");
            write_line(out, b"Supported", b"path");
        }),
        Method::Cancel => reply(message, flow, 481, reason_phrase(481), env, |_, _| {}),
        Method::Invite | Method::Message | Method::Subscribe => {
            env.counters.not_found.add();
            reply(message, flow, 404, reason_phrase(404), env, |_, _| {});
        }
        Method::Other(_) => reply(message, flow, 501, reason_phrase(501), env, |out, _| {
            write_line(out, b"Allow", ALLOW);
        }),
        _ => reply(message, flow, 405, reason_phrase(405), env, |out, _| {
            write_line(out, b"Allow", b"OPTIONS, REGISTER");
        }),
    }
}

pub(crate) fn refuse_extensions(incoming: &Incoming<'_, '_>, options: &[&[u8]], env: &mut Env<'_>) {
    reply(incoming.message, &incoming.flow, 420, reason_phrase(420), env, |out, _| {
        write_line(out, b"Unsupported", &options.join(&b", "[..]));
    });
}

/// Where responses to `message` go, which came on `flow`.
pub(crate) fn reply_flow(message: &Message<'_>, flow: &Flow) -> Flow {
    match message.top_via() {
        Ok(via) if !flow.transport.is_reliable() => {
            Flow { remote: via.response_address(flow.remote), ..*flow }
        }
        _ => *flow,
    }
}

/// Answers without keeping anything (RFC 3261 section 8.2.7).
pub(crate) fn reply(
    message: &Message<'_>,
    flow: &Flow,
    status: u16,
    reason: &str,
    env: &mut Env<'_>,
    fields: impl FnOnce(&mut Vec<u8>, &Env<'_>),
) {
    let tag = env.to_tag(message);
    let response =
        Response { request: message, source: flow.remote, status, reason, to_tag: Some(&tag) };
    let mut lines = Vec::new();
    fields(&mut lines, env);
    let server_name = env.settings.config.server_name.as_str();
    env.out.send(reply_flow(message, flow), |bytes| {
        response.write(bytes, |bytes| {
            bytes.extend_from_slice(&lines);
            if !server_name.is_empty() {
                write_line(bytes, b"Server", server_name.as_bytes());
            }
        });
    });
}
