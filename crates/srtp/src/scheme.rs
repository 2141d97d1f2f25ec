//! The SRTP+ parameters that both ends agree on.

/// The SRTP+ scheme and the position of its tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrtpPlus {
    /// The scheme, which generates the tags.
    pub scheme: Scheme,
    /// The position of the tags.
    pub placement: Placement,
}

/// A scheme to generate tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Scheme 1: the output of a generator (FIPS 186-2 over SHA-1), in the order of packet indices.
    Sequence {
        /// The length of XKEY in bits: 160 to 512, a multiple of 32.
        key_bits: usize,
    },
    /// Scheme 2: HMAC-SHA1 over SSRC, sequence number and timestamp.
    Hash,
    /// Scheme 3: random numbers, announced in the encrypted part of previous packets.
    Chain {
        /// The number of packets ahead for which numbers are announced: 1 to 64.
        numbers: usize,
        /// The length of a number in bits: 4, 8, 16 or 32.
        bits: usize,
    },
    /// Scheme 4: AES over the fixed header and the rollover counter.
    Header,
}

impl Scheme {
    /// Scheme 1 with the key length of the paper.
    pub const SEQUENCE: Self = Self::Sequence { key_bits: 160 };
    /// Scheme 3 with the parameters of the paper.
    pub const CHAIN: Self = Self::Chain { numbers: 32, bits: 4 };

    /// The name of the scheme in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequence { .. } => "sequence",
            Self::Hash => "hash",
            Self::Chain { .. } => "chain",
            Self::Header => "header",
        }
    }

    /// The length of a tag in bytes.
    #[must_use]
    pub fn tag_length(self) -> usize {
        match self {
            Self::Chain { bits, .. } => bits.div_ceil(8),
            _ => 4,
        }
    }

    /// The number of bytes added to the encrypted part.
    #[must_use]
    pub fn payload_overhead(self) -> usize {
        match self {
            Self::Chain { numbers, bits } => (numbers * bits).div_ceil(8),
            _ => 0,
        }
    }
}

/// The position of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In an element of the header extension (RFC 8285) with this identifier, 1 to 14. A receiver
    /// without SRTP+ ignores it.
    Extension(u8),
    /// Behind all fields of SRTP.
    Trailer,
}

impl SrtpPlus {
    /// Returns true if the parameters are in range.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let is_scheme = match self.scheme {
            Scheme::Sequence { key_bits } => {
                (160..=512).contains(&key_bits) && key_bits.is_multiple_of(32)
            }
            Scheme::Chain { numbers, bits } => {
                (1..=64).contains(&numbers) && matches!(bits, 4 | 8 | 16 | 32)
            }
            Scheme::Hash | Scheme::Header => true,
        };
        let is_place = match self.placement {
            Placement::Extension(id) => (1..=14).contains(&id),
            Placement::Trailer => true,
        };
        is_scheme && is_place
    }

    /// Returns true if it can be used with or without encryption of RTP: a chain requires
    /// encryption.
    pub(crate) fn fits(&self, encrypts: bool) -> bool {
        let is_hidden = encrypts || !matches!(self.scheme, Scheme::Chain { .. });
        self.is_valid() && is_hidden
    }
}
