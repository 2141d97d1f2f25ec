//! The users of a file, which is parsed as it arrives. A name may have a line for each algorithm.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use sip::digest::{Algorithm, Ha1Set};
use sip_server::{AuthName, Logins};
use users::{Credentials, Line, LineError, Reader};

/// The fault of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// The line number.
    pub number: u64,
    /// The fault.
    pub fault: Fault,
}

/// The fault of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is invalid.
    Line(LineError),
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
        match &self.fault {
            Fault::Line(error) => error.fmt(f),
            Fault::Twice => f.write_str("this user has another line of this kind"),
            Fault::Many { users, most } => write!(f, "{users} users, at most {most} fit"),
        }
    }
}

/// A user, as far as lines are parsed.
#[derive(Clone, Debug)]
struct User {
    ha1: Ha1Set,
    known: Algorithms,
    auth_name: Option<Box<AuthName>>,
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
    reader: Reader,
    table: Table,
}

#[derive(Debug)]
struct Table {
    realm: String,
    most: usize,
    users: BTreeMap<Box<[u8]>, User>,
    /// Number of users if they exceed the maximum; only counted.
    excess: usize,
    /// The number of the last line with a user.
    last: u64,
}

impl Users {
    /// An empty set with room for `most` users of `realm`.
    #[must_use]
    pub fn new(realm: &str, most: usize) -> Self {
        let users = BTreeMap::new();
        let table = Table { realm: realm.into(), most, users, excess: 0, last: 0 };
        Self { reader: Reader::new(realm, realm), table }
    }

    /// Parses more of the file.
    ///
    /// # Errors
    /// If a line is invalid.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(), BadLine> {
        let Self { reader, table } = self;
        let mut result = Ok(());
        reader.read(bytes, &mut |number, line| table.take(number, line, &mut result));
        result
    }

    /// Parses the end of the file.
    ///
    /// # Errors
    /// If the last line is invalid, or there are too many users.
    pub fn end(&mut self) -> Result<(), BadLine> {
        let Self { reader, table } = self;
        let mut result = Ok(());
        reader.end(&mut |number, line| table.take(number, line, &mut result));
        if result.is_ok() && table.excess > 0 {
            let fault = Fault::Many { users: table.excess, most: table.most };
            return Err(BadLine { number: table.last, fault });
        }
        result
    }

    /// Number of users.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.users.len()
    }

    /// Returns true if there are no users.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.users.is_empty()
    }

    /// The algorithms for which every user has a hash, the most preferred first.
    #[must_use]
    pub fn algorithms(&self) -> Vec<Algorithm> {
        let users = self.table.users.values();
        let common = users.fold(Algorithms::ALL.0, |all, user| all & user.known.0);
        let mut common_to_all = Algorithm::ALL.to_vec();
        common_to_all.retain(|algorithm| Algorithms::one(*algorithm).0 & common != 0);
        common_to_all
    }

    /// The names and hashes of all users, by name.
    pub fn into_users(self) -> impl Iterator<Item = (Box<[u8]>, Logins)> {
        self.table.users.into_iter().map(|(name, user)| {
            let User { ha1, auth_name, .. } = user;
            (name, Logins { by_name: ha1, by_address: None, by_auth_name: auth_name })
        })
    }
}

impl Table {
    /// Adds the user of a line, unless an earlier line was invalid.
    fn take(
        &mut self,
        number: u64,
        line: Result<Line<'_>, LineError>,
        result: &mut Result<(), BadLine>,
    ) {
        if result.is_ok() {
            self.last = number;
            let added = line.map_err(Fault::Line).and_then(|line| self.add(&line));
            *result = added.map_err(|fault| BadLine { number, fault });
        }
    }

    fn add(&mut self, line: &Line<'_>) -> Result<(), Fault> {
        let name = line.name.as_bytes();
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
        let (algorithm, hash) = match line.credentials {
            Credentials::Password(password) => {
                let ha1 =
                    |login: &str| Ha1Set::new(login.as_bytes(), self.realm.as_bytes(), password);
                let auth_name = |name: &str| {
                    Box::new(AuthName { name: name.as_bytes().into(), ha1: ha1(name) })
                };
                let user = User {
                    ha1: ha1(line.name),
                    known: Algorithms::ALL,
                    auth_name: line.auth_name.map(auth_name),
                };
                let before = self.users.insert(name.into(), user);
                return if before.is_none() { Ok(()) } else { Err(Fault::Twice) };
            }
            Credentials::Ha1 { algorithm, hash } => (algorithm, hash),
        };
        let none = Ha1Set { md5: [0; 16], sha256: [0; 32], sha512_256: [0; 32] };
        let user = self.users.entry(name.into());
        let user = user.or_insert(User { ha1: none, known: Algorithms(0), auth_name: None });
        let one = Algorithms::one(algorithm);
        if user.known.0 & one.0 != 0 {
            return Err(Fault::Twice);
        }
        user.known.0 |= one.0;
        let ha1 = &mut user.ha1;
        match algorithm {
            Algorithm::Md5 => ha1.md5.copy_from_slice(&hash[..16]),
            Algorithm::Sha256 => ha1.sha256 = hash,
            _ => ha1.sha512_256 = hash,
        }
        Ok(())
    }
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
            assert_eq!((&*all[0].0, &all[0].1.by_name), (&b"alice"[..], &alice));
            assert_eq!((&*all[1].0, &all[1].1.by_name.md5), (&b"bob"[..], &bob.md5));
            assert_eq!(all[1].1.by_name.sha256, bob.sha256);
        }
    }

    #[test]
    fn a_user_logs_in_by_an_authentication_name() {
        let users = read("\u{feff}alice<4711>:x\n".as_bytes(), 3).expect("users");
        let (_, logins) = users.into_users().next().expect("alice");
        let ha1 = |login: &[u8]| Ha1Set::new(login, b"a.com", b"x");
        assert_eq!(logins.by_name, ha1(b"alice"));
        let expected = AuthName { name: b"4711".as_slice().into(), ha1: ha1(b"4711") };
        assert_eq!(logins.by_auth_name.as_deref(), Some(&expected));
    }

    #[test]
    fn a_bad_line_is_named() {
        let bad = |text: &str| read(text.as_bytes(), 5).map(|_| ()).map_err(|bad| bad.to_string());
        let hash = "0".repeat(32);
        for (text, what) in [
            ("a:x\nb", "line 2: expected name:password"),
            ("a b:x", "line 1: the user name `a b` contains ' '"),
            ("a:x\n\n:x", "line 3: the user name is empty"),
            ("a:", "line 1: the password is empty"),
            (
                &alloc::format!("a:b.com:MD5:{hash}"),
                "line 1: the HA1 is for another realm; expected one for a.com",
            ),
            (
                &alloc::format!("a:a.com:MD5:+f{}", &hash[2..]),
                "line 1: the HA1 has a character that is not a hexadecimal digit",
            ),
            (
                &alloc::format!("a:a.com:SHA-256:{hash}{}g0", &hash[2..]),
                "line 1: the HA1 has a character that is not a hexadecimal digit",
            ),
            ("a:x\na:y", "line 2: this user has another line of this kind"),
            ("a:x\nb:x\nc:x\nd:x\ne:x", "line 5: 5 users, at most 3 fit"),
            (&"a".repeat(5000), "line 1: longer than 4096 bytes"),
        ] {
            assert!(bad(text).is_err_and(|said| said.starts_with(what)), "{text}");
        }
    }
}
