//! Calls: what an INVITE begins, at either end.

mod early;
mod established;
mod exchange;
mod incoming;
mod info;
mod moved;
mod outgoing;
mod redirect;
mod reliable;
mod timer;
mod transfer;

use crate::client::{ClientId, Draft, SESSION_TYPE};
use crate::config::AccountId;
use crate::core::Core;
use crate::event::{CallId, End, Event};
use crate::option_tags;
use crate::server::ServerKey;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use early::Early;
use established::Established;
use exchange::Exchange;
pub(crate) use outgoing::{dialog_to as outgoing_dialog, refuse_answer};
use redirect::Redirects;
use reliable::Responses;
use sip::dialog::Dialog;
use sip::header::media_type;
use sip::{Duration, Flow, HeaderName, Instant, Message, Method};
pub(crate) use transfer::News;

/// What we take, for Allow and for a 405.
pub(crate) const ALLOW: &[u8] =
    b"Allow: INVITE, ACK, CANCEL, BYE, OPTIONS, PRACK, UPDATE, INFO, MESSAGE, REFER, NOTIFY\r\n";

/// Why a command for a call is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// The call is over, or never was.
    Unknown,
    /// The call is not so far: what it would have to be.
    State(&'static str),
    /// A change of the session is under way, of this end or the other.
    OfferPending,
    /// There is no such account, or the URI leads nowhere.
    Uri,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such call any more"),
            Self::State(wanted) => write!(f, "the call would have to be {wanted}"),
            Self::OfferPending => f.write_str("the session is being changed already"),
            Self::Uri => f.write_str("expected an account and a SIP URI"),
        }
    }
}

impl core::error::Error for CallError {}

/// A change of the session that is under way (RFC 3264).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offer {
    /// None.
    None,
    /// This end has offered.
    Ours,
    /// The other end has.
    Theirs,
}

/// A request that is to be answered.
pub(crate) struct Asked {
    pub(crate) request: Vec<u8>,
    pub(crate) flow: Flow,
    pub(crate) key: ServerKey,
}

/// A call of ours that has no answer.
struct Calling {
    /// What its requests have in common until there is an answer.
    dialog: Dialog,
    /// Our offer; empty where one is wanted of the other end.
    session: Vec<u8>,
    /// Those that have rung.
    early: Vec<Early>,
    /// How many of them there have been.
    branches: u32,
    /// The one whose session counts until there is an answer.
    current: Option<u32>,
    /// When it is given up, unless it is answered.
    give_up: Instant,
    /// Why it is being taken back.
    ending: Option<End>,
    /// How often more time was wanted than we have asked for.
    briefs: u32,
    redirects: Redirects,
}

/// A call of others that we have not answered.
struct Ringing {
    invite: Asked,
    /// Its CSeq.
    cseq: u32,
    dialog: Dialog,
    exchange: Exchange,
    reliable: Responses,
    /// When it is given up.
    give_up: Instant,
}

enum State {
    Calling(Box<Calling>),
    Ringing(Box<Ringing>),
    Established(Box<Established>),
    /// Over; what is still to come is answered by transactions alone.
    Over,
}

/// One call.
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) account: Option<AccountId>,
    /// Whether we have placed it.
    is_ours: bool,
    /// The least time without a refresh that either end wants.
    min_se: Duration,
    state: State,
    /// Whether the owner is asked for the session at a new address.
    is_moved: bool,
    /// The way that requests of the dialog go, and the URI that it leads to.
    way: Option<(Vec<u8>, Flow)>,
    /// The call whose other end has wished for this one, and is told how it goes.
    referrer: Option<CallId>,
    /// Header field lines of the INVITE that come of that wish.
    wish: Vec<u8>,
    /// The call whose place this one takes when it is answered.
    pub(crate) replaces: Option<CallId>,
}

impl Call {
    /// Whether there is nothing more to do for it.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Whether it stands.
    pub(crate) const fn is_established(&self) -> bool {
        matches!(self.state, State::Established(_))
    }

