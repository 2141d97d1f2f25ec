//! Payload types whose meaning is fixed (RFC 3551 section 6).

/// A payload format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadFormat {
    /// The encoding's name, as `a=rtpmap` has it.
    pub name: &'static str,
    /// Units of the timestamp in a second.
    pub clock_rate: u32,
    /// How many channels audio has, 0 for video.
    pub channels: u8,
}

/// The format that a payload type stands for without `a=rtpmap`.
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
        // Its samples are 16,000 a second; the RFC erred, and the error stayed.
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

/// The payload types that sessions give a meaning.
pub const DYNAMIC: core::ops::RangeInclusive<u8> = 96..=127;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_types() {
        assert_eq!(static_format(0).unwrap().name, "PCMU");
        assert_eq!(static_format(9).unwrap().clock_rate, 8000);
        assert!(DYNAMIC.chain([1, 2, 19, 24, 72]).all(|number| static_format(number).is_none()));
    }
}
