//! Fixed-point arithmetic of the recommendation, and how much sound a frame has.

use crate::saturate::saturate;

/// Samples in a frame, and in each quarter of it.
pub(crate) const SAMPLES: usize = 160;
pub(super) const QUARTER: usize = SAMPLES / 4;

/// A product of fractions of 15 bits, rounded.
pub(super) const fn product(one: i32, other: i32) -> i32 {
    saturate((one * other + 16_384) >> 15)
}

/// The same, cut off.
pub(super) const fn cut_product(one: i32, other: i32) -> i32 {
    saturate((one * other) >> 15)
}

/// How far a positive value can go to the left in 32 bits, keeping its sign.
pub(super) const fn norm(value: i32) -> u32 {
    value.leading_zeros() - 1
}
