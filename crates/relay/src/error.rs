//! The reasons why a description or a packet is not relayed.

use core::fmt;
use media::demultiplex::Kind;
use rtp::PacketError;
use sdp::SessionError;
use srtp::{PolicyError, ProtectError, UnprotectError};

/// The reason why a session description is not relayed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayError {
    /// The body is not a session description.
    Description(SessionError),
    /// The description has more media than the limit.
    TooManyMedia,
    /// An answer has another number of media than its offer (RFC 3264 section 6).
    MediaCount {
        /// The media of the offer.
        offered: usize,
        /// The media of the answer.
        answered: usize,
    },
    /// An answer came without an offer.
    NoOffer,
    /// The limit of calls is reached.
    TooManyCalls,
    /// The call has more branches or early dialogs than the limit.
    TooManyBranches,
    /// The account has more calls than its share.
    Share,
    /// The media of the account, or of all calls, have the bandwidth of the limit.
    Bandwidth,
    /// No port is free, or the system refused one.
    NoPort,
    /// The description names a port of the relay itself.
    OwnPort,
    /// The keys in the description are unusable.
    Keys(PolicyError),
    /// The end must encrypt its media, and does not.
    InClear,
    /// An end has not what a handshake needs, or the host makes none.
    Handshake,
}

impl fmt::Display for RelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Description(error) => error.fmt(f),
            Self::TooManyMedia => f.write_str("more media in a description than the limit"),
            Self::MediaCount { offered, answered } => {
                write!(f, "expected {offered} media in the answer, as in the offer: {answered}")
            }
            Self::NoOffer => f.write_str("an answer without an offer"),
            Self::TooManyCalls => f.write_str("the limit of relayed calls is reached"),
            Self::TooManyBranches => f.write_str("the limit of branches of a call is reached"),
            Self::Share => f.write_str("the account has its share of relayed calls"),
            Self::Bandwidth => f.write_str("the limit of the bandwidth of media is reached"),
            Self::NoPort => f.write_str("no free port for media"),
            Self::OwnPort => f.write_str("the description names a port of the relay itself"),
            Self::Keys(error) => write!(f, "the offered SRTP keys are unusable: {error}"),
            Self::Handshake => f.write_str(
                "expected a fingerprint, the role in the handshake as before, and ICE as before",
            ),
            Self::InClear => f.write_str("expected SRTP keys in the description"),
        }
    }
}

impl core::error::Error for RelayError {}

impl From<SessionError> for RelayError {
    fn from(error: SessionError) -> Self {
        Self::Description(error)
    }
}

impl From<PolicyError> for RelayError {
    fn from(error: PolicyError) -> Self {
        Self::Keys(error)
    }
}

/// The reason why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Drop {
    /// It came from an address other than that of the end.
    Source,
    /// It is of a protocol that the medium does not carry.
    Kind(Kind),
    /// It is not valid RTP.
    Rtp(PacketError),
    /// Its payload type was not agreed.
    PayloadType(u8),
    /// The handshake of a leg has no keys yet.
    NoKeys,
    /// It is forged, damaged or repeated.
    Unprotect(UnprotectError),
    /// It cannot be encrypted for the other leg: it is too long for its buffer, or was sent before.
    Protect(ProtectError),
    /// The other end has no address yet.
    NoDestination,
    /// The other end has not sent from its address, and has received the most that an unconfirmed
    /// address receives.
    Unconfirmed,
    /// It is over the limit of sound that is converted for each second of time.
    Excess,
    /// Its payload is not of its codec, or is too long to be converted.
    Payload,
    /// The stream has more than the bandwidth of its codecs, or a limit of bandwidth is reached.
    Bandwidth,
}

impl fmt::Display for Drop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source => f.write_str("expected the address of the end"),
            Self::Kind(kind) => write!(f, "expected RTP or RTCP: {kind:?}"),
            Self::Rtp(error) => error.fmt(f),
            Self::PayloadType(number) => write!(f, "payload type {number} was not agreed"),
            Self::NoKeys => f.write_str("the handshake has no keys yet"),
            Self::Unprotect(error) => error.fmt(f),
            Self::Protect(error) => error.fmt(f),
            Self::NoDestination => f.write_str("the other end has no address yet"),
            Self::Unconfirmed => f.write_str("the other end has not confirmed its address"),
            Self::Excess => f.write_str("more sound than passes in the time"),
            Self::Payload => f.write_str("expected a payload of the codec, of 240 ms at most"),
            Self::Bandwidth => f.write_str("a limit of bandwidth is reached"),
        }
    }
}

impl core::error::Error for Drop {}
