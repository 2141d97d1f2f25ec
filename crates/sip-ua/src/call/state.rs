//! The state of a call.

use super::error::{CallError, CallState};
use super::exchange::{Exchange, Offer};
use super::probe::Probe;
use super::redirect::Redirects;
use super::referral::Referrals;
use super::reliable::Responses;
use super::timer::SessionTimer;
use crate::client_transaction::ClientId;
use crate::config::AccountId;
use crate::core::{Core, DialogKey, News};
use crate::envelope::Envelope;
use crate::event::{CallId, End};
use crate::server_transaction::{Asked, ServerKey};
use crate::way::{NextHop, keeps};
use alloc::boxed::Box;
use alloc::vec::Vec;
use sip::dialog::{Dialog, DialogId};
use sip::transaction::Timers;
use sip::{Duration, Flow, Instant, Message};

/// An outgoing call without an answer.
pub(super) struct Calling {
    /// The common part of its requests until there is an answer.
    pub(super) dialog: Dialog,
    /// The local offer. Empty if the other end makes the offer.
    pub(super) session: Vec<u8>,
    /// The early dialogs.
    pub(super) early: Vec<Early>,
    /// The number of early dialogs so far.
    pub(super) branches: u32,
    /// The early dialog with the current session, until there is an answer.
    pub(super) current: Option<u32>,
    /// The time at which the call is abandoned if it is not answered.
    pub(super) give_up: Instant,
    /// The reason for the cancellation, if the call is being cancelled.
    pub(super) ending: Option<End>,
    /// The number of 422 responses, which require a longer session interval.
    pub(super) briefs: u32,
    pub(super) redirects: Redirects,
}

/// An early dialog.
pub(super) struct Early {
    /// Its number, in the order of the first responses.
    pub(super) number: u32,
    pub(super) dialog: Dialog,
    pub(super) exchange: Exchange,
    /// The RSeq of the last reliable provisional response.
    pub(super) rseq: Option<u32>,
}

/// An incoming call without an answer.
pub(super) struct Ringing {
    pub(super) invite: Asked,
    /// The sequence number of the INVITE.
    pub(super) cseq: u32,
    pub(super) dialog: Dialog,
    pub(super) exchange: Exchange,
    pub(super) reliable: Responses,
    /// The time at which the call is abandoned.
    pub(super) give_up: Instant,
}

/// The state of an ended call with a pending transfer.
pub(super) struct Referred {
    pub(super) dialog: Dialog,
    pub(super) referrals: Referrals,
    /// The time at which it is abandoned.
    pub(super) until: Instant,
}

/// The state of a call that ends with its ACK.
pub(super) struct Leaving {
    pub(super) dialog: Dialog,
    pub(super) answer: Unacknowledged,
    /// The header field lines of the BYE.
    pub(super) lines: Vec<u8>,
}

pub(super) enum State {
    Calling(Box<Calling>),
    Ringing(Box<Ringing>),
    Established(Box<Established>),
    /// Ended, except for the notifications of a transfer.
    Referred(Box<Referred>),
    /// Ended, except for the BYE, which waits for an ACK.
    Leaving(Box<Leaving>),
    /// Ended, except for the local BYE, which waits for its response.
    Mortal(Box<Dialog>),
    /// Over. Its transactions answer what still arrives.
    Over,
}

/// The origin of an outgoing call.
pub(crate) struct Cause {
    /// The call of the peer that has requested this call. That peer is notified of the progress.
    pub(crate) referrer: Option<CallId>,
    /// Header field lines of the INVITE.
    pub(crate) lines: Vec<u8>,
    /// The flow of the INVITE, if its destination is not to be located.
    pub(crate) flow: Option<Flow>,
    /// True if reliable provisional responses are supported, as far as the configuration allows.
    pub(crate) is_reliable: bool,
    /// The body of the INVITE around the local offer.
    pub(crate) envelope: Option<Envelope>,
}

impl Default for Cause {
    fn default() -> Self {
        Self { referrer: None, lines: Vec::new(), flow: None, is_reliable: true, envelope: None }
    }
}

