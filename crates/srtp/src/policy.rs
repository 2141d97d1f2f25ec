//! How packets are protected: a suite, and what SDES calls session parameters.

use crate::error::PolicyError;
use crate::plus::scheme::Plus;
use crate::replay;
use crate::suite::Suite;

/// How a session protects its packets, both directions alike or each in its own way. Begin with
/// [`Policy::new`] and change what is to be otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// The crypto suite.
    pub suite: Suite,
    /// Whether RTP is encrypted: `false` is `UNENCRYPTED_SRTP` (RFC 4568 section 6.3.2).
    pub encrypt_rtp: bool,
    /// Whether RTCP is encrypted: `false` is `UNENCRYPTED_SRTCP`.
    pub encrypt_rtcp: bool,
    /// Whether RTP carries a tag: `false` is `UNAUTHENTICATED_SRTP`. RTCP always does.
    pub authenticate_rtp: bool,
    /// New session keys are derived every 2^n packets, n from 0 to 24 (`KDR`, RFC 3711 section
    /// 4.3.1); `None` for the same session keys throughout.
    pub key_derivation_rate: Option<u32>,
    /// How far a packet may lie behind the newest one of its source and still be taken, in packets
    /// (`WSH`, RFC 3711 section 3.3.2).
    pub replay_window: u64,
    /// What SRTP+ adds to RTP packets, if anything.
    pub plus: Option<Plus>,
    /// How many sources (SSRCs) are kept apart; packets of more are refused.
    pub max_sources: usize,
}

impl Policy {
    /// The least replay window (RFC 3711 section 3.3.2).
    pub const MIN_REPLAY_WINDOW: u64 = replay::MIN_SIZE;
    /// The largest one: as far back as a sequence number can tell.
    pub const MAX_REPLAY_WINDOW: u64 = replay::MAX_SIZE;

    /// A suite with all that it protects, one set of session keys, a window of 128 packets and up
    /// to 64 sources.
    #[must_use]
    pub fn new(suite: Suite) -> Self {
        Self {
            suite,
            encrypt_rtp: true,
            encrypt_rtcp: true,
            authenticate_rtp: true,
            key_derivation_rate: None,
            replay_window: 128,
            plus: None,
            max_sources: 64,
        }
    }

    /// The length of an RTP packet's tag in bytes.
    #[must_use]
    pub fn rtp_tag_length(&self) -> usize {
        if self.authenticate_rtp { self.suite.rtp_tag_length() } else { 0 }
    }

    pub(crate) fn check(&self) -> Result<(), PolicyError> {
        if self.suite.is_aead() && !(self.encrypt_rtp && self.authenticate_rtp) {
            return Err(PolicyError::Aead(self.suite));
        }
        if let Some(rate) = self.key_derivation_rate.filter(|&rate| rate > 24) {
            return Err(PolicyError::KeyDerivationRate(rate));
        }
        if !(Self::MIN_REPLAY_WINDOW..=Self::MAX_REPLAY_WINDOW).contains(&self.replay_window) {
            return Err(PolicyError::ReplayWindow(self.replay_window));
        }
        match self.plus {
            Some(plus) if !plus.fits(self.encrypt_rtp) => Err(PolicyError::Plus(plus)),
            _ => Ok(()),
        }
    }
}
