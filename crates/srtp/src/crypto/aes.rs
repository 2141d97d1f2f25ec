//! AES with three key lengths, in counter mode and in f8 mode.

use super::instructions::Instructions;
use aes::cipher::consts::U16;
use aes::cipher::{
    BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, InnerIvInit,
    KeyInit, StreamCipherCore,
};
use aes::{Aes128Enc, Aes192Enc, Aes256Enc, Block};
use ctr::CtrCore;
use ctr::flavors::Ctr128BE;

/// An AES key, zeroized on drop.
pub(crate) enum Aes {
    Aes128(Aes128Enc),
    Aes192(Aes192Enc),
    Aes256(Aes256Enc),
}

impl Aes {
    /// # Panics
    /// The length of the key is not 16, 24 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Self {
        const LENGTH: &str = "the key length matches the cipher";
        match key.len() {
            16 => Self::Aes128(Aes128Enc::new_from_slice(key).expect(LENGTH)),
            24 => Self::Aes192(Aes192Enc::new_from_slice(key).expect(LENGTH)),
            _ => Self::Aes256(Aes256Enc::new_from_slice(key).expect(LENGTH)),
        }
    }

    /// Encrypts or decrypts in counter mode, with `first` as the first counter block (RFC 3711
    /// section 4.1.1). Its last 64 bits must not overflow.
    #[inline(always)]
    pub(crate) fn counter(&self, first: u128, data: &mut [u8]) {
        match self {
            Self::Aes128(aes) => counter(aes, first, data),
            Self::Aes192(aes) => counter(aes, first, data),
            Self::Aes256(aes) => counter(aes, first, data),
        }
    }

    /// Encrypts one block.
    #[inline(always)]
    pub(crate) fn block(&self, block: &mut [u8; 16]) {
        match self {
            Self::Aes128(aes) => aes.encrypt_block(block.into()),
            Self::Aes192(aes) => aes.encrypt_block(block.into()),
            Self::Aes256(aes) => aes.encrypt_block(block.into()),
        }
    }
}

#[inline(always)]
fn counter<C>(aes: &C, first: u128, data: &mut [u8])
where
    C: BlockCipherEncrypt<BlockSize = U16>,
{
    match Instructions::try_new() {
        Some(instructions) => instructions.vectorize(
            #[inline(always)]
            || aes.encrypt_with_backend(Counter { first, data }),
        ),
        None => by_library(aes, first, data),
    }
}

fn by_library<C>(aes: &C, first: u128, data: &mut [u8])
where
    C: BlockCipherEncrypt<BlockSize = U16>,
{
    let iv = first.to_be_bytes().into();
    CtrCore::<&C, Ctr128BE>::inner_iv_init(aes, &iv).apply_keystream_partial(data.into());
}

/// Counter mode for processors with AES instructions, one block at a time. The processor overlaps
/// several blocks itself. Passing eight blocks at a time needs nearly twice as many instructions
/// and fills the processor's lookahead, so that it does not reach the SHA-1 that could run in
/// parallel.
struct Counter<'a> {
    first: u128,
    data: &'a mut [u8],
}

impl BlockSizeUser for Counter<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Counter<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let high = self.first >> 64 << 64;
        let mut low = self.first as u64;
        let mut stream = || {
            let mut block: Block = (high | u128::from(low)).to_be_bytes().into();
            low = low.wrapping_add(1);
            backend.encrypt_block((&mut block).into());
            u128::from_ne_bytes(block.into())
        };
        let (blocks, rest) = self.data.as_chunks_mut();
        for block in blocks {
            *block = (u128::from_ne_bytes(*block) ^ stream()).to_ne_bytes();
        }
        if !rest.is_empty() {
            let stream = stream().to_ne_bytes();
            rest.iter_mut().zip(stream).for_each(|(byte, stream)| *byte ^= stream);
        }
    }
}

/// AES in f8 mode (RFC 3711 section 4.1.2).
pub(crate) struct F8 {
    aes: Aes,
    /// Keyed with the session key masked by the salt.
    masked: Aes,
}

