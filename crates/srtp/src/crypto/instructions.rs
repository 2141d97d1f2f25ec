//! The processor's instructions for AES and its modes, for code that is compiled for them as a
//! whole: the libraries' steps become part of it then.

#[cfg(all(feature = "simd", target_arch = "x86_64"))]
pulp::simd_type!({
    /// What AES and POLYVAL ask for, and what moves the bytes of a block at once.
    pub(super) struct Instructions {
        avx: feature!("avx"),
        avx2: feature!("avx2"),
        aes: feature!("aes"),
        pclmulqdq: feature!("pclmulqdq"),
    }
});

/// Where there is no such code, or nothing to find the instructions with.
#[cfg(not(all(feature = "simd", target_arch = "x86_64")))]
pub(super) enum Instructions {}

#[cfg(not(all(feature = "simd", target_arch = "x86_64")))]
impl Instructions {
    pub(super) fn try_new() -> Option<Self> {
        None
    }

    pub(super) fn vectorize<T>(self, _: impl FnOnce() -> T) -> T {
        match self {}
    }
}
