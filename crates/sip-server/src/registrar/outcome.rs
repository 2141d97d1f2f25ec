//! The result of a REGISTER.

use alloc::vec::Vec;
use sip::{Status, StatusLine};

/// The response to a REGISTER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// 200 with these header field lines: the current bindings.
    Done {
        lines: Vec<u8>,
        /// True if the phone may use several flows (RFC 5626).
        has_outbound: bool,
    },
    /// The expiry is too short: 423 with Min-Expires.
    TooBrief,
    /// Any other rejection.
    Refused(StatusLine<'static>),
}

#[cfg(feature = "office")]
impl Outcome {
    /// True if the REGISTER is answered 200.
    pub(super) const fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }
}

pub(super) const TOO_MANY: Outcome =
    Outcome::Refused(Status::FORBIDDEN.with_reason("Too Many Contacts"));
