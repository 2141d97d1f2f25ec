//! What SRTP+ is to add to SRTP: the choice of both ends.

/// What is added to SRTP, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plus {
    /// How tags are made.
    pub scheme: Scheme,
    /// Where they stand.
    pub placement: Placement,
}

/// How tags are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Scheme 1: the numbers of a generator (FIPS 186-2 over SHA-1) in the order of the packets'
    /// indices.
    Sequence {
        /// The length of its XKEY in bits: 160 to 512, a multiple of 32.
        key_bits: usize,
    },
    /// Scheme 2: HMAC-SHA1 over source, sequence number and timestamp.
    Hash,
    /// Scheme 3: random numbers, which the packets before have announced in what is encrypted.
    Chain {
        /// How many packets ahead they are announced: 1 to 64.
        numbers: usize,
        /// The length of each in bits: 4, 8, 16 or 32.
        bits: usize,
    },
    /// Scheme 4: AES over the fixed header and the rollover counter.
    Header,
}

impl Scheme {
    /// Scheme 1 with the paper's key.
    pub const SEQUENCE: Self = Self::Sequence { key_bits: 160 };
    /// Scheme 3 with the paper's numbers.
    pub const CHAIN: Self = Self::Chain { numbers: 32, bits: 4 };

    /// The name that people see.
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

    /// How many bytes it adds to what is encrypted.
    #[must_use]
    pub fn payload_overhead(self) -> usize {
        match self {
            Self::Chain { numbers, bits } => (numbers * bits).div_ceil(8),
            _ => 0,
        }
    }
}

/// Where tags stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In an element of the header extension (RFC 8285) with this identifier, 1 to 14. A receiver
    /// that does not know it ignores it.
    Extension(u8),
    /// Behind everything that SRTP adds.
    Trailer,
}

impl Plus {
    /// Whether there is such a scheme and such a place.
    #[must_use]
    pub fn is_possible(&self) -> bool {
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

    /// Whether it can be added to RTP that is encrypted, or not: a chain has to be hidden.
    pub(crate) fn fits(&self, encrypts: bool) -> bool {
        let is_hidden = encrypts || !matches!(self.scheme, Scheme::Chain { .. });
        self.is_possible() && is_hidden
    }
}
