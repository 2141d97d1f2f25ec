//! The errors of the database and of files.

use crate::Error;
use rusqlite::ErrorCode;
use std::io;
use std::path::Path;

/// Advice for the operator about the database error `error`.
fn remedy(error: &rusqlite::Error) -> &'static str {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            "; make room on the disk of the data directory, then try again"
        }
        Some(ErrorCode::SystemIoFailure) => {
            "; check if the disk of the data directory is full (df) or fails (dmesg)"
        }
        _ if is_damage(error) => {
            "; the file is damaged: stop the server and start it again, and it saves what can be read"
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            "; check the owner of the files in the data directory, and if its disk is read-only"
        }
        _ => "",
    }
}

/// Creates the error of the failed operation `doing`.
pub(super) fn to(doing: &'static str) -> impl FnOnce(rusqlite::Error) -> Error {
    move |source| {
        let remedy = remedy(&source);
        Error::Database { doing, source: Box::new(source), remedy }
    }
}

/// A description of the damage, if `error` says that the database is damaged.
pub(super) fn damage(error: &Error) -> Option<String> {
    match error {
        Error::Database { source, .. } => {
            let source = source.downcast_ref::<rusqlite::Error>()?;
            is_damage(source).then(|| source.to_string())
        }
        Error::Damaged { what } => Some(what.clone()),
        _ => None,
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// Creates the error of the file at `path`.
pub(super) fn of(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { path, source }
}
