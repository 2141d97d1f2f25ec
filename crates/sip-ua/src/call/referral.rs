//! Wishes to call somebody else, of either end (RFC 3515).

use crate::core::Core;
use crate::server_transaction::Asked;
use sip::{Duration, Instant};

/// How long an end is told of a call that it has wished for.
pub(super) const TELLS: Duration = Duration::from_secs(180);

/// REFERs within one dialog, of either end.
#[derive(Default)]
pub(super) struct Referrals {
    /// Whether ours has no end yet.
    pub(super) is_asking: bool,
    /// Theirs, that waits for the owner's word.
    pub(super) asked: Option<Asked>,
    /// Theirs, that is being followed: its CSeq, and when it is told of no more.
    pub(super) followed: Option<(u32, Instant)>,
    /// How many of theirs there were.
    pub(super) count: u32,
}

impl Referrals {
    /// The call is over: a REFER that waits for the owner's word is answered, or it would be
    /// remembered for ever.
    pub(super) fn abandon(self, core: &mut Core, tag: &[u8], now: Instant) {
        if let Some(asked) = self.asked {
            core.refuse(&asked, 487, tag, now);
        }
    }
}
