//! Requests in the dialog of an ended call, which waits for the ACK of its 2xx, for the response to
//! its BYE, or for the progress of a transfer.

use super::exchange::is_last;
use super::state::{Call, State};
use crate::core::Core;
use crate::server_transaction::{Answer, ServerKey};
use sip::{Flow, Instant, Message, Method};

impl Call {
    /// Processes a request in the dialog of an ended call. Only the expected one is accepted: the
    /// BYE of the other end, or the progress of the local transfer. It is not reported to the
    /// owner, which knows of the end. Returns false if the call has not ended so.
    pub(super) fn on_request_ended(
        &mut self,
        core: &mut Core,
        request: &Message<'_>,
        flow: &Flow,
        key: ServerKey,
        now: Instant,
    ) -> bool {
        let (dialog, expected) = match &mut self.state {
            State::Leaving(leaving) => (&mut leaving.dialog, Some(Method::Bye)),
            // It has crossed the local one.
            State::Mortal(dialog) => (&mut **dialog, Some(Method::Bye)),
            State::Referred(referred) => {
                let is_told = referred.referrals.asks_until.is_some();
                (&mut referred.dialog, is_told.then_some(Method::Notify))
            }
            _ => return false,
        };
        let status = match dialog.check_cseq(request) {
            Err(error) => error.status(),
            Ok(()) if expected.is_some() && request.method() == expected => 200,
            Ok(()) => 481,
        };
        let tag = self.local_tag();
        core.respond(request, flow, key, &Answer::status(status, &tag), now);
        if status == 200 {
            match &self.state {
                State::Leaving(_) => self.left(core),
                State::Referred(_) if is_last(request) => self.state = State::Over,
                _ => {}
            }
        }
        true
    }
}
