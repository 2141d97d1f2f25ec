//! A received request, and stateless responses to it (RFC 3261 section 8.2.7).

use crate::core::config::Mode;
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::known_sources::Pair;
use crate::core::lines::{write_line, write_number_line};
use crate::core::settings::Trust;
use crate::core::source::Account;
use crate::core::timings::{Step, timed};
use alloc::vec::Vec;
use core::ops::Range;
use sip::message::{RequestHead, Response};
use sip::{HeaderName, Message, Method, Status, StatusLine};
use smallvec::SmallVec;

/// A request to be answered or forwarded.
pub(crate) struct Incoming<'i, 'm> {
    pub(crate) message: &'i Message<'m>,
    pub(crate) head: &'i RequestHead<'m>,
    pub(crate) flow: Flow,
    /// The trust in the source.
    pub(crate) trust: Trust,
    /// The account that is charged, unless the source is trusted.
    pub(crate) account: Account,
    /// Set if the source is banned and the request may only log in as this user.
    pub(crate) returns: Option<Pair>,
    /// The key of the server transaction. Unset before its lookup and in stateless mode.
    pub(crate) key: Option<u64>,
}

const ALLOW: &[u8] = b"INVITE, ACK, CANCEL, BYE, REGISTER, OPTIONS, MESSAGE, SUBSCRIBE, NOTIFY, \
    REFER, INFO, UPDATE, PRACK";
pub(crate) const ALLOW_REGISTRAR: &[u8] = b"REGISTER, OPTIONS";

/// The status line for a request to a SIPS URI that came unencrypted.
pub(crate) const UNSECURED: StatusLine<'static> =
    Status::BAD_REQUEST.with_reason("SIPS URI over an Unsecured Transport");

/// Rejects extensions that the server does not support (RFC 3261 section 8.2.2.3).
pub(crate) fn refuse_extensions(incoming: &Incoming<'_, '_>, options: &[&[u8]], env: &mut Env<'_>) {
    reply(incoming.message, &incoming.flow, Status::BAD_EXTENSION, env, |out, _| {
        write_line(out, b"Unsupported", &options.join(&b", "[..]));
    });
}

/// The flow for responses to `message`, which came on `flow`.
pub(crate) fn reply_flow(message: &Message<'_>, flow: &Flow) -> Flow {
    match message.top_via() {
        Ok(via) if !flow.transport.is_stream() => {
            Flow { remote: via.response_address(flow.remote), ..*flow }
        }
        _ => *flow,
    }
}

/// Sends a stateless response (RFC 3261 section 8.2.7) with the header fields that `fields`
/// appends. They are left out if the response [would be too long](Env::is_amplified).
pub(crate) fn reply<'s>(
    message: &Message<'_>,
    flow: &Flow,
    status: impl Into<StatusLine<'s>>,
    env: &mut Env<'_>,
    fields: impl FnOnce(&mut Vec<u8>, &Env<'_>),
) {
    let (server_name, status) = (env.settings.config.server_name.as_str(), status.into());
    env.counters.traffic.reply(message, flow, status.status.code());
    let range = write_reply(message, flow, status, server_name, env, fields);
    if let Some(range) = range.filter(|range| env.is_amplified(message, flow, range.len())) {
        env.take_back(range);
        write_reply(message, flow, status, "", env, |_, _| {});
    }
}

/// Like [`reply`], with `server_name` in Server, or without Server if it is empty. Returns the
/// range of the response in the output buffer.
pub(crate) fn write_reply(
    message: &Message<'_>,
    flow: &Flow,
    status: StatusLine<'_>,
    server_name: &str,
    env: &mut Env<'_>,
    fields: impl FnOnce(&mut Vec<u8>, &Env<'_>),
) -> Option<Range<usize>> {
    let tag = env.to_tag(message);
    let StatusLine { status, reason } = status;
    let response = Response {
        request: message,
        source: flow.remote,
        status: status.code(),
        reason,
        to_tag: Some(&tag),
    };
    env.send(reply_flow(message, flow), |env, bytes| {
        timed(env.stopwatch, Step::FormatResponse, || {
            response.write(bytes, |bytes| {
                fields(bytes, env);
                if !server_name.is_empty() {
                    write_line(bytes, b"Server", server_name.as_bytes());
                }
            });
        });
    })
}

/// Like [`reply`], without further header fields.
pub(crate) fn answer<'s>(
    incoming: &Incoming<'_, '_>,
    status: impl Into<StatusLine<'s>>,
    env: &mut Env<'_>,
) {
    reply(incoming.message, &incoming.flow, status, env, |_, _| {});
}

/// Rejects a request that may be retried after `seconds`.
pub(crate) fn refuse_for_now<'s>(
    incoming: &Incoming<'_, '_>,
    status: impl Into<StatusLine<'s>>,
    seconds: u64,
    env: &mut Env<'_>,
) {
    reply(incoming.message, &incoming.flow, status, env, |out, _| {
        write_number_line(out, b"Retry-After", seconds);
    });
}

/// Answers a request to the server itself.
pub(crate) fn for_server(incoming: &Incoming<'_, '_>, env: &mut Env<'_>) {
    let Incoming { message, head, flow, .. } = incoming;
    let unsupported: SmallVec<[&[u8]; 2]> = message.elements(HeaderName::Require).collect();
    match head.method {
        Method::Ack => {}
        Method::Options if !unsupported.is_empty() => {
            refuse_extensions(incoming, &unsupported, env);
        }
        Method::Options => reply(message, flow, Status::OK, env, |out, env| {
            let allow = match env.settings.config.mode {
                Mode::Registrar => ALLOW_REGISTRAR,
                Mode::Proxy | Mode::Redirect => ALLOW,
            };
            write_line(out, b"Allow", allow);
            write_line(out, b"Accept", b"*/*");
            let gruu = env.settings.config.registrar.gruu;
            let supported: &[u8] = if gruu { b"path, outbound, gruu" } else { b"path, outbound" };
            write_line(out, b"Supported", supported);
        }),
        Method::Cancel => answer(incoming, Status::CALL_DOES_NOT_EXIST, env),
        Method::Invite | Method::Message | Method::Subscribe => {
            env.counters.not_found.add();
            answer(incoming, Status::NOT_FOUND, env);
        }
        Method::Other(_) => reply(message, flow, Status::NOT_IMPLEMENTED, env, |out, _| {
            write_line(out, b"Allow", ALLOW);
        }),
        _ => reply(message, flow, Status::METHOD_NOT_ALLOWED, env, |out, _| {
            write_line(out, b"Allow", b"OPTIONS, REGISTER");
        }),
    }
}
