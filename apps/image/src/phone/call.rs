//! A call.

use super::leg::{Gate, Leg};
use alloc::string::String;
use alloc::vec::Vec;
use media::{Statistics, Stream};
use sip::Instant;
use sip_ua::CallId;

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits for what its port looks like from outside, before it is placed, or rings here.
    Opening,
    /// It was placed.
    Calling,
    /// It rings there.
    Ringing,
    /// It rings here.
    RingingHere,
    /// It stands.
    Talking,
}

/// A call.
#[derive(Debug)]
pub struct Call {
    /// Who is at the other end.
    pub party: String,
    /// How far it is.
    pub stage: Stage,
    /// When it began, and since it stands when that was.
    pub since: Instant,
    pub(super) id: Option<CallId>,
    pub(super) leg: Leg,
    /// What who calls has offered, while that is not looked at yet.
    pub(super) offer: Option<Vec<u8>>,
    /// The session description that answers who calls.
    pub(super) session: Vec<u8>,
}

impl Call {
    pub(super) const fn new(party: String, stage: Stage, leg: Leg, now: Instant) -> Self {
        Self { party, stage, since: now, id: None, leg, offer: None, session: Vec::new() }
    }

    /// It stands: what sounds here goes out.
    pub(super) fn stand(&mut self, now: Instant) {
        (self.stage, self.since) = (Stage::Talking, now);
        self.leg.gate = Gate::Open;
    }

    /// What both ends have agreed on, once they have.
    #[must_use]
    pub fn stream(&self) -> Option<&Stream> {
        self.leg.session.as_ref().map(media::Session::stream)
    }

    /// How its media have gone so far.
    #[must_use]
    pub fn statistics(&self) -> Option<Statistics> {
        self.leg.session.as_ref().map(media::Session::statistics)
    }

    /// Whether nothing is said here.
    #[must_use]
    pub const fn is_muted(&self) -> bool {
        self.leg.mutes
    }

    /// Our port for RTP, and what it looks like from outside where somebody has told.
    #[must_use]
    pub fn ports(&self) -> (u16, Option<core::net::SocketAddr>) {
        self.leg.ports()
    }
}
