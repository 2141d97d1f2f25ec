//! The state of one call.

use crate::leg::Leg;
use media::Session;
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
    pub(crate) account: Option<AccountId>,
    /// The remote party: its own name or the URI called.
    pub(crate) party: String,
    pub(crate) stage: Stage,
    /// True if the remote end placed the call.
    pub(crate) was_incoming: bool,
    /// The signalling and the media; `None` while the target is being located.
    pub(crate) leg: Option<Leg>,
    pub(crate) begun: Instant,
    pub(crate) answered: Option<Instant>,
    /// True if the call moves to a new local address as soon as there is a network.
    pub(crate) awaits_network: bool,
    /// The target of the transfer under way.
    pub(crate) transfer: Option<Target>,
    /// The target of a transfer that the remote end has requested.
    pub(crate) wish: Option<String>,
    /// True if the call was placed again with only SRTP in the offer.
    pub(crate) has_retried: bool,
}

impl Call {
    pub(crate) fn new(party: String, account: Option<AccountId>, stage: Stage) -> Self {
        Self {
            account,
            party,
            stage,
            was_incoming: stage == Stage::RingingHere,
            leg: None,
            begun: Instant::now(),
            answered: None,
            awaits_network: false,
            transfer: None,
            wish: None,
            has_retried: false,
        }
    }

    /// The engine's id; `None` while the target is being located.
    pub(crate) fn id(&self) -> Option<CallId> {
        self.leg.as_ref()?.call.id()
    }

    /// The media session, once it is negotiated.
    pub(crate) fn session(&self) -> Option<&Session> {
        self.leg.as_ref()?.session()
    }

    /// Returns true if this end holds.
    pub(crate) fn holds(&self) -> bool {
        self.leg.as_ref().is_some_and(|leg| leg.call.holds())
    }

    /// Returns true if the remote end holds.
    pub(crate) fn is_held(&self) -> bool {
        self.leg.as_ref().is_some_and(|leg| leg.call.is_held())
    }
}
