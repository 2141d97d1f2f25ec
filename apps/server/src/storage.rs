//! The storage in the data directory.

use crate::data_dir::DataDir;
use crate::log;
use std::path::Path;
use store::sqlite::Sqlite;
use store::{Directory, Error, Log, Severity};

impl Directory for DataDir {
    fn path(&self) -> &Path {
        Self::path(self)
    }
}

/// Opens the storage in `directory`, which writes to the log of the server.
///
/// # Errors
/// [`Error`] as of [`Sqlite::open`].
pub(crate) fn open(directory: DataDir) -> Result<Sqlite, Error> {
    Sqlite::open(Box::new(directory), LOG)
}

/// The log of the server, for a storage.
pub(crate) const LOG: Log = Log {
    write: |severity, kind, text| match severity {
        Severity::Warning => log::warn(kind, text),
        Severity::Error => log::error(kind, text),
    },
};

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use store::{User, Users};

    /// Waits for the lock: a process started by another test holds a copy for a moment.
    pub(crate) fn open(path: &Path) -> Sqlite {
        super::open(DataDir::open(path, || Ok(None::<()>)).unwrap().unwrap()).unwrap()
    }

    /// All users, or those of one domain, in storage order.
    pub(crate) fn all(storage: &Sqlite, domain: Option<&str>) -> Vec<User> {
        let mut users = Vec::new();
        storage
            .users(domain, &mut |user| {
                users.push(user);
                true
            })
            .unwrap();
        users
    }
}
