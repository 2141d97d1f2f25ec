//! The tables of the panel.

/// Times are in seconds since 1970. `id` grows with each action.
pub(super) const TABLES: &str = "
    CREATE TABLE panel_account (
        name TEXT PRIMARY KEY NOT NULL,
        role TEXT NOT NULL,
        password TEXT NOT NULL,
        created INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE panel_token (
        name TEXT PRIMARY KEY NOT NULL,
        role TEXT NOT NULL,
        hash BLOB NOT NULL,
        created INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE panel_action (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        account TEXT NOT NULL,
        source TEXT NOT NULL,
        action TEXT NOT NULL,
        object TEXT NOT NULL,
        error TEXT NOT NULL
    ) STRICT;
";

/// The second factors of accounts. `used` is the step of the last used code.
pub(super) const SECOND_FACTORS: &str = "
    CREATE TABLE panel_second_factor (
        account TEXT PRIMARY KEY NOT NULL,
        secret BLOB NOT NULL,
        used INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
";

/// The links for phones that were not fetched yet. `hash` is of the secret of the link, and `mark`
/// of the password of the user. `made` is in seconds since 1970.
pub(super) const PHONE_LINKS: &str = "
    CREATE TABLE panel_phone_link (
        hash BLOB PRIMARY KEY NOT NULL,
        user TEXT NOT NULL,
        kind TEXT NOT NULL,
        server TEXT NOT NULL,
        transport TEXT NOT NULL,
        port INTEGER NOT NULL,
        mark BLOB NOT NULL,
        made INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
";

/// The tables, their keys and their other columns, for the recovery of a damaged database.
pub(super) const COPIED: [(&str, &str, &str); 5] = [
    ("panel_account", "name", "role, password, created"),
    ("panel_second_factor", "account", "secret, used"),
    ("panel_token", "name", "role, hash, created"),
    ("panel_phone_link", "hash", "user, kind, server, transport, port, mark, made"),
    ("panel_action", "id", "at, account, source, action, object, error"),
];
