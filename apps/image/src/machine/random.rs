//! Random numbers: a generator seeded by the processor or a device.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};
use core::fmt;

/// Bytes of a seed.
pub const SEED: usize = 32;

/// A cryptographically secure generator.
pub struct Random(ChaCha20Rng);

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}

impl Random {
    /// A generator with `seed`, which must be random.
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

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.0.next_u32()) * u64::from(bound)) >> 32) as u32
    }
}

/// The source of a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The processor's instruction RDSEED.
    Rdseed,
    /// The processor's instruction RDRAND.
    Rdrand,
    /// The virtio entropy device of a virtual machine.
    Virtio,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rdseed => "RDSEED",
            Self::Rdrand => "RDRAND",
            Self::Virtio => "virtio-rng",
        })
    }
}

/// The error without a working source of randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSource;

impl fmt::Display for NoSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "no source of randomness: the processor has neither RDSEED nor RDRAND that works, and \
             the machine no virtio-rng (QEMU: -device virtio-rng-pci)",
        )
    }
}

/// A seed from the processor, or else from `device`, the virtio entropy device.
///
/// # Errors
/// If there is no working source.
pub fn seed(device: impl Fn() -> Option<[u8; SEED]>) -> Result<([u8; SEED], Source), NoSource> {
    type Seed<'a> = &'a dyn Fn() -> Option<[u8; SEED]>;
    let sources: [(Source, Seed<'_>); 3] = [
        (Source::Rdseed, &|| has_rdseed().then(|| fill(rdseed)).flatten()),
        (Source::Rdrand, &|| has_rdrand().then(|| fill(rdrand)).flatten()),
        (Source::Virtio, &device),
    ];
    let mut found = sources.iter().filter_map(|(source, seed)| Some((seed()?, *source)));
    found.find(|(seed, _)| !is_stuck(seed)).ok_or(NoSource)
}

/// Returns true if a source returned the same word twice in a row.
fn is_stuck(seed: &[u8; SEED]) -> bool {
    let (words, _) = seed.as_chunks::<8>();
    words.windows(2).any(|pair| pair[0] == pair[1])
}

/// A seed from an instruction; `None` if it fails.
fn fill(instruction: fn() -> Option<u64>) -> Option<[u8; SEED]> {
    let mut seed = [0; SEED];
    for chunk in seed.as_chunks_mut::<8>().0 {
        // The source may be exhausted for a moment.
        *chunk = (0..1000).find_map(|_| instruction())?.to_le_bytes();
    }
    Some(seed)
}

fn has_rdseed() -> bool {
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ebx & (1 << 18) != 0
}

fn has_rdrand() -> bool {
    __cpuid(1).ecx & (1 << 30) != 0
}

fn rdseed() -> Option<u64> {
    let (value, is_there): (u64, u8);
    // SAFETY: the processor has the instruction, as was checked.
    unsafe {
        asm!("rdseed {}", "setc {}", out(reg) value, out(reg_byte) is_there, options(nomem, nostack));
    }
    (is_there != 0).then_some(value)
}

fn rdrand() -> Option<u64> {
    let (value, is_there): (u64, u8);
    // SAFETY: as above.
    unsafe {
        asm!("rdrand {}", "setc {}", out(reg) value, out(reg_byte) is_there, options(nomem, nostack));
    }
    (is_there != 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeating_source_is_refused() {
        let mut seed = core::array::from_fn(|at| at as u8);
        assert!(!is_stuck(&seed));
        seed.copy_within(8..16, 16);
        assert!(is_stuck(&seed));
        assert!(is_stuck(&[0xff; SEED]));
        assert_eq!(fill(|| None), None);
    }
}
