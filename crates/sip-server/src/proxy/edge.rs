//! The edge of another registrar's domain: phones of that domain register through this server, and
//! are reached on the flows that they keep open to it (RFC 5626 section 5, RFC 3327).
//!
//! A REGISTER gets a Path with a token that names its flow. The registrar and the proxies on the
//! path to it learn the token and may send requests to the phone with it, for a day at most and as
//! long as the connection is open.

use super::record_route::write_own_end;
use super::token::Token;
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::journal_record::{put_flow, take, take_flow};
use crate::core::keys::Key;
use crate::core::settings::Settings;
use alloc::vec::Vec;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sip::header::NameAddr;
use sip::message::RequestHead;
use sip::{Duration, HeaderName, Instant, Message, Method, SipUri, Uri};

/// Length of the longest token in characters, for an IPv6 connection.
const MOST: usize = 84;

/// True if `request` is a REGISTER that came directly from a phone that supports Path or outbound.
pub(super) fn is_first_hop(request: &Message<'_>, head: &RequestHead<'_>) -> bool {
    let wants = |option: &[u8]| {
        option.eq_ignore_ascii_case(b"path") || option.eq_ignore_ascii_case(b"outbound")
    };
    head.method == Method::Register
        && request.elements(HeaderName::Via).nth(1).is_none()
        && request.elements(HeaderName::Supported).any(wants)
}

/// Appends the Path of a REGISTER that came on the flow `from` and is forwarded on `to`.
pub(super) fn write_path(from: &Flow, to: &Flow, env: &Env<'_>, lines: &mut Vec<u8>) {
    lines.extend_from_slice(b"Path: <sip:");
    lines.extend_from_slice(token(from, env.now, &env.keys.edge).as_bytes());
    write_own_end(to, env.settings.called(to), false, lines);
    lines.extend_from_slice(b";ob>\r\n");
}

fn token(flow: &Flow, now: Instant, key: &Key) -> alloc::string::String {
    let mut bytes = Vec::with_capacity(MOST);
    bytes.extend_from_slice(&seconds(now).to_le_bytes());
    put_flow(&mut bytes, flow);
    let proof = key.proof(&[&bytes]);
    bytes.extend_from_slice(&proof.to_le_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the flow to a phone from the token in the Route element `route`, which names this
/// server.
pub(super) fn flow_of(route: &SipUri<'_>, now: Instant, key: &Key) -> Option<Flow> {
    if !route.params.has("ob") {
        return None;
    }
    let user = sip::uri::unescape(route.user?);
    let mut bytes = [0; MOST];
    let length = URL_SAFE_NO_PAD.decode_slice(&user[..], &mut bytes).ok()?;
    let (bytes, theirs) = bytes[..length].split_last_chunk::<8>()?;
    if key.proof(&[bytes]) != u64::from_le_bytes(*theirs) {
        return None;
    }
    let rest = &mut &bytes[..];
    let issued = u32::from_le_bytes(take::<4>(rest)?);
    let flow = take_flow(rest)?;
    let age = Duration::from_secs(seconds(now).abs_diff(issued).into());
    (age <= Token::LIFETIME).then_some(flow)
}

fn seconds(now: Instant) -> u32 {
    (now.as_micros() / 1_000_000) as u32
}

/// True if a request goes to a domain that this server is an edge of, by the first of the routes
/// `left` or else by its request URI.
pub(super) fn leads_to_domain(uri: &Uri<'_>, left: &[&[u8]], settings: &Settings) -> bool {
    if settings.config.edge_domains.is_empty() {
        return false;
    }
    let uri = match left.first() {
        Some(next) => {
            NameAddr::parse(HeaderName::Route, next).ok().and_then(|next| next.uri().ok())
        }
        None => Some(*uri),
    };
    matches!(uri, Some(Uri::Sip(uri)) if settings.is_edge_of(&uri))
}
