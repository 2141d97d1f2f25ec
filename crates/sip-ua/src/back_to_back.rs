//! The commands of a back-to-back user agent (RFC 7092): calls on behalf of another party, and
//! responses and requests that pass from one call to another.

use crate::agent::Agent;
use crate::call::{Call, CallError, CallState, Cause, PassedRequest, Progress, UnknownRequest};
use crate::config::{Account, AccountId};
use crate::core::via;
use crate::envelope::Envelope;
use crate::event::{CallId, RequestId};
use alloc::vec::Vec;
use sip::dialog::{Dialog, DialogId};
use sip::{Flow, Instant, Method};

/// The number of requests of a call that may follow [`Agent::last_bye`].
const ROOM: u32 = 100_000;

/// The maximum number in CSeq (RFC 3261 section 8.1.1.5).
const MAX_CSEQ: u32 = (1 << 31) - 1;

/// A call on behalf of another party.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement<'a> {
    /// The request URI.
    pub uri: &'a [u8],
    /// The value of From, without a tag, such as `"Alice" <sip:alice@example.com>`.
    pub from: &'a [u8],
    /// The value of To, without a tag.
    pub to: &'a [u8],
    /// The values of Route.
    pub routes: &'a [Vec<u8>],
    /// The flow of the requests.
    pub flow: Flow,
    /// The Max-Forwards of the INVITE.
    pub max_forwards: u32,
    /// Complete header field lines of the INVITE, besides those of the agent.
    pub lines: Vec<u8>,
    /// The offer. Empty if the other end makes it.
    pub session: Vec<u8>,
    /// The body around the offer, if it has more than that.
    pub envelope: Option<Envelope>,
    /// True if the other end may send reliable provisional responses (RFC 3262).
    pub is_reliable: bool,
    /// The account with which challenges are answered. `None`: they are responses like others.
    pub account: Option<AccountId>,
}

impl Agent {
    /// Sets the accounts with which challenges are answered, in the order of [`AccountId`]. None of
    /// them registers. The challenges come from behind a proxy: see [`Account::proxy`].
    pub fn set_accounts(&mut self, accounts: Vec<Account>) {
        self.core.config.accounts = accounts;
    }

    /// Sets the account with which challenges to requests of `call` are answered, such as the BYE
    /// of an incoming call.
    ///
    /// # Errors
    /// [`CallError::Unknown`] if there is no such call.
    pub fn set_account(
        &mut self,
        now: Instant,
        call: CallId,
        account: AccountId,
    ) -> Result<(), CallError> {
        self.with(now, call, |call, _| {
            call.account = Some(account);
            Ok(())
        })
    }

    /// Returns the INVITE of an incoming call that is not answered.
    #[must_use]
    pub fn invite(&self, call: CallId) -> Option<&[u8]> {
        self.calls.get(call)?.invite_of_caller()
    }

    /// Returns the dialog of an answered call, or of a call that rings here.
    #[must_use]
    pub fn dialog(&self, call: CallId) -> Option<&Dialog> {
        self.calls.get(call)?.dialog()
    }

    /// Returns the call with the dialog `id`, which may be an early one.
    #[must_use]
    pub fn call_of(&self, id: DialogId<'_>) -> Option<CallId> {
        let call = self.calls.of_tag(&self.core, id.call_id, id.local_tag)?;
        call.has(id).then_some(call.id)
    }

    /// Returns the call with this Call-ID and local tag.
    #[must_use]
    pub fn call_of_tag(&self, call_id: &[u8], local_tag: &[u8]) -> Option<CallId> {
        Some(self.calls.of_tag(&self.core, call_id, local_tag)?.id)
    }

    /// Offers `session`, with the body `envelope` around it and the further header field lines
    /// `lines`, within an answered call, or within a call with a settled session and UPDATE at the
    /// other end. Unlike [`Agent::offer`] it is not
    /// repeated: after a 491 both parties make their offers again, in their own time (RFC 3261
    /// section 14.1).
    ///
    /// # Errors
    /// [`CallError`] if the state of the call does not allow it, or a change is in progress.
    pub fn offer_once(
        &mut self,
        now: Instant,
        call: CallId,
        session: Vec<u8>,
        envelope: Option<Envelope>,
        lines: &[u8],
    ) -> Result<(), CallError> {
        self.with(now, call, |call, core| call.offer_once(core, session, envelope, lines, now))
    }

