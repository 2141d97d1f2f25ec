//! The SRTP sender.

use crate::crypto::HmacSha1;
use crate::error::{PolicyError, ProtectError};
use crate::index;
use crate::key::{MasterKey, Use};
use crate::plus::{self, Placement, Scheme, SrtpPlus};
use crate::policy::Policy;
use crate::replay::Window;
use crate::source::{Derived, Keys, Sources};
use crate::timings::{Probe, Step, StepTimer};
use crate::transform::{ENCRYPTED, INDEX, RTCP_HEADER, rollover};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use rtp::Header;
use rtp::packet::FIXED_HEADER;

/// The maximum packet length: in counter mode 2^16 blocks share an index (RFC 3711 section 4.1.1).
const MAX_PACKET: usize = 1 << 20;

/// Protects the packets of one direction of a session.
pub struct Sender {
    /// Allocated separately, so that moving a sender leaves no copies of keys behind, and
    /// contiguous and aligned to cache lines, so that a session is fetched from memory at once.
    state: Box<State>,
}

#[repr(C, align(64))]
struct State {
    /// The source of the numbers of SRTP+ scheme 3.
    random: Option<Box<plus::Random>>,
    sources: Sources<Outgoing>,
    /// The index of the current key.
    key: usize,
    keys: Keys,
}

/// The state of a packet source.
struct Outgoing {
    /// The rollover counter of the first packet.
    rollover: u32,
    /// The sent packets: no index may be used twice.
    sent: Window,
    rtp: Derived,
    plus: plus::States,
    /// The index of the next RTCP packet.
    rtcp_index: u32,
    rtcp: Derived,
}

impl Outgoing {
    fn new(policy: &Policy, rollover: u32) -> Self {
        Self {
            rollover,
            sent: Window::new(policy.replay_window),
            rtp: Derived::default(),
            plus: plus::States::default(),
            rtcp_index: 0,
            rtcp: Derived::default(),
        }
    }

    #[inline]
    fn index(&self, sequence_number: u16) -> Result<u64, ProtectError> {
        let Some(highest) = self.sent.highest() else {
            return Ok(u64::from(self.rollover) << 16 | u64::from(sequence_number));
        };
        let index = index::estimate(highest, sequence_number);
        let error =
            if highest >> 47 == 0 { ProtectError::IndexReused } else { ProtectError::KeyExhausted };
        index.ok_or(error)
    }
}

impl Sender {
    /// Creates a sender that protects packets with the first of these keys.
    ///
    /// # Errors
    /// The policy is invalid, or the keys do not match it.
    pub fn new(policy: &Policy, keys: Vec<MasterKey>) -> Result<Self, PolicyError> {
        let state = Keys::build(policy, keys, |keys| State {
            random: None,
            sources: Sources::new(),
            key: 0,
            keys,
        })?;
        Ok(Self { state })
    }

    /// Sets the secret random seed of the numbers of SRTP+ scheme 3. Other schemes need no seed.
    #[must_use]
    pub fn with_seed(mut self, seed: &[u8; 32]) -> Self {
        self.state.random = Some(Box::new(plus::Random::new(seed)));
        self
    }

    /// The maximum number of bytes that [`Sender::protect`] adds. Fewer are added if SRTP+ finds an
    /// existing header extension.
    #[must_use]
    pub fn rtp_overhead(&self) -> usize {
        let plus = self.state.keys.policy.plus.map_or(0, |plus| {
            plus.scheme.payload_overhead()
                + match plus.placement {
                    Placement::Extension(_) => plus::ROOM,
                    Placement::Trailer => plus.scheme.tag_length(),
                }
        });
        self.state.keys.mki_length() + self.state.keys.policy.rtp_tag_length() + plus
    }

    /// The number of bytes that [`Sender::protect_rtcp`] adds.
    #[must_use]
    pub fn rtcp_overhead(&self) -> usize {
        self.state.keys.mki_length() + self.state.keys.policy.suite.rtcp_tag_length() + INDEX
    }

    /// Switches to the key with this MKI.
    ///
    /// # Errors
    /// [`ProtectError::UnknownMki`].
    pub fn use_key(&mut self, mki: &[u8]) -> Result<(), ProtectError> {
        self.state.key = self.state.keys.find(mki).ok_or(ProtectError::UnknownMki)?;
        Ok(())
    }

