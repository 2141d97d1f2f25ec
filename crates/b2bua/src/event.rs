//! The events for the owner.

use crate::question::Question;
use alloc::boxed::Box;
use sip_ua::{InfoDigit, RequestId, Transmit};

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A call is answered.
    Answered {
        /// Its number.
        call: u64,
        /// The requests that end it at the caller and at the callee, if this engine has lost it:
        /// the owner stores them, and sends them after its next start.
        byes: Box<[Transmit; 2]>,
    },
    /// A party has pressed a key, and sent it by INFO. The owner answers with
    /// [`B2bua::answer_digit`](crate::B2bua::answer_digit).
    Digit {
        /// The identifier for the answer.
        request: RequestId,
        /// The Call-ID of the callee's leg. The owner may relay its media.
        call_id: Box<[u8]>,
        /// The tag of the caller in that leg.
        caller_tag: Box<[u8]>,
        /// True if the caller has pressed it.
        is_of_caller: bool,
        /// The digit.
        digit: InfoDigit,
    },
    /// A trunk has not taken a call.
    Trunk {
        /// Its place in the configuration.
        place: usize,
        /// Its name.
        trunk: Box<str>,
        /// True if it was silent or out of service (503): its owner should look after it.
        has_failed: bool,
        /// The reason and the consequence in words, for the log.
        words: Box<str>,
    },
    /// A call waits for a decision: the owner passes it to
    /// [`B2bua::decide`](crate::B2bua::decide).
    Question(Box<Question>),
    /// A call is refused by a decision, or has got none.
    Decided {
        /// The call and the decision in words, for the log.
        words: Box<str>,
    },
    /// The minutes of trunks have changed: the owner stores them, and passes them to
    /// [`B2bua::restore_use`](crate::B2bua::restore_use) after its next start.
    Use {
        /// The minutes of the day, as text.
        minutes: Box<str>,
    },
    /// A limit of the use of trunks is reached, or nearly so.
    Alarm {
        /// The account and its use in words, for the log.
        words: Box<str>,
    },
    /// An answered call has ended: the requests are no longer needed.
    Ended {
        /// Its number.
        call: u64,
    },
}
