//! The calls that stand, for the owner.

use crate::b2bua::{B2bua, BridgeId};
use crate::bridge::Side;
use crate::ending::reason_line;
use alloc::vec::Vec;
use sip::Instant;

/// A call that stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallReport {
    /// Its number.
    pub call: u64,
    /// The Call-IDs of the caller's leg and of the callee's leg.
    pub call_ids: [Vec<u8>; 2],
    /// The URIs in From and To of the caller's INVITE.
    pub parties: [Vec<u8>; 2],
    /// The time of the caller's INVITE.
    pub created: Instant,
    /// The time of the answer.
    pub answered: Option<Instant>,
    /// The Call-ID of the callee's leg that was refused before this one.
    pub(crate) refused: Option<Vec<u8>>,
}

impl B2bua {
    /// Returns the calls that stand, in any order.
    #[must_use]
    pub fn reports(&self) -> Vec<CallReport> {
        self.bridges.values().map(|bridge| bridge.report.clone()).collect()
    }

    /// Returns true if a call stands whose callee has refused the leg with this Call-ID, and was
    /// called again.
    #[must_use]
    pub fn has_replaced(&self, call_id: &[u8]) -> bool {
        self.bridges.values().any(|bridge| bridge.report.refused.as_deref() == Some(call_id))
    }

    /// Ends the call with this number. The requests have the Reason `reason` (RFC 3326), such as
    /// `Q.850;cause=16`. Returns false if there is no such call.
    pub fn hang_up(&mut self, now: Instant, call: BridgeId, reason: &str) -> bool {
        let Some(bridge) = self.bridges.get(&call) else { return false };
        let legs = [Side::Caller, Side::Callee].map(|side| bridge.call(side));
        for leg in legs.into_iter().flatten() {
            // A leg may have ended with the other one.
            let _ = self.agent.hang_up_with(now, leg, &reason_line(reason));
        }
        self.process(now);
        true
    }
}
