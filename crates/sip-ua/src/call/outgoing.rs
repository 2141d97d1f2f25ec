//! Calls that we place (RFC 3261 section 13.2).

use super::established::Established;
use super::{ALLOW, Call, Calling, State, draft, session_of};
use crate::client::{Draft, Heard, Owner, SESSION_TYPE, refusal};
use crate::config::AccountId;
use crate::core::Core;
use crate::event::{CallId, End, Event, Failure};
use alloc::boxed::Box;
use alloc::vec::Vec;
use sip::dialog::Dialog;
use sip::{Emit, Flow, Instant, Message, Method};

impl Call {
    /// Calls, with the offer `session`; `referral` names the call whose other end has wished for it, and further header
    /// field lines.
    pub(crate) fn place(
        core: &mut Core,
        id: CallId,
        account: Option<AccountId>,
        mut dialog: Dialog,
        session: Vec<u8>,
        referral: Option<(CallId, Vec<u8>)>,
        now: Instant,
    ) -> Self {
        let (referrer, more) = referral.unzip();
        let cseq = dialog.next_cseq();
        let draft = Draft {
            cseq,
            dialog: dialog.clone(),
            method: Method::Invite,
            account,
            contact: Some(Vec::new()),
            lines: [ALLOW, &more.unwrap_or_default()].concat(),
            body: session,
            body_type: SESSION_TYPE,
        };
        core.request(draft, Owner::Call(id), None, now);
        let give_up = now + core.config.ringing;
        let calling = Calling { dialog, early: Vec::new(), give_up, ending: None };
        Self { id, account, state: State::Calling(calling), way: None, referrer, replaces: None }
    }

    /// Takes the call back (RFC 3261 section 9.1).
    pub(super) fn take_back(&mut self, core: &mut Core, end: End, now: Instant) {
        let State::Calling(calling) = &mut self.state else { return };
        if calling.ending.is_some() {
            return;
        }
        calling.ending = Some(end.clone());
        self.tell_news(core, 487);
        // Whoever answers at the same time is answered by a BYE.
        core.cancel(self.id, now);
        core.tell(Event::Ended { call: self.id, end });
    }

    /// Something has come of a request of this call.
    pub(crate) fn on_heard(&mut self, core: &mut Core, heard: Heard<'_>, now: Instant) {
        match (&mut self.state, heard.method) {
            (State::Calling(_), Method::Invite) => self.on_invite_heard(core, heard, now),
            (State::Established(_), _) => self.on_established_heard(core, heard, now),
            _ => {}
        }
    }

    fn on_invite_heard(&mut self, core: &mut Core, heard: Heard<'_>, now: Instant) {
        let response = match heard.what {
            Ok(response) => response,
            Err(failure) => {
                self.tell_news(core, 503);
                return self.fail(core, failure);
            }
        };
        match response.status().unwrap_or_default() {
            100 => {}
            101..200 => self.on_ringing(core, response),
            200..300 => self.on_answer(core, response, heard.flow, now),
            status => {
                self.tell_news(core, status);
                self.fail(core, refusal(response));
            }
        }
    }

    /// The call has come to nothing; if it was taken back, that was told.
    fn fail(&mut self, core: &mut Core, failure: Failure) {
        let State::Calling(calling) = &self.state else { return };
        match calling.ending {
            Some(_) => self.state = State::Over,
            None => self.end(core, End::Failed(failure)),
        }
    }

    fn on_ringing(&mut self, core: &mut Core, response: &Message<'_>) {
        let State::Calling(calling) = &mut self.state else { return };
        if let Ok(dialog) = Dialog::of_response(response) {
            match calling.early.iter_mut().find(|early| early.id() == dialog.id()) {
                Some(early) => early.refresh_target(response),
                None => calling.early.push(dialog),
            }
        }
        if calling.ending.is_none() {
            let status = response.status().unwrap_or_default();
            self.tell_news(core, status);
            let session = session_of(response);
            core.tell(Event::Ringing { call: self.id, status, session });
        }
    }

