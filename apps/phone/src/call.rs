//! The state of one call.

use crate::leg::Leg;
use sip_ua::{AccountId, CallId};
use std::time::Instant;

/// The stage of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The INVITE is sent, without a ringing response yet.
    Calling,
    /// The remote end rings.
    Ringing,
    /// The call rings here.
    RingingHere,
    /// The call is established.
    Talking,
}

/// The target of a call transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Uri(String),
    /// The remote end of the call with this number.
    Call(u64),
}

/// The state of one call. It keeps its number when the INVITE is sent again.
pub(crate) struct Call {
    /// The engine's id; `None` while the target is being located.
    pub(crate) id: Option<CallId>,
    pub(crate) account: Option<AccountId>,
    /// The remote party: its own name or the URI called.
    pub(crate) party: String,
    pub(crate) stage: Stage,
    /// True if the remote end placed the call.
    pub(crate) was_incoming: bool,
    pub(crate) leg: Option<Leg>,
    pub(crate) begun: Instant,
    pub(crate) answered: Option<Instant>,
    /// True if the remote end holds, and if this end holds.
    pub(crate) is_held: bool,
    pub(crate) holds: bool,
    /// The hold state requested while the re-INVITE is pending.
    pub(crate) wants_hold: Option<bool>,
    /// True if the call moves to a new local address as soon as there is a network.
    pub(crate) awaits_network: bool,
    /// The target of the transfer under way.
    pub(crate) transfer: Option<Target>,
    /// The target of a transfer that the remote end has requested.
    pub(crate) wish: Option<String>,
    /// The session description for the answer, while the call rings here.
    pub(crate) answer: Vec<u8>,
    /// True if the call was placed again with only SRTP in the offer.
    pub(crate) has_retried: bool,
}

impl Call {
    pub(crate) fn new(party: String, account: Option<AccountId>, stage: Stage) -> Self {
        Self {
            id: None,
            account,
            party,
            stage,
            was_incoming: stage == Stage::RingingHere,
            leg: None,
            begun: Instant::now(),
            answered: None,
            is_held: false,
            holds: false,
            wants_hold: None,
            awaits_network: false,
            transfer: None,
            wish: None,
            answer: Vec::new(),
            has_retried: false,
        }
    }
}
