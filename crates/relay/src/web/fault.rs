//! The faults of a leg with a handshake.

/// The reason why a leg with a handshake is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WebFault {
    /// The browser does not consent to packets any more (RFC 7675).
    Consent,
    /// The handshake has failed, so that there are no keys.
    Keys,
}
