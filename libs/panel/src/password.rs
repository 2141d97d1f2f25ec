//! Passwords of accounts, hashed by Argon2id (RFC 9106).

use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};

/// The minimum length of a password in characters.
pub(crate) const MIN_LENGTH: usize = 10;
/// The maximum length of a password in bytes.
pub(crate) const MAX_LENGTH: usize = 256;

/// The hash of no password, for names without an account: their check takes as long.
const NO_PASSWORD: &str = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$\
                           AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Argon2id with 19 MiB and two passes, as OWASP advises.
fn argon2() -> Argon2<'static> {
    Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::DEFAULT)
}

/// Returns true if `password` may be the password of an account.
pub(crate) fn is_good(password: &str) -> bool {
    password.chars().count() >= MIN_LENGTH && password.len() <= MAX_LENGTH
}

/// The hash of `password` with `salt`, as a PHC string. `None` if the system has too little memory.
pub(crate) fn hash(password: &str, salt: [u8; 16]) -> Option<String> {
    Some(argon2().hash_password_with_salt(password.as_bytes(), &salt).ok()?.to_string())
}

/// Returns true if `password` has the hash `stored`. Without a stored hash it takes as long.
pub(crate) fn is_right(password: &str, stored: Option<&str>) -> bool {
    let hash = stored.unwrap_or(NO_PASSWORD);
    let is_equal = argon2().verify_password(password.as_bytes(), hash).is_ok();
    is_equal && stored.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_has_its_hash() {
        let stored = hash("correct horse", [7; 16]).unwrap();
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert!(is_right("correct horse", Some(&stored)));
        assert!(!is_right("correct horsf", Some(&stored)));
        assert!(!is_right("correct horse", Some("plain")));
        assert!(!is_right("", None));
        let wrong = argon2().verify_password(b"x", NO_PASSWORD);
        let wrong = wrong.unwrap_err();
        assert!(matches!(wrong, argon2::password_hash::Error::PasswordInvalid), "{wrong}");
        assert_ne!(hash("correct horse", [8; 16]).unwrap(), stored);
    }

    #[test]
    fn short_and_huge_passwords_are_refused() {
        assert!(is_good("0123456789") && is_good("üüüüüüüüüü"));
        assert!(!is_good("012345678") && !is_good(&"x".repeat(MAX_LENGTH + 1)));
    }
}
