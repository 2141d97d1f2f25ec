//! The sending end.

use crate::crypto::HmacSha1;
use crate::error::{PolicyError, ProtectError};
use crate::index;
use crate::key::{MasterKey, Use};
use crate::plus::{self, Placement, Plus, Scheme};
use crate::policy::Policy;
use crate::replay::Window;
use crate::source::{Derived, Keys, Sources};
use crate::timings::{Probe, Step, Stopwatch};
use crate::transform::{ENCRYPTED, INDEX, RTCP_HEADER, rollover};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use rtp::Header;
use rtp::packet::FIXED_HEADER;

/// The longest packet: in counter mode 2^16 blocks share an index (RFC 3711 section 4.1.1).
const MAX_PACKET: usize = 1 << 20;

/// Protects the packets of one direction of a session.
pub struct Sender {
    /// In a place of its own, so that no copies of keys are left behind where a sender is moved;
    /// and in one piece, in lines of the cache of its own, so that a session is fetched from memory
    /// at once.
    state: Box<State>,
}

#[repr(C, align(64))]
struct State {
    /// For the numbers of SRTP+'s scheme 3.
    random: Option<Box<plus::Random>>,
    sources: Sources<Outgoing>,
    /// The place of the key in use.
    key: usize,
    keys: Keys,
}

/// A source of packets.
struct Outgoing {
    /// The rollover counter of its first packet.
    rollover: u32,
    /// Which packets were sent: no index may be used twice.
    sent: Window,
    rtp: Derived,
    plus: plus::States,
    /// The index of its next RTCP packet.
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
            if highest >> 47 == 0 { ProtectError::Repeated } else { ProtectError::KeyExhausted };
        index.ok_or(error)
    }
}

impl Sender {
    /// Protects packets under the first of these keys.
    ///
    /// # Errors
    /// The policy asks for what there is not, or the keys do not fit it.
    pub fn new(policy: &Policy, keys: Vec<MasterKey>) -> Result<Self, PolicyError> {
        let state = Keys::build(policy, keys, |keys| State {
            random: None,
            sources: Sources::new(),
            key: 0,
            keys,
        })?;
        Ok(Self { state })
    }

    /// Gives it random bytes, which nobody else knows, to make the numbers of SRTP+'s scheme 3
    /// from. Other schemes need none.
    #[must_use]
    pub fn with_seed(mut self, seed: &[u8; 32]) -> Self {
        self.state.random = Some(Box::new(plus::Random::new(seed)));
        self
    }

    /// How many bytes [`Sender::protect`] adds at most: less only where SRTP+ finds a header
    /// extension.
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

    /// How many bytes [`Sender::protect_rtcp`] adds.
    #[must_use]
    pub fn rtcp_overhead(&self) -> usize {
        self.state.keys.mki_length() + self.state.keys.policy.suite.rtcp_tag_length() + INDEX
    }

    /// Goes on with the key of this identifier; says whether there is one.
    pub fn use_key(&mut self, mki: &[u8]) -> bool {
        let found = self.state.keys.find(mki);
        self.state.key = found.unwrap_or(self.state.key);
        found.is_some()
    }

    /// Begins with a source, or anew with it: its first packet has this rollover counter, its first
    /// RTCP packet this index. Without it both are 0.
    ///
    /// With the same master key no packet may get an index that one had before.
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

    /// The sources that it knows.
    pub fn sources(&self) -> impl Iterator<Item = u32> + '_ {
        self.state.sources.ssrcs()
    }

    /// Forgets a source that has ended; says whether there was one.
    ///
    /// Should it send again, under the same master key, that would use indices again: give its
    /// counters to [`Sender::add_source`] then.
    pub fn remove_source(&mut self, ssrc: u32) -> bool {
        self.state.sources.remove(ssrc)
    }

    /// Protects the RTP packet in the first `length` bytes of a buffer, and gives its new length.
    ///
    /// # Errors
    /// See [`ProtectError`]; the packet is then as it was.
    pub fn protect(&mut self, buffer: &mut [u8], length: usize) -> Result<usize, ProtectError> {
        self.protect_with(buffer, length, &mut (), Unsigned::sign)
    }

    /// As [`Sender::protect`], and measures its steps.
    ///
    /// # Errors
    /// As there.
    pub fn protect_timed(
        &mut self,
        buffer: &mut [u8],
        length: usize,
        watch: &mut Stopwatch<'_>,
    ) -> Result<usize, ProtectError> {
        self.protect_with(buffer, length, watch, Unsigned::sign)
    }

    /// Protects an RTP packet but for its tag, where that is a code of HMAC: `sign` is asked for
    /// it.
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
        replay.map_err(|_| ProtectError::Repeated)?;
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
    /// gives its new length.
    ///
    /// # Errors
    /// See [`ProtectError`]; the packet is then as it was.
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
        // With AES-GCM nothing stands behind it, otherwise the tag.
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

/// A packet that lacks nothing but its tag.
pub(crate) struct Unsigned {
    /// How many bytes of it the code is of,
    pub(crate) length: usize,
    /// and what follows them.
    pub(crate) rollover: [u8; 4],
    /// Where the tag belongs.
    pub(crate) tag: Range<usize>,
}

impl Unsigned {
    /// Puts the tag in its place.
    fn sign(hmac: &HmacSha1, buffer: &mut [u8], unsigned: Self) {
        let Self { length, rollover, tag } = unsigned;
        let code = hmac.code(&buffer[..length], &rollover);
        let tag = &mut buffer[tag];
        tag.copy_from_slice(&code[..tag.len()]);
    }
}

/// Adds to a packet what SRTP+ adds before SRTP does. Gives the tag that is to stand at the
/// packet's end with its length, and the packet's new length.
fn add_plus(
    plus: Plus,
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

/// The source with this SSRC, a new one if need be.
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
