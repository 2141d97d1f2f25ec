//! Violations of the protocol by a peer.

use core::fmt;

/// A violation of the protocol by a response or request that ends a call, a registration or a
/// transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A response to REGISTER grants no time.
    NoExpiry,
    /// A final response to INVITE establishes no dialog (RFC 3261 section 12.1).
    NoDialog,
    /// A final response without a session description, which has to contain the answer.
    NoAnswer,
    /// An ACK without the answer to the local offer.
    NoAnswerInAck,
    /// A PRACK without the answer to the local offer.
    NoAnswerInPrack,
    /// The subscription to a transfer ends without its result.
    NoTransferResult,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoExpiry => "the registrar grants no time",
            Self::NoDialog => "the answer makes no dialog",
            Self::NoAnswer => "the answer has no session description",
            Self::NoAnswerInAck => "the ACK has no answer to our offer",
            Self::NoAnswerInPrack => "the PRACK has no answer to our offer",
            Self::NoTransferResult => "the other end tells no more of the transfer",
        })
    }
}
