//! The end of calls, from either end (RFC 3261 section 15).

use super::ack::acknowledge;
use super::exchange::Turn;
use super::state::{Call, State};
use crate::client_transaction::Owner;
use crate::core::Core;
use crate::draft::Draft;
use crate::event::{CallId, End, Event, Failure};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use sip::{HeaderName, Instant, Message, Method};

/// Returns true if `failure` means that the other end no longer knows the call (RFC 3261 section
/// 12.2.1.2).
pub(super) const fn is_gone(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Refused { status: 408 | 481, .. } | Failure::TimedOut | Failure::Unreachable
    )
}

impl Call {
    /// Ends the call: by BYE, by CANCEL, or by a rejection.
    /// The request has the header field lines `lines`.
    pub(crate) fn hang_up(&mut self, core: &mut Core, lines: &[u8], now: Instant) {
        match &mut self.state {
            State::Calling(_) => self.take_back(core, lines, End::HungUp, now),
            State::Ringing(_) => self.decline(core, 603, lines, now),
            State::Established(established) => {
                match established.leave(lines) {
                    Some(leaving) => self.wait_to_leave(core, leaving, now),
                    None => self.send_bye_quietly(core, lines, now),
                }
                core.tell(Event::Ended { call: self.id, end: End::HungUp });
            }
            State::Referred(_) | State::Leaving(_) | State::Mortal(_) | State::Over => {}
        }
    }

    pub(super) fn on_bye(&mut self, core: &mut Core, bye: &Message<'_>, now: Instant) {
        core.note_received(self.id, bye);
        let reason = String::from_utf8_lossy(bye.value(HeaderName::Reason).unwrap_or_default());
        let end = End::HungUpByPeer { reason: reason.into_owned() };
        match &self.state {
            // A BYE before the answer rejects the INVITE.
            State::Ringing(_) => self.refuse_invite(core, 487, b"", end, now),
            // A callee that has not answered cannot send a BYE. It rejects the INVITE.
            State::Calling(_) => {}
            _ => {
                self.part(core, now);
                core.tell(Event::Ended { call: self.id, end });
            }
        }
    }

    /// Sends a BYE and reports the end.
    pub(super) fn send_bye(&mut self, core: &mut Core, end: End, now: Instant) {
        self.send_bye_quietly(core, b"", now);
        core.tell(Event::Ended { call: self.id, end });
    }

    /// Sends a BYE with the header field lines `lines`, without an [`Event::Ended`].
    pub(super) fn send_bye_quietly(&mut self, core: &mut Core, lines: &[u8], now: Instant) {
        let State::Established(established) = &mut self.state else { return };
        if let Some(Turn::Ack(accepted)) = established.exchange.turn {
            acknowledge(core, self.id, &established.dialog, accepted, None, (b"", None));
        }
        let mut bye = Draft::within(self.account, &mut established.dialog, Method::Bye, Vec::new());
        bye.lines.extend_from_slice(lines);
        let dialog = Box::new(established.dialog.clone());
        let way = self.way_to(bye.dialog.next_hop());
        core.request(bye, Owner::Call(self.id), way, now);
        self.part(core, now);
        if matches!(self.state, State::Over) {
            self.state = State::Mortal(dialog);
        }
    }

    /// Ends this call, which another one replaces (RFC 3891 section 3).
    pub(crate) fn be_replaced(&mut self, core: &mut Core, by: CallId, now: Instant) {
        let end = End::Replaced { by };
        match &self.state {
            State::Calling(_) => self.take_back(core, b"", end, now),
            State::Established(_) => self.send_bye(core, end, now),
            State::Ringing(_)
            | State::Referred(_)
            | State::Leaving(_)
            | State::Mortal(_)
            | State::Over => {}
        }
    }

    /// Ends the call if `failure` means that the other end no longer knows it (RFC 3261 section
    /// 12.2.1.2).
    pub(super) fn ends_by(&mut self, core: &mut Core, failure: &Failure, now: Instant) -> bool {
        // Without a network the calls are kept until it is back, or the session timer ends them.
        let ends = is_gone(failure) && matches!(self.state, State::Established(_));
        if ends {
            self.send_bye(core, End::Failed(failure.clone()), now);
            // There is no peer to notify of a transfer.
            self.state = State::Over;
        }
        ends
    }

    pub(super) fn end(&mut self, core: &mut Core, end: End, now: Instant) {
        self.leave(core, now);
        core.tell(Event::Ended { call: self.id, end });
    }

    /// Makes the call over, and rejects the request that waits for the owner's decision.
    pub(super) fn leave(&mut self, core: &mut Core, now: Instant) {
        let tag = self.local_tag();
        match core::mem::replace(&mut self.state, State::Over) {
            State::Calling(calling) => {
                calling.early.into_iter().for_each(|early| early.exchange.abandon(core, &tag, now));
            }
            State::Ringing(ringing) => ringing.exchange.abandon(core, &tag, now),
            State::Established(established) => {
                established.exchange.abandon(core, &tag, now);
                established.referrals.abandon(core, &tag, now);
                // A pending INVITE with a provisional response has no timeout.
                core.cancel(self.id, b"", now);
            }
            State::Referred(_) | State::Leaving(_) | State::Mortal(_) | State::Over => {}
        }
    }
}
