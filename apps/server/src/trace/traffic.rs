//! A message of a trace.

use super::blank::blanked;
use serde::{Deserialize, Serialize};
use sip::Flow;
use std::net::SocketAddr;

/// A message of a traced call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Traffic {
    /// The time in microseconds since 1970.
    pub(crate) at: u64,
    /// `udp`, `tcp`, `tls`, `ws` or `wss`.
    pub(crate) transport: String,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// True if the server sent it.
    pub(crate) is_sent: bool,
    /// The number of the worker that received or sent it.
    pub(crate) worker: usize,
    /// The index of its call among those of the answer.
    pub(crate) call: usize,
    /// The index of the Call-ID among those of the call.
    pub(crate) leg: usize,
    /// The bytes, without secrets unless these are kept.
    pub(crate) bytes: Vec<u8>,
    /// The number of further bytes that were not kept.
    pub(crate) missing: usize,
}

/// The place of a message.
#[derive(Clone, Copy)]
pub(super) struct Place<'f> {
    /// The time in microseconds since 1970.
    pub(super) at: u64,
    pub(super) worker: usize,
    pub(super) flow: &'f Flow,
    pub(super) is_sent: bool,
}

impl Traffic {
    /// The message `bytes` of the first call of an answer. Secrets are blanked unless `has_secrets`
    /// is set.
    pub(super) fn new(place: Place<'_>, leg: usize, bytes: &[u8], has_secrets: bool) -> Self {
        let Place { at, worker, flow, is_sent } = place;
        Self {
            at,
            transport: flow.transport.uri_name().to_owned(),
            local: flow.local,
            remote: flow.remote,
            is_sent,
            worker,
            call: 0,
            leg,
            bytes: if has_secrets { bytes.to_vec() } else { blanked(bytes) },
            missing: 0,
        }
    }
}
