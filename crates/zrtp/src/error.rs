//! The failures of an agreement, and the codes of Error messages.

use core::fmt;

/// The reason why there are no keys. The association is of no further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The peer has begun, and answers no more.
    Timeout,
    /// The Hello message of the peer is not that of its description: another program answers in
    /// its place, or changed the description.
    HelloHash,
    /// The peer has another version of the protocol.
    Version,
    /// The peer has chosen an algorithm that is neither offered nor mandatory.
    Unsupported(ErrorCode),
    /// The peer has the ZID of this end.
    EqualZids,
    /// The public value of the peer would determine the result.
    PublicValue,
    /// The public value of the peer is not the one that it had committed to.
    Commitment,
    /// Only Confirm messages with a wrong key came: another program took part in the exchange.
    Confirmation,
    /// The peer sent an Error message.
    Peer(ErrorCode),
}

impl Failure {
    /// The code of the Error message for this failure, if the peer should know of it.
    pub(crate) fn code(self) -> Option<ErrorCode> {
        match self {
            Self::HelloHash | Self::Peer(_) => None,
            Self::Timeout => Some(ErrorCode::TIMEOUT),
            Self::Version => Some(ErrorCode::VERSION),
            Self::Unsupported(code) => Some(code),
            Self::EqualZids => Some(ErrorCode::EQUAL_ZIDS),
            Self::PublicValue => Some(ErrorCode::PUBLIC_VALUE),
            Self::Commitment => Some(ErrorCode::COMMITMENT),
            Self::Confirmation => Some(ErrorCode::CONFIRMATION),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => write!(f, "the ZRTP peer stopped answering"),
            Self::HelloHash => write!(
                f,
                "the Hello message of the ZRTP peer does not match the zrtp-hash of its description"
            ),
            Self::Version => write!(f, "the ZRTP peer does not have version 1.10"),
            Self::Unsupported(code) => write!(f, "the ZRTP peer asks for {code}"),
            Self::EqualZids => write!(f, "the ZRTP peer has the ZID of this end"),
            Self::PublicValue => write!(f, "the public value of the ZRTP peer is unsafe"),
            Self::Commitment => {
                write!(f, "the public value of the ZRTP peer is not the one that it committed to")
            }
            Self::Confirmation => {
                write!(f, "the ZRTP peer has other keys: a program between may have changed them")
            }
            Self::Peer(code) => write!(f, "the ZRTP peer reports: {code}"),
        }
    }
}

impl core::error::Error for Failure {}

/// A code of an Error message (RFC 6189 section 5.9).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    pub(crate) const VERSION: Self = Self(0x30);
    pub(crate) const HASH: Self = Self(0x51);
    pub(crate) const CIPHER: Self = Self(0x52);
    pub(crate) const KEY_AGREEMENT: Self = Self(0x53);
    pub(crate) const AUTH_TAG: Self = Self(0x54);
    pub(crate) const SAS_TYPE: Self = Self(0x55);
    pub(crate) const NO_SHARED_SECRET: Self = Self(0x56);
    pub(crate) const PUBLIC_VALUE: Self = Self(0x61);
    pub(crate) const COMMITMENT: Self = Self(0x62);
    pub(crate) const RELAYED_SAS: Self = Self(0x63);
    pub(crate) const CONFIRMATION: Self = Self(0x70);
    pub(crate) const EQUAL_ZIDS: Self = Self(0x90);
    pub(crate) const TIMEOUT: Self = Self(0xb0);
    pub(crate) const GO_CLEAR: Self = Self(0x100);
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            0x10 => "a malformed packet",
            0x20 => "a software error",
            0x30 => "an unsupported version",
            0x40 => "a mismatch of the parts of Hello messages",
            0x51 => "an unsupported hash",
            0x52 => "an unsupported cipher",
            0x53 => "an unsupported key agreement",
            0x54 => "an unsupported authentication tag",
            0x55 => "an unsupported rendering of the SAS",
            0x56 => "no shared secret, an exchange by Diffie-Hellman is required",
            0x61 => "an unsafe public value",
            0x62 => "a public value that was not committed to",
            0x63 => "a relayed SAS of a program that is not trusted",
            0x70 => "a Confirm message with a wrong key",
            0x80 => "a reused nonce",
            0x90 => "equal ZIDs",
            0x91 => "equal SSRCs",
            0xa0 => "an unavailable service",
            0xb0 => "a timeout",
            0x100 => "a request to stop the encryption, which is refused",
            _ => "an unknown error",
        };
        write!(f, "{text} (0x{:x})", self.0)
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ErrorCode(0x{:x})", self.0)
    }
}
