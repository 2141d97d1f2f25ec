//! Hash algorithms by their names.

/// A hash algorithm of the digest scheme (RFC 7616 section 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// MD5, the default where a challenge or credentials name none.
    Md5,
    /// SHA-256.
    Sha256,
    /// SHA-512/256: SHA-512 with initial values of its own and 256 bits of output.
    Sha512_256,
}

impl Algorithm {
    /// Every algorithm, the most preferred first: the order of a server's challenges (RFC 8760).
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

    /// The algorithm called `name` in any case; `None` for others and for `-sess` variants.
    #[must_use]
    pub fn parse(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|a| a.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// As [`Algorithm::parse`], with `true` beside the algorithm for its `-sess` variant.
    #[must_use]
    pub fn parse_session(name: &[u8]) -> Option<(Self, bool)> {
        match name.split_last_chunk::<5>() {
            Some((base, suffix)) if suffix.eq_ignore_ascii_case(b"-sess") => {
                Self::parse(base).map(|algorithm| (algorithm, true))
            }
            _ => Self::parse(name).map(|algorithm| (algorithm, false)),
        }
    }

    /// Octets of a hash: 16 or 32.
    #[must_use]
    pub const fn output_len(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha256 | Self::Sha512_256 => 32,
        }
    }
}
