//! The events for the owner.

use alloc::boxed::Box;
use sip_ua::Transmit;

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
    /// An answered call has ended: the requests are no longer needed.
    Ended {
        /// Its number.
        call: u64,
    },
}
