//! Calls that the local end has left before its 2xx is acknowledged: the BYE waits for the ACK, or
//! for the end of the retransmissions (RFC 3261 section 15).

use super::exchange::cseq_of;
use super::state::{Call, Established, Leaving, State};
use crate::client_transaction::Owner;
use crate::core::Core;
use crate::draft::Draft;
use alloc::boxed::Box;
use alloc::vec::Vec;
use sip::{Instant, Message, Method};

impl Established {
    /// Returns the state in which the BYE waits, unless it may be sent at once.
    pub(super) fn leave(&mut self, lines: &[u8]) -> Option<Leaving> {
        let answer = self.unacknowledged.take_if(|_| !self.is_confirmed)?;
        Some(Leaving { dialog: self.dialog.clone(), answer, lines: lines.to_vec() })
    }
}

impl Leaving {
    pub(super) fn next_timer(&self) -> Instant {
        self.answer.again.min(self.answer.give_up)
    }
}

impl Call {
    /// Lets the BYE wait. The owner was informed of the end.
    pub(super) fn wait_to_leave(&mut self, core: &mut Core, leaving: Leaving, now: Instant) {
        self.leave(core, now);
        core.leaving += 1;
        self.state = State::Leaving(Box::new(leaving));
    }

    /// Processes the ACK of the 2xx.
    pub(super) fn on_ack_leaving(&mut self, core: &mut Core, ack: &Message<'_>, now: Instant) {
        let State::Leaving(leaving) = &self.state else { return };
        if leaving.answer.cseq == cseq_of(ack) {
            self.send_late_bye(core, now);
        }
    }

    /// Retransmits the 2xx, or gives up after the timeout.
    pub(super) fn poll_leaving(&mut self, core: &mut Core, now: Instant) {
        let State::Leaving(leaving) = &mut self.state else { return };
        if leaving.answer.give_up <= now {
            return self.send_late_bye(core, now);
        }
        leaving.answer.retransmit(core, now);
    }

    fn send_late_bye(&mut self, core: &mut Core, now: Instant) {
        let State::Leaving(leaving) = &mut self.state else { return };
        let mut bye = Draft::within(self.account, &mut leaving.dialog, Method::Bye, Vec::new());
        bye.lines.append(&mut leaving.lines);
        let way = self.way_to(bye.dialog.next_hop());
        core.request(bye, Owner::None, way, now);
        self.left(core);
    }

    pub(super) fn left(&mut self, core: &mut Core) {
        core.leaving -= 1;
        self.state = State::Over;
    }
}