/// A call.
pub(crate) struct Call {
    pub(crate) id: CallId,
    /// The key of its dialogs.
    pub(crate) key: DialogKey,
    pub(crate) account: Option<AccountId>,
    /// True for an outgoing call.
    pub(crate) is_ours: bool,
    /// The minimum session interval that either end requires.
    pub(super) min_se: Duration,
    pub(super) state: State,
    /// True while the owner is asked for a session at a new address.
    pub(super) is_moved: bool,
    /// The flow for requests of the dialog, and the URI that it leads to.
    pub(super) way: Option<(Vec<u8>, Flow)>,
    /// The flow of the last message that created or refreshed the dialog.
    pub(super) last_flow: Option<Flow>,
    pub(super) cause: Cause,
    /// The call that this call replaces when it is answered.
    pub(crate) replaces: Option<CallId>,
    /// The last incoming call that replaces this call when it is answered.
    pub(crate) replacement: Option<CallId>,
    /// True if the call no longer counts, since it has ended.
    pub(crate) is_counted_out: bool,
}

/// The state of an established call.
pub(super) struct Established {
    pub(super) dialog: Dialog,
    /// The local 2xx to an INVITE, which is retransmitted until its ACK arrives.
    pub(super) unacknowledged: Option<Unacknowledged>,
    /// True if the other end has answered, or has acknowledged the first local answer.
    pub(super) is_confirmed: bool,
    pub(super) exchange: Exchange,
    /// The number of the branch that has answered a placed call.
    pub(super) branch: Option<u32>,
    /// The RSeq of a local provisional response that was sent before the answer and is not
    /// acknowledged, and the CSeq of its INVITE.
    pub(super) unpracked: Option<(u32, u32)>,
    pub(super) timer: Option<SessionTimer>,
    pub(super) probe: Option<Probe>,
    pub(super) referrals: Referrals,
}

/// A 2xx to an INVITE that waits for its ACK (RFC 3261 section 13.3.1.4).
pub(super) struct Unacknowledged {
    pub(super) key: ServerKey,
    pub(super) cseq: u32,
    /// True if the ACK carries the answer to a local offer.
    pub(super) wants_answer: bool,
    pub(super) again: Instant,
    pub(super) interval: Duration,
    pub(super) give_up: Instant,
    /// True if the ACK would go to a previous local address. Then no offer waits for it.
    pub(super) is_astray: bool,
}

impl Unacknowledged {
    pub(super) fn new(
        key: ServerKey,
        cseq: u32,
        wants_answer: bool,
        timers: &Timers,
        now: Instant,
    ) -> Self {
        Self {
            key,
            cseq,
            wants_answer,
            again: now + timers.t1,
            interval: timers.t1,
            give_up: now + timers.t1.times(64),
            is_astray: false,
        }
    }

    /// Sends the 2xx again when due.
    pub(super) fn retransmit(&mut self, core: &mut Core, now: Instant) {
        if self.again <= now {
            let timers = core.config.timers;
            self.interval = self.interval.times(2).min(timers.t2.max(timers.t1));
            self.again = now + self.interval;
            core.send_again(self.key);
        }
    }
}

impl Established {
    pub(super) fn new(dialog: Dialog, exchange: Exchange) -> Self {
        Self {
            dialog,
            unacknowledged: None,
            is_confirmed: true,
            exchange,
            branch: None,
            unpracked: None,
            timer: None,
            probe: None,
            referrals: Referrals::default(),
        }
    }

    /// Returns the time of the next timer. `is_free` is true if the session may be refreshed.
    pub(super) fn next_timer(&self, is_free: bool) -> Option<Instant> {
        let answer = self.unacknowledged.as_ref().map(|answer| answer.again.min(answer.give_up));
        let timer = self.timer.as_ref().map(|timer| timer.next(is_free));
        let probe = self.probe.as_ref().map(|probe| probe.at);
        [answer, timer, probe, self.exchange.trying()].into_iter().flatten().min()
    }
}

impl Calling {
    /// Returns the exchange that the INVITE has started, with a local or a requested offer.
    pub(super) fn exchange(&self) -> Exchange {
        let offer = if self.session.is_empty() { Offer::None } else { Offer::Ours };
        Exchange::new(offer, &self.session, b"")
    }

