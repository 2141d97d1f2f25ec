//! What is remembered of a call.

use super::ack::SentAck;
use super::error::CallError;
use super::exchange::{Exchange, Offer};
use super::redirect::Redirects;
use super::referral::Referrals;
use super::referred::Referred;
use super::reliable::Responses;
use super::timer::SessionTimer;
use crate::client_transaction::ClientId;
use crate::config::AccountId;
use crate::core::{Core, News};
use crate::event::{CallId, End};
use crate::server_transaction::{Asked, ServerKey};
use crate::way::{NextHop, keeps};
use alloc::boxed::Box;
use alloc::vec::Vec;
use sip::dialog::{Dialog, DialogId};
use sip::transaction::Timers;
use sip::{Duration, Flow, Instant, Message};

/// A call of ours that has no answer.
pub(super) struct Calling {
    /// What its requests have in common until there is an answer.
    pub(super) dialog: Dialog,
    /// Our offer; empty where one is wanted of the other end.
    pub(super) session: Vec<u8>,
    /// Those that have rung.
    pub(super) early: Vec<Early>,
    /// How many of them there have been.
    pub(super) branches: u32,
    /// The one whose session counts until there is an answer.
    pub(super) current: Option<u32>,
    /// When it is given up, unless it is answered.
    pub(super) give_up: Instant,
    /// Why it is being taken back.
    pub(super) ending: Option<End>,
    /// How often more time was wanted than we have asked for.
    pub(super) briefs: u32,
    pub(super) redirects: Redirects,
}

/// An early dialog.
pub(super) struct Early {
    /// By the order in which they came.
    pub(super) number: u32,
    pub(super) dialog: Dialog,
    pub(super) exchange: Exchange,
    /// The RSeq of the last reliable provisional response.
    pub(super) rseq: Option<u32>,
}

/// A call of others that we have not answered.
pub(super) struct Ringing {
    pub(super) invite: Asked,
    /// Its CSeq.
    pub(super) cseq: u32,
    pub(super) dialog: Dialog,
    pub(super) exchange: Exchange,
    pub(super) reliable: Responses,
    /// When it is given up.
    pub(super) give_up: Instant,
}

pub(super) enum State {
    Calling(Box<Calling>),
    Ringing(Box<Ringing>),
    Established(Box<Established>),
    /// Ended, but for what is told of a transfer.
    Referred(Box<Referred>),
    /// Over; what is still to come is answered by transactions alone.
    Over,
}

/// What a call that we place comes of.
#[derive(Default)]
pub(crate) struct Cause {
    /// The call whose other end has wished for it, and is told how it goes.
    pub(crate) referrer: Option<CallId>,
    /// Header field lines of its INVITE.
    pub(crate) lines: Vec<u8>,
}

/// One call.
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) account: Option<AccountId>,
    /// Whether we have placed it.
    pub(super) is_ours: bool,
    /// The least time without a refresh that either end wants.
    pub(super) min_se: Duration,
    pub(super) state: State,
    /// Whether the owner is asked for the session at a new address.
    pub(super) is_moved: bool,
    /// The way that requests of the dialog go, and the URI that it leads to.
    pub(super) way: Option<(Vec<u8>, Flow)>,
    /// The way of the last message that made or changed the dialog.
    pub(super) last_flow: Option<Flow>,
    pub(super) cause: Cause,
    /// The call whose place this one takes when it is answered.
    pub(crate) replaces: Option<CallId>,
}

/// What belongs to a call that stands.
pub(super) struct Established {
    pub(super) dialog: Dialog,
    /// Our 2xx to an INVITE, sent until its ACK comes.
    pub(super) unacknowledged: Option<Unacknowledged>,
    /// Whether the other end has answered, or acknowledged our first answer.
    pub(super) is_confirmed: bool,
    /// Our last ACK, with the number of its INVITE: it is sent again when the 2xx comes again.
    pub(super) ack: Option<SentAck>,
    pub(super) exchange: Exchange,
    /// The RSeq of a provisional response of ours that the answer has overtaken, and the CSeq of
    /// its INVITE.
    pub(super) unpracked: Option<(u32, u32)>,
    pub(super) timer: Option<SessionTimer>,
    pub(super) referrals: Referrals,
}

