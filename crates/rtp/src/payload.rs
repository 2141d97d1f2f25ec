//! Static payload types (RFC 3551 section 6).

/// A payload format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadFormat {
    /// The encoding name, as in `a=rtpmap`.
    pub name: &'static str,
    /// Timestamp units per second.
    pub clock_rate: u32,
    /// The number of audio channels, 0 for video.
    pub channels: u8,
}

/// Returns the format of a static payload type, which needs no `a=rtpmap`.
#[must_use]
pub fn static_format(payload_type: u8) -> Option<PayloadFormat> {
    let (name, clock_rate, channels) = match payload_type {
        0 => ("PCMU", 8000, 1),
        3 => ("GSM", 8000, 1),
        4 => ("G723", 8000, 1),
        5 => ("DVI4", 8000, 1),
        6 => ("DVI4", 16_000, 1),
        7 => ("LPC", 8000, 1),
        8 => ("PCMA", 8000, 1),
        // G.722 has 16,000 samples per second. RFC 3551 keeps the clock rate of 8,000 for
        // compatibility with an error in RFC 1890.
        9 => ("G722", 8000, 1),
        10 => ("L16", 44_100, 2),
        11 => ("L16", 44_100, 1),
        12 => ("QCELP", 8000, 1),
        13 => ("CN", 8000, 1),
        14 => ("MPA", 90_000, 1),
        15 => ("G728", 8000, 1),
        16 => ("DVI4", 11_025, 1),
        17 => ("DVI4", 22_050, 1),
        18 => ("G729", 8000, 1),
        25 => ("CelB", 90_000, 0),
        26 => ("JPEG", 90_000, 0),
        28 => ("nv", 90_000, 0),
        31 => ("H261", 90_000, 0),
        32 => ("MPV", 90_000, 0),
        33 => ("MP2T", 90_000, 0),
        34 => ("H263", 90_000, 0),
        _ => return None,
    };
    Some(PayloadFormat { name, clock_rate, channels })
}

/// The dynamic payload types.
pub const DYNAMIC_PAYLOAD_TYPES: core::ops::RangeInclusive<u8> = 96..=127;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_types() {
        assert_eq!(static_format(0).unwrap().name, "PCMU");
        assert_eq!(static_format(9).unwrap().clock_rate, 8000);
        assert!(
            DYNAMIC_PAYLOAD_TYPES
                .chain([1, 2, 19, 24, 72])
                .all(|number| static_format(number).is_none())
        );
    }
}
