//! The tables of the database, the schema versions, and the settings.

use super::failure::to;
use super::panel_tables;
use crate::Error;
use rusqlite::{Connection, OptionalExtension, params};

/// The file name of the database in the data directory.
pub(super) const DATABASE: &str = "barebell.sqlite";

/// The mode of the database: access for its owner only. SQLite would create it readable for others.
pub(super) const DATABASE_MODE: u32 = 0o600;

/// The key of the setting for [`Storage::secret`].
pub(super) const SECRET: &str = "secret";

/// The key of the setting for [`Users::realms`](crate::Users::realms).
pub(super) const REALMS: &str = "realms";

/// The migrations, each from one schema version to the next. The first one creates the tables.
pub(super) const STEPS: [&str; 14] = [
    TABLES,
    LOGINS,
    RECORDS,
    CALLS,
    SERVICES,
    AGENTS,
    MESSAGES,
    panel_tables::TABLES,
    CHANGES,
    CALL_USERS,
    panel_tables::SECOND_FACTORS,
    panel_tables::PHONE_LINKS,
    CALL_ORDERS,
    MESSAGE_SENDERS,
];

/// The key of the setting that is present once records of calls were imported.
pub(super) const CALLS_IMPORTED: &str = "calls_imported";

/// The present schema version.
pub(super) const SCHEMA_VERSION: i64 = STEPS.len() as i64;

/// Messages that are kept for users. `received` is in microseconds since 1970.
const MESSAGES: &str = "
    CREATE TABLE message (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        user TEXT NOT NULL,
        received INTEGER NOT NULL,
        sender BLOB NOT NULL,
        content_type BLOB NOT NULL,
        body BLOB NOT NULL
    ) STRICT;
    CREATE INDEX message_user ON message (user, id);
    CREATE INDEX message_received ON message (received);
";

/// `proved` is 0 if the sender of a message is a stranger. Messages stored before count as proved.
const MESSAGE_SENDERS: &str = "
    ALTER TABLE message ADD COLUMN proved INTEGER NOT NULL DEFAULT 1;
    CREATE INDEX message_unproved ON message (user) WHERE proved = 0;
";

/// No change of the tables. The records of bindings contain a User-Agent, which earlier versions
/// cannot read.
const AGENTS: &str = "";

/// The users that were added, changed or removed by other programs, for the running server. In the
/// connections of this program the triggers are disabled.
const CHANGES: &str = "
    CREATE TABLE user_change (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        domain TEXT NOT NULL,
        name TEXT NOT NULL
    ) STRICT;
    CREATE TRIGGER subscriber_added AFTER INSERT ON subscriber BEGIN
        INSERT INTO user_change (domain, name) VALUES (NEW.domain, NEW.name);
    END;
    CREATE TRIGGER subscriber_changed AFTER UPDATE ON subscriber BEGIN
        INSERT INTO user_change (domain, name) VALUES (OLD.domain, OLD.name);
        INSERT INTO user_change (domain, name) VALUES (NEW.domain, NEW.name);
    END;
    CREATE TRIGGER subscriber_removed AFTER DELETE ON subscriber BEGIN
        INSERT INTO user_change (domain, name) VALUES (OLD.domain, OLD.name);
    END;
    CREATE TRIGGER call_services_added AFTER INSERT ON call_services BEGIN
        INSERT INTO user_change (domain, name) VALUES (NEW.domain, NEW.name);
    END;
    CREATE TRIGGER call_services_changed AFTER UPDATE ON call_services BEGIN
        INSERT INTO user_change (domain, name) VALUES (OLD.domain, OLD.name);
        INSERT INTO user_change (domain, name) VALUES (NEW.domain, NEW.name);
    END;
    CREATE TRIGGER call_services_removed AFTER DELETE ON call_services BEGIN
        INSERT INTO user_change (domain, name) VALUES (OLD.domain, OLD.name);
    END;
";

/// Call services of users: the targets of forwards as `name@domain`, and `no_answer_after` in
/// microseconds.
const SERVICES: &str = "
    CREATE TABLE call_services (
        domain TEXT NOT NULL,
        name TEXT NOT NULL,
        always TEXT,
        busy TEXT,
        no_answer TEXT,
        unreachable TEXT,
        no_answer_after INTEGER NOT NULL,
        do_not_disturb INTEGER NOT NULL,
        PRIMARY KEY (domain, name)
    ) STRICT, WITHOUT ROWID;
";

/// Records of calls. `id` grows with each call, and the calls with the lowest ones are deleted
/// first. `ended` is in microseconds since 1970.
const CALLS: &str = "
    CREATE TABLE call (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        ended INTEGER NOT NULL,
        caller TEXT NOT NULL,
        callee TEXT NOT NULL,
        failed INTEGER NOT NULL,
        record TEXT NOT NULL
    ) STRICT;
    CREATE INDEX call_ended ON call (ended);
    CREATE INDEX call_caller ON call (caller);
    CREATE INDEX call_callee ON call (callee);
";

/// The users that a call was led to, or that its number belongs to. Calls stored before have none.
const CALL_USERS: &str = "
    ALTER TABLE call ADD COLUMN led_to TEXT;
    ALTER TABLE call ADD COLUMN number_of TEXT;
    CREATE INDEX call_led_to ON call (led_to) WHERE led_to IS NOT NULL;
    CREATE INDEX call_number_of ON call (number_of) WHERE number_of IS NOT NULL;
";

/// Indexes with the time of the end: a page of the records of one user, or of failures, is read
/// without the others.
const CALL_ORDERS: &str = "
    DROP INDEX call_caller;
    DROP INDEX call_callee;
    DROP INDEX call_led_to;
    DROP INDEX call_number_of;
    CREATE INDEX call_caller ON call (caller, ended);
    CREATE INDEX call_callee ON call (callee, ended);
    CREATE INDEX call_led_to ON call (led_to, ended) WHERE led_to IS NOT NULL;
    CREATE INDEX call_number_of ON call (number_of, ended) WHERE number_of IS NOT NULL;
    CREATE INDEX call_failed ON call (ended) WHERE failed = 1;
";

/// No change of the tables. The records of bindings contain removals, which earlier versions cannot
/// read.
const RECORDS: &str = "";

/// Further login names: `user@domain`, without a hash for users stored before, and a name chosen by
/// the operator. The hashes of one name are concatenated as in [`users`].
const LOGINS: &str = "
    ALTER TABLE subscriber ADD COLUMN address_ha1 BLOB;
    ALTER TABLE subscriber ADD COLUMN auth_name TEXT;
    ALTER TABLE subscriber ADD COLUMN auth_ha1 BLOB;
    CREATE UNIQUE INDEX subscriber_auth_name ON subscriber (domain, auth_name)
        WHERE auth_name IS NOT NULL;
";

/// The key of `subscriber` begins with the domain, so that the users of a domain are adjacent.
/// `binding.expires` is the expiry of the last binding, in seconds since 1970. `binding.emptied` is
/// the generation of the journal files that removed the last binding.
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