    /// Requests an offer of the other end within an answered call (RFC 3261 section 14.2). It comes
    /// as [`Event::Offer`](crate::Event::Offer), and its answer is sent in the ACK. The request is
    /// not repeated, like [`Agent::offer_once`]. `envelope` is its body, `lines` are further header
    /// field lines.
    ///
    /// # Errors
    /// [`CallError`] if the call is not answered, or a change is in progress.
    pub fn ask_once(
        &mut self,
        now: Instant,
        call: CallId,
        envelope: Option<Envelope>,
        lines: &[u8],
    ) -> Result<(), CallError> {
        self.with(now, call, |call, core| call.ask_once(core, envelope, lines, now))
    }

    /// Accepts a change of the session, with `session` inside the multipart body `envelope`.
    /// Otherwise like [`Agent::accept`].
    ///
    /// # Errors
    /// [`CallError`] if there is no such request.
    pub fn accept_with(
        &mut self,
        now: Instant,
        call: CallId,
        session: &[u8],
        envelope: Option<Envelope>,
    ) -> Result<(), CallError> {
        self.with(now, call, |call, core| call.accept(core, session, envelope, now))
    }

    /// Rejects a change of the session with the header field lines `lines` in the response.
    /// Otherwise like [`Agent::refuse`].
    ///
    /// # Errors
    /// [`CallError`] if there is no such request.
    pub fn refuse_with(
        &mut self,
        now: Instant,
        call: CallId,
        status: u16,
        lines: &[u8],
    ) -> Result<(), CallError> {
        self.with(now, call, |call, core| call.refuse(core, status, lines, now))
    }

    /// Passes the transfer that the other end of `call` has requested
    /// ([`Event::TransferAsked`](crate::Event::TransferAsked)) to the other end of `to`, which
    /// calls the target. [`Event::Transfer`](crate::Event::Transfer) of `to` has the progress,
    /// which [`Agent::report_transfer`] reports to the other end of `call`.
    ///
    /// # Errors
    /// [`CallError`] if there is no such request, if `to` is not established, or if a transfer of
    /// one of the two is pending.
    pub fn pass_transfer(
        &mut self,
        now: Instant,
        call: CallId,
        to: CallId,
    ) -> Result<(), CallError> {
        for id in [call, to] {
            self.calls
                .get(id)
                .filter(|_| call != to)
                .ok_or(CallError::Unknown)?
                .check_refer(now)?;
        }
        let (target, lines) = self.with(now, call, |call, _| call.refer_to_pass())?;
        self.with(now, to, |to, core| to.send_refer(core, target.as_bytes(), &lines, now))
    }

    /// Reports the status of the call for a transfer to the other end of `call`, which has
    /// requested it: in the response to its REFER while that has none, otherwise by NOTIFY. A final
    /// status is the last one. Without such a request it has no effect. The call may have ended.
    pub fn report_transfer(&mut self, now: Instant, call: CallId, status: u16) {
        if let Some(call) = self.calls.get_mut(call) {
            call.report_refer(&mut self.core, status, now);
        }
        self.settle(now);
    }

    /// Returns true if [`Agent::offer_once`] is allowed.
    #[must_use]
    pub fn may_offer_now(&self, call: CallId) -> bool {
        self.calls.get(call).is_some_and(|call| call.may_offer() || call.may_offer_early())
    }

    /// Places a call on behalf of another party. Its destination is not located. Returns the call
    /// and its Call-ID.
    pub fn place_for(&mut self, now: Instant, placement: Placement<'_>) -> (CallId, Vec<u8>) {
        let Placement { uri, from, to, routes, flow, max_forwards, lines, session, .. } = placement;
        let Placement { envelope, is_reliable, account, .. } = placement;
        let (call_id, tag) = (self.core.tokens.next(), self.core.tokens.next());
        let mut dialog = Dialog::new(call_id, from, tag, to, uri);
        let call_id = dialog.id().call_id.to_vec();
        dialog.set_routes(routes);
        dialog.set_max_forwards(max_forwards);
        let cause = Cause { referrer: None, lines, flow: Some(flow), is_reliable, envelope };
        let id = self.core.new_call();
        let call = Call::place(&mut self.core, id, account, dialog, session, cause, now);
        self.calls.insert(call);
        self.settle(now);
        (id, call_id)
    }

    /// Sends a 100 (Trying) to the caller, which may send a CANCEL from then on (RFC 3261 section
    /// 9.1).
    ///
    /// # Errors
    /// [`CallError`] if the call is not an unanswered incoming call.
    pub fn trying(&mut self, now: Instant, call: CallId) -> Result<(), CallError> {
        self.with(now, call, |call, core| call.trying(core, now))
    }