    /// Adds or resets a source. Its first packet has this rollover counter, its first RTCP packet
    /// this index. Without this call both are 0.
    ///
    /// With the same master key no packet may get an index that was used before.
    ///
    /// # Errors
    /// [`ProtectError::TooManySources`], [`ProtectError::KeyExhausted`] if the RTCP index is above
    /// 2^31.
    pub fn add_source(
        &mut self,
        ssrc: u32,
        rollover: u32,
        rtcp_index: u32,
    ) -> Result<(), ProtectError> {
        if rtcp_index > index::RTCP_MAX {
            return Err(ProtectError::KeyExhausted);
        }
        self.remove_source(ssrc);
        let new = Outgoing { rtcp_index, ..Outgoing::new(&self.state.keys.policy, rollover) };
        *source(&mut self.state.sources, &self.state.keys.policy, ssrc)? = new;
        Ok(())
    }

    /// The SSRCs of known sources.
    pub fn sources(&self) -> impl Iterator<Item = u32> + '_ {
        self.state.sources.ssrcs()
    }

    /// Removes a source that has ended. Returns true if it was known.
    ///
    /// If the source sends again with the same master key, indices would be reused. The caller then
    /// passes its counters to [`Sender::add_source`].
    pub fn remove_source(&mut self, ssrc: u32) -> bool {
        self.state.sources.remove(ssrc)
    }

    /// Protects the RTP packet in the first `length` bytes of a buffer, and returns its new length.
    ///
    /// # Errors
    /// See [`ProtectError`]. The packet is then unchanged.
    pub fn protect(&mut self, buffer: &mut [u8], length: usize) -> Result<usize, ProtectError> {
        self.protect_with(buffer, length, &mut (), Unsigned::sign)
    }

    /// Works as [`Sender::protect`] and measures its steps.
    ///
    /// # Errors
    /// See [`Sender::protect`].
    pub fn protect_timed(
        &mut self,
        buffer: &mut [u8],
        length: usize,
        watch: &mut StepTimer<'_>,
    ) -> Result<usize, ProtectError> {
        self.protect_with(buffer, length, watch, Unsigned::sign)
    }

    /// Protects an RTP packet except for its HMAC tag, which is passed to `sign`.
    #[inline]
    pub(crate) fn protect_with(
        &mut self,
        buffer: &mut [u8],
        length: usize,
        probe: &mut impl Probe,
        sign: impl FnOnce(&HmacSha1, &mut [u8], Unsigned),
    ) -> Result<usize, ProtectError> {
        if length > MAX_PACKET {
            return Err(ProtectError::TooLong);
        }
        let needed = length + self.rtp_overhead();
        if buffer.len() < needed {
            return Err(ProtectError::BufferTooShort { needed });
        }
        let header = probe.time(Step::Header, || Header::parse(&buffer[..length]));
        let header = header.map_err(ProtectError::Rtp)?;
        let (ssrc, sequence_number, mut header) =
            (header.ssrc(), header.sequence_number(), header.len());

        let (policy, key) = self.state.keys.policy_and_entry(self.state.key);
        let source = source(&mut self.state.sources, policy, ssrc)?;
        let index = source.index(sequence_number)?;
        let replay = probe.time(Step::Replay, || source.sent.check(index));
        replay.map_err(|_| ProtectError::IndexReused)?;
        if !key.may_use(Use::Rtp) {
            return Err(ProtectError::KeyExhausted);
        }
        let mut length = length;
        let mut trailer = ([0; 4], 0);
        if let (Some(plus), Some(keys)) = (policy.plus, &key.plus) {
            let before = length;
            (trailer, length) = add_plus(
                plus,
                keys,
                source.plus.get_mut(self.state.key),
                self.state.random.as_deref_mut(),
                index,
                buffer,
                length,
            )?;
            header += length - before - plus.scheme.payload_overhead();
        }

        let mki = key.mki();
        let tag_length = policy.rtp_tag_length();
        let end = length + tag_length + mki.len();
        let (packet, added) = buffer[..end].split_at_mut(length);
        let (identifier, tag) = if policy.suite.is_aead() {
            let (tag, identifier) = added.split_at_mut(tag_length);
            (identifier, tag)
        } else {
            added.split_at_mut(mki.len())
        };
        if !mki.is_empty() {
            identifier.copy_from_slice(mki);
        }
        let transform = key.transform(policy, Use::Rtp, index, &mut source.rtp, probe);
        let hmac =
            probe.time(Step::Encryption, || transform.encrypt_rtp(packet, header, index, tag));
        if let Some(hmac) = hmac.filter(|_| tag_length > 0) {
            let (rollover, tag) = (rollover(index), end - tag_length..end);
            let unsigned = Unsigned { length, rollover, tag };
            probe.time(Step::Authentication, || sign(hmac, buffer, unsigned));
        }
        key.keep(policy, index, &mut source.rtp);
        key.count(Use::Rtp);
        probe.time_more(Step::Replay, || source.sent.take(index));
        let (tag, tag_length) = trailer;
        if tag_length > 0 {
            buffer[end..end + tag_length].copy_from_slice(&tag[..tag_length]);
        }
        Ok(end + tag_length)
    }

    /// Protects the RTCP packet, compound or not, in the first `length` bytes of a buffer, and
    /// returns its new length.
    ///
    /// # Errors
    /// See [`ProtectError`]. The packet is then unchanged.
    pub fn protect_rtcp(
        &mut self,
        buffer: &mut [u8],
        length: usize,
    ) -> Result<usize, ProtectError> {
        if length > MAX_PACKET {
            return Err(ProtectError::TooLong);
        }
        let needed = length + self.rtcp_overhead();
        if buffer.len() < needed {
            return Err(ProtectError::BufferTooShort { needed });
        }
        let [first, _, _, _, s, s1, s2, s3, ..] = buffer[..length] else {
            return Err(ProtectError::Rtcp);
        };
        if first >> 6 != 2 {
            return Err(ProtectError::Rtcp);
        }
        debug_assert!(length >= RTCP_HEADER);

        let ssrc = u32::from_be_bytes([s, s1, s2, s3]);
        let (policy, key) = self.state.keys.policy_and_entry(self.state.key);
        let source = source(&mut self.state.sources, policy, ssrc)?;
        let index = source.rtcp_index;
        if index > index::RTCP_MAX || !key.may_use(Use::Rtcp) {
            return Err(ProtectError::KeyExhausted);
        }
        let word = index | if policy.encrypt_rtcp { ENCRYPTED } else { 0 };
        let mki = key.mki();
        let mki_length = mki.len();
        // With AES-GCM the MKI is the last field, otherwise the tag follows it.
        let behind = if policy.suite.is_aead() { 0 } else { policy.suite.rtcp_tag_length() };
        buffer[needed - behind - mki_length..needed - behind].copy_from_slice(mki);
        let transform =
            key.transform(policy, Use::Rtcp, u64::from(index), &mut source.rtcp, &mut ());
        transform.protect_rtcp(&mut buffer[..needed], length, word, mki_length);
        key.keep(policy, u64::from(index), &mut source.rtcp);
        key.count(Use::Rtcp);
        source.rtcp_index += 1;
        Ok(needed)
    }
}

