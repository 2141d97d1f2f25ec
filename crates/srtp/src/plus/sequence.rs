//! Scheme 1: the output of a generator, in the order of packet indices.

use crate::crypto::{Aes, sha1_compress};
use zeroize::Zeroizing;

/// The number of packets per key. A late receiver computes no more numbers than these.
const EPOCH: usize = 32;

/// The number of stored epochs: the newest one, the next one and previous ones.
const KEPT: usize = 8;

/// The generator of the numbers of all sources.
pub(crate) struct Generator {
    aes: Aes,
    key_words: usize,
}

impl Generator {
    pub(super) fn new(aes: Aes, key_words: usize) -> Self {
        Self { aes, key_words }
    }

    /// The numbers of an epoch.
    fn epoch(&self, ssrc: u32, epoch: u64) -> Zeroizing<[u32; EPOCH]> {
        let mut bytes = Zeroizing::new([0; 64]);
        let bytes = &mut bytes[..4 * self.key_words];
        self.aes.counter(u128::from(ssrc) << 96 | u128::from(epoch) << 32, bytes);
        let mut key = Zeroizing::new([0; 16]);
        for (word, bytes) in key.iter_mut().zip(bytes.as_chunks().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        Zeroizing::new(core::array::from_fn(|_| next_number(&mut key[..self.key_words])[0]))
    }
}

/// The next number of the general-purpose generator of FIPS 186-2 (change notice 1, appendix 3.1)
/// with the function G over SHA-1 (appendix 3.3), without XSEED. `key` is XKEY, most significant
/// word first.
fn next_number(key: &mut [u32]) -> [u32; 5] {
    const T: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let mut block = Zeroizing::new([0; 64]);
    for (bytes, word) in block.chunks_exact_mut(4).zip(&*key) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    let mut number = T;
    sha1_compress(&mut number, &block);
    // XKEY = (1 + XKEY + x) mod 2^b, from the least significant word on.
    let addends = number.iter().rev().chain(core::iter::repeat(&0));
    let mut carry = 1;
    for (word, addend) in key.iter_mut().rev().zip(addends) {
        let sum = u64::from(*word) + u64::from(*addend) + carry;
        *word = sum as u32;
        carry = sum >> 32;
    }
    number
}

/// The numbers around the newest packet of a source.
#[derive(Default)]
pub(crate) struct Window {
    /// Stored at the epoch modulo the array length; 2^64 - 1 is unused.
    kept: [Epoch; KEPT],
    /// The epoch of a packet outside the window, which may be forged.
    other: Epoch,
    newest: Option<u64>,
}

struct Epoch {
    number: u64,
    tags: Zeroizing<[u32; EPOCH]>,
}

impl Default for Epoch {
    fn default() -> Self {
        Self { number: u64::MAX, tags: Zeroizing::new([0; EPOCH]) }
    }
}

impl Epoch {
    fn tag(&self, index: u64) -> Option<[u8; 4]> {
        let is_here = self.number == index / EPOCH as u64;
        is_here.then(|| self.tags[(index % EPOCH as u64) as usize].to_be_bytes())
    }
}

fn place(epoch: u64) -> usize {
    (epoch % KEPT as u64) as usize
}

impl Window {
    /// The number of a packet, if already computed.
    #[inline]
    pub(super) fn known(&self, index: u64) -> Option<[u8; 4]> {
        self.kept[place(index / EPOCH as u64)].tag(index)
    }

    /// The number of a packet, computed if necessary.
    pub(super) fn find(&mut self, generator: &Generator, ssrc: u32, index: u64) -> [u8; 4] {
        if let Some(tag) = self.other.tag(index) {
            return tag;
        }
        let number = index / EPOCH as u64;
        let tags = generator.epoch(ssrc, number);
        let tag = tags[(index % EPOCH as u64) as usize].to_be_bytes();
        self.other = Epoch { number, tags };
        tag
    }

    /// The number of a sent packet.
    #[inline]
    pub(super) fn tag(&mut self, generator: &Generator, ssrc: u32, index: u64) -> [u8; 4] {
        self.keep(generator, ssrc, index / EPOCH as u64);
        self.known(index).expect("the epoch was computed above")
    }

    /// Computes numbers ahead of an authentic packet for the packets after it.
    #[inline]
    pub(super) fn accept(&mut self, generator: &Generator, ssrc: u32, index: u64) {
        let epoch = index / EPOCH as u64;
        if self.newest.is_none_or(|newest| epoch >= newest) {
            self.newest = Some(epoch);
            self.keep(generator, ssrc, epoch);
            self.keep(generator, ssrc, epoch + 1);
        } else if self.newest.is_some_and(|newest| newest - epoch <= KEPT as u64 - 2) {
            self.keep(generator, ssrc, epoch);
        }
    }

    fn keep(&mut self, generator: &Generator, ssrc: u32, number: u64) {
        let kept = &mut self.kept[place(number)];
        if kept.number == number {
            return;
        }
        *kept = if self.other.number == number {
            core::mem::take(&mut self.other)
        } else {
            Epoch { number, tags: generator.epoch(ssrc, number) }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_match_fips_186_2() {
        // Change notice 1, example of the general-purpose generator.
        let mut key = [0xbd02_9bbe, 0x7f51_960b, 0xcf9e_db2b, 0x61f0_6f0f, 0xeb5a_38b6];
        let first = [0x2070_b322, 0x3dba_372f, 0xde1c_0ffc, 0x7b2e_3b49, 0x8b26_0614];
        let second = [0x3c6c_18ba, 0xcb0f_6c55, 0xbabb_1378, 0x8e20_d737, 0xa327_5116];
        assert_eq!(next_number(&mut key), first);
        assert_eq!(next_number(&mut key), second);
    }

    #[test]
    fn the_carry_reaches_every_word_of_a_long_key() {
        let mut key = [u32::MAX; 16];
        let number = next_number(&mut key);
        // 1 + (2^512 - 1) is 0: the result is the number behind zeros.
        assert_eq!(key[..11], [0; 11]);
        assert_eq!(key[11..], number);
        let mut key = [u32::MAX; 16];
        key[15] -= 1;
        let number = next_number(&mut key);
        assert_eq!(key[15], number[4].wrapping_sub(1));
    }

    #[test]
    fn the_window_returns_the_generators_numbers() {
        let generator = Generator::new(Aes::new(&[7; 16]), 5);
        let (mut sender, mut receiver) = (Window::default(), Window::default());
        assert_eq!(receiver.known(5), None);
        for index in [5, 6, 40, 31, 100, 99, 5000, 4990, 4800, 1 << 47] {
            let tag = sender.tag(&generator, 9, index);
            let expected = generator.epoch(9, index / 32)[(index % 32) as usize];
            assert_eq!(tag, expected.to_be_bytes(), "{index}");
            assert_eq!(receiver.find(&generator, 9, index), tag);
            receiver.accept(&generator, 9, index);
        }
        assert!(receiver.known((1 << 47) + 32).is_some());
        assert_ne!(generator.epoch(9, 0), generator.epoch(8, 0));
        assert_ne!(generator.epoch(9, 0), generator.epoch(9, 1));
    }
}
