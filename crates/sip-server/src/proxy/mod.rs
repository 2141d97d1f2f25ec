//! The proxy (RFC 3261 section 16): where a request goes, and its way there and back.

pub(crate) mod branch;
mod context;
mod fork;
mod forward;
mod plan;
mod route;
mod search;
pub(crate) mod stateless;
mod target;
mod token;
mod transactions;

pub(crate) use context::Context;
pub(crate) use forward::{write_line, write_number_line};
pub(crate) use plan::Plan;
pub(crate) use route::{Destination, Preprocessed, preprocess};
pub(crate) use target::{NextHop, NoRoute, Target, Targets, is_flow_bound};
pub(crate) use transactions::Transactions;

use crate::counters::Counters;
use crate::flow::Flow;
use crate::keys::Key;
use crate::output::Output;
use crate::overload::Share;
use crate::settings::Settings;
use crate::timings::Stopwatch;
use alloc::vec::Vec;
use forward::write_address;
use sip::{Duration, HeaderName, Instant, Message};
use token::Token;

/// The secrets of a server, by purpose.
pub(crate) struct Keys {
    pub(crate) call_id: Key,
    pub(crate) tag: Key,
    pub(crate) token: Key,
    pub(crate) branch: Key,
    pub(crate) message: Key,
    pub(crate) fingerprint: Key,
    pub(crate) decoy: Key,
}

impl Keys {
    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        Self {
            call_id: Key::derive(secret, "call-id"),
            tag: Key::derive(secret, "tag"),
            token: Key::derive(secret, "record-route"),
            branch: Key::derive(secret, "branch"),
            message: Key::derive(secret, "message"),
            fingerprint: Key::derive(secret, "fingerprint"),
            decoy: Key::derive(secret, "decoy"),
        }
    }
}

/// What work on one event needs.
pub(crate) struct Env<'e> {
    pub(crate) now: Instant,
    pub(crate) settings: &'e Settings,
    pub(crate) keys: &'e Keys,
    pub(crate) counters: &'e Counters,
    /// Where this message is one that is looked at.
    pub(crate) stopwatch: Option<&'e Stopwatch>,
    /// How long the message has waited to be read.
    pub(crate) waited: Duration,
    /// What is served of the new requests.
    pub(crate) served: Share,
    pub(crate) out: &'e mut Output,
}

impl Env<'_> {
    /// Sends what `write` appends, as [`Output::send`] does, when what it takes is here.
    pub(crate) fn send(&mut self, flow: Flow, write: impl FnOnce(&Self, &mut Vec<u8>)) {
        let mut bytes = core::mem::take(&mut self.out.bytes);
        let start = bytes.len();
        write(self, &mut bytes);
        self.out.bytes = bytes;
        self.out.push(flow, start);
    }

    /// The To tag of the responses that this server makes to `request`. It is the same for each
    /// repetition, so that nothing need be remembered (RFC 3261 section 8.2.7), and it is known
    /// again in the ACK.
    pub(crate) fn to_tag(&self, request: &Message<'_>) -> [u8; 16] {
        let via = request.top_via().ok();
        let branch = via.and_then(|via| via.branch()).unwrap_or_default();
        let call_id = request.value(HeaderName::CallId).unwrap_or_default();
        let hash = self.keys.tag.proof(&[branch, call_id]);
        let mut tag = [0; 16];
        for (at, digit) in tag.iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(hash >> (4 * at)) as usize & 15];
        }
        tag
    }
}

/// Appends the Record-Route lines for a request that came on `from` and leaves on `to`: two where
/// the ends of ours differ, so that each side has an address that it can reach (RFC 5658).
fn record_route(
    token: &Token,
    key: &Key,
    call_id: &[u8],
    from: &Flow,
    to: &Flow,
    lines: &mut Vec<u8>,
) {
    let user = token.text(key, call_id);
    let mut line = |flow: &Flow| {
        lines.extend_from_slice(b"Record-Route: <sip:");
        lines.extend_from_slice(&user);
        lines.push(b'@');
        write_address(lines, flow.local);
        if flow.transport.is_reliable() {
            lines.extend_from_slice(b";transport=");
            lines.extend_from_slice(flow.transport.uri_name().as_bytes());
        }
        lines.extend_from_slice(b";lr>\r\n");
    };
    line(to);
    if (from.transport, from.local) != (to.transport, to.local) {
        line(from);
    }
}