    /// Whether it stands, and no answer of ours to an INVITE waits for its first ACK.
    pub(crate) fn is_confirmed(&self) -> bool {
        matches!(&self.state, State::Established(established) if established.is_confirmed)
    }

    /// Whether others have begun it.
    pub(crate) const fn is_of_others(&self) -> bool {
        !self.is_ours
    }

    /// Whether others have begun it, and it is not answered.
    pub(crate) const fn is_ringing_here(&self) -> bool {
        matches!(self.state, State::Ringing(_))
    }

    /// Whether `message`, which came in, is of this call.
    pub(crate) fn has(&self, message: &Message<'_>) -> bool {
        let Ok(id) = sip::dialog::DialogId::of(message) else { return false };
        match &self.state {
            State::Calling(calling) => calling.early.iter().any(|early| early.dialog.id() == id),
            State::Ringing(ringing) => ringing.dialog.id() == id,
            State::Established(established) => established.dialog.id() == id,
            State::Over => false,
        }
    }

    /// Tells whoever has wished for this call how it goes.
    fn tell_news(&self, core: &mut Core, status: u16) {
        if let Some(to) = self.referrer {
            core.news.push(News { to, status });
        }
    }

    fn end(&mut self, core: &mut Core, end: End, now: Instant) {
        self.leave(core, now);
        core.tell(Event::Ended { call: self.id, end });
    }

    /// Makes it over, and refuses what waits for the owner's word.
    fn leave(&mut self, core: &mut Core, now: Instant) {
        let tag = self.local_tag();
        match core::mem::replace(&mut self.state, State::Over) {
            State::Calling(calling) => {
                calling.early.into_iter().for_each(|early| early.exchange.abandon(core, &tag, now));
            }
            State::Ringing(ringing) => ringing.exchange.abandon(core, &tag, now),
            State::Established(established) => {
                established.exchange.abandon(core, &tag, now);
                established.referrals.abandon(core, &tag, now);
                // An INVITE that the other end has taken note of waits for its answer for as long
                // as it likes.
                core.cancel(self.id, now);
            }
            State::Over => {}
        }
    }

    /// The dialog of `message`, which came in, and the session of it.
    fn parts_of(&mut self, message: &Message<'_>) -> Option<(&mut Dialog, &mut Exchange)> {
        let id = sip::dialog::DialogId::of(message).ok()?;
        self.all_parts().find(|(dialog, _)| dialog.id() == id)
    }

    /// That whose session waits for the owner's word.
    fn asked(&mut self) -> Option<(&mut Dialog, &mut Exchange)> {
        self.all_parts().find(|(_, exchange)| exchange.turn.is_some())
    }

    /// That in which our offer `id` is under way.
    fn offering(&mut self, id: ClientId) -> Option<(&mut Dialog, &mut Exchange)> {
        self.all_parts().find(|(_, exchange)| exchange.sent.as_ref().is_some_and(|s| s.id == id))
    }

    fn all_parts(&mut self) -> impl Iterator<Item = (&mut Dialog, &mut Exchange)> {
        let (early, one) = match &mut self.state {
            State::Calling(calling) => (&mut calling.early[..], None),
            State::Ringing(ringing) => {
                (&mut [][..], Some((&mut ringing.dialog, &mut ringing.exchange)))
            }
            State::Established(established) => {
                (&mut [][..], Some((&mut established.dialog, &mut established.exchange)))
            }
            State::Over => (&mut [][..], None),
        };
        early.iter_mut().map(|early| (&mut early.dialog, &mut early.exchange)).chain(one)
    }

    /// The session that counts.
    fn current(&self) -> Option<&Exchange> {
        match &self.state {
            State::Calling(calling) => calling.current().map(|early| &early.exchange),
            State::Ringing(ringing) => Some(&ringing.exchange),
            State::Established(established) => Some(&established.exchange),
            State::Over => None,
        }
    }

