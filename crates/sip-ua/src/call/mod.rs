//! Calls: the state that an INVITE creates at either end. This module dispatches received messages
//! and timers to the state of the call.

mod ack;
mod bye;
mod checking;
mod early;
mod ended;
mod error;
mod established;
mod exchange;
mod incoming;
mod info;
mod leaving;
mod mortal;
mod moved;
mod offer_answer;
mod outgoing;
mod passed;
mod prack;
mod probe;
mod redirect;
mod referral;
mod referred;
mod refresh;
mod reliable;
mod state;
mod timer;
mod transfer;

pub(crate) use ack::refuse_answer;
pub use checking::LOST_REASON;
pub use error::{CallError, CallState, UnknownRequest};
pub use passed::PassedRequest;
pub(crate) use reliable::Progress;
pub(crate) use state::{Call, Cause};

use crate::capabilities::ALLOW;
use crate::client_transaction::RequestResult;
use crate::core::Core;
use crate::event::End;
use crate::server_transaction::{Answer, ServerKey};
use exchange::cseq_of;
use sip::{Flow, Instant, Message, Method};
use state::State;

impl Call {
    /// Processes a request within the dialog.
    pub(crate) fn on_request(
        &mut self,
        core: &mut Core,
        request: &Message<'_>,
        flow: &Flow,
        key: ServerKey,
        now: Instant,
    ) {
        if self.on_request_ended(core, request, flow, key, now) {
            return;
        }
        let tag = self.local_tag();
        let refuse = |core: &mut Core, status: u16| {
            core.respond(request, flow, key, &Answer::status(status, &tag), now);
        };
        let Some((dialog, _)) = self.parts_of(request) else { return refuse(core, 481) };
        if let Err(error) = dialog.check_cseq(request) {
            return refuse(core, error.status());
        }
        self.note_sign(&core.config, now);
        match request.method() {
            Some(Method::Bye) => {
                refuse(core, 200);
                self.on_bye(core, request, now);
            }
            Some(Method::Invite | Method::Update) => {
                self.on_change(core, request, flow, key, now);
            }
            Some(Method::Prack) => self.on_prack(core, request, flow, key, now),
            Some(Method::Options) => refuse(core, 200),
            Some(Method::Info | Method::Message | Method::Refer | Method::Notify)
                if core.config.passes =>
            {
                self.pass_on(core, request, flow, key, now);
            }
            Some(Method::Info) => {
                let status = self.on_info(core, request);
                refuse(core, status);
            }
            Some(Method::Notify) => {
                let status = self.on_notify(core, request);
                refuse(core, status);
            }
            Some(Method::Message) => {
                let status = core.on_message(self.account, request, flow);
                refuse(core, status);
            }
            Some(Method::Refer) => {
                if let Err(status) = self.on_refer(core, request, flow, key, now) {
                    refuse(core, status);
                }
            }
            Some(Method::Other(_)) | None => refuse(core, 501),
            Some(_) => {
                let answer = Answer { status: 405, tag: &tag, lines: ALLOW, body: b"" };
                core.respond(request, flow, key, &answer, now);
            }
        }
    }

    /// Processes the result of a request of this call.
    pub(crate) fn on_result(&mut self, core: &mut Core, result: RequestResult<'_>, now: Instant) {
        // A request with credentials has a sequence number that the dialog has not assigned.
        if let Ok(response) = &result.outcome
            && let Some((dialog, _)) = self.parts_of(response)
        {
            dialog.raise_local_cseq(cseq_of(response));
        }
        match (&mut self.state, result.method) {
            (State::Calling(_), Method::Invite) => self.on_invite_result(core, result, now),
            (State::Established(_), _) => self.on_established_result(core, result, now),
            (State::Referred(_), _) => self.on_referred_result(&result),
            (State::Mortal(_), _) => self.on_mortal_result(core, &result, now),
            _ => self.on_offer_result(core, &result, now),
        }
    }

    pub(crate) fn on_timer(&mut self, core: &mut Core, now: Instant) {
        self.poll_offer(core, now);
        match &mut self.state {
            State::Calling(calling) if calling.give_up <= now && calling.ending.is_none() => {
                self.take_back(core, b"", End::NotAnswered, now);
            }
            State::Ringing(ringing) if ringing.give_up <= now => {
                self.refuse_invite(core, 480, b"", End::NotAnswered, now);
            }
            State::Ringing(_) => self.poll_ring(core, now),
            State::Established(_) => {
                self.poll_trying(core, now);
                self.poll_answer(core, now);
                self.poll_timer(core, now);
                self.poll_probe(core, now);
            }
            State::Referred(referred) if referred.until <= now => self.state = State::Over,
            State::Leaving(_) => self.poll_leaving(core, now),
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
            State::Referred(referred) => Some(referred.until),
            State::Leaving(leaving) => Some(leaving.next_timer()),
            State::Calling(_) | State::Mortal(_) | State::Over => None,
        };
        [next, self.next_offer()].into_iter().flatten().min()
    }
}
