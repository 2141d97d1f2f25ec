//! The tables of the database, the forms that they have had, and the settings in them.

use super::failure::to;
use crate::storage::Error;
use rusqlite::{Connection, OptionalExtension, params};

/// The database's name in the data directory.
pub(super) const DATABASE: &str = "barebell.sqlite";

/// Who may do what with it: its owner, anything. SQLite would let others read it.
pub(super) const DATABASE_MODE: u32 = 0o600;

/// The setting in which [`Storage::secret`] is kept.
pub(super) const SECRET: &str = "secret";

/// The setting in which [`Users::realms`](crate::storage::Users::realms) are kept.
pub(super) const REALMS: &str = "realms";

/// What makes the tables of each form out of those of the one before; the first are made of none.
pub(super) const STEPS: [&str; 3] = [TABLES, LOGINS, RECORDS];

/// The form of the tables.
pub(super) const SCHEMA_VERSION: i64 = STEPS.len() as i64;

/// Nothing of the tables: records of bindings say what was removed as well, which versions before
/// cannot read.
const RECORDS: &str = "";

/// Further names under which users log in: `user@domain`, which those have not who were stored
/// before, and one of the operator's choice. Hashes stand together, as [`users`] has them.
const LOGINS: &str = "
    ALTER TABLE subscriber ADD COLUMN address_ha1 BLOB;
    ALTER TABLE subscriber ADD COLUMN auth_name TEXT;
    ALTER TABLE subscriber ADD COLUMN auth_ha1 BLOB;
    CREATE UNIQUE INDEX subscriber_auth_name ON subscriber (domain, auth_name)
        WHERE auth_name IS NOT NULL;
";

/// `subscriber` is keyed by domain first, so that the users of a domain lie together.
/// `binding.expires` is in seconds since 1970, of the binding that ends last. `binding.emptied` is
/// the number of the journal files that said that the address of record has no bindings any more.
const TABLES: &str = "
    CREATE TABLE subscriber (
        domain TEXT NOT NULL,
        name TEXT NOT NULL,
        ha1_md5 BLOB NOT NULL,
        ha1_sha256 BLOB NOT NULL,
        ha1_sha512_256 BLOB NOT NULL,
        PRIMARY KEY (domain, name)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE setting (
        key TEXT PRIMARY KEY NOT NULL,
        value BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE binding (
        address_of_record BLOB PRIMARY KEY NOT NULL,
        sequence INTEGER NOT NULL,
        expires INTEGER NOT NULL,
        emptied INTEGER,
        record BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX binding_emptied ON binding (emptied) WHERE emptied IS NOT NULL;
";

pub(super) fn get_setting(database: &Connection, key: &str) -> Result<Option<Vec<u8>>, Error> {
    database
        .query_row("SELECT value FROM setting WHERE key = ?1", [key], |row| row.get(0))
        .optional()
        .map_err(to("read a setting"))
}

pub(super) fn put_setting(database: &Connection, key: &str, value: &[u8]) -> Result<(), Error> {
    database
        .execute("INSERT OR REPLACE INTO setting VALUES (?1, ?2)", params![key, value])
        .map(drop)
        .map_err(to("store a setting"))
}

pub(super) fn make_tables(database: &Connection, steps: &[&str]) -> Result<(), Error> {
    steps
        .iter()
        .try_for_each(|step| database.execute_batch(step))
        .and_then(|()| database.pragma_update(None, "user_version", SCHEMA_VERSION))
        .map_err(to("make its tables"))
}
