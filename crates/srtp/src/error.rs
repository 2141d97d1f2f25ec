//! What can go wrong.

use crate::plus::scheme::Plus;
use crate::replay;
use crate::suite::Suite;
use core::error::Error;
use core::fmt;
use rtp::PacketError;

/// Why a session cannot be set up so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PolicyError {
    /// The suite cannot leave RTP unencrypted or unauthenticated (RFC 7714).
    Aead(Suite),
    /// No such key derivation rate.
    KeyDerivationRate(u32),
    /// The replay window is too small or too large.
    ReplayWindow(u64),
    /// The bytes of a master key and salt are too few or too many.
    KeyLength {
        /// The suite that they are for.
        suite: Suite,
        /// How many there are.
        length: usize,
    },
    /// A key for another suite.
    OtherSuite(Suite),
    /// No master key.
    NoKey,
    /// SRTP+ has no such scheme or placement, or its chain would not be encrypted.
    Plus(Plus),
    /// The master key identifiers are of different lengths, longer than 128 bytes, not all
    /// different, or missing where there are several keys.
    Mki,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Aead(suite) => {
                write!(f, "{suite} always encrypts and authenticates RTP: it cannot be told not to")
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
                "master key and salt of {length} bytes, {suite} wants {} and {}",
                suite.key_length(),
                suite.salt_length()
            ),
            Self::OtherSuite(suite) => write!(f, "master key for {suite}, not for this session"),
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

/// Why a packet was not protected. It was left as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtectError {
    /// It is no RTP packet.
    Rtp(PacketError),
    /// It is no RTCP packet: shorter than 8 bytes, or of another version than 2.
    Rtcp,
    /// The buffer has no room for what is added.
    BufferTooShort {
        /// How many bytes it would have to have.
        needed: usize,
    },
    /// It has more than 2^20 bytes.
    TooLong,
    /// A packet with this sequence number was protected before, or it is further behind the newest
    /// one than the replay window. To encrypt a second one would give both away.
    Repeated,
    /// The source has sent 2^48 RTP or 2^31 RTCP packets, or the master key has protected as many
    /// as it may: a new master key is needed.
    KeyExhausted,
    /// More sources than the policy allows.
    TooManySources,
    /// The header has an extension that SRTP+ can put no element into.
    Extension,
    /// Scheme 3 of SRTP+ wants random numbers: see [`Sender::with_seed`](crate::Sender::with_seed).
    NoSeed,
}

impl fmt::Display for ProtectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rtp(error) => error.fmt(f),
            Self::Rtcp => write!(f, "no RTCP packet: expected version 2 and 8 bytes or more"),
            Self::BufferTooShort { needed } => {
                write!(f, "buffer too short for the protected packet: {needed} bytes needed")
            }
            Self::TooLong => write!(f, "packet of more than 2^20 bytes"),
            Self::Repeated => write!(f, "this sequence number was used before"),
            Self::KeyExhausted => write!(f, "the master key is used up: a new one is needed"),
            Self::TooManySources => write!(f, "too many sources in one session"),
            Self::Extension => write!(f, "no room for a tag in the header extension"),
            Self::NoSeed => write!(f, "scheme 3 of SRTP+ needs a seed for its random numbers"),
        }
    }
}

impl Error for ProtectError {}

/// Why a packet was refused. Nothing is remembered of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnprotectError {
    /// It is no RTP packet.
    Rtp(PacketError),
    /// It is no RTCP packet, see [`ProtectError::Rtcp`].
    Rtcp,
    /// It ends before its header, tag and the rest of what SRTP adds do.
    Truncated,
    /// No master key has this identifier.
    UnknownMki,
    /// It has been received before.
    Replayed,
    /// It is further behind the newest packet than the replay window, or before the first one.
    TooOld,
    /// Its tag of SRTP+ is wrong or missing: it is forged, or damaged where the tag or the header
    /// stands.
    Plus,
    /// Its tag is wrong: it is forged, damaged, or of another key or rollover counter.
    Authentication,
    /// The master key has protected as many packets as it may.
    KeyExhausted,
    /// More sources than the policy allows.
    TooManySources,
}

impl fmt::Display for UnprotectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rtp(error) => error.fmt(f),
            Self::Rtcp => write!(f, "no RTCP packet: expected version 2 and 8 bytes or more"),
            Self::Truncated => write!(f, "packet too short to be protected"),
            Self::UnknownMki => write!(f, "no master key has this identifier"),
            Self::Replayed => write!(f, "packet received before"),
            Self::TooOld => write!(f, "packet too old to know whether it was received before"),
            Self::Plus => write!(f, "wrong tag of SRTP+"),
            Self::Authentication => write!(f, "wrong authentication tag"),
            Self::KeyExhausted => write!(f, "the master key is used up"),
            Self::TooManySources => write!(f, "too many sources in one session"),
        }
    }
}

impl Error for UnprotectError {}
