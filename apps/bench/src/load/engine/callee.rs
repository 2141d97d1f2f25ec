//! The callee's side of a call.

use super::requests::{Arrived, tag_of};
use super::slot::CalleeState;
use super::slot::End;
use super::{Engine, Entry, Mark};
use sip::{Duration, Instant};

impl Engine {
    /// Handles the initial INVITE of the call.
    pub(super) fn on_call(
        &mut self,
        arrived: &Arrived<'_, '_>,
        index: u32,
        received: Instant,
        now: Instant,
    ) {
        let slot = self.slots.get(index);
        let repeated = u64::from(slot.is_measured);
        match slot.callee.state {
            CalleeState::Idle => {
                slot.callee.state = CalleeState::Ringing;
                slot.callee.invited = received;
                slot.callee.heard = arrived.cseq;
                self.ring(arrived, index, now);
            }
            CalleeState::Ringing => {
                self.tally.counts().repeated += repeated;
                self.send_ringing(arrived, index, None);
            }
            CalleeState::Answered | CalleeState::Confirmed => {
                self.tally.counts().repeated += repeated;
                self.push_answer(index, End::Callee, None);
            }
        }
    }

    fn ring(&mut self, arrived: &Arrived<'_, '_>, index: u32, now: Instant) {
        self.send_ringing(arrived, index, Some(Mark::Ringing));
        self.write_answer(arrived, index, End::Callee);
        let ring = self.settings.ring;
        let callee = &mut self.slots.get(index).callee;
        if ring == Duration::ZERO {
            self.send_first_answer(index, now);
        } else {
            callee.answer.again = now + ring;
        }
        self.schedule(index);
    }

    fn send_ringing(&mut self, arrived: &Arrived<'_, '_>, index: u32, mark: Option<Mark>) {
        let slot = self.slots.get(index);
        let entry = Entry { slot: index, generation: slot.generation };
        let mark = mark.map(|mark| (entry, mark));
        self.respond(arrived, 180, &tag_of(entry), mark);
    }

    /// Sends the 200 for the first time.
    pub(super) fn send_first_answer(&mut self, index: u32, now: Instant) {
        let slot = self.slots.get(index);
        slot.callee.state = CalleeState::Answered;
        let entry = Entry { slot: index, generation: slot.generation };
        self.begin_answer(index, End::Callee, now, Some((entry, Mark::Answer)));
    }

    /// Handles a CANCEL from the caller or a server on its behalf: the INVITE gets a 487 (RFC 3261
    /// section 9.2). A CANCEL after the final response has no effect.
    pub(super) fn on_cancel(&mut self, arrived: &Arrived<'_, '_>, index: u32, now: Instant) {
        let slot = self.slots.get(index);
        let entry = Entry { slot: index, generation: slot.generation };
        let is_known = slot.callee.state != CalleeState::Idle && slot.callee.heard == arrived.cseq;
        let is_ringing = slot.callee.state == CalleeState::Ringing;
        let status = if is_known { 200 } else { 481 };
        self.tally.counts().unexpected += u64::from(arrived.is_measured);
        self.respond(arrived, status, &tag_of(entry), None);
        if is_known && is_ringing {
            let callee = &mut self.slots.get(index).callee;
            std::mem::swap(&mut callee.answer.bytes, &mut callee.refusal);
            self.send_first_answer(index, now);
            self.schedule(index);
        }
    }
}