    /// Returns the early dialog with the current session.
    pub(super) fn current(&self) -> Option<&Early> {
        self.early.iter().find(|early| Some(early.number) == self.current)
    }
}

impl Call {
    /// Returns true if the call is over.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Returns true if the owner was informed of the end.
    pub(crate) const fn has_ended(&self) -> bool {
        matches!(
            self.state,
            State::Referred(_) | State::Leaving(_) | State::Mortal(_) | State::Over
        )
    }

    /// Returns true if the call is established.
    pub(crate) const fn is_established(&self) -> bool {
        matches!(self.state, State::Established(_))
    }

    /// Returns true if the call is established, and no local answer to an INVITE waits for its
    /// first ACK.
    pub(crate) fn is_confirmed(&self) -> bool {
        matches!(&self.state, State::Established(established) if established.is_confirmed)
    }

    /// Returns true for an incoming call that has not ended.
    pub(crate) const fn is_of_others(&self) -> bool {
        !self.is_ours && !self.has_ended()
    }

    /// Returns true for an incoming call that is not answered.
    pub(crate) const fn is_ringing_here(&self) -> bool {
        matches!(self.state, State::Ringing(_))
    }

    /// Returns the dialog of an answered call, or of a call that rings here.
    pub(crate) fn dialog(&self) -> Option<&Dialog> {
        match &self.state {
            State::Ringing(ringing) => Some(&ringing.dialog),
            State::Established(established) => Some(&established.dialog),
            _ => None,
        }
    }

    /// Returns the INVITE of an incoming call that is not answered.
    pub(crate) fn invite_of_caller(&self) -> Option<&[u8]> {
        match &self.state {
            State::Ringing(ringing) => Some(&ringing.invite.request),
            _ => None,
        }
    }

    /// Returns true if the dialog `id` belongs to this call.
    pub(crate) fn has(&self, id: DialogId<'_>) -> bool {
        match &self.state {
            State::Calling(calling) => calling.early.iter().any(|early| early.dialog.id() == id),
            State::Ringing(ringing) => ringing.dialog.id() == id,
            State::Established(established) => established.dialog.id() == id,
            State::Referred(referred) => referred.dialog.id() == id,
            State::Leaving(leaving) => leaving.dialog.id() == id,
            State::Mortal(dialog) => dialog.id() == id,
            State::Over => false,
        }
    }

    /// Returns the dialog of the received `message`, and its session.
    pub(super) fn parts_of(
        &mut self,
        message: &Message<'_>,
    ) -> Option<(&mut Dialog, &mut Exchange)> {
        let id = DialogId::of(message).ok()?;
        self.all_parts().find(|(dialog, _)| dialog.id() == id)
    }

    /// Returns the dialog with a session that waits for the owner's decision.
    pub(super) fn asked(&mut self) -> Option<(&mut Dialog, &mut Exchange)> {
        self.all_parts().find(|(_, exchange)| exchange.turn.is_some())
    }

    /// Returns the dialog with the pending local offer `id`.
    pub(super) fn offering(&mut self, id: ClientId) -> Option<(&mut Dialog, &mut Exchange)> {
        self.all_parts().find(|(_, exchange)| exchange.sent.as_ref().is_some_and(|s| s.id == id))
    }

    pub(super) fn all_parts(&mut self) -> impl Iterator<Item = (&mut Dialog, &mut Exchange)> {
        let (early, one) = match &mut self.state {
            State::Calling(calling) => (&mut calling.early[..], None),
            State::Ringing(ringing) => {
                (&mut [][..], Some((&mut ringing.dialog, &mut ringing.exchange)))
            }
            State::Established(established) => {
                (&mut [][..], Some((&mut established.dialog, &mut established.exchange)))
            }
            State::Referred(_) | State::Leaving(_) | State::Mortal(_) | State::Over => {
                (&mut [][..], None)
            }
        };
        early.iter_mut().map(|early| (&mut early.dialog, &mut early.exchange)).chain(one)
    }

    /// Returns the number of the early dialog that has, or had, the current session.
    pub(crate) fn branch(&self) -> Option<u32> {
        match &self.state {
            State::Calling(calling) => calling.current,
            State::Established(established) => established.branch,
            State::Ringing(_)
            | State::Referred(_)
            | State::Leaving(_)
            | State::Mortal(_)
            | State::Over => None,
        }
    }

