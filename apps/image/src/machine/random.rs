//! Random bytes: a seed of the processor's, else of a device, into a generator that is kept.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};

/// Bytes of a seed.
pub const SEED: usize = 32;

/// Random bytes that nobody can guess.
pub struct Random(ChaCha20Rng);

impl core::fmt::Debug for Random {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Random")
    }
}

impl Random {
    /// What follows from `seed`, which is to be random.
    #[must_use]
    pub fn new(seed: [u8; SEED]) -> Self {
        Self(ChaCha20Rng::from_seed(seed))
    }

    /// Random bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    /// Fills `bytes` with random ones.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.0.next_u32()) * u64::from(bound)) >> 32) as u32
    }
}

/// A seed of the processor's: `None` where it has no source, or one that is stuck.
#[must_use]
pub fn processor_seed() -> Option<[u8; SEED]> {
    let leaf = |number| __cpuid(number);
    let has_seed = leaf(0).eax >= 7 && __cpuid_count(7, 0).ebx & (1 << 18) != 0;
    let has_random = leaf(1).ecx & (1 << 30) != 0;
    let source = match (has_seed, has_random) {
        (true, _) => seed,
        (false, true) => random,
        (false, false) => return None,
    };
    let mut words = [0; SEED / 8];
    for word in &mut words {
        // The source may be drained for a moment.
        *word = (0..1000).find_map(|_| source())?;
    }
    let is_stuck = words.windows(2).any(|pair| pair[0] == pair[1]);
    let mut bytes = [0; SEED];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    (!is_stuck).then_some(bytes)
}

fn seed() -> Option<u64> {
    let (value, is_there): (u64, u8);
    // SAFETY: the processor has the instruction, as was asked before.
    unsafe {
        asm!("rdseed {}", "setc {}", out(reg) value, out(reg_byte) is_there, options(nomem, nostack));
    }
    (is_there != 0).then_some(value)
}

fn random() -> Option<u64> {
    let (value, is_there): (u64, u8);
    // SAFETY: likewise.
    unsafe {
        asm!("rdrand {}", "setc {}", out(reg) value, out(reg_byte) is_there, options(nomem, nostack));
    }
    (is_there != 0).then_some(value)
}
