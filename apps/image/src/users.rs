//! An incremental parser of the file of users: `name:password`, or `name:realm:algorithm:HA1`, one
//! per line.
//!
//! Empty lines and lines that begin with `#` are ignored. A name may have a line for each
//! algorithm.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use sip::digest::{Algorithm, Ha1Set};

/// Maximum length of a line in bytes.
const MOST_OF_LINE: usize = 1024;
/// Maximum length of a name in bytes.
const MOST_OF_NAME: usize = 128;

/// The fault of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The line number.
    pub number: usize,
    /// The fault.
    pub what: What,
}

/// The fault of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It is longer than a line may be.
    Long,
    /// It has no colon.
    NoColon,
    /// The name is invalid.
    Name,
    /// There is no password.
    NoPassword,
    /// The hash is for another realm than ours, which is given.
    Realm(String),
    /// The hash has a character that is no hexadecimal digit.
    Digits,
    /// The user has an earlier line with the same algorithm, or a password.
    Twice,
    /// The file has too many users.
    Many {
        /// The number of users in the file, which may be an estimate.
        users: usize,
        /// The maximum number of users.
        most: usize,
    },
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.number)?;
        match &self.what {
            What::Long => write!(f, "longer than {MOST_OF_LINE} bytes"),
            What::NoColon => f.write_str(
                "expected name:password or name:realm:algorithm:HA1, and there is no colon",
            ),
            What::Name => f.write_str("no user is called that: a name has no spaces and no @"),
            What::NoPassword => f.write_str("there is no password"),
            What::Realm(ours) => write!(f, "the HA1 is for another realm; ours is {ours}"),
            What::Digits => f.write_str("the HA1 has a character that is no hexadecimal digit"),
            What::Twice => f.write_str("this user has such a line already"),
            What::Many { users, most } => write!(f, "{users} users, and {most} have room"),
        }
    }
}

/// A user, as far as lines are parsed.
#[derive(Clone, Debug)]
struct User {
    ha1: Ha1Set,
    known: Algorithms,
}

/// A set of algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Algorithms(u8);

impl Algorithms {
    const ALL: Self = Self(7);

    fn one(algorithm: Algorithm) -> Self {
        Self(match algorithm {
            Algorithm::Md5 => 1,
            Algorithm::Sha256 => 2,
            _ => 4,
        })
    }
}

/// The parsed users.
#[derive(Debug)]
pub struct Users {
    realm: String,
    most: usize,
    users: BTreeMap<Box<[u8]>, User>,
    /// The start of an incomplete line.
    rest: Vec<u8>,
    lines: usize,
    /// Number of users if they exceed the maximum; only counted.
    excess: usize,
}

impl Users {
    /// An empty set with room for `most` users of `realm`.
    #[must_use]
    pub fn new(realm: &str, most: usize) -> Self {
        let users = BTreeMap::new();
        Self { realm: realm.into(), most, users, rest: Vec::new(), lines: 0, excess: 0 }
    }

    /// Parses more of the file.
    ///
    /// # Errors
    /// If a line is invalid.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), BadLine> {
        let mut parts = bytes.split_inclusive(|&byte| byte == b'\n');
        for part in &mut parts {
            if self.rest.len() + part.len() > MOST_OF_LINE {
                return Err(BadLine { number: self.lines + 1, what: What::Long });
            }
            self.rest.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.end_line()?;
            }
        }
        Ok(())
    }

    /// Parses the end of the file.
    ///
    /// # Errors
    /// If the last line is invalid, or there are too many users.
    pub fn end(&mut self) -> Result<(), BadLine> {
        self.end_line()?;
        if self.excess > 0 {
            let what = What::Many { users: self.excess, most: self.most };
            return Err(BadLine { number: self.lines, what });
        }
        Ok(())
    }

    /// Number of users.
    #[must_use]
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Returns true if there are no users.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// The algorithms for which every user has a hash, the most preferred first.
    #[must_use]
    pub fn algorithms(&self) -> Vec<Algorithm> {
        let common = self.users.values().fold(Algorithms::ALL.0, |all, user| all & user.known.0);
        let mut common_to_all = Algorithm::ALL.to_vec();
        common_to_all.retain(|algorithm| Algorithms::one(*algorithm).0 & common != 0);
        common_to_all
    }

    /// The names and hashes of all users, by name.
    pub fn into_users(self) -> impl Iterator<Item = (Box<[u8]>, Ha1Set)> {
        self.users.into_iter().map(|(name, user)| (name, user.ha1))
    }

    fn end_line(&mut self) -> Result<(), BadLine> {
        self.lines += 1;
        let line = core::mem::take(&mut self.rest);
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let added = if text.is_empty() || text.starts_with(b"#") { Ok(()) } else { self.add(text) };
        self.rest = line;
        self.rest.clear();
        added.map_err(|what| BadLine { number: self.lines, what })
    }

    fn add(&mut self, line: &[u8]) -> Result<(), What> {
        let (name, rest) = split(line).ok_or(What::NoColon)?;
        let is_name = |byte: &u8| byte.is_ascii_graphic() && !b"@<>\"".contains(byte);
        if name.is_empty() || name.len() > MOST_OF_NAME || !name.iter().all(is_name) {
            return Err(What::Name);
        }
        if self.excess > 0 {
            self.excess += 1;
            return Ok(());
        }
        if self.users.len() >= self.most && !self.users.contains_key(name) {
            // Further users are only counted, to report the memory that they need.
            self.excess = self.users.len() + 1;
            self.users.clear();
            return Ok(());
        }
        let Some((realm, algorithm, hash)) = hashed(rest) else {
            if rest.is_empty() {
                return Err(What::NoPassword);
            }
            let ha1 = Ha1Set::new(name, self.realm.as_bytes(), rest);
            let user = User { ha1, known: Algorithms::ALL };
            let before = self.users.insert(name.into(), user);
            return if before.is_none() { Ok(()) } else { Err(What::Twice) };
        };
        if realm != self.realm.as_bytes() {
            return Err(What::Realm(self.realm.clone()));
        }
        let hash = hash.ok_or(What::Digits)?;
        let none = Ha1Set { md5: [0; 16], sha256: [0; 32], sha512_256: [0; 32] };
        let user = self.users.entry(name.into());
        let user = user.or_insert(User { ha1: none, known: Algorithms(0) });
        let one = Algorithms::one(algorithm);
        if user.known.0 & one.0 != 0 {
            return Err(What::Twice);
        }
        user.known.0 |= one.0;
        match algorithm {
            Algorithm::Md5 => user.ha1.md5.copy_from_slice(&hash[..16]),
            Algorithm::Sha256 => user.ha1.sha256 = hash,
            _ => user.ha1.sha512_256 = hash,
        }
        Ok(())
    }
}

