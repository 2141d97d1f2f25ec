//! The processor's instructions for AES and POLYVAL. Code that is compiled for them as a whole can
//! inline the steps of the libraries.

#[cfg(all(feature = "simd", target_arch = "x86_64"))]
pulp::simd_type!({
    /// The instructions of AES and POLYVAL, and those that move a block at once.
    pub(super) struct Instructions {
        avx: feature!("avx"),
        avx2: feature!("avx2"),
        aes: feature!("aes"),
        pclmulqdq: feature!("pclmulqdq"),
    }
});

/// Uninhabited: no such code, or no means to detect the instructions.
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
