//! Names of users, their authentication names, and passwords.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::error::Error;
use core::fmt;

/// The maximum length of a name, in bytes.
pub const MAX_NAME: usize = 128;

/// The fault of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty.
    Empty,
    /// The name is longer than [`MAX_NAME`].
    TooLong,
    /// The name contains a character that a name cannot have.
    Character {
        /// The name.
        name: String,
        /// The character.
        character: char,
    },
    /// The authentication name is the address of a user.
    Address {
        /// The user.
        user: String,
        /// The domain.
        domain: String,
    },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the user name is empty"),
            Self::TooLong => write!(f, "the user name is longer than {MAX_NAME} bytes"),
            Self::Character { name, character } => write!(
                f,
                "the user name `{}` contains {character:?}; expected no spaces, no control \
                 characters and none of @ : \" \\ < > %",
                name.escape_debug()
            ),
            Self::Address { user, domain } => write!(
                f,
                "`{user}@{domain}` means the user {user}, who logs in under it in any case; \
                 expected a name without @{domain}"
            ),
        }
    }
}

impl Error for NameError {}

/// Checks a user name. It is written without escapes into URIs, and between quotes and brackets.
///
/// # Errors
/// [`NameError`] if the name cannot be used.
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > MAX_NAME {
        return Err(NameError::TooLong);
    }
    let is_bad = |c: char| c.is_whitespace() || c.is_control() || "@:\"\\<>%".contains(c);
    match name.chars().find(|&c| is_bad(c)) {
        Some(character) => Err(NameError::Character { name: name.to_owned(), character }),
        None => Ok(()),
    }
}

/// Checks an authentication name of a user of `domain`. It may have the form `name@domain` with
/// another domain, but must not be another form of a user's address.
///
/// # Errors
/// [`NameError`] if the name cannot be used.
pub fn check_auth_name(name: &str, domain: &str) -> Result<(), NameError> {
    let (local, rest) = name.split_once('@').unwrap_or((name, ""));
    if rest == domain {
        return Err(NameError::Address { user: local.to_owned(), domain: domain.to_owned() });
    }
    check_name(local)?;
    if rest.is_empty() { Ok(()) } else { check_name(rest) }
}

/// True if the password can be used: it is not empty and has no control characters.
#[must_use]
pub fn is_password(password: &[u8]) -> bool {
    !password.is_empty() && !password.iter().any(u8::is_ascii_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_break_a_uri_or_a_line_are_rejected() {
        for name in ["", "a b", "a:b", "a@b", "a\n", "a\"", "a%20", "a\u{a0}b", "a<b", "a\\"] {
            assert!(check_name(name).is_err(), "{name}");
        }
        assert_eq!(check_name(&"a".repeat(MAX_NAME + 1)), Err(NameError::TooLong));
        for name in ["alice", "+49-30/123", "Jürgen", "a.b_c~d!e*f'g(h)", "a;b?c=d&e,f$g", "#1"] {
            assert_eq!(check_name(name), Ok(()));
        }
    }

    #[test]
    fn an_authentication_name_is_not_the_address_of_a_user() {
        assert_eq!(check_auth_name("4711", "a.com"), Ok(()));
        assert_eq!(check_auth_name("7@isp.example", "a.com"), Ok(()));
        for name in ["", "bob@a.com", "a@b@c", "a b"] {
            assert!(check_auth_name(name, "a.com").is_err(), "{name}");
        }
    }
}
