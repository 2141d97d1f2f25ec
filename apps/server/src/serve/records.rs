//! The records of calls, in a file and in the database. A thread of its own writes them, so that no
//! worker waits for the disk.

use crate::call_lines::Record;
use crate::failure::Failure;
use crate::log;
use net::wall_clock;
use parking_lot::Mutex;
use sip_server::CallRecord;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use store::{Keep, Storage};

/// The maximum number of records that wait to be written. Further ones are lost.
const MAX_WAITING: usize = 4096;

/// The maximum number of records that are stored at once.
const MOST_AT_ONCE: usize = 256;

/// The time between deletions of old records, if no call ends meanwhile.
const PURGE_INTERVAL: Duration = Duration::from_secs(600);

/// The writer of the records.
pub(crate) struct Records {
    /// `None` stands for the end.
    queue: SyncSender<Option<Box<CallRecord>>>,
    /// Counts records that were not written.
    lost: Arc<AtomicU64>,
    /// Counts records that were not copied to another database.
    uncopied: Arc<AtomicU64>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The records in the database.
pub(crate) struct History {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) keep: Keep,
}

impl Records {
    /// Opens the file at `path`, and starts the thread, which stores the records in `history`, too.
    /// When the file has `most` bytes, it replaces the one with the ending `.1`, and a new one
    /// begins.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(crate) fn open(path: &Path, most: u64, history: Option<History>) -> Result<Self, Failure> {
        let file = RecordFile::open(path, most).map_err(|error| {
            Failure::message(format!(
                "cannot open the file of call records {}: {error}; name another one as \
                 media.records, or set it to false",
                path.display()
            ))
        })?;
        let (queue, waiting) = sync_channel(MAX_WAITING);
        let lost = Arc::<AtomicU64>::default();
        let writer = Writer { file, history, lost: Arc::clone(&lost) };
        let thread = std::thread::Builder::new().name("records".to_owned());
        let thread = thread.spawn(move || writer.run(&waiting))?;
        let (uncopied, thread) = (Arc::default(), Mutex::new(Some(thread)));
        Ok(Self { queue, lost, uncopied, thread })
    }

    /// Has `record` written. It does not wait.
    pub(crate) fn push(&self, record: Box<CallRecord>) {
        if self.queue.try_send(Some(record)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            log::warn("records", || "too many call records wait to be written".to_owned());
        }
    }

    /// The number of records that were not written, to the file or to the database.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// The counter of records that were not copied to another database.
    pub(super) fn uncopied(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.uncopied)
    }

    /// Waits until the records so far are written, and ends the thread.
    pub(crate) fn finish(&self) {
        let Some(thread) = self.thread.lock().take() else { return };
        if self.queue.send(None).is_ok() {
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Writer {
    file: RecordFile,
    history: Option<History>,
    lost: Arc<AtomicU64>,
}

impl Writer {
    fn run(mut self, waiting: &Receiver<Option<Box<CallRecord>>>) {
        self.import();
        self.purge();
        loop {
            let first = match waiting.recv_timeout(PURGE_INTERVAL) {
                Ok(Some(first)) => first,
                Err(RecvTimeoutError::Timeout) => {
                    self.purge();
                    continue;
                }
                Ok(None) | Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut is_end = false;
            let more = waiting.try_iter().map_while(|next| {
                is_end = next.is_none();
                next
            });
            let batch: Vec<Record> = std::iter::once(first)
                .chain(more.take(MOST_AT_ONCE))
                .map(|record| Record::from(&*record))
                .collect();
            batch.iter().for_each(|record| self.append(record));
            self.store(&batch);
            if is_end {
                return;
            }
        }
    }

    /// Appends `record` to the file.
    fn append(&mut self, record: &Record) {
        let written = serde_json::to_vec(record)
            .map_err(io::Error::from)
            .and_then(|line| self.file.append(line));
        if let Err(error) = written {
            self.lost.fetch_add(1, Ordering::Relaxed);
            let path = self.file.path.display();
            log::error("records", || format!("a call record cannot be written to {path}: {error}"));
        }
    }

    /// Stores `batch` in the database.
    fn store(&self, batch: &[Record]) {
        let Some(history) = &self.history else { return };
        let calls: Vec<_> = batch.iter().filter_map(Record::stored).collect();
        if let Err(error) = history.storage.put_calls(&calls) {
            self.lost.fetch_add(batch.len() as u64, Ordering::Relaxed);
            log::error("records", || format!("call records cannot be stored: {error}"));
        }
        self.purge();
    }

    /// Deletes the records that are too old or too many from the database.
    fn purge(&self) {
        let Some(History { storage, keep }) = &self.history else { return };
        if let Err(error) = storage.purge_calls(*keep, wall_clock()) {
            log::warn("records", || error.to_string());
        }
    }

    /// Imports the files of records into a database that never had records.
    fn import(&self) {
        let Some(History { storage, .. }) = &self.history else { return };
        let files = [self.file.old_path(), self.file.path.clone()];
        let lines = files
            .iter()
            .filter_map(|path| File::open(path).ok())
            .flat_map(|file| BufReader::new(file).lines().map_while(Result::ok));
        let mut calls = lines.filter_map(|line| {
            serde_json::from_str::<Record>(&line).ok().and_then(|record| record.stored())
        });
        match storage.import_calls(&mut calls) {
            Ok(0) => {}
            Ok(count) => log::info("records", || {
                format!("{count} call records were imported from {}", self.file.path.display())
            }),
            Err(error) => log::warn("records", || error.to_string()),
        }
    }
}

/// A file of lines with a limit.
struct RecordFile {
    path: PathBuf,
    file: File,
    length: u64,
    most: u64,
}

impl RecordFile {
    fn open(path: &Path, most: u64) -> io::Result<Self> {
        let mut file =
            OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let mut length = metadata.len();
        // A crash may have cut the last line.
        let mut last = [b'\n'];
        if length > 0 {
            file.seek(SeekFrom::Start(length - 1))?;
            file.read_exact(&mut last)?;
        }
        if last != [b'\n'] {
            file.write_all(b"\n")?;
            length += 1;
        }
        Ok(Self { path: path.to_owned(), file, length, most })
    }

    /// The path of the file that was there before.
    fn old_path(&self) -> PathBuf {
        let mut old = self.path.clone().into_os_string();
        old.push(".1");
        old.into()
    }

    /// Appends `line` and a newline.
    fn append(&mut self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        let added = line.len() as u64;
        if self.length > 0 && self.length + added > self.most {
            std::fs::rename(&self.path, self.old_path())?;
            *self = Self::open(&self.path, self.most)?;
        }
        let written = self.file.write_all(&line);
        match written {
            Ok(()) => self.length += added,
            // A part of the line may have been written.
            Err(_) => self.file.set_len(self.length)?,
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_file_is_private_and_bounded_with_one_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.jsonl");
        let mut file = RecordFile::open(&path, 20).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        for number in 0..10 {
            file.append(format!("line {number:04}").into_bytes()).unwrap();
        }
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        assert_eq!(read(&path), "line 0008\nline 0009\n");
        assert_eq!(read(&folder.path().join("calls.jsonl.1")), "line 0006\nline 0007\n");
        // A long line has a file of its own.
        file.append(vec![b'x'; 100]).unwrap();
        file.append(b"next".to_vec()).unwrap();
        assert_eq!(read(&path), "next\n");
        assert_eq!(folder.path().read_dir().unwrap().count(), 2);
        let mut again = RecordFile::open(&path, 20).unwrap();
        again.append(b"appended".to_vec()).unwrap();
        assert_eq!(read(&path), "next\nappended\n");
    }

    #[test]
    fn a_line_that_a_crash_has_cut_stays_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calls.jsonl");
        std::fs::write(&path, "{\"call_id\":").unwrap();
        RecordFile::open(&path, 100).unwrap().append(b"{}".to_vec()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"call_id\":\n{}\n");
        assert!(RecordFile::open(folder.path(), 100).is_err());
    }
}
