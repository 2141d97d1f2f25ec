//! The failure to send a request to a target.

use sip::Status;

/// The reason for not forwarding a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stuck {
    /// The request with the lines that a proxy adds is longer than a message may be.
    TooLong,
    /// The media cannot be relayed; the status of the response.
    Media(Status),
    /// There is no route to the target, or the party that named the target may not reach it.
    Unreachable,
}

impl Stuck {
    /// The status of the response.
    pub(crate) const fn status(self) -> Status {
        match self {
            Self::TooLong => Status::MESSAGE_TOO_LARGE,
            Self::Media(status) => status,
            Self::Unreachable => Status::TEMPORARILY_UNAVAILABLE,
        }
    }
}
