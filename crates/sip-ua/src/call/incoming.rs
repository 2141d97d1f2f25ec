//! Calls that others place (RFC 3261 section 13.3).

use super::established::{Established, Unacknowledged};
use super::{ALLOW, Asked, Call, CallError, Ringing, State, session_of};
use crate::config::AccountId;
use crate::core::{Core, contact};
use crate::event::{CallId, End, Event};
use crate::server::Answer;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use sip::dialog::Dialog;
use sip::{Emit, HeaderName, Instant, Message};

impl Call {
    /// An INVITE has come. `Err` with the status to refuse it with.
    pub(crate) fn take(
        core: &mut Core,
        id: CallId,
        account: Option<AccountId>,
        invite: &Message<'_>,
        asked: Asked,
        replaces: Option<CallId>,
        now: Instant,
    ) -> Result<Self, u16> {
        let mut tag = Vec::new();
        core.tokens.next().emit(&mut tag);
        let dialog = Dialog::of_request(invite, &tag).map_err(|error| error.status())?;
        let offer = session_of(invite);
        if offer.is_none() && !invite.body().is_empty() {
            return Err(415);
        }
        core.belongs(asked.key, id);
        let from = String::from_utf8_lossy(invite.value(HeaderName::From).unwrap_or_default());
        let event = Event::Incoming {
            call: id,
            account,
            from: from.into_owned(),
            flow: asked.flow,
            offer: offer.clone(),
            replaces,
        };
        core.tell(event);
        let ringing = Ringing {
            invite: asked,
            dialog,
            give_up: now + core.config.ringing,
            has_offer: offer.is_some(),
        };
        Ok(Self {
            id,
            account,
            state: State::Ringing(ringing),
            way: None,
            referrer: None,
            replaces,
        })
    }

    /// Tells the caller that it rings, or with `session` that there is early media.
    pub(crate) fn ring(
        &mut self,
        core: &mut Core,
        session: &[u8],
        now: Instant,
    ) -> Result<(), CallError> {
        let State::Ringing(ringing) = &self.state else { return Err(CallError::State("ringing")) };
        let status = if session.is_empty() { 180 } else { 183 };
        respond_to_invite(core, self.account, ringing, status, session, now);
        Ok(())
    }

    /// Answers the call with `session`: an answer, or our offer where the INVITE had none.
    pub(crate) fn answer(
        &mut self,
        core: &mut Core,
        session: &[u8],
        now: Instant,
    ) -> Result<(), CallError> {
        let State::Ringing(ringing) = &self.state else { return Err(CallError::State("ringing")) };
        respond_to_invite(core, self.account, ringing, 200, session, now);
        let mut dialog = ringing.dialog.clone();
        dialog.confirm();
        let Ok(invite) = Message::parse(&ringing.invite.request) else {
            return Err(CallError::Unknown);
        };
        let flow = ringing.invite.flow;
        let cseq = invite.value(HeaderName::CSeq).and_then(|v| sip::header::CSeq::parse(v).ok());
        let mut established = Established::new(dialog);
        established.unacknowledged = Some(Unacknowledged::new(
            ringing.invite.key,
            cseq.map_or(0, |cseq| cseq.number),
            !ringing.has_offer,
            &core.config.timers,
            now,
        ));
        let next_hop = established.dialog.next_hop().to_vec();
        self.state = State::Established(Box::new(established));
        self.note_way(&next_hop, Some(flow));
        Ok(())
    }

    /// Refuses the call.
    pub(crate) fn decline(&mut self, core: &mut Core, status: u16, now: Instant) {
        self.refuse_invite(core, status, End::Declined, now);
    }

    pub(super) fn refuse_invite(&mut self, core: &mut Core, status: u16, end: End, now: Instant) {
        let State::Ringing(ringing) = &self.state else { return };
        respond_to_invite(core, self.account, ringing, status, b"", now);
        self.end(core, end);
    }

    /// The caller takes the call back.
    pub(crate) fn on_cancel(&mut self, core: &mut Core, cancel: &Message<'_>, now: Instant) {
        let reason = String::from_utf8_lossy(cancel.value(HeaderName::Reason).unwrap_or_default());
        self.refuse_invite(core, 487, End::Cancelled { reason: reason.into_owned() }, now);
    }

    /// The tag of this end.
    pub(crate) fn local_tag(&self) -> Vec<u8> {
        match &self.state {
            State::Ringing(ringing) => ringing.dialog.id().local_tag.to_vec(),
            State::Established(established) => established.dialog.id().local_tag.to_vec(),
            State::Calling(calling) => calling.dialog.id().local_tag.to_vec(),
            State::Over => Vec::new(),
        }
    }
}

fn respond_to_invite(
    core: &mut Core,
    account: Option<AccountId>,
    ringing: &Ringing,
    status: u16,
    session: &[u8],
    now: Instant,
) {
    let Asked { request, flow, key } = &ringing.invite;
    let Ok(invite) = Message::parse(request) else { return };
    let mut lines = Vec::new();
    if status < 300 {
        invite.write_record_routes(&mut lines);
        let user = core.contact_user(account);
        ("Contact: ", contact(&user, flow), "\r\n", ALLOW).emit(&mut lines);
    }
    let tag = ringing.dialog.id().local_tag;
    let answer = Answer { status, tag, lines: &lines, body: session };
    core.respond(&invite, flow, *key, &answer, now);
}
