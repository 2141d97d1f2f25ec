//! The calls that stand, for the owner.

use alloc::string::String;
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
    /// The name of the trunk that the call is on.
    pub trunk: Option<String>,
    /// The time of the caller's INVITE.
    pub created: Instant,
    /// The time of the answer.
    pub answered: Option<Instant>,
}
