//! Calls that stand while the address of this machine changes: they go on from the new one.

use super::exchange::Offer;
use super::state::{Call, State};
use crate::core::Core;
use crate::event::{Event, Failure};
use sip::Instant;

impl Call {
    /// The network is another one. The owner is asked for a session description with the new
    /// address, which goes out in a re-INVITE with the new Contact. What is under way from the old
    /// address has no answer any more.
    pub(crate) fn network_changed(&mut self, core: &mut Core, now: Instant) {
        self.way = None;
        let id = self.id;
        let State::Established(established) = &mut self.state else { return };
        if let Some(sent) = established.exchange.sent.take() {
            established.exchange.offer = Offer::None;
            if !sent.is_refresh {
                core.tell(Event::OfferFailed { call: id, failure: Failure::Unreachable });
            }
        }
        if let Some(answer) = &mut established.unacknowledged {
            answer.is_astray = true;
        }
        if let Some(timer) = &mut established.timer {
            timer.begin_anew(now);
        }
        self.is_moved = true;
        core.tell(Event::Moved { call: id });
    }
}
