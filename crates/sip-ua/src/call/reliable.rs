//! Provisional responses of ours that are sent until they are acknowledged, and how those of others
//! are (RFC 3262).

use crate::capabilities::{self, RELIABLE};
use crate::config::{AccountId, Config, Reliable};
use crate::core::Core;
use crate::draft::Draft;
use alloc::vec::Vec;
use sip::dialog::Dialog;
use sip::header::{CSeq, RAck};
use sip::{Duration, Emit, HeaderName, Instant, Message, Method};

/// What is known of the provisional responses to one INVITE.
pub(super) struct Responses {
    /// Whether the caller takes reliable ones, and insists on them.
    is_possible: bool,
    is_required: bool,
    /// The RSeq of the last one; 0 before the first.
    pub(super) last: u32,
    /// One at a time is under way.
    pub(super) sent: Option<Sent>,
    /// What is to be said next: with a session, or that it rings.
    pub(super) next: Option<Vec<u8>>,
    /// The session of a 2xx that has to wait.
    pub(super) answer: Option<Vec<u8>>,
}

/// One that is not acknowledged.
pub(super) struct Sent {
    has_session: bool,
    pub(super) again: Instant,
    pub(super) interval: Duration,
    pub(super) give_up: Instant,
}

impl Responses {
    /// For `invite`.
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

    /// Whether the caller takes reliable ones.
    pub(super) const fn is_possible(&self) -> bool {
        self.is_possible
    }

    /// Whether one is not acknowledged.
    pub(super) const fn is_waiting(&self) -> bool {
        self.sent.is_some()
    }

    /// Whether one with a session is not acknowledged.
    pub(super) fn holds_answer(&self) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.has_session)
    }

    /// The RSeq of the one that is not acknowledged.
    pub(super) fn unacknowledged(&self) -> Option<u32> {
        self.sent.as_ref().map(|_| self.last)
    }

    /// The RSeq of one that is sent now, with a session or without; `None`: it is not sent
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

/// The PRACK of the provisional response with the RSeq `rseq` to the INVITE that began `dialog`.
pub(super) fn prack(
    account: Option<AccountId>,
    dialog: &mut Dialog,
    invite: u32,
    rseq: u32,
    session: Vec<u8>,
) -> Draft {
    let mut prack = Draft::within(account, dialog, Method::Prack, session);
    let rack = RAck { rseq, cseq: CSeq { number: invite, method: Method::Invite } };
    ("RAck: ", rack, "\r\n").emit(&mut prack.lines);
    prack
}
