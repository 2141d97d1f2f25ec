//! Ended calls with a pending transfer: the dialog is kept until the last notification (RFC 5057,
//! RFC 5359 section 2.4).

use super::exchange::cseq_of;
use super::referral::Referrals;
use super::state::{Call, Referred, State};
use crate::client_transaction::RequestResult;
use crate::core::Core;
use alloc::boxed::Box;
use sip::{Instant, Method};

impl Call {
    /// Ends the call. A pending transfer is still notified.
    pub(super) fn part(&mut self, core: &mut Core, now: Instant) {
        let mut referred = None;
        if let State::Established(established) = &mut self.state
            && let Some(until) = established.referrals.is_told_until(now)
        {
            let Referrals { asks_until, followed, count, .. } = established.referrals;
            let referrals = Referrals { asks_until, followed, count, asked: None };
            let dialog = established.dialog.clone();
            referred = Some(Box::new(Referred { dialog, referrals, until }));
        }
        self.leave(core, now);
        if let Some(referred) = referred {
            self.state = State::Referred(referred);
        }
    }

    /// Processes the result of a request in that dialog. A rejected REFER gets no notification.
    pub(super) fn on_referred_result(&mut self, result: &RequestResult<'_>) {
        let State::Referred(referred) = &mut self.state else { return };
        if let Ok(response) = &result.outcome {
            referred.dialog.raise_local_cseq(cseq_of(response));
        }
        let is_refused = match &result.outcome {
            Ok(response) => response.status().is_some_and(|status| status >= 300),
            Err(_) => true,
        };
        if result.method == Method::Refer && is_refused {
            self.state = State::Over;
        }
    }
}

impl Referrals {
    /// Returns the end of the notifications of a transfer to either end, if there is one.
    fn is_told_until(&self, now: Instant) -> Option<Instant> {
        let theirs = self.followed.map(|(_, until)| until);
        theirs.max(self.asks_until).filter(|until| *until > now)
    }
}
