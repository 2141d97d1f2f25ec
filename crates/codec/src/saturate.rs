//! Saturating arithmetic.

/// Saturates to 16 bits.
pub(crate) const fn saturate(value: i32) -> i32 {
    if value > i16::MAX as i32 {
        i16::MAX as i32
    } else if value < i16::MIN as i32 {
        i16::MIN as i32
    } else {
        value
    }
}
