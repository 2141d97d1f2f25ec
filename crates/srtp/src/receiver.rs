//! The SRTP receiver.

use crate::crypto::{Code, HmacSha1, Wanted};
use crate::error::{PolicyError, UnprotectError};
use crate::index;
use crate::key::{MasterKey, Use};
use crate::plus::{self, Allowance, Verdict};
use crate::policy::Policy;
use crate::replay::{Replay, Window};
use crate::source::{Derived, Keys, Sources};
use crate::timings::{Probe, Step, StepTimer};
use crate::transform::{INDEX, RTCP_HEADER, rollover};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use rtp::Header;
use rtp::packet::FIXED_HEADER;

/// Checks and decrypts the packets of one direction of a session.
pub struct Receiver {
    /// Allocated separately, like the state of a sender.
    state: Box<State>,
}

#[repr(C, align(64))]
struct State {
    /// Limits expensive checks of unknown SRTP+ tags.
    allowance: Allowance,
    sources: Sources<Incoming>,
    keys: Keys,
}

/// The state of a packet source.
struct Incoming {
    /// The rollover counter of the first packet.
    rollover: u32,
    rtp_received: Window,
    rtp: Derived,
    plus: plus::States,
    rtcp_received: Window,
    rtcp: Derived,
}

impl Incoming {
    fn new(policy: &Policy, rollover: u32) -> Self {
        Self {
            rollover,
            rtp_received: Window::new(policy.replay_window),
            rtp: Derived::default(),
            plus: plus::States::default(),
            rtcp_received: Window::new(policy.replay_window),
            rtcp: Derived::default(),
        }
    }

    #[inline]
    fn index(&self, sequence_number: u16) -> Option<u64> {
        match self.rtp_received.highest() {
            Some(highest) => index::estimate(highest, sequence_number),
            None => Some(u64::from(self.rollover) << 16 | u64::from(sequence_number)),
        }
    }
}

/// The positions of the parts of an RTP packet.
struct Parts {
    ssrc: u32,
    sequence_number: u16,
    /// The length of the header.
    header: usize,
    /// The length of the authenticated part.
    length: usize,
    mki: Range<usize>,
    tag: Range<usize>,
    /// The SRTP+ tag and its length.
    plus_tag: ([u8; 4], usize),
}

impl From<Replay> for UnprotectError {
    fn from(replay: Replay) -> Self {
        match replay {
            Replay::Seen => Self::Replayed,
            Replay::TooOld => Self::TooOld,
        }
    }
}

impl Receiver {
    /// Creates a receiver that accepts packets with any of these keys.
    ///
    /// # Errors
    /// The policy is invalid, or the keys do not match it.
    pub fn new(policy: &Policy, keys: Vec<MasterKey>) -> Result<Self, PolicyError> {
        let state = Keys::build(policy, keys, |keys| {
            let allowance = Allowance::new(keys.secret());
            State { allowance, sources: Sources::new(), keys }
        })?;
        Ok(Self { state })
    }

    /// Adds or resets a source. Its next packet has this rollover counter. Without this call the
    /// counter starts at 0, which is correct if the source is received from its beginning.
    ///
    /// After the reset of a known source, RTP packets with this or a later rollover counter could
    /// be replayed. The state of its RTCP is kept.
    ///
    /// # Errors
    /// [`UnprotectError::TooManySources`].
    pub fn add_source(&mut self, ssrc: u32, rollover: u32) -> Result<(), UnprotectError> {
        if let Some(source) = self.state.sources.get_mut(ssrc) {
            let new = Incoming::new(&self.state.keys.policy, rollover);
            let Incoming { rtcp_received, rtcp, .. } = core::mem::replace(source, new);
            (source.rtcp_received, source.rtcp) = (rtcp_received, rtcp);
            return Ok(());
        }
        if self.state.sources.len() >= self.state.keys.policy.max_sources {
            return Err(UnprotectError::TooManySources);
        }
        self.state.sources.insert(ssrc, Incoming::new(&self.state.keys.policy, rollover));
        Ok(())
    }

