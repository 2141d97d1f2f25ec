//! The reasons for not forwarding a request.

use crate::core::numbers::DialedRefusal;
use alloc::vec::Vec;
use sip::StatusLine;

/// The reason for not forwarding a request.
pub(super) enum Refusal {
    /// No response follows: a challenge has been sent, or the request is dropped.
    Silent,
    /// The request is answered with this status.
    Status(StatusLine<'static>),
    /// The numbers of the owner refuse the call.
    Number {
        refusal: DialedRefusal,
        /// True if the caller is of this house: the response names the rule.
        is_inside: bool,
    },
    /// This server is a registrar only.
    OnlyRegistrar,
    /// The request URI is a SIPS URI, and the callee is not reachable by one.
    OnlyUnsecured,
    /// The request requires proxy extensions that this server does not support.
    Extensions,
    /// The client may retry after this many seconds.
    ForNow { seconds: u64 },
    /// Strangers may not send this method.
    ForeignMethod,
    /// This server is about to stop.
    Draining,
}

impl Refusal {
    /// The Reason of the record: the rule of the numbers that refuses the call, which the response
    /// to a caller outside does not name.
    pub(super) fn reason(&self) -> Option<Vec<u8>> {
        match self {
            Self::Number { refusal, .. } if cfg!(feature = "office") => {
                Some(refusal.reason().into_bytes())
            }
            _ => None,
        }
    }
}

/// A request that is not forwarded.
pub(super) struct Refused {
    pub(super) refusal: Refusal,
    /// True if its sender is an authenticated user.
    pub(super) is_proven: bool,
}

impl From<Refusal> for Refused {
    /// The refusal of a request of an unknown sender.
    fn from(refusal: Refusal) -> Self {
        Self { refusal, is_proven: false }
    }
}
