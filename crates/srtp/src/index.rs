//! Packet indices: the rollover counter and the sequence number (RFC 3711 section 3.3.1).

/// The highest index of an RTP packet.
pub(crate) const MAX: u64 = (1 << 48) - 1;

/// The highest index of an RTCP packet.
pub(crate) const RTCP_MAX: u32 = (1 << 31) - 1;

/// Estimates the index of a sequence number, given the highest index so far. Returns `None` if the
/// result would be below or above the range of indices.
#[inline]
pub(crate) fn estimate(highest: u64, sequence_number: u16) -> Option<u64> {
    let half = 1 << 15;
    let (rollover, newest) = (highest >> 16, (highest & 0xffff) as i32);
    let ahead = i32::from(sequence_number) - newest;
    let rollover = if newest < half && ahead > half {
        rollover.checked_sub(1)?
    } else if newest >= half && -ahead > half {
        rollover + 1
    } else {
        rollover
    };
    Some(rollover << 16 | u64::from(sequence_number)).filter(|&index| index <= MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rollover_is_detected_in_both_directions() {
        assert_eq!(estimate(0xffff, 0), Some(0x1_0000));
        assert_eq!(estimate(0x1_0000, 0xffff), Some(0xffff));
        assert_eq!(estimate(0, 0xffff), None);
        assert_eq!(estimate(MAX, 0), None);
        assert_eq!(estimate(MAX, 0xfff0), Some(MAX - 0xf));
    }

    #[test]
    fn exactly_half_the_range_keeps_the_counter() {
        // The comparisons of RFC 3711 are strict: at exactly 2^15 the counter is unchanged.
        assert_eq!(estimate(0x1_0000, 0x8000), Some(0x1_8000));
        assert_eq!(estimate(0x1_0000, 0x8001), Some(0x8001));
        assert_eq!(estimate(0x1_8000, 0), Some(0x1_0000));
        assert_eq!(estimate(0x1_8001, 0), Some(0x2_0000));
    }

    proptest! {
        #[test]
        fn near_indices_are_estimated_correctly(highest in 0x8000..MAX - 0x8000, ahead in -0x7fff_i64..0x8000) {
            let index = highest.checked_add_signed(ahead).unwrap();
            prop_assert_eq!(estimate(highest, index as u16), Some(index));
        }
    }
}