    /// The dialog whose session counts, with that.
    fn current_mut(&mut self) -> Option<(&mut Dialog, &mut Exchange)> {
        let current = match &self.state {
            State::Calling(calling) => {
                calling.early.iter().position(|early| Some(early.number) == calling.current)?
            }
            _ => 0,
        };
        self.all_parts().nth(current)
    }

    /// The session of the early dialog that `message` came in counts from now on.
    fn make_current(&mut self, message: &Message<'_>) {
        let Ok(id) = sip::dialog::DialogId::of(message) else { return };
        if let State::Calling(calling) = &mut self.state
            && let Some(early) = calling.early.iter().find(|early| early.dialog.id() == id)
        {
            calling.current = Some(early.number);
        }
    }

    /// Remembers the way that a request of `dialog` has gone.
    fn note_way(&mut self, next_hop: &[u8], flow: Option<Flow>) {
        if let Some(flow) = flow {
            self.way = Some((next_hop.to_vec(), flow));
        }
    }

    /// The way to `next_hop`, if it is known.
    fn way_to(&self, next_hop: &[u8]) -> Option<Flow> {
        let (known, flow) = self.way.as_ref()?;
        (known == next_hop).then_some(*flow)
    }

    /// Hangs up, takes back, or refuses: whatever ends it.
    pub(crate) fn hang_up(&mut self, core: &mut Core, now: Instant) {
        match &mut self.state {
            State::Calling(_) => self.take_back(core, End::HungUp, now),
            State::Ringing(_) => self.decline(core, 603, now),
            State::Established(_) => self.send_bye(core, End::HungUp, now),
            State::Over => {}
        }
    }

    pub(crate) fn on_timer(&mut self, core: &mut Core, now: Instant) {
        self.poll_offer(core, now);
        match &mut self.state {
            State::Calling(calling) if calling.give_up <= now && calling.ending.is_none() => {
                self.take_back(core, End::NotAnswered, now);
            }
            State::Ringing(ringing) if ringing.give_up <= now => {
                self.refuse_invite(core, 480, End::NotAnswered, now);
            }
            State::Ringing(_) => self.poll_ring(core, now),
            State::Established(_) => {
                self.poll_answer(core, now);
                self.poll_timer(core, now);
            }
            _ => {}
        }
    }

    pub(crate) fn next_timer(&self) -> Option<Instant> {
        let next = match &self.state {
            State::Calling(calling) if calling.ending.is_none() => Some(calling.give_up),
            State::Ringing(ringing) => {
                [Some(ringing.give_up), ringing.reliable.next_timer()].into_iter().flatten().min()
            }
            State::Established(established) => established.next_timer(self.is_free()),
            State::Calling(_) | State::Over => None,
        };
        [next, self.next_offer()].into_iter().flatten().min()
    }
}

/// Lines that say what we take: Allow and Supported.
fn abilities(core: &Core) -> Vec<u8> {
    [ALLOW, &option_tags::supported_line(&core.config)].concat()
}

/// The session description of a message, if that is its body.
pub(crate) fn session_of(message: &Message<'_>) -> Option<Vec<u8>> {
    let body = message.body();
    let is_session = message
        .value(HeaderName::ContentType)
        .and_then(|value| media_type(value).ok())
        .is_some_and(|kind| kind.is("application", "sdp"));
    (is_session && !body.is_empty()).then(|| body.to_vec())
}

/// A request within `dialog`.
fn draft(
    account: Option<AccountId>,
    dialog: &mut Dialog,
    method: Method<'static>,
    body: Vec<u8>,
) -> Draft {
    let cseq = dialog.next_cseq();
    let refreshes = matches!(method, Method::Invite | Method::Update | Method::Refer);
    Draft {
        cseq,
        dialog: dialog.clone(),
        method,
        account,
        contact: refreshes.then(Vec::new),
        lines: if refreshes { ALLOW.to_vec() } else { Vec::new() },
        body,
        body_type: SESSION_TYPE,
    }
}
