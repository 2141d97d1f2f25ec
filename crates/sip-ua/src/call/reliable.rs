//! Reliable provisional responses (RFC 3262): the local ones, which are retransmitted until they
//! are acknowledged, and the PRACK for those of the other end.

use crate::capabilities::{self, RELIABLE};
use crate::config::{AccountId, Config, Reliable};
use crate::core::Core;
use crate::draft::Draft;
use crate::envelope::Envelope;
use alloc::vec::Vec;
use sip::dialog::Dialog;
use sip::header::{CSeq, RAck};
use sip::{Duration, Encode, HeaderName, Instant, Message, Method};

/// The state of the provisional responses to one INVITE.
pub(super) struct Responses {
    /// True if the caller supports reliable responses, and if it requires them.
    is_possible: bool,
    is_required: bool,
    /// The RSeq of the last response. 0 before the first one.
    pub(super) last: u32,
    /// The response that is not yet acknowledged. There is at most one.
    pub(super) sent: Option<Sent>,
    /// The provisional response to send next.
    pub(super) next: Option<Progress>,
    /// The 2xx that has to wait.
    pub(super) answer: Option<Progress>,
}

/// A response to an INVITE, for its owner.
pub(crate) struct Progress {
    /// The status code.
    pub(crate) status: u16,
    /// Complete header field lines.
    pub(crate) lines: Vec<u8>,
    /// The session description, or empty.
    pub(crate) session: Vec<u8>,
    /// The body around it.
    pub(crate) envelope: Option<Envelope>,
}

impl Progress {
    /// Returns the body with `session` as the session description, and the lines that
    /// describe it if it is of another type. In an envelope, a description that is settled is that
    /// of `local`.
    pub(super) fn body(&self, session: &[u8], local: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let Some(envelope) = &self.envelope else { return (session.to_vec(), Vec::new()) };
        let is_settled = session.is_empty() && !self.session.is_empty();
        let session = if is_settled { local } else { session };
        // An offer that may not be made leaves its envelope without a content.
        if is_settled && session.is_empty() {
            return (Vec::new(), Vec::new());
        }
        (envelope.around(session), envelope.fields())
    }
}

/// A response that is not yet acknowledged.
pub(super) struct Sent {
    has_session: bool,
    pub(super) again: Instant,
    pub(super) interval: Duration,
    pub(super) give_up: Instant,
}

impl Responses {
    /// Returns the state for `invite`.
    pub(super) fn new(config: &Config, invite: &Message<'_>) -> Self {
        let is_required = capabilities::has(invite, HeaderName::Require, RELIABLE);
        let is_known = is_required || capabilities::has(invite, HeaderName::Supported, RELIABLE);
        let is_possible = is_known && config.reliable != Reliable::Off;
        Self {
            is_possible,
            is_required: is_possible && (is_required || config.reliable == Reliable::Required),
            last: 0,
            sent: None,
            next: None,
            answer: None,
        }
    }

    /// Returns true if the caller supports reliable responses.
    pub(super) const fn is_possible(&self) -> bool {
        self.is_possible
    }

    /// Returns true if a response is not yet acknowledged.
    pub(super) const fn is_waiting(&self) -> bool {
        self.sent.is_some()
    }

    /// Returns true if a response with a session is not yet acknowledged.
    pub(super) fn holds_answer(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.has_session)
    }

    /// Returns the RSeq of the response that is not yet acknowledged.
    pub(super) fn unacknowledged(&self) -> Option<u32> {
        self.sent.as_ref().map(|_| self.last)
    }

    /// Starts a response with or without a session, and returns its RSeq. `None`: it is not sent
    /// reliably.
    pub(super) fn begin(
        &mut self,
        core: &mut Core,
        has_session: bool,
        now: Instant,
    ) -> Option<u32> {
        if !(self.is_required || (self.is_possible && has_session)) {
            return None;
        }
        self.last = match self.last {
            0 => 1 + core.tokens.below((1 << 31) - 1) as u32,
            last => last + 1,
        };
        let t1 = core.config.timers.t1;
        let give_up = now + t1.times(64);
        self.sent = Some(Sent { has_session, again: now + t1, interval: t1, give_up });
        Some(self.last)
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.sent.as_ref().map(|sent| sent.again.min(sent.give_up))
    }
}

/// Returns the PRACK of the provisional response with the RSeq `rseq` to the INVITE that created
/// `dialog`.
pub(super) fn prack(
    account: Option<AccountId>,
    dialog: &mut Dialog,
    invite: u32,
    rseq: u32,
    session: Vec<u8>,
) -> Draft {
    let mut prack = Draft::within(account, dialog, Method::Prack, session);
    let rack = RAck { rseq, cseq: CSeq { number: invite, method: Method::Invite } };
    ("RAck: ", rack, "\r\n").encode(&mut prack.lines);
    prack
}
