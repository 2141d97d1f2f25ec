//! The transfer requests of either end (RFC 3515).

use crate::core::Core;
use crate::server_transaction::{Answer, Asked};
use sip::{Duration, Instant};

/// The duration for which the requesting end is notified of the new call.
pub(super) const TELLS: Duration = Duration::from_secs(180);

/// The REFERs within one dialog, of either end.
#[derive(Default)]
pub(super) struct Referrals {
    /// The time until which the local REFER may be notified. `None` after its final notification.
    pub(super) asks_until: Option<Instant>,
    /// The REFER of the other end that waits for the owner's decision.
    pub(super) asked: Option<Asked>,
    /// The REFER of the other end that is being followed: its CSeq, and the end of its
    /// notifications.
    pub(super) followed: Option<(u32, Instant)>,
    /// The number of REFERs of the other end.
    pub(super) count: u32,
}

impl Referrals {
    /// Rejects the REFER that waits for the owner's decision, since the call is over. Otherwise its
    /// transaction would be kept forever.
    pub(super) fn abandon(self, core: &mut Core, tag: &[u8], now: Instant) {
        if let Some(asked) = self.asked {
            core.respond_to(&asked, &Answer::status(487, tag), now);
        }
    }
}
