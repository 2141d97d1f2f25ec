//! Tokens of programs that use the HTTP API.

use crate::role::Role;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use store::PanelToken;

/// The beginning of a token: people and scanners of secrets recognize it.
const PREFIX: &str = "barebell_";

/// A new token.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// The token, which is shown once.
    pub text: String,
    /// The part that is stored.
    pub stored: PanelToken,
}

/// A token of these random bytes, created at `now` in seconds since 1970.
#[must_use]
pub fn new_token(name: &str, role: Role, random: [u8; 32], now: u64) -> NewToken {
    let text = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
    let hash = hash(&text);
    let (name, role) = (name.to_owned(), role.name().to_owned());
    NewToken { stored: PanelToken { name, role, hash, created: now }, text }
}

/// The hash of a token. It has 256 random bits, so that no slow hash is needed.
pub(crate) fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Random bytes as text for cookies and forms.
pub(crate) fn text(random: [u8; 32]) -> String {
    URL_SAFE_NO_PAD.encode(random)
}

/// Returns true if the texts are equal, in a time that depends on their lengths only.
pub(crate) fn is_equal(one: &str, other: &str) -> bool {
    one.len() == other.len()
        && one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_by_its_hash_only() {
        let token = new_token("ci", Role::Operator, [5; 32], 7);
        assert_eq!(token.stored.hash, hash(&token.text));
        assert_ne!(token.stored.hash, hash(&token.text.to_uppercase()));
        assert_eq!(token.text.len(), PREFIX.len() + 43);
        assert!(is_equal("abc", "abc") && !is_equal("abc", "abd") && !is_equal("abc", "ab"));
    }
}
