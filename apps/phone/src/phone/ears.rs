//! When what sounds here goes out, and from when on a call is listened to.

use super::Phone;
use crate::leg::Gate;

impl Phone {
    /// A call is answered: what sounds here goes out from now on. Unless it did before, what was heard so far was no
    /// part of the call.
    pub(super) fn open(&mut self, number: u64) {
        let leg = self.calls.get_mut(&number).and_then(|call| call.leg.as_mut());
        if let Some(leg) = leg {
            leg.gate = Gate::Open;
            if !self.early {
                leg.ear.forget();
            }
        }
    }
}
