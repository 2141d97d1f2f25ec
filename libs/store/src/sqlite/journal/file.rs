//! A journal file being written, and the names of such files.

use super::frames;
use crate::sqlite::failure::of;
use crate::sqlite::salvage::damaged_name;
use crate::{Error, Log};
use std::fs::{File, OpenOptions, remove_file, rename};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A journal file being written.
#[derive(Debug)]
pub(in crate::sqlite) struct JournalFile {
    file: Arc<File>,
    length: u64,
    /// True if bytes were written since the file was last returned for syncing.
    is_unsynced: bool,
    /// True if the file ends with an incomplete frame that could not be truncated. Frames appended
    /// after it would not be read.
    is_torn: bool,
}

impl JournalFile {
    /// Appends a frame with one system call.
    ///
    /// # Errors
    /// The frame could not be written completely. It is not read later.
    pub(in crate::sqlite) fn append(&mut self, payload: &[u8], log: Log) -> io::Result<()> {
        if self.is_torn {
            return Err(io::Error::other("the journal file could not be repaired yet"));
        }
        match frames::write(&self.file, payload) {
            Ok(length) => {
                self.length += length;
                self.is_unsynced = true;
                Ok(())
            }
            Err(error) => {
                if let Err(error) = self.file.set_len(self.length) {
                    log.error("journal", || format!("a torn journal cannot be truncated: {error}"));
                    self.is_torn = true;
                }
                Err(error)
            }
        }
    }

    pub(in crate::sqlite) fn is_used(&self) -> bool {
        self.length > 0 || self.is_torn
    }

    /// Returns true if the file is to be replaced at once. `longest` is its maximum length in
    /// bytes.
    pub(in crate::sqlite) fn is_due(&self, longest: u64) -> bool {
        self.length >= longest || self.is_torn
    }

    pub(in crate::sqlite) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// The file, if bytes were written since the last call.
    pub(in crate::sqlite) fn take_unsynced(&mut self) -> Option<Arc<File>> {
        std::mem::take(&mut self.is_unsynced).then(|| self.file())
    }

    #[cfg(test)]
    pub(in crate::sqlite) fn replace(&mut self, file: File) {
        self.file = Arc::new(file);
    }
}

/// Creates the files of generation `number` in `directory`, one for each of the `workers`. Files
/// left by a failed attempt are reused.
///
/// # Errors
/// [`Error`] if one of them cannot be created, or the directory cannot be synced.
pub(in crate::sqlite) fn create(
    directory: &Path,
    number: u64,
    workers: usize,
) -> Result<Vec<JournalFile>, Error> {
    let files = (0..workers)
        .map(|worker| {
            let path = path(directory, number, worker);
            let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
            let file = Arc::new(file.map_err(of(&path))?);
            Ok(JournalFile { file, length: 0, is_unsynced: false, is_torn: false })
        })
        .collect::<Result<_, _>>()?;
    // Otherwise a power loss could remove a file with everything synced to it.
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(of(directory))?;
    Ok(files)
}

pub(in crate::sqlite) fn path(directory: &Path, number: u64, worker: usize) -> PathBuf {
    directory.join(format!("journal-{number:020}-{worker}"))
}

/// The generation of a journal file. Returns `None` for other files, including damaged ones that
/// are kept. A name without a worker is valid, too: earlier versions wrote one file for all
/// workers.
pub(in crate::sqlite) fn number(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?.strip_prefix("journal-")?;
    let (number, worker) = name.split_once('-').unwrap_or((name, "0"));
    worker.parse::<usize>().ok()?;
    number.parse().ok()
}

/// The journal files in `directory`, in ascending order.
pub(in crate::sqlite) fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in directory.read_dir()? {
        let path = entry?.path();
        if number(&path).is_some() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// A journal file that could not be read completely.
#[derive(Debug)]
pub(in crate::sqlite) struct Damaged {
    pub(in crate::sqlite) path: PathBuf,
    /// The number of bytes that could not be read.
    pub(in crate::sqlite) lost: u64,
}

/// Deletes `files`. The `damaged` ones are renamed instead, and logged.
///
/// # Errors
/// [`Error`] if one of them cannot be deleted or renamed.
pub(in crate::sqlite) fn put_away(
    files: &[PathBuf],
    damaged: &[Damaged],
    log: Log,
) -> Result<(), Error> {
    for file in files {
        let Some(Damaged { lost, .. }) = damaged.iter().find(|damaged| damaged.path == *file)
        else {
            remove_file(file).map_err(of(file))?;
            continue;
        };
        let kept = damaged_name(file);
        rename(file, &kept).map_err(of(file))?;
        log.warn("journal damage", || {
            format!(
                "the journal {} is damaged: {lost} bytes of registrations could not be read, the rest was taken. Phones whose \
                 registration was among them are not reached until they register again. The file is kept as {}; delete it \
                 when you do not need it",
                file.display(),
                kept.display(),
            )
        });
    }
    Ok(())
}
