//! The protection of packets: a suite and the session parameters of SDES.

use crate::error::PolicyError;
use crate::replay;
use crate::scheme::SrtpPlus;
use crate::suite::Suite;

/// The protection policy of a session, for one direction or both. Start with [`Policy::new`] and
/// change single fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// The crypto suite.
    pub suite: Suite,
    /// True if RTP is encrypted. `false` is `UNENCRYPTED_SRTP` (RFC 4568 section 6.3.2).
    pub encrypt_rtp: bool,
    /// True if RTCP is encrypted. `false` is `UNENCRYPTED_SRTCP`.
    pub encrypt_rtcp: bool,
    /// True if RTP has an authentication tag. `false` is `UNAUTHENTICATED_SRTP`. RTCP always has
    /// one.
    pub authenticate_rtp: bool,
    /// The key derivation rate (`KDR`, RFC 3711 section 4.3.1): new session keys every 2^n packets,
    /// n from 0 to 24. `None` keeps the same session keys.
    pub key_derivation_rate: Option<u32>,
    /// The size of the replay window in packets (`WSH`, RFC 3711 section 3.3.2): older packets are
    /// rejected.
    pub replay_window: u64,
    /// The SRTP+ parameters for RTP packets, if used.
    pub plus: Option<SrtpPlus>,
    /// The maximum number of sources (SSRCs). Packets of further sources are rejected.
    pub max_sources: usize,
}

impl Policy {
    /// The minimum replay window (RFC 3711 section 3.3.2).
    pub const MIN_REPLAY_WINDOW: u64 = replay::MIN_SIZE;
    /// The maximum replay window: half the range of sequence numbers.
    pub const MAX_REPLAY_WINDOW: u64 = replay::MAX_SIZE;

    /// A suite with full protection, a single set of session keys, a window of 128 packets and up
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

    /// The length of an RTP authentication tag in bytes.
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
