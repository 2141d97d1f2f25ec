//! When what sounds here goes out, and from when on a call is listened to.

use super::Phone;
use crate::leg::Gate;
use media::ear::Ear;

impl Phone {
    /// A call is answered: what sounds here goes out from now on. Unless it did before, what was
    /// heard so far was no part of the call.
    pub(super) fn open(&mut self, number: u64) {
        let leg = self.calls.get_mut(&number).and_then(|call| call.leg.as_mut());
        if let Some(leg) = leg {
            leg.gate = Gate::Open;
            leg.ports.rest();
            if !self.early {
                leg.ear.forget();
            }
        }
    }

    /// Whether a call can be held, taken back or transferred now: it stands, and the other end
    /// knows that too.
    pub(crate) fn may_change(&self, number: u64) -> bool {
        let id = self.calls.get(&number).and_then(|call| call.id);
        id.is_some_and(|id| self.agent.may_offer(id))
    }

    /// What hears a call; `None` where it has no media.
    pub(crate) fn ear(&mut self, number: u64) -> Option<&mut Ear> {
        let leg = self.calls.get_mut(&number).and_then(|call| call.leg.as_mut());
        leg.map(|leg| &mut leg.ear)
    }
}
