//! Calls that the local end has left by a BYE without a response yet (RFC 5407 section 3.2): the
//! dialog is known until then.

use super::ack::refuse_answer;
use super::state::{Call, State};
use crate::client_transaction::RequestResult;
use crate::core::Core;
use crate::server_transaction::{Answer, ServerKey};
use sip::{Flow, Instant, Message, Method};

impl Call {
    /// Processes a request in the dialog: only a BYE, which has crossed the local one, is accepted.
    pub(super) fn on_request_mortal(
        &self,
        core: &mut Core,
        request: &Message<'_>,
        flow: &Flow,
        key: ServerKey,
        now: Instant,
    ) {
        let status = if request.method() == Some(Method::Bye) { 200 } else { 481 };
        core.respond(request, flow, key, &Answer::status(status, &self.local_tag()), now);
    }

    /// Processes the result of the BYE, or of a request that was sent before it.
    pub(super) fn on_mortal_result(
        &mut self,
        core: &mut Core,
        result: &RequestResult<'_>,
        now: Instant,
    ) {
        let is_final = match &result.outcome {
            Ok(response) => response.status().is_some_and(|status| status >= 200),
            Err(_) => true,
        };
        if result.method == Method::Bye && is_final {
            self.state = State::Over;
        }
        refuse_answer(core, self.account, result, now);
    }
}
