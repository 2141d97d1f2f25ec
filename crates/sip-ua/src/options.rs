//! The check of another server by an OPTIONS outside of any dialog (RFC 3261 section 11).

use crate::agent::Agent;
use crate::call::CallError;
use crate::client_transaction::{Owner, RequestResult};
use crate::config::AccountId;
use crate::core::Core;
use crate::draft::Draft;
use crate::event::{Event, RequestId};
use alloc::vec::Vec;
use sip::{Flow, Instant, Method};

impl Agent {
    /// Sends an OPTIONS for `uri` as `account` to `location`. [`Event::Options`] reports the
    /// result. A challenge is answered with the credentials of the account.
    ///
    /// # Errors
    /// [`CallError::Uri`] if `uri` is not a SIP URI, [`CallError::Account`] if the account does not
    /// exist.
    pub fn options(
        &mut self,
        now: Instant,
        account: Option<AccountId>,
        uri: &str,
        flow: &Flow,
    ) -> Result<RequestId, CallError> {
        self.check_account(account)?;
        let dialog = self.core.dialog_to(account, uri, &[]);
        let mut dialog = dialog.ok_or(CallError::Uri)?;
        let id = self.core.new_request();
        let mut draft = Draft::within(account, &mut dialog, Method::Options, Vec::new());
        draft.contact = Some(Vec::new());
        draft.lines.extend_from_slice(b"Accept: application/sdp\r\n");
        self.core.request(draft, Owner::Options(id), Some(*flow), now);
        self.settle(now);
        Ok(id)
    }
}

impl Core {
    /// Processes the result of an OPTIONS outside of any dialog.
    pub(crate) fn on_options_result(&mut self, request: RequestId, result: &RequestResult<'_>) {
        if let Some(result) = result.final_result() {
            self.tell(Event::Options { request, result });
        }
    }
}