/// Splits at the first colon.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = bytes.iter().position(|&byte| byte == b':')?;
    Some((&bytes[..colon], &bytes[colon + 1..]))
}

/// Realm, algorithm and hash. The hash is `None` if it has other characters than hexadecimal digits.
type Hashed<'a> = (&'a [u8], Algorithm, Option<[u8; 32]>);

/// Realm, algorithm and hash in the `rest` of a line; `None` if it is a password.
fn hashed(rest: &[u8]) -> Option<Hashed<'_>> {
    let (realm, rest) = split(rest)?;
    let (algorithm, digits) = split(rest)?;
    let algorithm = Algorithm::parse(algorithm)?;
    if digits.len() != 2 * algorithm.output_len() {
        return None;
    }
    Some((realm, algorithm, octets(digits)))
}

/// The octets of hexadecimal `digits`, at most 32.
fn octets(digits: &[u8]) -> Option<[u8; 32]> {
    let mut octets = [0; 32];
    for (octet, pair) in octets.iter_mut().zip(digits.chunks_exact(2)) {
        // The integer parser accepts a sign, which a hash does not have.
        let pair = core::str::from_utf8(pair).ok().filter(|pair| !pair.starts_with('+'))?;
        *octet = u8::from_str_radix(pair, 16).ok()?;
    }
    Some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn read(text: &[u8], piece: usize) -> Result<Users, BadLine> {
        let mut users = Users::new("a.com", 3);
        for piece in text.chunks(piece) {
            users.read(piece)?;
        }
        users.end()?;
        Ok(users)
    }

    #[test]
    fn passwords_and_hashes_are_read_in_pieces_of_any_size() {
        let alice = Ha1Set::new(b"alice", b"a.com", b"se:cret");
        let bob = Ha1Set::new(b"bob", b"a.com", b"x");
        let digits = |octets: &[u8]| sip::digest::Hex::new(octets).to_string();
        let text = alloc::format!(
            "# users\r\n\r\nalice:se:cret\r\nbob:a.com:MD5:{}\nbob:a.com:sha-256:{}",
            digits(&bob.md5),
            digits(&bob.sha256),
        );
        for piece in [1, 2, 7, 1000] {
            let users = read(text.as_bytes(), piece).expect("users");
            assert_eq!(users.algorithms(), [Algorithm::Sha256, Algorithm::Md5]);
            let all: Vec<_> = users.into_users().collect();
            assert_eq!(all.len(), 2);
            assert_eq!((&*all[0].0, &all[0].1), (&b"alice"[..], &alice));
            assert_eq!((&*all[1].0, &all[1].1.md5), (&b"bob"[..], &bob.md5));
            assert_eq!(all[1].1.sha256, bob.sha256);
        }
    }

    #[test]
    fn a_bad_line_is_named() {
        let bad = |text: &str| read(text.as_bytes(), 5).map(|_| ()).map_err(|bad| bad.to_string());
        let hash = "0".repeat(32);
        for (text, what) in [
            ("a:x\nb", "line 2: expected name:password"),
            ("a b:x", "line 1: no user is called that"),
            ("a:x\n\n:x", "line 3: no user is called that"),
            ("a:", "line 1: there is no password"),
            (
                &alloc::format!("a:b.com:MD5:{hash}"),
                "line 1: the HA1 is for another realm; ours is a.com",
            ),
            (
                &alloc::format!("a:a.com:MD5:+f{}", &hash[2..]),
                "line 1: the HA1 has a character that is no hexadecimal digit",
            ),
            (
                &alloc::format!("a:a.com:SHA-256:{hash}{}g0", &hash[2..]),
                "line 1: the HA1 has a character that is no hexadecimal digit",
            ),
            ("a:x\na:y", "line 2: this user has such a line already"),
            ("a:x\nb:x\nc:x\nd:x\ne:x", "line 5: 5 users, and 3 have room"),
            (&"a".repeat(2000), "line 1: longer than 1024 bytes"),
        ] {
            assert!(bad(text).is_err_and(|said| said.starts_with(what)), "{text}");
        }
    }
}