    /// Returns the current session.
    pub(super) fn current(&self) -> Option<&Exchange> {
        match &self.state {
            State::Calling(calling) => calling.current().map(|early| &early.exchange),
            State::Ringing(ringing) => Some(&ringing.exchange),
            State::Established(established) => Some(&established.exchange),
            State::Referred(_) | State::Leaving(_) | State::Mortal(_) | State::Over => None,
        }
    }

    /// Returns the dialog with the current session, and that session.
    pub(super) fn current_mut(&mut self) -> Option<(&mut Dialog, &mut Exchange)> {
        let current = match &self.state {
            State::Calling(calling) => {
                calling.early.iter().position(|early| Some(early.number) == calling.current)?
            }
            _ => 0,
        };
        self.all_parts().nth(current)
    }

    /// Makes the session of the early dialog of the received `message` current.
    pub(super) fn make_current(&mut self, message: &Message<'_>) {
        let Ok(id) = DialogId::of(message) else { return };
        if let State::Calling(calling) = &mut self.state
            && let Some(early) = calling.early.iter().find(|early| early.dialog.id() == id)
        {
            calling.current = Some(early.number);
        }
    }

    /// Records the flow of a message that has created or refreshed the dialog with the next hop
    /// `next`. `asked` is the URI that it was sent to.
    pub(super) fn note_way(&mut self, next: NextHop<'_>, flow: Option<Flow>, asked: Option<&[u8]>) {
        if let Some(flow) = flow {
            self.last_flow = Some(flow);
            self.way = keeps(&flow, asked, next).then(|| (next.uri.to_vec(), flow));
        }
    }

    /// Returns the flow to `next_hop`, if known.
    pub(super) fn way_to(&self, next_hop: &[u8]) -> Option<Flow> {
        // Nothing else leads to the proxy at the other end of an internal flow.
        if let Some(flow) = self.last_flow.or(self.cause.flow).filter(Flow::is_internal) {
            return Some(flow);
        }
        let (known, flow) = self.way.as_ref()?;
        (known == next_hop).then_some(*flow)
    }

    /// Returns the flow of the call's messages, if known.
    pub(crate) const fn flow(&self) -> Option<Flow> {
        self.last_flow
    }

    /// Returns the local tag.
    pub(crate) fn local_tag(&self) -> Vec<u8> {
        match &self.state {
            State::Ringing(ringing) => ringing.dialog.id().local_tag.to_vec(),
            State::Established(established) => established.dialog.id().local_tag.to_vec(),
            State::Calling(calling) => calling.dialog.id().local_tag.to_vec(),
            State::Referred(referred) => referred.dialog.id().local_tag.to_vec(),
            State::Leaving(leaving) => leaving.dialog.id().local_tag.to_vec(),
            State::Mortal(dialog) => dialog.id().local_tag.to_vec(),
            State::Over => Vec::new(),
        }
    }

    pub(super) fn established(&mut self) -> Result<&mut Established, CallError> {
        match &mut self.state {
            State::Established(established) => Ok(established),
            _ => Err(CallError::State(CallState::Established)),
        }
    }

    /// Returns true if the other end has to acknowledge a response before an offer can be made.
    pub(super) fn waits_for_peer(&self) -> bool {
        match &self.state {
            State::Established(established) => {
                established.unacknowledged.as_ref().is_some_and(|answer| !answer.is_astray)
            }
            State::Ringing(ringing) => ringing.reliable.is_waiting(),
            State::Calling(_)
            | State::Referred(_)
            | State::Leaving(_)
            | State::Mortal(_)
            | State::Over => false,
        }
    }

    /// Returns true if an offer can be made at once.
    pub(super) fn is_free(&self) -> bool {
        let is_free = |exchange: &Exchange| exchange.offer == Offer::None && !exchange.is_open();
        self.current().is_some_and(is_free) && !self.waits_for_peer()
    }

    /// Reports the progress of this call to the call that has requested it, if any.
    pub(super) fn tell_news(&self, core: &mut Core, status: u16) {
        if let Some(to) = self.cause.referrer {
            core.news.push(News { to, status });
        }
    }
}