    /// The SSRCs of known sources.
    pub fn sources(&self) -> impl Iterator<Item = u32> + '_ {
        self.state.sources.ssrcs()
    }

    /// Removes a source that has ended. Returns true if it was known. Its packets could then be
    /// replayed.
    pub fn remove_source(&mut self, ssrc: u32) -> bool {
        self.state.sources.remove(ssrc)
    }

    /// Checks and decrypts an RTP packet, and returns it without the fields of SRTP.
    ///
    /// # Errors
    /// See [`UnprotectError`]. A packet that is not authentic is unchanged.
    pub fn unprotect<'a>(&mut self, packet: &'a mut [u8]) -> Result<&'a mut [u8], UnprotectError> {
        self.unprotect_with(packet, &mut (), |hmac, data, rollover| hmac.code(data, &rollover))
    }

    /// Works as [`Receiver::unprotect`] and measures its steps.
    ///
    /// # Errors
    /// See [`Receiver::unprotect`].
    pub fn unprotect_timed<'a>(
        &mut self,
        packet: &'a mut [u8],
        watch: &mut StepTimer<'_>,
    ) -> Result<&'a mut [u8], UnprotectError> {
        self.unprotect_with(packet, watch, |hmac, data, rollover| hmac.code(data, &rollover))
    }

    /// Predicts the HMAC that [`Receiver::unprotect`] will need for a packet, if possible. Returns
    /// `None` for a packet that would be rejected without it; with SRTP+, whose purpose is to avoid
    /// the HMAC of forged packets; and with a key derivation rate, which would require key
    /// derivation.
    #[inline]
    pub(crate) fn foresee(&mut self, packet: &[u8]) -> Option<Wanted> {
        let policy = &self.state.keys.policy;
        let wants_one = !policy.suite.is_aead() && policy.authenticate_rtp;
        if !wants_one || policy.plus.is_some() || policy.key_derivation_rate.is_some() {
            return None;
        }
        let parts = self.split(packet).ok()?;
        let source = self.state.sources.get_mut(parts.ssrc)?;
        let index = source.index(parts.sequence_number)?;
        source.rtp_received.check(index).ok()?;
        let key = self.state.keys.find(&packet[parts.mki])?;
        let (policy, key) = self.state.keys.policy_and_entry(key);
        if !key.may_use(Use::Rtp) {
            return None;
        }
        let transform = key.transform(policy, Use::Rtp, index, &mut source.rtp, &mut ());
        let hmac = transform.hmac()?.clone();
        Some(Wanted { hmac, length: parts.length, rollover: rollover(index) })
    }

    /// Finds the parts of an RTP packet. Inlining is forced: otherwise the function would be shared
    /// with the measuring variant.
    #[inline(always)]
    fn split(&self, packet: &[u8]) -> Result<Parts, UnprotectError> {
        let header = Header::parse(packet).map_err(UnprotectError::Rtp)?;
        let policy = &self.state.keys.policy;
        let mut plus_tag = ([0; 4], 0);
        let mut end = packet.len();
        if let Some(plus) = policy.plus {
            let length = plus.scheme.tag_length();
            let found = plus::tag_of(packet, &header, plus.placement, length);
            let (tag, new_end) = found.ok_or(UnprotectError::Plus)?;
            plus_tag.0[..length].copy_from_slice(tag);
            (plus_tag.1, end) = (length, new_end);
        }
        let (tag_length, mki_length) = (policy.rtp_tag_length(), self.state.keys.mki_length());
        let length = end.checked_sub(tag_length + mki_length);
        let length = length.filter(|&end| end >= header.len());
        let length = length.ok_or(UnprotectError::Truncated)?;
        let (mki, tag) = if policy.suite.is_aead() {
            (length + tag_length..end, length..length + tag_length)
        } else {
            (length..length + mki_length, length + mki_length..end)
        };
        let (ssrc, sequence_number) = (header.ssrc(), header.sequence_number());
        Ok(Parts { ssrc, sequence_number, header: header.len(), length, mki, tag, plus_tag })
    }

    /// Checks and decrypts an RTP packet. `code` computes the HMAC that its tag has to equal.
    #[inline]
    pub(crate) fn unprotect_with<'a>(
        &mut self,
        packet: &'a mut [u8],
        probe: &mut impl Probe,
        code: impl FnOnce(&HmacSha1, &[u8], [u8; 4]) -> Code,
    ) -> Result<&'a mut [u8], UnprotectError> {
        let Parts { ssrc, sequence_number, header, length, mki, tag, plus_tag } =
            probe.time(Step::Header, || self.split(packet))?;
        let (packet, end) = packet.split_at_mut(length);
        let mki = &end[mki.start - length..mki.end - length];
        let tag = &end[tag.start - length..tag.end - length];
        let policy = &self.state.keys.policy;

        let mut new = None;
        let source = known_or_new(&mut self.state.sources, policy, ssrc, &mut new)?;
        let index = source.index(sequence_number).ok_or(UnprotectError::TooOld)?;
        match probe.time(Step::Replay, || source.rtp_received.check(index)) {
            // Without tags a forged packet may have moved the window. It must not block authentic
            // packets.
            Err(Replay::TooOld) if tag.is_empty() => {}
            result => result?,
        }
        let key = self.state.keys.find(mki).ok_or(UnprotectError::UnknownMki)?;
        let (policy, key) = self.state.keys.policy_and_entry(key);
        if !key.may_use(Use::Rtp) {
            return Err(UnprotectError::KeyExhausted);
        }
        let mut fixed = [0; FIXED_HEADER];
        let mut is_costly = false;
        if let Some(keys) = &key.plus {
            fixed.copy_from_slice(&packet[..FIXED_HEADER]);
            let tag = &plus_tag.0[..plus_tag.1];
            match keys.check(source.plus.get(key.number), &fixed, index, tag) {
                Verdict::Right => {}
                Verdict::Unknown if self.state.allowance.is_granted() => {
                    is_costly = true;
                    if !keys.work(source.plus.get_mut(key.number), &fixed, index, tag) {
                        self.state.allowance.note(true);
                        return Err(UnprotectError::Plus);
                    }
                }
                Verdict::Wrong | Verdict::Unknown => return Err(UnprotectError::Plus),
            }
        }
        let transform = key.transform(policy, Use::Rtp, index, &mut source.rtp, probe);
        if !transform.unprotect_rtp(packet, header, index, tag, probe, code) {
            if is_costly {
                self.state.allowance.note(true);
            }
            return Err(UnprotectError::Authentication);
        }
        if is_costly {
            self.state.allowance.note(false);
        }
        let mut length = packet.len();
        if let (Some(plus), Some(keys)) = (policy.plus, &key.plus) {
            let list = plus.scheme.payload_overhead();
            length = length
                .checked_sub(list)
                .filter(|&length| length >= header)
                .ok_or(UnprotectError::Truncated)?;
            keys.accept(source.plus.get_mut(key.number), &fixed, index, &packet[length..]);
        }
        key.keep(policy, index, &mut source.rtp);
        key.count(Use::Rtp);
        probe.time_more(Step::Replay, || source.rtp_received.take(index));
        if let Some(new) = new {
            self.state.sources.insert(ssrc, new);
        }
        Ok(&mut packet[..length])
    }

    /// Checks and decrypts an RTCP packet, and returns it without the fields of SRTCP.
    ///
    /// # Errors
    /// See [`Receiver::unprotect`].
    pub fn unprotect_rtcp<'a>(
        &mut self,
        packet: &'a mut [u8],
    ) -> Result<&'a mut [u8], UnprotectError> {
        let [first, _, _, _, s, s1, s2, s3, ..] = *packet else { return Err(UnprotectError::Rtcp) };
        if first >> 6 != 2 {
            return Err(UnprotectError::Rtcp);
        }
        let ssrc = u32::from_be_bytes([s, s1, s2, s3]);
        let policy = &self.state.keys.policy;
        let (tag_length, mki_length) =
            (policy.suite.rtcp_tag_length(), self.state.keys.mki_length());
        let length = packet.len().checked_sub(tag_length + INDEX + mki_length);
        let length = length.filter(|&end| end >= RTCP_HEADER).ok_or(UnprotectError::Truncated)?;
        let end = &packet[length..];
        let (word, mki, tag) = if policy.suite.is_aead() {
            let (tag, end) = end.split_at(tag_length);
            let (word, mki) = end.split_at(INDEX);
            (word, mki, tag)
        } else {
            let (word, end) = end.split_at(INDEX);
            let (mki, tag) = end.split_at(mki_length);
            (word, mki, tag)
        };
        let key = self.state.keys.find(mki).ok_or(UnprotectError::UnknownMki)?;
        let word = u32::from_be_bytes([word[0], word[1], word[2], word[3]]);
        let index = u64::from(word & index::RTCP_MAX);
        let mut kept_tag = [0; 16];
        let kept_tag = &mut kept_tag[..tag_length];
        kept_tag.copy_from_slice(tag);

        let mut new = None;
        let source = known_or_new(&mut self.state.sources, policy, ssrc, &mut new)?;
        source.rtcp_received.check(index)?;
        let (policy, key) = self.state.keys.policy_and_entry(key);
        if !key.may_use(Use::Rtcp) {
            return Err(UnprotectError::KeyExhausted);
        }
        let transform = key.transform(policy, Use::Rtcp, index, &mut source.rtcp, &mut ());
        if !transform.unprotect_rtcp(packet, length, word, kept_tag) {
            return Err(UnprotectError::Authentication);
        }
        key.keep(policy, index, &mut source.rtcp);
        key.count(Use::Rtcp);
        source.rtcp_received.take(index);
        if let Some(new) = new {
            self.state.sources.insert(ssrc, new);
        }
        Ok(&mut packet[..length])
    }
}

/// The known source with this SSRC, or a new one in `new`, which is stored only after an authentic
/// packet.
#[inline]
fn known_or_new<'a>(
    sources: &'a mut Sources<Incoming>,
    policy: &Policy,
    ssrc: u32,
    new: &'a mut Option<Incoming>,
) -> Result<&'a mut Incoming, UnprotectError> {
    let is_full = sources.len() >= policy.max_sources;
    match sources.get_mut(ssrc) {
        Some(source) => Ok(source),
        None if is_full => Err(UnprotectError::TooManySources),
        None => Ok(new.insert(Incoming::new(policy, 0))),
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("policy", &self.state.keys.policy).finish_non_exhaustive()
    }
}
