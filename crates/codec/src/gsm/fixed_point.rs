//! Fixed-point arithmetic of the recommendation, and the frame lengths.

use crate::saturate::saturate;

/// The number of samples in a frame, and in each quarter of it.
pub(crate) const SAMPLES: usize = 160;
pub(super) const QUARTER: usize = SAMPLES / 4;

/// The rounded product of 15-bit fractions.
pub(super) const fn product(one: i32, other: i32) -> i32 {
    saturate((one * other + 16_384) >> 15)
}

/// The truncated product of 15-bit fractions.
pub(super) const fn cut_product(one: i32, other: i32) -> i32 {
    saturate((one * other) >> 15)
}

/// The maximum left shift of a positive value within 32 bits that keeps its sign.
pub(super) const fn norm(value: i32) -> u32 {
    value.leading_zeros() - 1
}
