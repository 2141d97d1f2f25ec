//! SRTP+ (rows B1 to B5 of docs/sources.md): a short tag that tells forged packets from others for
//! far less than SRTP's own, which stays as it is. `docs/srtp-plus.md` specifies it.

mod chain;
mod hash;
mod header;
mod place;
pub(crate) mod scheme;
mod sequence;
mod tag;
#[cfg(test)]
mod tests;

pub(crate) use chain::Random;
pub(crate) use place::{ROOM, insert_element, tag_of};
pub use scheme::{Placement, Plus, Scheme};
pub(crate) use tag::{FixedHeader, Verdict};

use crate::crypto::{Aes, HmacSha1, begins_with};
use crate::key::Derivation;
use alloc::boxed::Box;
use smallvec::SmallVec;
use tag::ssrc;
use zeroize::Zeroizing;

/// The labels of the key derivation function, far from those that SRTP uses or is likely to.
#[derive(Clone, Copy)]
enum Label {
    Sequence = 0x51,
    Hash = 0x52,
    Chain = 0x53,
    Header = 0x54,
    Allowance = 0x5f,
}

/// What is derived from a master key.
pub(crate) enum Keys {
    Sequence(sequence::Generator),
    Hash(HmacSha1),
    Chain(chain::Key),
    Header(Aes),
}

/// What is kept of a source under one master key.
#[derive(Default)]
pub(crate) enum State {
    #[default]
    Nothing,
    Sequence(Box<sequence::Window>),
    Chain(Box<chain::Numbers>),
}

/// A number that only who has the master key knows.
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

    /// The tag of a packet that is sent, in the first bytes, and for scheme 3 what announces the
    /// next ones, which is written to `list`; `random` is where their numbers come from. `None` if
    /// it lacks.
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

    /// Looks at the tag of a packet that came.
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

    /// Does the costly work for a packet whose tag is unknown; says whether SRTP is to look at it.
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
            // Only SRTP knows.
            _ => true,
        }
    }

    /// Takes note of a packet that was authentic, with what announces the next ones.
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
            _ => unreachable!("just made"),
        }
    }

    fn numbers(&mut self) -> &mut chain::Numbers {
        if !matches!(self, Self::Chain(_)) {
            *self = Self::Chain(Box::default());
        }
        match self {
            Self::Chain(numbers) => numbers,
            _ => unreachable!("just made"),
        }
    }
}

/// What is kept of a source, by master key.
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

/// How often costly work is done for packets whose tag is unknown: for each, until one of them was
/// forged; then, until one is authentic, for one in [`Allowance::EVERY`], so that forged ones do
/// not cost more than they do with SRTP alone. Which one it is nobody can foresee, and so not take
/// its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    is_wary: bool,
    random: u64,
}

impl Allowance {
    const EVERY: u64 = 16;

    /// Begins with a secret number.
    pub(crate) fn new(seed: u64) -> Self {
        Self { is_wary: false, random: seed }
    }

    /// Whether to do it this time.
    pub(crate) fn is_granted(&mut self) -> bool {
        // SplitMix64, whose numbers nobody sees.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        !self.is_wary || (mixed ^ mixed >> 31).is_multiple_of(Self::EVERY)
    }

    /// It was done: in vain, or for an authentic packet.
    pub(crate) fn note(&mut self, was_in_vain: bool) {
        self.is_wary = was_in_vain;
    }
}
