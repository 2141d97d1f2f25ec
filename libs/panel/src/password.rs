//! Passwords of accounts, hashed by Argon2id (RFC 9106).

use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};

/// The minimum length of a password in characters.
pub(crate) const MIN_LENGTH: usize = 10;
/// The maximum length of a password in bytes.
pub(crate) const MAX_LENGTH: usize = 256;

/// The parameters of Argon2id in a PHC string with the highest accepted values: KiB, passes, lanes.
const MAX_COSTS: [(&str, u32); 3] = [("m", 65_536), ("t", 8), ("p", 4)];
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

/// The hash of `password` with `salt`, as accounts have it.
///
/// # Errors
/// A message: the password is too short or too long, or the system has too little memory.
pub fn password_hash(password: &str, salt: [u8; 16]) -> Result<String, String> {
    if !is_good(password) {
        return Err(format!(
            "the password of an account has at least {MIN_LENGTH} characters, and at most \
             {MAX_LENGTH} bytes"
        ));
    }
    hash(password, salt).ok_or_else(|| "the system has too little memory for a hash".to_owned())
}

/// Returns true if `text` is a hash by Argon2id of usual cost, as a PHC string. Another one would
/// take memory and time at each login.
#[must_use]
pub fn is_password_hash(text: &str) -> bool {
    let parts: Vec<_> = text.split('$').collect();
    let ["", "argon2id", "v=19", cost, salt, hash] = parts[..] else { return false };
    let is_text = |text: &str| {
        let is_of_it = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
        (11..=86).contains(&text.len()) && text.bytes().all(is_of_it)
    };
    let mut costs = cost.split(',').zip(MAX_COSTS).map(|(cost, (name, most))| {
        let value = cost.strip_prefix(name).and_then(|it| it.strip_prefix('='));
        value.and_then(|it| it.parse().ok()).is_some_and(|it: u32| (1..=most).contains(&it))
    });
    cost.split(',').count() == MAX_COSTS.len()
        && costs.all(|is_good| is_good)
        && is_text(salt)
        && is_text(hash)
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

    #[test]
    fn hashes_of_usual_cost_are_recognized() {
        let stored = password_hash("correct horse", [7; 16]).unwrap();
        assert!(is_password_hash(&stored), "{stored}");
        assert!(password_hash("short", [7; 16]).is_err());
        for (part, other) in [
            ("$argon2id", "$argon2i"),
            ("v=19", "v=16"),
            ("m=19456", "m=4194304"),
            ("m=19456", "m=0"),
            ("t=2", "t=4000000000"),
            ("p=1", "p=255"),
            (",p=1", ""),
            ("p=1", "p=1,x=1"),
            ("$m", "$$m"),
            ("$argon2id$v=19$m=19456,t=2,p=1", ""),
        ] {
            assert!(!is_password_hash(&stored.replace(part, other)), "{part} {other}");
        }
        assert!(!is_password_hash(&format!("{stored}\n")) && !is_password_hash(""));
    }
}
