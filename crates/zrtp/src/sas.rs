//! The short authentication string (RFC 6189 sections 4.5.2 and 5.1.6).

use crate::algorithm::SasType;
use crate::words::words;
use alloc::string::String;
use core::fmt;

/// The characters of B32, which are easily told apart by ear.
const CHARACTERS: &[u8; 32] = b"ybndrfg8ejkmcpqxot1uwisza345h769";

/// The short authentication string. If both ends show the same, no man in the middle took part in
/// the exchange, except with a probability of 2^-20, or of 2^-16 in words.
///
/// It is written as people compare it: four characters, or two words with a space between them.
#[derive(Clone, PartialEq, Eq)]
pub struct Sas {
    value: [u8; 4],
    kind: SasType,
}

impl Sas {
    /// The string of the first 32 bits of the SAS hash.
    pub(crate) fn new(value: [u8; 4], kind: SasType) -> Self {
        Self { value, kind }
    }

    /// The rendering.
    #[must_use]
    pub fn kind(&self) -> SasType {
        self.kind
    }
}

impl fmt::Display for Sas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            SasType::B32 => {
                let bits = u32::from_be_bytes(self.value);
                let character = |shift: u32| char::from(CHARACTERS[(bits >> shift & 31) as usize]);
                f.pad(&[27, 22, 17, 12].map(character).iter().collect::<String>())
            }
            SasType::B256 => f.pad(&words(self.value[0], self.value[1]).join(" ")),
        }
    }
}

impl fmt::Debug for Sas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sas({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn twenty_bits_are_four_characters() {
        // The second is an example of the specification of this base-32 encoding: 6n9hq.
        let text = |value: u32| Sas::new(value.to_be_bytes(), SasType::B32).to_string();
        assert_eq!(text(0), "yyyy");
        assert_eq!(text(0xf0bf_c700), "6n9h");
        assert_eq!(text(0xffff_ffff), "9999");
    }

    #[test]
    fn sixteen_bits_are_two_words() {
        let text = |value: u32| Sas::new(value.to_be_bytes(), SasType::B256).to_string();
        assert_eq!(text(0), "aardvark adroitness");
        assert_eq!(text(0xe582_94f2), "topmost Istanbul");
        assert_eq!(text(0xffff_0000), "Zulu Yucatan");
    }
}
