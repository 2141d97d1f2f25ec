//! The data of a server, as backups see them.

use std::path::Path;
use store::Storage;

/// The data of a server.
pub(crate) struct Stored<'s> {
    pub(crate) storage: &'s dyn Storage,
    /// The data directory.
    pub(crate) data: &'s Path,
    /// The configuration file, if there is one.
    pub(crate) config_file: Option<&'s Path>,
    /// The database from which the users are copied, if they are.
    pub(crate) accounts: Option<String>,
    /// The served domains.
    pub(crate) served: Vec<String>,
}
