//! Requests that pass from one call to another: INFO, MESSAGE, REFER and NOTIFY, which change
//! neither the session nor the dialog.

use super::error::{CallError, CallState, UnknownRequest};
use super::state::Call;
use crate::client_transaction::{Owner, RequestResult};
use crate::core::{Core, Passed, contact};
use crate::draft::Draft;
use crate::event::{Event, RequestId};
use crate::server_transaction::{Answer, Asked, ServerKey};
use alloc::borrow::Cow;
use alloc::string::ToString;
use alloc::vec::Vec;
use sip::{Encode, Flow, Instant, Message, Method};

/// The maximum number of requests that wait for the owner's response, of all calls and of one.
const MAX_WAITING: usize = 10_000;
const MAX_OF_CALL: usize = 50;

/// A request within a call, for [`Agent::request`](crate::Agent::request).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedRequest<'a> {
    /// The method: INFO, MESSAGE, REFER or NOTIFY.
    pub method: Method<'static>,
    /// Complete header field lines besides those of the dialog and of the body.
    pub lines: &'a [u8],
    /// The media type of the body.
    pub body_type: &'a str,
    /// The body, or empty.
    pub body: &'a [u8],
}

impl Call {
    /// Asks the owner for the response to `request`.
    pub(super) fn pass_on(
        &mut self,
        core: &mut Core,
        request: &Message<'_>,
        flow: &Flow,
        key: ServerKey,
        now: Instant,
    ) {
        let tag = self.local_tag();
        let of_call = core.passed_of.get(&self.id).copied().unwrap_or_default();
        if core.passed.len() >= MAX_WAITING || of_call >= MAX_OF_CALL {
            return core.respond(request, flow, key, &Answer::status(500, &tag), now);
        }
        let id = core.new_request();
        let message = request.as_bytes().to_vec();
        let asked = Asked { request: message.clone(), flow: *flow, key };
        core.passed.insert(id, Passed { call: self.id, asked, tag });
        core.passed_of.insert(self.id, of_call + 1);
        core.tell(Event::Request { call: self.id, request: id, message });
    }

    /// Sends a request within the call. Returns its identifier and its CSeq number.
    pub(crate) fn send_request(
        &mut self,
        core: &mut Core,
        request: &PassedRequest<'_>,
        now: Instant,
    ) -> Result<(RequestId, u32), CallError> {
        let account = self.account;
        let none = CallError::State(CallState::Established);
        let (dialog, _) = self.current_mut().ok_or(none)?;
        let mut draft = Draft::within(account, dialog, request.method, request.body.to_vec());
        draft.lines.extend_from_slice(request.lines);
        draft.body_type = Cow::Owned(request.body_type.to_string());
        if request.method == Method::Notify {
            draft.contact = Some(Vec::new());
        }
        let (cseq, id) = (draft.cseq, core.new_request());
        let way = self.way_to(draft.dialog.next_hop());
        core.request(draft, Owner::Passed(id), way, now);
        Ok((id, cseq))
    }
}

impl Core {
    /// Reports a message of `call` to the owner, if it passes them.
    pub(crate) fn note_received(&mut self, call: crate::CallId, message: &Message<'_>) {
        if self.config.passes {
            self.tell(Event::Received { call, message: message.as_bytes().to_vec() });
        }
    }

    /// Sends the owner's response to a request that it passes on.
    pub(crate) fn respond_passed(
        &mut self,
        id: RequestId,
        status: u16,
        (lines, body): (&[u8], &[u8]),
        now: Instant,
    ) -> Result<(), UnknownRequest> {
        let passed = self.passed.remove(&id).ok_or(UnknownRequest(id))?;
        let Passed { call, asked, tag } = passed;
        if let Some(count) = self.passed_of.get_mut(&call) {
            *count -= 1;
            if *count == 0 {
                self.passed_of.remove(&call);
            }
        }
        let request = Message::parse(&asked.request).map_err(|_| UnknownRequest(id))?;
        let mut all = Vec::new();
        // Both methods create or refresh a subscription (RFC 6665 section 4.1.2).
        let has_target = matches!(request.method(), Some(Method::Refer | Method::Notify));
        if status < 300 && has_target {
            let user = self.contact_user(None);
            let uri = request.request_uri().unwrap_or_default();
            ("Contact: ", contact(&user, &asked.flow, uri), "\r\n").encode(&mut all);
        }
        all.extend_from_slice(lines);
        let answer = Answer { status, tag: &tag, lines: &all, body };
        self.respond(&request, &asked.flow, asked.key, &answer, now);
        Ok(())
    }

    /// Reports the final response to a request of the owner.
    pub(crate) fn on_passed_result(&mut self, request: RequestId, result: &RequestResult<'_>) {
        let response = match &result.outcome {
            Ok(response) if response.status().is_some_and(|status| status < 200) => return,
            Ok(response) => Ok(response.as_bytes().to_vec()),
            Err(failure) => Err(failure.clone()),
        };
        self.tell(Event::Response { request, response });
    }
}
