//! The errors of commands.

use crate::event::RequestId;
use core::fmt;

/// The reason why a command for a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// The call is over, or does not exist.
    Unknown,
    /// The command requires a call in this state.
    State(CallState),
    /// A change of the session is pending, from this end or the other one.
    OfferPending,
    /// A transfer is pending.
    TransferPending,
    /// The account does not exist.
    Account,
    /// The URI is not a SIP URI.
    Uri,
}

/// The state of a call that a command requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallState {
    /// An incoming call that is not answered.
    Incoming,
    /// An established call.
    Established,
    /// A call with a settled session: established, or ringing after a reliable answer.
    Settled,
    /// A call with an unanswered [`Event::Offer`](crate::Event::Offer).
    OfferReceived,
    /// A call with a local offer in a re-INVITE without a final response.
    OfferSent,
    /// A call with an unanswered [`Event::TransferAsked`](crate::Event::TransferAsked).
    TransferReceived,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such call any more"),
            Self::State(CallState::Incoming) => f.write_str("the call is not ringing here"),
            Self::State(CallState::Established) => f.write_str("the call is not established"),
            Self::State(CallState::Settled) => {
                f.write_str("the call is not established, and its early session is not settled")
            }
            Self::State(CallState::OfferReceived) => {
                f.write_str("the other end has not asked for a change of the session")
            }
            Self::State(CallState::OfferSent) => {
                f.write_str("no re-INVITE of the call waits for its response")
            }
            Self::State(CallState::TransferReceived) => {
                f.write_str("the other end has not asked for a transfer")
            }
            Self::OfferPending => f.write_str("the session is being changed already"),
            Self::TransferPending => f.write_str("a transfer of the call is pending"),
            Self::Account => f.write_str("there is no such account"),
            Self::Uri => f.write_str("expected a SIP URI"),
        }
    }
}

impl core::error::Error for CallError {}

/// No request with this identifier waits for a response: it is answered, or its call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownRequest(pub RequestId);

impl fmt::Display for UnknownRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(RequestId(id)) = self;
        write!(f, "request {id} is answered, or its call has ended")
    }
}

impl core::error::Error for UnknownRequest {}
