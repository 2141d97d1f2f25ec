//! A call as the phone sees it.

use crate::leg::Leg;
use sip_ua::{AccountId, CallId};
use std::time::Instant;

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is being placed.
    Calling,
    /// It rings at the other end.
    Ringing,
    /// It rings here.
    RingingHere,
    /// It stands.
    Talking,
}

/// To whom a call is transferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Uri(String),
    /// The other end of the call of this number.
    Call(u64),
}

/// A call as the phone sees it. It keeps its number when it is placed anew.
pub(crate) struct Call {
    /// What the engine calls it; `None` while it is found out where it goes.
    pub(crate) id: Option<CallId>,
    pub(crate) account: Option<AccountId>,
    /// Who is at the other end, as it names itself, or as it was called.
    pub(crate) party: String,
    pub(crate) stage: Stage,
    /// Whether the other end has begun it.
    pub(crate) was_incoming: bool,
    pub(crate) leg: Option<Leg>,
    pub(crate) begun: Instant,
    pub(crate) answered: Option<Instant>,
    /// Whether the other end holds, and whether this one does.
    pub(crate) is_held: bool,
    pub(crate) holds: bool,
    /// Whether it is to be held, while the other end is asked.
    pub(crate) wants_hold: Option<bool>,
    /// Whether it goes on elsewhere as soon as there is a network.
    pub(crate) awaits_network: bool,
    /// To whom it is being transferred.
    pub(crate) transfer: Option<Target>,
    /// Whom the other end wishes to be called instead.
    pub(crate) wish: Option<String>,
    /// What it is answered with, while it rings here.
    pub(crate) answer: Vec<u8>,
    /// Whether it was placed anew with nothing but SRTP in the offer.
    pub(crate) has_retried: bool,
}

impl Call {
    /// A call with `party`.
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
