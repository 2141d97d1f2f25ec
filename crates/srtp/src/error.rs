//! The errors of policies and packets.

use crate::replay;
use crate::scheme::SrtpPlus;
use crate::suite::Suite;
use core::error::Error;
use core::fmt;
use rtp::PacketError;

/// The reason why a session cannot be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyError {
    /// RTP encryption and authentication of this suite cannot be disabled (RFC 7714).
    Aead(Suite),
    /// The key derivation rate is out of range.
    KeyDerivationRate(u32),
    /// The size of the replay window is out of range.
    ReplayWindow(u64),
    /// The length of a master key and salt does not match the suite.
    KeyLength {
        /// The suite.
        suite: Suite,
        /// The actual length in bytes.
        length: usize,
    },
    /// A master key is for this other suite.
    SuiteMismatch(Suite),
    /// There is no master key.
    NoKey,
    /// The SRTP+ scheme or placement is invalid, or its chain would not be encrypted.
    Plus(SrtpPlus),
    /// The MKIs differ in length, exceed 128 bytes, are not unique, or are missing although there
    /// are several keys.
    Mki,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Aead(suite) => {
                write!(f, "{suite} always encrypts and authenticates RTP, which cannot be disabled")
            }
            Self::KeyDerivationRate(rate) => {
                write!(f, "key derivation rate 2^{rate}, expected an exponent from 0 to 24")
            }
            Self::ReplayWindow(window) => write!(
                f,
                "replay window of {window} packets, expected {} to {}",
                replay::MIN_SIZE,
                replay::MAX_SIZE
            ),
            Self::KeyLength { suite, length } => write!(
                f,
                "master key and salt of {length} bytes, {suite} requires {} and {}",
                suite.key_length(),
                suite.salt_length()
            ),
            Self::SuiteMismatch(suite) => {
                write!(f, "master key for {suite}, not for the suite of this session")
            }
            Self::NoKey => write!(f, "no master key"),
            Self::Plus(plus) => write!(
                f,
                "SRTP+ with {plus:?}: expected a key of 160 to 512 bits, a multiple of 32, 1 to 64 numbers of \
                 4, 8, 16 or 32 bits in an encrypted session, an element identifier from 1 to 14"
            ),
            Self::Mki => write!(
                f,
                "master key identifiers: expected one for each of several keys, all different, of one \
                 length of at most 128 bytes"
            ),
        }
    }
}

impl Error for PolicyError {}

/// The reason why a packet was not protected. The packet is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtectError {
    /// The packet is not RTP.
    Rtp(PacketError),
    /// The packet is not RTCP: it is shorter than 8 bytes, or its version is not 2.
    Rtcp,
    /// The buffer is too short for the protected packet.
    BufferTooShort {
        /// The required length in bytes.
        needed: usize,
    },
    /// The packet exceeds 2^20 bytes.
    TooLong,
    /// A packet with this sequence number was protected before, or it is older than the replay
    /// window. Encrypting a second one would reuse the key stream and expose both.
    IndexReused,
    /// The source has sent 2^48 RTP or 2^31 RTCP packets, or the lifetime of the master key has
    /// ended: a new master key is needed.
    KeyExhausted,
    /// The number of sources exceeds the limit of the policy.
    TooManySources,
    /// The header extension has no room for an SRTP+ element.
    Extension,
    /// Scheme 3 of SRTP+ needs random numbers: see [`Sender::with_seed`](crate::Sender::with_seed).
    NoSeed,
    /// No master key has this MKI: see [`Sender::use_key`](crate::Sender::use_key).
    UnknownMki,
}

impl fmt::Display for ProtectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rtp(error) => error.fmt(f),
            Self::Rtcp => write!(f, "not an RTCP packet: expected version 2 and 8 bytes or more"),
            Self::BufferTooShort { needed } => {
                write!(f, "buffer too short for the protected packet: {needed} bytes needed")
            }
            Self::TooLong => write!(f, "packet of more than 2^20 bytes"),
            Self::IndexReused => write!(f, "the sequence number was used before"),
            Self::KeyExhausted => {
                write!(f, "the lifetime of the master key has ended: a new key is needed")
            }
            Self::TooManySources => write!(f, "too many sources in one session"),
            Self::Extension => write!(f, "no room for a tag in the header extension"),
            Self::NoSeed => write!(f, "scheme 3 of SRTP+ needs a seed for its random numbers"),
            Self::UnknownMki => write!(f, "no master key has this master key identifier"),
        }
    }
}

impl Error for ProtectError {}

/// The reason why a packet was rejected. It leaves no state behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnprotectError {
    /// The packet is not RTP.
    Rtp(PacketError),
    /// The packet is not RTCP, see [`ProtectError::Rtcp`].
    Rtcp,
    /// The packet is shorter than its header, its tag and the other fields of SRTP.
    Truncated,
    /// No master key has the MKI of the packet.
    UnknownMki,
    /// The packet was received before.
    Replayed,
    /// The packet is older than the replay window, or precedes the first packet.
    TooOld,
    /// The SRTP+ tag is wrong or missing: the packet is forged, or its tag or header is damaged.
    Plus,
    /// The authentication tag is wrong: the packet is forged, damaged, or protected with another
    /// key or rollover counter.
    Authentication,
    /// The lifetime of the master key has ended.
    KeyExhausted,
    /// The number of sources exceeds the limit of the policy.
    TooManySources,
}

impl fmt::Display for UnprotectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rtp(error) => error.fmt(f),
            Self::Rtcp => write!(f, "not an RTCP packet: expected version 2 and 8 bytes or more"),
            Self::Truncated => write!(f, "packet too short for SRTP"),
            Self::UnknownMki => write!(f, "no master key has the MKI of the packet"),
            Self::Replayed => write!(f, "packet received before"),
            Self::TooOld => write!(f, "packet older than the replay window"),
            Self::Plus => write!(f, "wrong SRTP+ tag"),
            Self::Authentication => write!(f, "wrong authentication tag"),
            Self::KeyExhausted => write!(f, "the lifetime of the master key has ended"),
            Self::TooManySources => write!(f, "too many sources in one session"),
        }
    }
}

impl Error for UnprotectError {}
