//! SRTP+: an additional short tag that detects forged packets at a fraction of the cost of SRTP's
//! own tag, which remains. `docs/srtp-plus.md` specifies it.

mod chain;
mod hash;
mod header;
mod place;
mod sequence;
mod tag;
#[cfg(test)]
mod tests;

pub use crate::scheme::{Placement, Scheme, SrtpPlus};
pub(crate) use chain::Random;
pub(crate) use place::{ROOM, insert_element, tag_of};
pub(crate) use tag::{FixedHeader, Verdict};

use crate::crypto::{Aes, HmacSha1, begins_with};
use crate::key::Derivation;
use alloc::boxed::Box;
use smallvec::SmallVec;
use tag::ssrc;
use zeroize::Zeroizing;

/// Labels of the key derivation function, distant from those of SRTP.
#[derive(Clone, Copy)]
enum Label {
    Sequence = 0x51,
    Hash = 0x52,
    Chain = 0x53,
    Header = 0x54,
    Allowance = 0x5f,
}

/// The keys derived from a master key.
pub(crate) enum Keys {
    Sequence(sequence::Generator),
    Hash(HmacSha1),
    Chain(chain::Key),
    Header(Aes),
}

/// The state of a source under one master key.
#[derive(Default)]
pub(crate) enum State {
    #[default]
    Nothing,
    Sequence(Box<sequence::Window>),
    Chain(Box<chain::Numbers>),
}

/// A secret number derived from the master key.
pub(crate) fn secret(derivation: &Derivation) -> u64 {
    let mut bytes = [0; 8];
    derivation.derive(Label::Allowance as u8, 0, &mut bytes);
    u64::from_be_bytes(bytes)
}

impl Keys {
    pub(crate) fn derive(scheme: Scheme, derivation: &Derivation) -> Self {
        let mut key = Zeroizing::new([0; 20]);
        let mut aes = |label: Label| {
            derivation.derive(label as u8, 0, &mut key[..16]);
            Aes::new(&key[..16])
        };
        match scheme {
            Scheme::Sequence { key_bits } => {
                Self::Sequence(sequence::Generator::new(aes(Label::Sequence), key_bits / 32))
            }
            Scheme::Chain { numbers, bits } => {
                Self::Chain(chain::Key::new(aes(Label::Chain), numbers, bits))
            }
            Scheme::Header => Self::Header(aes(Label::Header)),
            Scheme::Hash => {
                derivation.derive(Label::Hash as u8, 0, &mut *key);
                Self::Hash(HmacSha1::new(&*key))
            }
        }
    }

    /// Returns the tag of a sent packet, in the first bytes. Scheme 3 also writes the announcement
    /// of the next numbers, taken from `random`, to `list`. Returns `None` if `random` is missing.
    #[inline]
    pub(crate) fn tag(
        &self,
        state: &mut State,
        header: &FixedHeader,
        index: u64,
        list: &mut [u8],
        random: Option<&mut Random>,
    ) -> Option<[u8; 4]> {
        Some(match self {
            Self::Header(aes) => header::tag(aes, header, index),
            Self::Hash(hmac) => hash::tag(hmac, header),
            Self::Sequence(generator) => state.window().tag(generator, ssrc(header), index),
            Self::Chain(key) => state.numbers().send(key, random?, ssrc(header), index, list),
        })
    }

    /// Checks the tag of a received packet.
    #[inline]
    pub(crate) fn check(
        &self,
        state: &State,
        header: &FixedHeader,
        index: u64,
        tag: &[u8],
    ) -> Verdict {
        let expected = match self {
            Self::Header(aes) => header::tag(aes, header, index),
            Self::Hash(hmac) => hash::tag(hmac, header),
            Self::Sequence(_) => match state {
                State::Sequence(window) => match window.known(index) {
                    Some(tag) => tag,
                    None => return Verdict::Unknown,
                },
                _ => return Verdict::Unknown,
            },
            Self::Chain(key) => {
                let numbers = match state {
                    State::Chain(numbers) => Some(&**numbers),
                    _ => None,
                };
                return chain::Numbers::check(numbers, key, ssrc(header), index, tag);
            }
        };
        if begins_with(&expected, tag) { Verdict::Right } else { Verdict::Wrong }
    }

    /// Does the expensive check of a packet with an unknown tag. Returns true if SRTP has to check
    /// it.
    pub(crate) fn work(
        &self,
        state: &mut State,
        header: &FixedHeader,
        index: u64,
        tag: &[u8],
    ) -> bool {
        match self {
            Self::Sequence(generator) => {
                let expected = state.window().find(generator, ssrc(header), index);
                begins_with(&expected, tag)
            }
            // Only SRTP can authenticate the packet.
            _ => true,
        }
    }

    /// Records an authentic packet and its announcement of the next numbers.
    #[inline]
    pub(crate) fn accept(&self, state: &mut State, header: &FixedHeader, index: u64, list: &[u8]) {
        match self {
            Self::Sequence(generator) => state.window().accept(generator, ssrc(header), index),
            Self::Chain(key) => state.numbers().accept(key, index, list),
            Self::Hash(_) | Self::Header(_) => {}
        }
    }
}

impl State {
    fn window(&mut self) -> &mut sequence::Window {
        if !matches!(self, Self::Sequence(_)) {
            *self = Self::Sequence(Box::default());
        }
        match self {
            Self::Sequence(window) => window,
            _ => unreachable!("the window was created above"),
        }
    }

    fn numbers(&mut self) -> &mut chain::Numbers {
        if !matches!(self, Self::Chain(_)) {
            *self = Self::Chain(Box::default());
        }
        match self {
            Self::Chain(numbers) => numbers,
            _ => unreachable!("the numbers were created above"),
        }
    }
}

/// The state of a source per master key.
#[derive(Default)]
pub(crate) struct States(SmallVec<[State; 1]>);

impl States {
    #[inline]
    pub(crate) fn get(&self, key: usize) -> &State {
        self.0.get(key).unwrap_or(&State::Nothing)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: usize) -> &mut State {
        if self.0.len() <= key {
            self.0.resize_with(key + 1, State::default);
        }
        &mut self.0[key]
    }
}

/// Limits the expensive checks of packets with unknown tags. Each packet is checked until one turns
/// out to be forged. From then until an authentic one, one in [`Allowance::EVERY`] is checked, so
/// that forged packets do not cost more than with SRTP alone. The choice is unpredictable, so an
/// attacker cannot occupy the checked position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    is_wary: bool,
    random: u64,
}

impl Allowance {
    const EVERY: u64 = 16;

    /// Creates an allowance with a secret seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self { is_wary: false, random: seed }
    }

    /// Returns true if the budget for checks allows this one: each packet, or one in 16 after a
    /// forged packet.
    pub(crate) fn is_granted(&mut self) -> bool {
        // SplitMix64. Its output is never exposed.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        !self.is_wary || (mixed ^ mixed >> 31).is_multiple_of(Self::EVERY)
    }

    /// Records the result of a check: `was_in_vain` if the packet was forged.
    pub(crate) fn note(&mut self, was_in_vain: bool) {
        self.is_wary = was_in_vain;
    }
}
