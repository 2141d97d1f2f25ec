//! The directory in which the server keeps its data, used by one program at a time.

use crate::failure::Failure;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait for another command that is about to finish.
const PATIENCE: Duration = Duration::from_secs(3);

/// A data directory that this process alone uses, for as long as the value lives.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Creates the directory if there is none, and locks it.
    ///
    /// # Errors
    /// When it cannot be created, or another process has it for longer than a short command does.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        Self::open_within(path, PATIENCE)
    }

    fn open_within(path: &Path, patience: Duration) -> Result<Self, Failure> {
        let cannot = |what: &str, error: &dyn std::fmt::Display| {
            Failure::said(format!(
                "cannot {what} the data directory {}: {error}; choose another one with --data, or \
                 run as a user who may write there",
                path.display()
            ))
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| cannot("create", &error))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path.join("lock"))
            .map_err(|error| cannot("use", &error))?;
        let give_up = Instant::now() + patience;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Self { path: path.to_owned(), _lock: lock }),
                Err(TryLockError::Error(error)) => return Err(cannot("lock", &error)),
                Err(TryLockError::WouldBlock) if Instant::now() < give_up => {
                    thread::sleep(Duration::from_millis(20));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(Failure::said(format!(
                        "the data directory {} is in use by another barebell that does not \
                         answer; stop that one first, or choose another directory with --data",
                        path.display()
                    )));
                }
            }
        }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The directory when nothing else is said: `/var/lib/barebell` for root, otherwise `barebell` in
/// the XDG data directory.
///
/// # Errors
/// When the environment names no home directory.
pub(crate) fn default_path() -> Result<PathBuf, Failure> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if nix::unistd::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/barebell"));
    }
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .map(|base| base.join("barebell"))
        .ok_or_else(|| {
            Failure::said("no home directory is known (HOME is not set): name one with --data DIR")
        })
}

/// The Unix socket of the server that uses the directory `data`.
pub(crate) fn control_socket(data: &Path) -> PathBuf {
    data.join("control.sock")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_is_made_private_and_used_once() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("a/b");
        let first = DataDir::open(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let Err(Failure::Said(text)) = DataDir::open_within(&path, Duration::ZERO) else {
            panic!("opened twice")
        };
        assert!(text.contains("in use by another barebell"), "{text}");
        drop(first);
        assert_eq!(DataDir::open(&path).unwrap().path(), path);
    }
}