impl F8 {
    /// # Panics
    /// The length of the key is not 16, 24 or 32 bytes.
    pub(crate) fn new(key: &[u8], salt: &[u8]) -> Self {
        let mut masked = zeroize::Zeroizing::new([0x55; 32]);
        masked[..salt.len()].copy_from_slice(salt);
        masked.iter_mut().zip(key).for_each(|(mask, key)| *mask ^= key);
        Self { aes: Aes::new(key), masked: Aes::new(&masked[..key.len()]) }
    }

    /// Encrypts or decrypts.
    pub(crate) fn apply(&self, iv: &[u8; 16], data: &mut [u8]) {
        let mut iv = *iv;
        self.masked.block(&mut iv);
        let iv = u128::from_be_bytes(iv);
        let mut stream = 0;
        for (count, chunk) in (0u128..).zip(data.chunks_mut(16)) {
            let mut block = (iv ^ count ^ stream).to_be_bytes();
            self.aes.block(&mut block);
            stream = u128::from_be_bytes(block);
            chunk.iter_mut().zip(block).for_each(|(byte, key)| *byte ^= key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::{self, hex};
    use aes::cipher::typenum::Unsigned;
    use proptest::prelude::*;
    use std::vec;

    proptest! {
        #[test]
        fn counter_mode_equals_the_library(
            key in any::<[u8; 32]>(),
            length in proptest::sample::select(&[16, 24, 32]),
            high in any::<u64>(),
            low in prop_oneof![any::<u32>(), u32::MAX - 50..=u32::MAX],
            plain in proptest::collection::vec(any::<u8>(), 0..700),
        ) {
            let first = u128::from(high) << 64 | u128::from(low);
            let aes = Aes::new(&key[..length]);
            let mut data = plain.clone();
            aes.counter(first, &mut data);
            let mut expected = plain;
            match &aes {
                Aes::Aes128(aes) => by_library(aes, first, &mut expected),
                Aes::Aes192(aes) => by_library(aes, first, &mut expected),
                Aes::Aes256(aes) => by_library(aes, first, &mut expected),
            }
            prop_assert_eq!(data, expected);
        }
    }

    /// Reports the number of blocks that the backend selected for this processor takes at a time.
    struct Width<'a>(&'a mut usize);

    impl BlockSizeUser for Width<'_> {
        type BlockSize = U16;
    }

    impl BlockCipherEncClosure for Width<'_> {
        fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, _: &B) {
            *self.0 = B::ParBlocksSize::USIZE;
        }
    }

    /// A VAES backend, which takes 30 or 64 blocks, starts each call with copies of all round keys,
    /// one per part of a wide register. That pays only for long messages: with `aes` 0.9.4 a packet
    /// of speech takes 73, 64 and 44 ns instead of 67, 60 and 40 to protect, unprotect and reject
    /// with AES-GCM (Intel, AVX-512), and the library's counter mode takes more than twice as long.
    #[test]
    fn no_call_copies_the_round_keys() {
        let mut width = 0;
        Aes128Enc::new(&[0; 16].into()).encrypt_with_backend(Width(&mut width));
        assert!((1..=8).contains(&width), "{width} blocks at a time: hold `aes` at 0.9.2");
    }

    #[test]
    fn counter_mode_matches_the_vectors_of_rfc_3711_and_6188() {
        for vector in &vectors::KEY_STREAMS {
            let expected = hex(vector.stream);
            let first = u128::from_str_radix(vector.first, 16).unwrap();
            let mut stream = vec![0; expected.len()];
            Aes::new(&hex(vector.key)).counter(first, &mut stream);
            assert_eq!(stream, expected);
        }
    }

    #[test]
    fn f8_mode_matches_the_vector_of_rfc_3711() {
        let vector = vectors::F8;
        let f8 = F8::new(&hex(vector.key), &hex(vector.salt));
        let mut data = hex(vector.plain);
        f8.apply(&hex(vector.iv).try_into().unwrap(), &mut data);
        assert_eq!(data, hex(vector.cipher));
    }
}
