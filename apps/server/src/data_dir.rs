//! The data directory of the server, used by one process at a time.

use crate::failure::Failure;
use nix::unistd::{Uid, User, geteuid};
use std::fs::{
    DirBuilder, File, Metadata, OpenOptions, Permissions, TryLockError, set_permissions,
};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The time to wait for another process that uses the directory and may be about to finish.
const PATIENCE: Duration = Duration::from_secs(5);

/// A data directory locked by this process until the value is dropped.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Creates the directory if it does not exist, and locks it. While another process uses it,
    /// returns the result of `instead`. A starting server holds the lock for a moment before it
    /// answers, so this waits a little.
    ///
    /// # Errors
    /// [`Failure`] if the directory cannot be created, another process keeps it, other users could
    /// have changed its content, or `instead` fails.
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
            // `instead` may send passwords to the owner of a socket in the directory.
            check_directory(path, geteuid().is_root())?;
            if let Some(found) = instead()? {
                return Ok(Err(found));
            }
            if let Some(directory) = Self::try_open(path)? {
                return Ok(Ok(directory));
            }
            if Instant::now() >= give_up {
                return Err(Failure::message(format!(
                    "the data directory {} is in use by another barebell that does not answer; \
                     stop that one first, or choose another directory with --data",
                    path.display()
                )));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Does not wait. Returns `None` if another process uses it.
    fn try_open(path: &Path) -> Result<Option<Self>, Failure> {
        let cannot = |what: &str, error: &dyn std::fmt::Display| {
            Failure::message(format!(
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
        check_directory(path, false)?;
        check_files(path)?;
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

    /// The path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Checks that only this user and root can have changed the content of the directory `path`, if it
/// exists. With `may_be_anybodys`, checks only that no user other than its owner can.
fn check_directory(path: &Path, may_be_anybodys: bool) -> Result<(), Failure> {
    let described = match (path.symlink_metadata(), path.metadata()) {
        (Ok(link), Ok(directory)) => [link, directory],
        // A missing directory is created. An unusable one causes an error then.
        _ => return Ok(()),
    };
    for found in described.iter().filter(|found| !found.is_symlink() || !may_be_anybodys) {
        let is_owner_fine = may_be_anybodys || is_ours(found) || found.uid() == 0;
        if let Some(fault) = fault(path, "data directory", found, is_owner_fine) {
            return Err(Failure::message(format!(
                "{fault}; or choose another directory with --data"
            )));
        }
    }
    Ok(())
}

/// Checks that the files of this program in the directory `path`, which others cannot change,
/// belong to this user, and removes the permissions of others on them.
fn check_files(path: &Path) -> Result<(), Failure> {
    let of =
        |path: &Path, error: io::Error| Failure::message(format!("{}: {error}", path.display()));
    for entry in path.read_dir().map_err(|error| of(path, error))? {
        let entry = entry.map_err(|error| of(path, error))?;
        let name = entry.file_name();
        if !OURS.iter().any(|ours| name.as_encoded_bytes().starts_with(ours.as_bytes())) {
            continue;
        }
        let path = entry.path();
        let found = match entry.metadata() {
            Ok(found) => found,
            // A running server has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(of(&path, error)),
        };
        if !found.is_file() && !found.file_type().is_socket() {
            return Err(Failure::message(format!(
                "{} is a link or a directory, where a file is expected: find out its origin, and \
                 move it away",
                path.display()
            )));
        }
        if let Some(fault) = fault(&path, "file", &found, is_ours(&found)) {
            return Err(Failure::Message(fault));
        }
        if found.is_file() && found.mode() & 0o077 != 0 {
            set_permissions(&path, Permissions::from_mode(0o600))
                .map_err(|error| of(&path, error))?;
        }
    }
    Ok(())
}

/// The prefixes of the names of this program's files.
const OURS: [&str; 6] =
    ["barebell.sqlite", "calls.jsonl", "control.sock", "journal-", "lock", "tls-"];

fn is_ours(found: &Metadata) -> bool {
    found.uid() == geteuid().as_raw()
}

/// A message about the user that could have changed what was `found` at `path`, with a remedy, if
/// there is such a user. The remedy never changes the owner of a directory: a server of that user
/// may need it.
fn fault(path: &Path, what: &str, found: &Metadata, is_owner_fine: bool) -> Option<String> {
    let path = path.display();
    if !is_owner_fine {
        let (owner, us) = (name(Uid::from_raw(found.uid())), name(geteuid()));
        let remedy = match found.is_dir() {
            true => format!("run it as {owner} (sudo -u {owner} barebell ...)"),
            false => format!("run it as {owner}; or check its contents, then chown {us} {path}"),
        };
        return Some(format!(
            "the {what} {path} belongs to {owner}, who can change it, and this runs as {us}: {remedy}"
        ));
    }
    // The mode of a symbolic link has no meaning.
    if !found.is_symlink() && found.mode() & 0o022 != 0 {
        return Some(format!(
            "others than its owner may write to the {what} {path} (mode {:o}): check its \
             contents, then chmod \
             go-w {path}",
            found.mode() & 0o7777
        ));
    }
    None
}

/// The name of a user, or the number if the user has no name.
fn name(user: Uid) -> String {
    User::from_uid(user).ok().flatten().map_or_else(|| user.to_string(), |user| user.name)
}

/// The default directory: `/var/lib/barebell` for root, and for a user with this home as that of
/// the package, otherwise `barebell` in the XDG data directory.
///
/// # Errors
/// [`Failure`] if the environment contains no home directory.
pub(crate) fn default_path() -> Result<PathBuf, Failure> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if geteuid().is_root() || absolute("HOME").is_some_and(|home| home == Path::new(SYSTEM)) {
        return Ok(PathBuf::from(SYSTEM));
    }
    absolute("XDG_DATA_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/share")))
        .map(|base| base.join("barebell"))
        .ok_or_else(|| {
            Failure::message(
                "no home directory is known (HOME is not set): name one with --data DIR",
            )
        })
}

/// The data directory of the system-wide server.
pub(crate) const SYSTEM: &str = "/var/lib/barebell";

/// Returns true if a server listens on the socket in the directory `data`, which this user may not
/// be permitted to read. The system lists the sockets of all users.
pub(crate) fn is_served(data: &Path) -> bool {
    let socket = control_socket(data);
    let socket = socket.to_string_lossy();
    std::fs::read_to_string("/proc/net/unix")
        .is_ok_and(|sockets| sockets.lines().any(|line| line.ends_with(&format!(" {socket}"))))
}

/// Returns true if the directory `path` exists and this user is not permitted to read it.
pub(crate) fn is_closed(path: &Path) -> bool {
    let found = control_socket(path).symlink_metadata();
    found.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// The name of the owner of the directory `path`.
pub(crate) fn owner(path: &Path) -> String {
    path.metadata().map_or_else(|_| "root".to_owned(), |found| name(Uid::from_raw(found.uid())))
}

/// The Unix socket of the server that uses the directory `data`.
pub(crate) fn control_socket(data: &Path) -> PathBuf {
    data.join("control.sock")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    fn refused(path: &Path) -> String {
        match DataDir::open_within(Duration::ZERO, path, || Ok(None::<()>)) {
            Err(Failure::Message(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_refused_before_its_socket_is_used() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("data");
        std::fs::create_dir(&path).unwrap();
        for bad in [0o777, 0o1777, 0o770, 0o702] {
            set_permissions(&path, Permissions::from_mode(bad)).unwrap();
            let result = DataDir::open(&path, || -> Result<Option<()>, _> { panic!("talked") });
            let Err(Failure::Message(text)) = result else { panic!("{bad:o} is accepted") };
            assert!(text.contains("chmod go-w") && text.contains(&format!("{bad:o}")), "{text}");
            assert_eq!(path.read_dir().unwrap().count(), 0);
        }
        set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        assert!(DataDir::try_open(&path).unwrap().is_some());
        assert_eq!(mode(&path), 0o755, "who may only look is the owner's affair");
        let link = temporary.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(DataDir::open(&link, || Ok(None::<()>)).unwrap().is_ok());
    }

    #[test]
    fn files_that_others_may_have_put_there_are_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let (path, victim) = (temporary.path().join("data"), temporary.path().join("victim"));
        std::fs::create_dir(&path).unwrap();
        std::fs::write(&victim, "precious").unwrap();
        for name in
            ["lock", "barebell.sqlite", "barebell.sqlite-wal", "journal-1-0", "control.sock"]
        {
            let file = path.join(name);
            symlink(&victim, &file).unwrap();
            let text = refused(&path);
            assert!(text.contains(name) && text.contains("a link"), "{text}");
            std::fs::remove_file(&file).unwrap();
            std::fs::write(&file, "").unwrap();
            set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
            let text = refused(&path);
            assert!(text.contains(name) && text.contains("chmod go-w"), "{text}");
            set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
            drop(DataDir::open(&path, || Ok(None::<()>)).unwrap().unwrap());
            assert_eq!(mode(&file), 0o600);
            std::fs::remove_file(&file).unwrap();
        }
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    }

    #[test]
    fn a_directory_of_another_user_is_refused_with_the_remedy() {
        let temporary = tempfile::tempdir().unwrap();
        let us = name(geteuid());
        let file = temporary.path().join("lock");
        std::fs::write(&file, "").unwrap();
        for (path, is_file) in [(&file, true), (&temporary.path().to_owned(), false)] {
            let found = path.metadata().unwrap();
            assert_eq!(fault(path, "file", &found, is_ours(&found)), None);
            let text = fault(path, "file", &found, false).unwrap();
            assert!(text.contains(&format!("run it as {us}")), "{text}");
            let chown = format!("chown {us} {}", path.display());
            assert_eq!(text.contains(&chown), is_file, "the owner of a folder stays: {text}");
        }
    }

    #[test]
    fn a_server_is_seen_by_its_socket() {
        let temporary = tempfile::tempdir().unwrap();
        assert!(!is_served(temporary.path()));
        let path = control_socket(temporary.path());
        let _socket = std::os::unix::net::UnixListener::bind(path).unwrap();
        assert!(is_served(temporary.path()));
        assert_eq!(owner(temporary.path()), name(geteuid()));
    }

    #[test]
    fn a_directory_is_made_private_and_used_once() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("a/b");
        let first = DataDir::try_open(&path).unwrap().unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert!(DataDir::try_open(&path).unwrap().is_none());
        let at_once = DataDir::open_within(Duration::ZERO, &path, || Ok(None::<()>));
        let Err(Failure::Message(text)) = at_once else { panic!("opened twice") };
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
