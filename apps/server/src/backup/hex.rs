//! Octets as hexadecimal text.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `N` octets, as twice as many hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hex<const N: usize>(pub(super) [u8; N]);

impl<const N: usize> Serialize for Hex<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap_or('0');
        let digits = self.0.iter().flat_map(|octet| [digit(octet >> 4), digit(octet & 15)]);
        serializer.serialize_str(&digits.collect::<String>())
    }
}

impl<'de, const N: usize> Deserialize<'de> for Hex<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || D::Error::custom(format!("expected {} hexadecimal digits", 2 * N));
        if text.len() != 2 * N {
            return Err(wrong());
        }
        let mut octets = [0; N];
        for (octet, pair) in octets.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let nibble = |digit: u8| char::from(digit).to_digit(16);
            let (high, low) = nibble(pair[0]).zip(nibble(pair[1])).ok_or_else(wrong)?;
            *octet = (high * 16 + low) as u8;
        }
        Ok(Self(octets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_are_twice_as_many_digits() {
        let octets = Hex([0, 0xab, 0xff]);
        assert_eq!(serde_json::to_string(&octets).unwrap(), "\"00abff\"");
        assert_eq!(serde_json::from_str::<Hex<3>>("\"00ABff\"").unwrap(), octets);
        for bad in ["\"00abf\"", "\"00abffff\"", "\"00ab+f\"", "\"00abfg\"", "\"00aéf\"", "5"] {
            assert!(serde_json::from_str::<Hex<3>>(bad).is_err(), "{bad}");
        }
    }
}
