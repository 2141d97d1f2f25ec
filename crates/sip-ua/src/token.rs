//! Unique and unpredictable values: branches, tags, Call-IDs.

use alloc::vec::Vec;
use sip::Encode;
use siphasher::sip::SipHasher24;

/// A generator of tokens from a secret.
pub struct Tokens {
    keys: [[u8; 16]; 2],
    count: u64,
}

/// A token: 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

impl Token {
    /// Parses a token that fills `text`.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digit = |byte: &u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let add = |number: u64, byte| Some(number << 4 | u64::from(digit(byte)?));
        (text.len() == 16).then(|| text.iter().try_fold(0, add)).flatten().map(Self)
    }
}

impl Encode for Token {
    fn encode(&self, out: &mut Vec<u8>) {
        for place in (0..16).rev() {
            out.push(b"0123456789abcdef"[(self.0 >> (4 * place) & 15) as usize]);
        }
    }
}

impl core::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

impl Tokens {
    /// Returns the generator of `secret`, which has to be random.
    #[must_use]
    pub fn new(secret: &[u8; 32]) -> Self {
        let half = |start: usize| core::array::from_fn(|at| secret[start + at]);
        Self { keys: [half(0), half(16)], count: 0 }
    }

    /// Returns a new token.
    #[expect(clippy::should_implement_trait, reason = "it never ends, and is no iterator")]
    pub fn next(&mut self) -> Token {
        self.count += 1;
        Token(SipHasher24::new_with_key(&self.keys[0]).hash(&self.count.to_le_bytes()))
    }

    /// Returns a number from 0 to below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next().0 % end.max(1)
    }

    /// Returns a keyed hash of `parts`, for values that peers choose.
    #[must_use]
    pub fn hash(&self, parts: &[&[u8]]) -> u64 {
        let mut joined = Vec::with_capacity(256);
        for part in parts {
            joined.extend_from_slice(&(part.len() as u32).to_le_bytes());
            joined.extend_from_slice(part);
        }
        SipHasher24::new_with_key(&self.keys[1]).hash(&joined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_lists_do_not_run_together() {
        let mut tokens = Tokens::new(&[7; 32]);
        assert_ne!(tokens.next(), tokens.next());
        assert_ne!(tokens.hash(&[b"ab", b"c"]), tokens.hash(&[b"a", b"bc"]));
        let mut out = Vec::new();
        Token(0x0123_4567_89ab_cdef).encode(&mut out);
        assert_eq!(out, b"0123456789abcdef");
        assert_eq!(Token::parse(&out), Some(Token(0x0123_4567_89ab_cdef)));
        assert_eq!(Token::parse(b"0123456789abcdeg"), None);
        assert_eq!(Token::parse(b"0"), None);
    }
}
