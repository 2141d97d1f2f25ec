//! The move of established calls to a new local address.

use super::exchange::Offer;
use super::state::{Call, State};
use crate::core::Core;
use crate::event::{Event, Failure};
use sip::Instant;

impl Call {
    /// Handles a change of the network. The owner is asked for a session description with the new
    /// address, which is sent in a re-INVITE with the new Contact. Requests from the old address
    /// get no response any more.
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
