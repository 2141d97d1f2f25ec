//! The hash algorithms of digest authentication.

/// A hash algorithm of the digest scheme (RFC 7616 section 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// MD5, the default without an `algorithm` parameter.
    Md5,
    /// SHA-256.
    Sha256,
    /// SHA-512/256: SHA-512 with different initial values and 256 bits of output.
    Sha512_256,
}

impl Algorithm {
    /// All algorithms in order of preference, which is the order of challenges (RFC 8760).
    pub const ALL: [Self; 3] = [Self::Sha512_256, Self::Sha256, Self::Md5];

    /// The name in the `algorithm` parameter, without `-sess`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha256 => "SHA-256",
            Self::Sha512_256 => "SHA-512-256",
        }
    }

    /// The algorithm with this name (case-insensitive). `None` for unknown names and `-sess`
    /// variants.
    #[must_use]
    pub fn parse(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|a| a.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// As [`Algorithm::parse`], with `true` for the `-sess` variant of an algorithm.
    #[must_use]
    pub fn parse_session(name: &[u8]) -> Option<(Self, bool)> {
        match name.split_last_chunk::<5>() {
            Some((base, suffix)) if suffix.eq_ignore_ascii_case(b"-sess") => {
                Self::parse(base).map(|algorithm| (algorithm, true))
            }
            _ => Self::parse(name).map(|algorithm| (algorithm, false)),
        }
    }

    /// The length of a hash in octets: 16 or 32.
    #[must_use]
    pub const fn output_len(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha256 | Self::Sha512_256 => 32,
        }
    }
}