/// A 2xx to an INVITE that waits for its ACK (RFC 3261 section 13.3.1.4).
pub(super) struct Unacknowledged {
    pub(super) key: ServerKey,
    pub(super) cseq: u32,
    /// Whether the ACK has the answer to our offer.
    pub(super) wants_answer: bool,
    pub(super) again: Instant,
    pub(super) interval: Duration,
    pub(super) give_up: Instant,
    /// Whether the ACK would come to an address that we had before: then nothing waits for it.
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
}

impl Established {
    pub(super) fn new(dialog: Dialog, exchange: Exchange) -> Self {
        Self {
            dialog,
            unacknowledged: None,
            is_confirmed: true,
            ack: None,
            exchange,
            unpracked: None,
            timer: None,
            referrals: Referrals::default(),
        }
    }

    /// `is_free`: the session may be refreshed.
    pub(super) fn next_timer(&self, is_free: bool) -> Option<Instant> {
        let answer = self.unacknowledged.as_ref().map(|answer| answer.again.min(answer.give_up));
        let timer = self.timer.as_ref().map(|timer| timer.next(is_free));
        [answer, timer].into_iter().flatten().min()
    }
}

impl Calling {
    /// The offer that the INVITE has made, or asked for.
    pub(super) fn exchange(&self) -> Exchange {
        let offer = if self.session.is_empty() { Offer::None } else { Offer::Ours };
        Exchange::new(offer, &self.session, b"")
    }

    /// The one whose session counts.
    pub(super) fn current(&self) -> Option<&Early> {
        self.early.iter().find(|early| Some(early.number) == self.current)
    }
}

impl Call {
    /// Whether there is nothing more to do for it.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Whether the owner was told that it has ended.
    pub(crate) const fn has_ended(&self) -> bool {
        matches!(self.state, State::Referred(_) | State::Over)
    }

    /// Whether it stands.
    pub(crate) const fn is_established(&self) -> bool {
        matches!(self.state, State::Established(_))
    }

    /// Whether it stands, and no answer of ours to an INVITE waits for its first ACK.
    pub(crate) fn is_confirmed(&self) -> bool {
        matches!(&self.state, State::Established(established) if established.is_confirmed)
    }

    /// Whether others have begun it, and it has not ended.
    pub(crate) const fn is_of_others(&self) -> bool {
        !self.is_ours && !self.has_ended()
    }

    /// Whether others have begun it, and it is not answered.
    pub(crate) const fn is_ringing_here(&self) -> bool {
        matches!(self.state, State::Ringing(_))
    }

    /// Whether `message`, which came in, is of this call.
    pub(crate) fn has(&self, message: &Message<'_>) -> bool {
        let Ok(id) = DialogId::of(message) else { return false };
        match &self.state {
            State::Calling(calling) => calling.early.iter().any(|early| early.dialog.id() == id),
            State::Ringing(ringing) => ringing.dialog.id() == id,
            State::Established(established) => established.dialog.id() == id,
            State::Referred(referred) => referred.dialog.id() == id,
            State::Over => false,
        }
    }

    /// The dialog of `message`, which came in, and the session of it.
    pub(super) fn parts_of(
        &mut self,
        message: &Message<'_>,
    ) -> Option<(&mut Dialog, &mut Exchange)> {
        let id = DialogId::of(message).ok()?;
        self.all_parts().find(|(dialog, _)| dialog.id() == id)
    }

    /// That whose session waits for the owner's word.
    pub(super) fn asked(&mut self) -> Option<(&mut Dialog, &mut Exchange)> {
        self.all_parts().find(|(_, exchange)| exchange.turn.is_some())
    }

