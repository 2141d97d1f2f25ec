//! The directory in which the server keeps its data, used by one program at a time.

use crate::failure::Failure;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait for another process that has the directory and may be about to finish.
const PATIENCE: Duration = Duration::from_secs(5);

/// A data directory that this process alone uses, for as long as the value lives.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Creates the directory if there is none, and locks it; or returns what `instead` finds while
    /// another process has it. A server that starts has it for a moment before it can be talked
    /// to, so this waits a little.
    ///
    /// # Errors
    /// When the directory cannot be created, or another process keeps it; and those of `instead`.
    pub(crate) fn open<T>(
        path: &Path,
        instead: impl FnMut() -> Result<Option<T>, Failure>,
    ) -> Result<Result<Self, T>, Failure> {
        Self::open_within(PATIENCE, path, instead)
    }

    fn open_within<T>(
        patience: Duration,
        path: &Path,
        mut instead: impl FnMut() -> Result<Option<T>, Failure>,
    ) -> Result<Result<Self, T>, Failure> {
        let give_up = Instant::now() + patience;
        loop {
            if let Some(found) = instead()? {
                return Ok(Err(found));
            }
            if let Some(directory) = Self::try_open(path)? {
                return Ok(Ok(directory));
            }
            if Instant::now() >= give_up {
                return Err(Failure::said(format!(
                    "the data directory {} is in use by another barebell that does not answer; \
                     stop that one first, or choose another directory with --data",
                    path.display()
                )));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Does not wait: `None` when another process has it.
    fn try_open(path: &Path) -> Result<Option<Self>, Failure> {
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
        match lock.try_lock() {
            Ok(()) => Ok(Some(Self { path: path.to_owned(), _lock: lock })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(cannot("lock", &error)),
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
        let first = DataDir::try_open(&path).unwrap().unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert!(DataDir::try_open(&path).unwrap().is_none());
        let at_once = DataDir::open_within(Duration::ZERO, &path, || Ok(None::<()>));
        let Err(Failure::Said(text)) = at_once else { panic!("opened twice") };
        assert!(text.contains("in use by another barebell"), "{text}");
        let mut tries = 0;
        let instead = DataDir::open(&path, || {
            tries += 1;
            Ok((tries == 3).then_some("a server"))
        });
        assert_eq!(instead.unwrap().unwrap_err(), "a server");
        drop(first);
        let again = DataDir::open(&path, || Ok(None::<()>)).unwrap().unwrap();
        assert_eq!(again.path(), path);
    }
}