    /// The call is answered.
    fn on_answer(
        &mut self,
        core: &mut Core,
        response: &Message<'_>,
        flow: Option<Flow>,
        now: Instant,
    ) {
        let State::Calling(calling) = &self.state else { return };
        let ending = calling.ending.clone();
        let Ok(dialog) = Dialog::of_response(response) else {
            return self.fail(core, Failure::Protocol("the answer makes no dialog"));
        };
        self.note_way(dialog.next_hop(), flow);
        let ack = self.acknowledge(core, &dialog, flow);
        let mut established = Established::new(dialog);
        established.ack = ack;
        self.state = State::Established(Box::new(established));
        match ending {
            // It was told that the call is over.
            Some(_) => self.send_bye_quietly(core, now),
            None => {
                let session = session_of(response);
                self.tell_news(core, 200);
                core.tell(Event::Answered { call: self.id, session });
            }
        }
    }

    /// Sends the ACK of a 2xx within `dialog` (RFC 3261 section 13.2.2.4), and returns it with the way that it went.
    pub(super) fn acknowledge(
        &self,
        core: &mut Core,
        dialog: &Dialog,
        flow: Option<Flow>,
    ) -> Option<(u32, Flow, Vec<u8>)> {
        let flow = flow?;
        let mut bytes = Vec::new();
        let branch = core.tokens.next();
        let via = (
            ("SIP/2.0/", flow.transport.via_name(), " ", flow.local),
            ";rport;branch=z9hG4bK",
            branch,
        );
        let cseq = dialog.local_cseq();
        dialog.request(Method::Ack, cseq, via, &mut bytes).end();
        core.send(flow, bytes.clone());
        Some((cseq, flow, bytes))
    }

    /// A 2xx to our INVITE has come that is not of this call's dialog: another phone has answered, too. It is
    /// hung up (RFC 3261 section 13.2.2.4).
    pub(crate) fn refuse_second_answer(
        &self,
        core: &mut Core,
        response: &Message<'_>,
        flow: Option<Flow>,
        now: Instant,
    ) {
        let Ok(mut dialog) = Dialog::of_response(response) else { return };
        self.acknowledge(core, &dialog, flow);
        let bye = draft(self.account, &mut dialog, Method::Bye, Vec::new());
        core.request(bye, Owner::Nobody, flow, now);
    }
}

/// What may become a dialog with `uri`, of `account` or of nobody in particular.
pub(crate) fn dialog_to(
    core: &mut Core,
    account: Option<AccountId>,
    uri: &str,
    routes: &[Vec<u8>],
) -> Option<Dialog> {
    let parsed = sip::Uri::parse(uri.as_bytes()).ok()?;
    parsed.as_sip()?;
    let (call_id, tag) = (core.tokens.next(), core.tokens.next());
    let settings = account.map(|id| core.config.accounts.get(id.0));
    let mut local = Vec::new();
    match settings {
        Some(settings) => {
            let settings = settings?;
            let name = settings.display_name.as_str();
            let display = (!name.is_empty()).then_some((sip::param::Quoted(name), " "));
            (display, "<", settings.uri.as_str(), ">").emit(&mut local);
        }
        None => {
            let user = core.contact_user(None);
            ("<sip:", &user, "@anonymous.invalid>").emit(&mut local);
        }
    }
    let mut dialog = Dialog::new(call_id, &local, tag, ("<", uri, ">"), uri);
    let proxy = settings.flatten().and_then(|settings| settings.proxy.as_ref());
    let proxy = proxy.map(|proxy| {
        let mut route = Vec::new();
        ("<", proxy.as_str(), ">").emit(&mut route);
        route
    });
    dialog.set_routes(proxy.iter().chain(routes));
    Some(dialog)
}
