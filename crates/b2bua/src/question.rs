//! The questions that the owner decides on, and its decisions.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use sip::Duration;

/// The terms of decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionTerms {
    /// The time that a call waits for its decision.
    pub patience: Duration,
    /// The decision on a call that has got none.
    pub fallback: Fallback,
}

/// The decision on a call without another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// The call goes on.
    #[default]
    Allow,
    /// The call is refused with 480.
    Refuse,
}

/// A call that waits for a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its number.
    pub call: u64,
    /// The Call-ID of the caller's leg.
    pub call_id: Box<[u8]>,
    /// The URIs in From and To of the caller's INVITE.
    pub parties: [Box<[u8]>; 2],
    /// True if the call comes from a trunk.
    pub is_incoming: bool,
    /// The names of the trunks of the call, in order of preference.
    pub trunks: Vec<String>,
    /// The user that the call counts for, `name@domain`.
    pub payer: Option<String>,
    /// The number for the first trunk.
    pub number: Option<String>,
    /// The class of the number.
    pub class: Option<String>,
}

/// The decision on a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The call goes on as the plan leads it.
    Allow,
    /// It goes on through these trunks, in this order. Those that the plan does not lead it to are
    /// ignored. A call from a trunk just goes on.
    Through(Vec<String>),
    /// It is refused.
    Refuse {
        /// The status, 400 to 699. Another one becomes 403.
        status: u16,
        /// The reason in words, for the log, and for a caller of this house.
        words: String,
    },
}
