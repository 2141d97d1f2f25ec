//! Scheme 3: random numbers that previous packets have announced.

use super::tag::Verdict;
use crate::crypto::{Aes, begins_with};
use alloc::boxed::Box;
use zeroize::Zeroizing;

/// The number of indices around the newest one for which the numbers of a source are stored.
const KEPT: usize = 256;

/// The parameters that both ends of a chain share.
pub(crate) struct Key {
    aes: Aes,
    count: usize,
    bits: usize,
}

impl Key {
    pub(super) fn new(aes: Aes, count: usize, bits: usize) -> Self {
        Self { aes, count, bits }
    }

    /// The number of a packet that no other could announce because it is among the first of a
    /// source.
    fn first(&self, ssrc: u32, index: u64) -> u32 {
        let mut block = [0; 16];
        block[..4].copy_from_slice(&ssrc.to_be_bytes());
        block[8..].copy_from_slice(&index.to_be_bytes());
        self.aes.block(&mut block);
        self.cut(u32::from_be_bytes([block[0], block[1], block[2], block[3]]))
    }

    /// The most significant bits of a number.
    fn cut(&self, number: u32) -> u32 {
        number >> (32 - self.bits)
    }

    /// The tag of a number: its bits at the end of the bytes that they need.
    fn to_tag(&self, number: u32) -> [u8; 4] {
        (number << (32 - 8 * self.bits.div_ceil(8))).to_be_bytes()
    }

    fn write(&self, list: &mut [u8], place: usize, number: u32) {
        let bytes = self.to_tag(number);
        if self.bits == 4 {
            list[place / 2] |= bytes[0] << (4 * (1 - place % 2));
        } else {
            let width = self.bits / 8;
            list[place * width..][..width].copy_from_slice(&bytes[..width]);
        }
    }

    fn read(&self, list: &[u8], place: usize) -> u32 {
        if self.bits == 4 {
            return u32::from(list[place / 2] >> (4 * (1 - place % 2)) & 0x0f);
        }
        let width = self.bits / 8;
        list[place * width..][..width].iter().fold(0, |number, &byte| number << 8 | u32::from(byte))
    }
}

/// A random number generator: AES in counter mode with a seed.
pub(crate) struct Random {
    aes: Aes,
    block: u128,
    ready: Zeroizing<[u8; 256]>,
    used: usize,
}

impl Random {
    pub(crate) fn new(seed: &[u8; 32]) -> Self {
        Self { aes: Aes::new(seed), block: 0, ready: Zeroizing::new([0; 256]), used: 256 }
    }

    fn number(&mut self) -> u32 {
        if self.used == self.ready.len() {
            self.ready.fill(0);
            self.aes.counter(self.block, &mut *self.ready);
            self.block += (self.ready.len() / 16) as u128;
            self.used = 0;
        }
        let bytes = &self.ready[self.used..][..4];
        self.used += 4;
        u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}

/// The numbers of a source's packets around the newest one.
pub(crate) struct Numbers {
    /// Index (2^64 - 1 if unused) and number, stored at the index modulo the array length.
    kept: Box<Zeroizing<[(u64, u32); KEPT]>>,
    /// The first index that has not been announced; `None` at first.
    announced: Option<u64>,
}

impl Default for Numbers {
    fn default() -> Self {
        Self { kept: Box::new(Zeroizing::new([(u64::MAX, 0); KEPT])), announced: None }
    }
}

impl Numbers {
    fn get(&self, index: u64) -> Option<u32> {
        let (of, number) = self.kept[(index % KEPT as u64) as usize];
        (of == index).then_some(number)
    }

    fn put(&mut self, index: u64, number: u32) {
        self.kept[(index % KEPT as u64) as usize] = (index, number);
    }

    /// Returns the tag of a sent packet, and writes the numbers of the next packets to `list`.
    pub(super) fn send(
        &mut self,
        key: &Key,
        random: &mut Random,
        ssrc: u32,
        index: u64,
        list: &mut [u8],
    ) -> [u8; 4] {
        // The first numbers of a source are derived instead of announced.
        let is_first = self.announced.is_none();
        let end = index + 1 + key.count as u64;
        list.fill(0);
        for (place, next) in (index + 1..end).enumerate() {
            let number = self.get(next).unwrap_or_else(|| {
                let number =
                    if is_first { key.first(ssrc, next) } else { key.cut(random.number()) };
                self.put(next, number);
                number
            });
            key.write(list, place, number);
        }
        self.announced = self.announced.max(Some(end));
        let own = self.get(index).unwrap_or_else(|| {
            let number = key.first(ssrc, index);
            self.put(index, number);
            number
        });
        key.to_tag(own)
    }

    /// Checks a tag. `numbers` is `None` for a source without an authentic packet.
    pub(super) fn check(
        numbers: Option<&Self>,
        key: &Key,
        ssrc: u32,
        index: u64,
        tag: &[u8],
    ) -> Verdict {
        let known = numbers.and_then(|numbers| numbers.get(index));
        // Only one number is valid: two would be twice as easy to guess.
        let expected = key.to_tag(known.unwrap_or_else(|| key.first(ssrc, index)));
        match begins_with(&expected, tag) {
            true => Verdict::Right,
            // All packets that announced the number may be lost.
            false if known.is_none() => Verdict::Unknown,
            false => Verdict::Wrong,
        }
    }

    /// Stores the numbers that an authentic packet announces.
    pub(super) fn accept(&mut self, key: &Key, index: u64, list: &[u8]) {
        // A late packet announces nothing new, and its numbers could overwrite newer ones.
        if self.announced.is_some_and(|announced| index + 1 + (key.count as u64) < announced) {
            return;
        }
        for place in 0..key.count {
            self.put(index + 1 + place as u64, key.read(list, place));
        }
        self.announced = Some(index + 1 + key.count as u64);
    }
}