    /// Sends a provisional response with this status, 101 to 199, to the caller. Otherwise like
    /// [`Agent::ring`], with the header field lines `lines`, and with the body `envelope` around
    /// the session.
    ///
    /// # Errors
    /// [`CallError`] if the call is not an unanswered incoming call.
    pub fn progress(
        &mut self,
        now: Instant,
        call: CallId,
        status: u16,
        lines: &[u8],
        session: &[u8],
        envelope: Option<Envelope>,
    ) -> Result<(), CallError> {
        let (lines, session) = (lines.to_vec(), session.to_vec());
        let response = Progress { status, lines, session, envelope };
        self.with(now, call, |call, core| call.ring(core, response, now))
    }

    /// Answers a call with the header field lines `lines`, and with the body `envelope` around the
    /// session. Otherwise like [`Agent::answer`].
    ///
    /// # Errors
    /// [`CallError`] if the call is not an unanswered incoming call.
    pub fn answer_with(
        &mut self,
        now: Instant,
        call: CallId,
        lines: &[u8],
        session: &[u8],
        envelope: Option<Envelope>,
    ) -> Result<(), CallError> {
        let (lines, session) = (lines.to_vec(), session.to_vec());
        let response = Progress { status: 200, lines, session, envelope };
        self.with(now, call, |call, core| call.answer(core, response, now))?;
        self.end_replaced(now, call);
        Ok(())
    }

    /// Rejects a call with the header field lines `lines`. Otherwise like [`Agent::decline`].
    ///
    /// # Errors
    /// [`CallError`] if the call is not an unanswered incoming call.
    pub fn decline_with(
        &mut self,
        now: Instant,
        call: CallId,
        status: u16,
        lines: &[u8],
    ) -> Result<(), CallError> {
        self.with(now, call, |call, core| {
            if !call.is_ringing_here() {
                return Err(CallError::State(CallState::Incoming));
            }
            call.decline(core, status, lines, now);
            Ok(())
        })
    }

    /// Ends a call in any state. The request or response that ends it has the header field lines
    /// `lines`, such as a Reason (RFC 3326).
    ///
    /// # Errors
    /// [`CallError::Unknown`] if it has ended.
    pub fn hang_up_with(
        &mut self,
        now: Instant,
        call: CallId,
        lines: &[u8],
    ) -> Result<(), CallError> {
        self.with(now, call, |call, core| {
            call.hang_up(core, lines, now);
            Ok(())
        })
    }

    /// Writes a BYE that ends an answered call after this agent is gone, with the header field
    /// lines
    /// `lines`, and returns it with its flow. Its CSeq leaves room for the requests of the call
    /// until then.
    #[must_use]
    pub fn last_bye(&mut self, call: CallId, lines: &[u8]) -> Option<(Flow, Vec<u8>)> {
        let branch = self.core.tokens.next();
        let call = self.calls.get(call).filter(|call| call.is_established())?;
        let (dialog, flow) = (call.dialog()?, call.flow()?);
        let mut bytes = Vec::new();
        let cseq = dialog.local_cseq().saturating_add(ROOM).min(MAX_CSEQ);
        dialog.request(Method::Bye, cseq, via(&flow, branch), &mut bytes).lines(lines).end();
        Some((flow, bytes))
    }

    /// Sends a request within a call. Returns its identifier for
    /// [`Event::Response`](crate::Event::Response), and the number in its CSeq.
    ///
    /// # Errors
    /// [`CallError`] if the call has ended, or has no dialog yet.
    pub fn request(
        &mut self,
        now: Instant,
        call: CallId,
        request: &PassedRequest<'_>,
    ) -> Result<(RequestId, u32), CallError> {
        self.with(now, call, |call, core| call.send_request(core, request, now))
    }

    /// Answers [`Event::Request`](crate::Event::Request) with this final status and the header
    /// field lines `lines`.
    ///
    /// # Errors
    /// [`UnknownRequest`]: the request is answered, or its call has ended.
    pub fn respond(
        &mut self,
        now: Instant,
        request: RequestId,
        status: u16,
        lines: &[u8],
    ) -> Result<(), UnknownRequest> {
        self.respond_with(now, request, status, lines, b"")
    }

    /// Like [`Agent::respond`], with a body. Its Content-Type is in `lines`.
    ///
    /// # Errors
    /// [`UnknownRequest`], as of [`Agent::respond`].
    pub fn respond_with(
        &mut self,
        now: Instant,
        request: RequestId,
        status: u16,
        lines: &[u8],
        body: &[u8],
    ) -> Result<(), UnknownRequest> {
        let responded = self.core.respond_passed(request, status, (lines, body), now);
        self.settle(now);
        responded
    }
}
