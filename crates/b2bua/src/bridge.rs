//! Two joined calls.

use crate::leg_digits::LegDigits;
use crate::origin::Origin;
use crate::report::CallReport;
use crate::trunk::Attempt;
use alloc::vec::Vec;
use numbers::usage::Permit;
use sip::{Flow, Instant, Source};
use sip_ua::{CallId, Envelope};

/// The side of a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The leg of the party that called.
    Caller,
    /// The leg of the called party.
    Callee,
}

impl Side {
    /// Returns the other side.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Caller => Self::Callee,
            Self::Callee => Self::Caller,
        }
    }
}

/// A call that is one half of a bridge.
#[derive(Debug)]
pub(crate) struct Leg {
    /// `None` after its end.
    pub(crate) call: Option<CallId>,
    /// The origin of the descriptions that it gets.
    pub(crate) origin: Origin,
    /// The last offer that it got, with that origin, until it answers.
    offered: Vec<u8>,
    /// The agreed description that it got, with that origin.
    pub(crate) sent: Vec<u8>,
    /// The agreed description that came from it, as it came.
    pub(crate) received: Vec<u8>,
    /// True if `sent` is the answer to `received`, false if it is the offer.
    pub(crate) has_answer: bool,
    /// Its offer, while that waits for the answer of the other leg.
    pub(crate) offer: Option<Vec<u8>>,
    /// The CSeq of the last REFER that it sent, and of the one that the other leg got.
    pub(crate) refer: Option<(u32, u32)>,
    pub(crate) digits: LegDigits,
}

impl Leg {
    pub(crate) fn new(call: Option<CallId>, origin: Origin) -> Self {
        Self {
            call,
            origin,
            offered: Vec::new(),
            sent: Vec::new(),
            received: Vec::new(),
            has_answer: false,
            offer: None,
            refer: None,
            digits: LegDigits::default(),
        }
    }

    /// Returns `offer` as this leg gets it.
    pub(crate) fn offer_of_other(&mut self, offer: &[u8]) -> Vec<u8> {
        self.offered = self.origin.write(offer);
        self.offered.clone()
    }

    /// Returns `answer` as this leg gets it.
    pub(crate) fn answer_of_other(&mut self, answer: &[u8]) -> Vec<u8> {
        self.sent = self.origin.write(answer);
        self.has_answer = true;
        self.sent.clone()
    }

    /// Returns the description that this leg has agreed to, to be offered again.
    pub(crate) fn offer_again(&mut self) -> Vec<u8> {
        self.offered = self.sent.clone();
        self.offered.clone()
    }

    /// Notes the `answer` of this leg to the last offer that it got.
    pub(crate) fn on_answer(&mut self, answer: Vec<u8>) {
        self.received = answer;
        // Several branches may answer the first offer.
        if !self.offered.is_empty() {
            self.sent = core::mem::take(&mut self.offered);
        }
        self.has_answer = false;
    }
}

/// The parts of the caller's INVITE that are needed to call the other party.
#[derive(Debug)]
pub(crate) struct Invitation {
    pub(crate) uri: Vec<u8>,
    pub(crate) from: Vec<u8>,
    pub(crate) to: Vec<u8>,
    /// The values of Route.
    pub(crate) routes: Vec<Vec<u8>>,
    pub(crate) max_forwards: u32,
    pub(crate) lines: Vec<u8>,
    /// The offer of the caller.
    pub(crate) offer: Option<Vec<u8>>,
    /// The body around it.
    pub(crate) envelope: Option<Envelope>,
    /// True if the caller supports reliable provisional responses.
    pub(crate) is_reliable: bool,
    /// The trunks to call, in order of preference. Empty for a callee of the proxy.
    pub(crate) attempts: Vec<Attempt>,
    /// True if the caller asks a trunk not to show its number.
    pub(crate) is_private: bool,
}

/// The trunk of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnTrunk {
    /// Its place in the configuration.
    pub(crate) trunk: usize,
    /// The side of the leg that it is on.
    pub(crate) side: Side,
}

/// Two joined calls.
#[derive(Debug)]
pub(crate) struct Bridge {
    legs: [Leg; 2],
    pub(crate) report: CallReport,
    /// The flow of both legs.
    pub(crate) flow: Flow,
    /// Until the call is answered.
    pub(crate) invitation: Option<Invitation>,
    /// The branch of the callee that has sent early media.
    pub(crate) early: Option<u32>,
    /// The header field lines of the answer, while the description of the callee is awaited.
    pub(crate) answer: Option<Vec<u8>>,
    /// The leg that has requested an offer, while the offer of the other leg is awaited.
    pub(crate) asks: Option<Side>,
    /// The leg to which the other leg's description is to be offered as soon as possible.
    pub(crate) due: Option<Side>,
    /// The number of offers that neither party has asked for.
    pub(crate) offers: u32,
    /// True if the owner was told that the call is answered.
    pub(crate) is_reported: bool,
    /// The keys in the offer to the callee.
    pub(crate) keys: Keys,
    /// The Call-ID of the callee's leg that was refused before this one.
    pub(crate) refused: Option<Vec<u8>>,
    pub(crate) on_trunk: Option<OnTrunk>,
    /// The number of trunks that have not taken the call.
    pub(crate) attempts_made: usize,
    /// The permission for the trunk of the call, which is counted as long as it exists.
    pub(crate) permit: Option<Permit>,
    /// True if a limit of use has refused a trunk.
    pub(crate) is_over_limit: bool,
    /// The end of the wait for a decision of the owner, while the call waits.
    pub(crate) decided_by: Option<Instant>,
}

/// The keys in the offer to the callee. The order is that of the offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Those of the caller.
    OfCaller,
    /// Others: the callee has refused those of the caller.
    Other,
    /// The last ones: the callee has refused the others, too.
    Last,
}

impl Bridge {
    pub(crate) const fn new(
        legs: [Leg; 2],
        flow: Flow,
        invitation: Invitation,
        report: CallReport,
    ) -> Self {
        Self {
            legs,
            report,
            flow,
            invitation: Some(invitation),
            early: None,
            answer: None,
            asks: None,
            due: None,
            offers: 0,
            is_reported: false,
            keys: Keys::OfCaller,
            refused: None,
            on_trunk: None,
            attempts_made: 0,
            permit: None,
            is_over_limit: false,
            decided_by: None,
        }
    }

    pub(crate) fn leg(&mut self, side: Side) -> &mut Leg {
        &mut self.legs[side as usize]
    }

    /// Returns the call of `side`, if it has not ended.
    pub(crate) const fn call(&self, side: Side) -> Option<CallId> {
        self.legs[side as usize].call
    }

    /// The current attempt to reach the callee through a trunk.
    pub(crate) fn attempt(&self) -> Option<&Attempt> {
        self.invitation.as_ref()?.attempts.get(self.attempts_made)
    }

    /// Returns true if the caller has made no offer, and the first one of the callee is awaited.
    pub(crate) fn is_offerless(&self) -> bool {
        self.answer.is_some() || self.invitation.as_ref().is_some_and(|it| it.offer.is_none())
    }

    /// The source that is charged for the call.
    pub(crate) const fn source(&self) -> Source {
        Source::of(self.flow.remote.ip())
    }
}
