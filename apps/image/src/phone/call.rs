//! The state of a call.

use super::leg::Leg;
use alloc::string::String;
use alloc::vec::Vec;
use media::{Statistics, Stream};
use sip::Instant;
use sip_ua::CallId;

/// The stage of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits for the public address of its port before it is placed or rings here.
    Opening,
    /// The INVITE is sent.
    Calling,
    /// The remote end rings.
    Ringing,
    /// It rings here.
    RingingHere,
    /// It is established.
    Talking,
}

/// A call.
#[derive(Debug)]
pub struct Call {
    /// The remote party.
    pub party: String,
    /// Its stage.
    pub stage: Stage,
    /// The beginning of the call, or of its established state.
    pub since: Instant,
    pub(super) id: Option<CallId>,
    pub(super) leg: Leg,
    /// The caller's offer, until it is processed.
    pub(super) offer: Option<Vec<u8>>,
}

impl Call {
    pub(super) const fn new(party: String, stage: Stage, leg: Leg, now: Instant) -> Self {
        Self { party, stage, since: now, id: None, leg, offer: None }
    }

    /// Marks it as established.
    pub(super) fn stand(&mut self, now: Instant) {
        (self.stage, self.since) = (Stage::Talking, now);
        self.leg.ports.rest();
    }

    /// The negotiated stream, once there is one.
    #[must_use]
    pub fn stream(&self) -> Option<&Stream> {
        self.leg.session().map(media::Session::stream)
    }

    /// The media statistics so far.
    #[must_use]
    pub fn statistics(&self) -> Option<Statistics> {
        self.leg.session().map(media::Session::statistics)
    }

    /// Returns true if the call is muted.
    #[must_use]
    pub const fn is_muted(&self) -> bool {
        self.leg.call.is_muted()
    }
}
