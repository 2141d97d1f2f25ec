//! Arithmetic that stays in range.

/// As 16 bits hold it.
pub(crate) const fn saturate(value: i32) -> i32 {
    if value > i16::MAX as i32 {
        i16::MAX as i32
    } else if value < i16::MIN as i32 {
        i16::MIN as i32
    } else {
        value
    }
}