/// A packet that lacks only its tag.
pub(crate) struct Unsigned {
    /// The number of authenticated bytes of the packet.
    pub(crate) length: usize,
    /// The bytes authenticated after them.
    pub(crate) rollover: [u8; 4],
    pub(crate) tag: Range<usize>,
}

impl Unsigned {
    /// Writes the tag.
    fn sign(hmac: &HmacSha1, buffer: &mut [u8], unsigned: Self) {
        let Self { length, rollover, tag } = unsigned;
        let code = hmac.code(&buffer[..length], &rollover);
        let tag = &mut buffer[tag];
        tag.copy_from_slice(&code[..tag.len()]);
    }
}

/// Adds the fields of SRTP+ that precede SRTP. Returns the trailing tag with its length, and the
/// packet's new length.
fn add_plus(
    plus: SrtpPlus,
    keys: &plus::Keys,
    state: &mut plus::State,
    random: Option<&mut plus::Random>,
    index: u64,
    buffer: &mut [u8],
    length: usize,
) -> Result<(([u8; 4], usize), usize), ProtectError> {
    if matches!(plus.scheme, Scheme::Chain { .. }) && random.is_none() {
        return Err(ProtectError::NoSeed);
    }
    let tag_length = plus.scheme.tag_length();
    let (at, length) = match plus.placement {
        Placement::Trailer => (None, length),
        Placement::Extension(id) => {
            let inserted = plus::insert_element(buffer, length, id, tag_length);
            let (at, length) = inserted.ok_or(ProtectError::Extension)?;
            (Some(at), length)
        }
    };
    let mut header = [0; FIXED_HEADER];
    header.copy_from_slice(&buffer[..FIXED_HEADER]);
    let end = length + plus.scheme.payload_overhead();
    let tag = keys.tag(state, &header, index, &mut buffer[length..end], random);
    let tag = tag.ok_or(ProtectError::NoSeed)?;
    match at {
        None => Ok(((tag, tag_length), end)),
        Some(at) => {
            buffer[at..at + tag_length].copy_from_slice(&tag[..tag_length]);
            Ok(((tag, 0), end))
        }
    }
}

/// The source with this SSRC, created if unknown.
#[inline]
fn source<'a>(
    sources: &'a mut Sources<Outgoing>,
    policy: &Policy,
    ssrc: u32,
) -> Result<&'a mut Outgoing, ProtectError> {
    if !sources.contains(ssrc) {
        if sources.len() >= policy.max_sources {
            return Err(ProtectError::TooManySources);
        }
        sources.insert(ssrc, Outgoing::new(policy, 0));
    }
    Ok(sources.last())
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("policy", &self.state.keys.policy).finish_non_exhaustive()
    }
}
