//! The table `subscriber`: its columns, and the values of a row.

use super::client::Client;
use super::error::AccountsError;
use super::hashes::Hashes;
use sip::digest::Ha1Set;
use tokio_postgres::Row;

/// The columns that the table has, besides `username` and `domain`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) password: bool,
    pub(super) ha1: bool,
    /// The hash of `user@domain` with MD5.
    pub(super) ha1b: bool,
    /// The hash with SHA-256, of OpenSIPS 3.2 and later.
    pub(super) sha256: bool,
    /// The hash with SHA-512/256.
    pub(super) sha512_256: bool,
}

/// The names of the columns of hashes and of the password, in the order of the query.
pub(super) const NAMES: [&str; 5] = ["password", "ha1", "ha1b", "ha1_sha256", "ha1_sha512t256"];

/// The values of a row. Empty ones count as missing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Values<'r> {
    pub(super) name: Option<&'r str>,
    pub(super) domain: Option<&'r str>,
    password: Option<&'r str>,
    ha1b: Option<&'r str>,
    hashes: Hashes<'r>,
}

impl Columns {
    /// Reads the columns of `table`.
    ///
    /// # Errors
    /// There is no such table, it lacks a column, or the database fails.
    pub(super) fn of(client: &mut Client, table: &str) -> Result<Self, AccountsError> {
        let query = "SELECT attname::text FROM pg_attribute
             WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped";
        let rows = client.query(query, &[&table])?;
        let names: Vec<&str> = rows.iter().filter_map(|row| row.try_get(0).ok()).collect();
        let has = |name: &str| names.contains(&name);
        let [password, ha1, ha1b, sha256, sha512_256] = NAMES.map(has);
        let missing = ["username", "domain"].into_iter().find(|name| !has(name));
        let missing = missing.or_else(|| (!ha1 && !password && !sha256).then_some("ha1"));
        match missing {
            Some(missing) => Err(AccountsError::Columns {
                table: table.to_owned(),
                missing: match names.is_empty() {
                    true => "columns, or does not exist".to_owned(),
                    false => format!("column {missing}"),
                },
            }),
            None => Ok(Self { password, ha1, ha1b, sha256, sha512_256 }),
        }
    }

    /// The query of the users in `table` that meet `condition`, by domain and name.
    pub(super) fn query(&self, table: &str, condition: &str) -> String {
        let has = [self.password, self.ha1, self.ha1b, self.sha256, self.sha512_256];
        let mut columns = String::new();
        for (name, has) in NAMES.into_iter().zip(has) {
            let value = if has { format!("{name}::text") } else { "NULL::text".to_owned() };
            columns.push_str(", ");
            columns.push_str(&value);
        }
        format!(
            "SELECT username::text, lower(domain::text){columns} FROM {table} {condition}
             ORDER BY lower(domain::text) COLLATE \"C\", username::text COLLATE \"C\""
        )
    }

    /// The values of `row`, which is one of [`Columns::query`].
    pub(super) fn values<'r>(&self, row: &'r Row) -> Values<'r> {
        let text = |column: usize| -> Option<&str> {
            row.try_get(column).ok().flatten().filter(|text: &&str| !text.is_empty())
        };
        Values {
            name: text(0),
            domain: text(1),
            password: text(2),
            ha1b: text(4),
            hashes: Hashes { md5: text(3), sha256: text(5), sha512_256: text(6) },
        }
    }
}

impl<'r> Values<'r> {
    /// The values of a row without a password in clear.
    pub(super) fn new(
        name: &'r str,
        domain: &'r str,
        hashes: Hashes<'r>,
        ha1b: Option<&'r str>,
    ) -> Self {
        let ha1b = ha1b.filter(|text| !text.is_empty());
        Self { name: Some(name), domain: Some(domain), password: None, ha1b, hashes }
    }

