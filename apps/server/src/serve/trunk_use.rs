//! The file with the minutes of the day that calls through trunks have used, for the limits of the
//! numbering plan. A restart and a crash do not reset them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The name of the file in the data directory.
const NAME: &str = "trunk-use";

/// The path of the file in the directory `data`.
pub(super) fn path(data: &Path) -> PathBuf {
    data.join(NAME)
}

/// Reads the minutes. `None` if there is no file.
///
/// # Errors
/// The file cannot be read.
pub(super) fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the file by one with `minutes`.
///
/// # Errors
/// The file cannot be written. The former one remains.
pub(super) fn write(path: &Path, minutes: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let open = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&new);
    let mut file: File = open?;
    file.write_all(minutes.as_bytes())?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_as_it_was_written_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path());
        assert_eq!(read(&path).unwrap(), None);
        write(&path, "day\t1\nuser\talice@a.com\t22\n").unwrap();
        write(&path, "day\t2\n").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("day\t2\n"));
        assert!(read(folder.path()).is_err());
    }
}
