//! Calls that the local end has left by a BYE without a response yet (RFC 5407 section 3.2): the
//! dialog is known until then.

use super::ack::refuse_answer;
use super::state::{Call, State};
use crate::client_transaction::RequestResult;
use crate::core::Core;
use sip::{Instant, Method};

impl Call {
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