    /// The hashes for the login name `name`. The hash columns take precedence over the password.
    pub(super) fn hashes(&self, name: &str, domain: &str, key: &[u8; 32]) -> Option<Ha1Set> {
        let stored = self.hashes.complete(&[name.as_bytes(), b"@", domain.as_bytes()], key);
        stored.or_else(|| self.of_password(name, domain))
    }

    /// The hashes for the login name `name@domain`, if the table has them.
    pub(super) fn hashes_of_address(
        &self,
        name: &str,
        domain: &str,
        key: &[u8; 32],
    ) -> Option<Ha1Set> {
        let login = format!("{name}@{domain}");
        let hashes = Hashes { md5: self.ha1b, ..Hashes::default() };
        let stored = hashes.complete(&[b"address:", login.as_bytes()], key);
        stored.or_else(|| self.of_password(&login, domain))
    }

    fn of_password(&self, login: &str, domain: &str) -> Option<Ha1Set> {
        let password = self.password?;
        Some(Ha1Set::new(login.as_bytes(), domain.as_bytes(), password.as_bytes()))
    }
}

/// True if `table` is a name that a query can contain: letters, digits and underscores, perhaps
/// with a schema.
pub(super) fn is_name(table: &str) -> bool {
    let is_word = |word: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        word.len() <= 63
            && word.bytes().next().is_some_and(is_letter)
            && word.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
    };
    match table.split_once('.') {
        Some((schema, name)) => is_word(schema) && is_word(name),
        None => is_word(table),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::hashes::hex;

    const KEY: [u8; 32] = [7; 32];

    #[test]
    fn names_of_tables_contain_no_sql() {
        for name in ["subscriber", "sip.subscriber", "_a1"] {
            assert!(is_name(name), "{name}");
        }
        let long = "a".repeat(64);
        for name in ["", "a b", "a;b", "a.b.c", "1a", ".a", "a.", "\"a\"", "a--", &long] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn hashes_are_read_and_missing_ones_are_no_known_value() {
        let set = Ha1Set::new(b"alice", b"example.com", b"secret");
        let md5: String = set.md5.iter().map(|byte| format!("{byte:02X}")).collect();
        let values = Values {
            ha1b: None,
            hashes: Hashes { md5: Some(&md5), ..Hashes::default() },
            ..Values::default()
        };
        let read = values.hashes("alice", "example.com", &KEY).unwrap();
        assert_eq!(read.md5, set.md5);
        assert_ne!(read.sha256, set.sha256);
        let other = values.hashes("alice", "example.com", &[8; 32]).unwrap();
        assert_ne!(read.sha256, other.sha256, "it depends on the key");
        assert_eq!(values.hashes("alice", "example.com", &KEY), Some(read.clone()));
        let bob = values.hashes("bob", "example.com", &KEY).unwrap();
        assert_ne!(read.sha256, bob.sha256, "and on the user");
        assert_ne!(read.sha256, read.sha512_256);
        assert_eq!(values.hashes_of_address("alice", "example.com", &KEY), None);
    }

    #[test]
    fn a_password_serves_where_no_hash_is() {
        let values = Values { password: Some("secret"), ..Values::default() };
        let set = Ha1Set::new(b"alice", b"example.com", b"secret");
        assert_eq!(values.hashes("alice", "example.com", &KEY), Some(set));
        let set = Ha1Set::new(b"alice@example.com", b"example.com", b"secret");
        assert_eq!(values.hashes_of_address("alice", "example.com", &KEY), Some(set));
        assert_eq!(Values::default().hashes("alice", "example.com", &KEY), None);
        let short = Hashes { md5: Some("abc"), ..Hashes::default() };
        let values = Values { hashes: short, ..Values::default() };
        assert_eq!(values.hashes("alice", "example.com", &KEY), None, "a malformed hash");
        assert_eq!(hex::<2>(Some("+1a0")), None);
        assert_eq!(hex::<2>(Some("01aF")), Some([1, 0xaf]));
    }
}
