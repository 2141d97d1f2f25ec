//! The keep-alives that the server sends on the flows of phones: an empty line, or OPTIONS.

use super::forward::write_via_without_branch;
use crate::core::config::KeepAlive;
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::keys::put_hex;
use crate::core::lines::write_line;
use crate::core::settings::DomainIndex;
use alloc::vec::Vec;
use memchr::memchr;
use sip::Message;

/// The start of the branch parameter of an OPTIONS. The rest is not stored: a response shows that
/// the phone is there, and nothing depends on it.
const BRANCH: &[u8] = b"z9hG4bKka";

/// The empty line that keeps the mapping of a NAT (RFC 5626 section 3.5.1).
const PING: &[u8] = b"\r\n\r\n";

/// Sends a keep-alive to the phone that is registered on `flow` with the URI `contact`. A datagram
/// goes to a source that is known to accept messages only: it may be the victim of a forged
/// REGISTER where the server asks for no password.
pub(crate) fn keep_alive(flow: &Flow, contact: &[u8], kind: KeepAlive, env: &mut Env<'_>) {
    if env.settings.leads_here(flow) {
        return;
    }
    if !env.is_asked(flow) {
        return env.counters.unasked.add();
    }
    env.counters.keep_alives.add();
    match kind {
        KeepAlive::EmptyLine => {
            env.out.send(*flow, |bytes| bytes.extend_from_slice(PING));
        }
        KeepAlive::Options => {
            env.send(*flow, |env, bytes| write_options(flow, contact, env, bytes));
        }
    }
}

fn write_options(flow: &Flow, contact: &[u8], env: &Env<'_>, out: &mut Vec<u8>) {
    // A Contact may contain header fields, a request URI may not (RFC 3261 section 19.1.1). A
    // question mark may stand in the user part.
    let host = memchr(b'@', contact).unwrap_or(0);
    let end = memchr(b'?', &contact[host..]).map_or(contact.len(), |end| host + end);
    let uri = &contact[..end];
    let now = env.now.as_micros().to_be_bytes();
    let mut id = Vec::with_capacity(16);
    put_hex(&mut id, &env.keys.tag.proof(&[b"keep-alive", uri, &now]).to_be_bytes());
    let domain = env.settings.domain_name(DomainIndex::DEFAULT).as_bytes();
    out.extend_from_slice(b"OPTIONS ");
    out.extend_from_slice(uri);
    out.extend_from_slice(b" SIP/2.0\r\n");
    write_via_without_branch(out, flow, uri, env.settings);
    write_line_of(out, &[BRANCH, &id]);
    write_line(out, b"Max-Forwards", b"70");
    write_line_of(out, &[b"From: <sip:", domain, b">;tag=", &id]);
    write_line_of(out, &[b"To: <", uri, b">"]);
    write_line_of(out, &[b"Call-ID: ", &id, b"@", domain]);
    write_line(out, b"CSeq", b"1 OPTIONS");
    write_line(out, b"Content-Length", b"0");
    out.extend_from_slice(b"\r\n");
}

fn write_line_of(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out.extend_from_slice(b"\r\n");
}

/// True if `response` answers an OPTIONS of [`keep_alive`].
pub(super) fn is_answer(response: &Message<'_>) -> bool {
    let via = response.top_via().ok();
    via.and_then(|via| via.branch()).is_some_and(|branch| branch.starts_with(BRANCH))
}