    /// That in which our offer `id` is under way.
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
            State::Referred(_) | State::Over => (&mut [][..], None),
        };
        early.iter_mut().map(|early| (&mut early.dialog, &mut early.exchange)).chain(one)
    }

    /// The session that counts.
    pub(super) fn current(&self) -> Option<&Exchange> {
        match &self.state {
            State::Calling(calling) => calling.current().map(|early| &early.exchange),
            State::Ringing(ringing) => Some(&ringing.exchange),
            State::Established(established) => Some(&established.exchange),
            State::Referred(_) | State::Over => None,
        }
    }

    /// The dialog whose session counts, with that.
    pub(super) fn current_mut(&mut self) -> Option<(&mut Dialog, &mut Exchange)> {
        let current = match &self.state {
            State::Calling(calling) => {
                calling.early.iter().position(|early| Some(early.number) == calling.current)?
            }
            _ => 0,
        };
        self.all_parts().nth(current)
    }

    /// The session of the early dialog that `message` came in counts from now on.
    pub(super) fn make_current(&mut self, message: &Message<'_>) {
        let Ok(id) = DialogId::of(message) else { return };
        if let State::Calling(calling) = &mut self.state
            && let Some(early) = calling.early.iter().find(|early| early.dialog.id() == id)
        {
            calling.current = Some(early.number);
        }
    }

    /// Remembers the way of a message that has made or changed the dialog with the next hop `next`;
    /// `asked` is the URI that it was sent to.
    pub(super) fn note_way(&mut self, next: NextHop<'_>, flow: Option<Flow>, asked: Option<&[u8]>) {
        if let Some(flow) = flow {
            self.last_flow = Some(flow);
            self.way = keeps(&flow, asked, next).then(|| (next.uri.to_vec(), flow));
        }
    }

    /// The way to `next_hop`, if it is known.
    pub(super) fn way_to(&self, next_hop: &[u8]) -> Option<Flow> {
        let (known, flow) = self.way.as_ref()?;
        (known == next_hop).then_some(*flow)
    }

    /// The way that its messages go, as far as it is known.
    pub(crate) const fn flow(&self) -> Option<Flow> {
        self.last_flow
    }

    /// An ACK was sent whose way was looked for.
    pub(crate) fn note_ack(&mut self, ack: SentAck) {
        if let State::Established(established) = &mut self.state {
            established.ack = Some(ack);
        }
    }

    /// The tag of this end.
    pub(crate) fn local_tag(&self) -> Vec<u8> {
        match &self.state {
            State::Ringing(ringing) => ringing.dialog.id().local_tag.to_vec(),
            State::Established(established) => established.dialog.id().local_tag.to_vec(),
            State::Calling(calling) => calling.dialog.id().local_tag.to_vec(),
            State::Referred(referred) => referred.dialog.id().local_tag.to_vec(),
            State::Over => Vec::new(),
        }
    }

    pub(super) fn established(&mut self) -> Result<&mut Established, CallError> {
        match &mut self.state {
            State::Established(established) => Ok(established),
            _ => Err(CallError::State("established")),
        }
    }

    /// Whether the other end has to acknowledge something before an offer can be made.
    pub(super) fn waits_for_peer(&self) -> bool {
        match &self.state {
            State::Established(established) => {
                established.unacknowledged.as_ref().is_some_and(|answer| !answer.is_astray)
            }
            State::Ringing(ringing) => ringing.reliable.is_waiting(),
            State::Calling(_) | State::Referred(_) | State::Over => false,
        }
    }

    /// Whether nothing has to be settled before an offer is made.
    pub(super) fn is_free(&self) -> bool {
        let is_free = |exchange: &Exchange| exchange.offer == Offer::None && !exchange.is_open();
        self.current().is_some_and(is_free) && !self.waits_for_peer()
    }

    /// Tells whoever has wished for this call how it goes.
    pub(super) fn tell_news(&self, core: &mut Core, status: u16) {
        if let Some(to) = self.cause.referrer {
            core.news.push(News { to, status });
        }
    }
}
