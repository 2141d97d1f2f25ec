//! Journal files: what became of registrations since they were last taken into the database.
//!
//! A file is a row of frames, integers little-endian:
//!
//! ```text
//! u32 length of payload | u32 CRC-32 of the length and the payload | payload
//! ```
//!
//! A payload is what [`sip_server::Output::journal`] held for one batch of messages. Frames are
//! appended whole, so only the last can be incomplete; reading ends there.
//!
//! At a checkpoint a new file is begun, the older ones are taken into the database, and then
//! deleted. A crash between any two of these steps leaves files that are taken in once more, which
//! changes nothing.

use super::{Error, Storage, of};
use crate::log;
use crate::settings::Sync;
use net::wall_clock;
use parking_lot::{Condvar, Mutex};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, IoSlice, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time between checkpoints, if there is anything to take over.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(30);
/// Length of a journal file at which a checkpoint is due at once, in bytes.
const CHECKPOINT_LENGTH: u64 = 64 << 20;
/// Time between searches of the database for registrations that have expired.
const PURGE_INTERVAL: Duration = Duration::from_secs(3600);
/// Bytes before each payload.
const HEADER: usize = 8;

/// The journal that is being written, with the threads that look after it. Dropping it takes
/// everything into the database.
#[derive(Debug)]
pub(crate) struct Journal {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    storage: Arc<Storage>,
    sync: Sync,
    current: Mutex<Current>,
    /// Signalled when a checkpoint is due before its time, and at the end.
    wake: Condvar,
}

/// The file that is appended to.
#[derive(Debug)]
struct Current {
    file: Arc<File>,
    number: u64,
    length: u64,
    /// Whether something was written since the last `fdatasync`.
    unsynced: bool,
    /// Whether the file ends in half a frame that could not be cut off: what is appended after it
    /// would not be read.
    torn: bool,
    ending: bool,
}

impl Journal {
    /// Begins a journal file, after those that may be there, and starts the threads that sync it
    /// and take it into the database.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(crate) fn start(storage: Arc<Storage>, sync: Sync) -> Result<Self, Error> {
        let shared = Arc::new(Shared::new(storage, sync)?);
        let mut threads = Vec::new();
        let keeper = Arc::clone(&shared);
        threads.push(thread::spawn(move || {
            // Calls do not wait for what can be done at any time.
            if let Err(error) = net::give_way() {
                log::warn("journal", || format!("checkpoints cannot give way to calls: {error}"));
            }
            keeper.keep_checkpoints();
        }));
        if let Sync::Every(interval) = sync {
            let syncer = Arc::clone(&shared);
            threads.push(thread::spawn(move || syncer.keep_synced(interval)));
        }
        Ok(Self { shared, threads })
    }

    /// Appends `payload` with one system call. When this returns, the payload outlives the
    /// program, and with [`Sync::Always`] a power loss too.
    ///
    /// # Errors
    /// When it could not be written, or not be synced where that is asked for. Then what it says
    /// must not be answered.
    pub(crate) fn append(&self, payload: &[u8]) -> io::Result<()> {
        let result = self.shared.append(payload);
        if let Err(error) = &result {
            log::error("journal", || {
                format!(
                    "registrations cannot be stored in {} and are refused: {error}",
                    self.shared.storage.path().display()
                )
            });
        }
        result
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.shared.current.lock().ending = true;
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so, and left what it had to do to the next start.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn new(storage: Arc<Storage>, sync: Sync) -> Result<Self, Error> {
        let files = files(storage.path()).map_err(of(storage.path()))?;
        let newest = files.last().and_then(|path| number(path)).unwrap_or(0);
        let number = newest.max(storage.last_journal()?) + 1;
        let file = create(storage.path(), number)?;
        let current = Current {
            file: Arc::new(file),
            number,
            length: 0,
            unsynced: false,
            torn: false,
            ending: false,
        };
        Ok(Self { storage, sync, current: Mutex::new(current), wake: Condvar::new() })
    }

    fn append(&self, payload: &[u8]) -> io::Result<()> {
        if payload.is_empty() {
            return Ok(());
        }
        let mut current = self.current.lock();
        if current.torn {
            return Err(io::Error::other("the journal file could not be repaired yet"));
        }
        let written = write_frame(&current.file, payload);
        let length = match written {
            Ok(length) => length,
            Err(error) => {
                if let Err(error) = current.file.set_len(current.length) {
                    log::error("journal", || format!("a torn journal cannot be cut: {error}"));
                    current.torn = true;
                    self.wake.notify_all();
                }
                return Err(error);
            }
        };
        let was_short = current.length < CHECKPOINT_LENGTH;
        current.length += length;
        current.unsynced = true;
        if was_short && current.length >= CHECKPOINT_LENGTH {
            self.wake.notify_all();
        }
        if self.sync == Sync::Always {
            let file = Arc::clone(&current.file);
            drop(current);
            file.sync_data()?;
        }
        Ok(())
    }

    fn keep_checkpoints(&self) {
        let mut purged: Option<Instant> = None;
        loop {
            let ending = {
                let mut current = self.current.lock();
                let due = |current: &Current| {
                    current.ending || current.torn || current.length >= CHECKPOINT_LENGTH
                };
                if !due(&current) {
                    self.wake.wait_for(&mut current, CHECKPOINT_INTERVAL);
                }
                current.ending
            };
            let purge = purged.is_none_or(|then| then.elapsed() >= PURGE_INTERVAL);
            let result = self.checkpoint().and_then(|()| {
                if purge {
                    purged = Some(Instant::now());
                    self.storage.purge(wall_clock())?;
                }
                Ok(())
            });
            if let Err(error) = result {
                log::error("checkpoint", || {
                    format!("registrations stay in the journal, until the next attempt: {error}")
                });
                // With a full disk a checkpoint that is due at once would be tried without end.
                if !ending {
                    thread::sleep(Duration::from_secs(1));
                }
            }
            if ending {
                return;
            }
        }
    }

    fn keep_synced(&self, interval: Duration) {
        let mut current = self.current.lock();
        while !current.ending {
            self.wake.wait_for(&mut current, interval);
            if !current.unsynced {
                continue;
            }
            current.unsynced = false;
            let file = Arc::clone(&current.file);
            drop(current);
            if let Err(error) = file.sync_data() {
                log::error("journal", || format!("the journal cannot be synced: {error}"));
            }
            current = self.current.lock();
        }
    }

    fn checkpoint(&self) -> Result<(), Error> {
        let old = self.rotate()?;
        self.storage.fold(&old)?;
        delete(&old)
    }

    /// Begins a new file if the current one has anything in it. Returns the files before it.
    fn rotate(&self) -> Result<Vec<PathBuf>, Error> {
        let (number, is_used) = {
            let current = self.current.lock();
            (current.number, current.length > 0 || current.torn)
        };
        let mut newest = number;
        if is_used {
            newest += 1;
            let file = Arc::new(create(self.storage.path(), newest)?);
            let old = {
                let mut current = self.current.lock();
                current.number = newest;
                current.length = 0;
                current.torn = false;
                std::mem::replace(&mut current.file, file)
            };
            if self.sync != Sync::Never {
                old.sync_data().map_err(of(&path(self.storage.path(), number)))?;
            }
        }
        let mut files = files(self.storage.path()).map_err(of(self.storage.path()))?;
        files.retain(|file| *file != path(self.storage.path(), newest));
        Ok(files)
    }
}

/// Appends one frame with one system call. Returns its length.
fn write_frame(mut file: &File, payload: &[u8]) -> io::Result<u64> {
    let length = u32::try_from(payload.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a batch of 4 GiB or more"))?;
    let length = length.to_le_bytes();
    let checksum = checksum(length, payload).to_le_bytes();
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&length);
    header[4..].copy_from_slice(&checksum);
    let written = file.write_vectored(&[IoSlice::new(&header), IoSlice::new(payload)])?;
    if written == HEADER + payload.len() {
        Ok(written as u64)
    } else {
        Err(io::Error::new(io::ErrorKind::StorageFull, "only a part could be written"))
    }
}

fn checksum(length: [u8; 4], payload: &[u8]) -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&length);
    checksum.update(payload);
    checksum.finalize()
}

fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("journal-{number:020}"))
}

pub(super) fn number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("journal-")?.parse().ok()
}

/// The journal files in `directory`, the oldest first.
pub(super) fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
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

fn create(directory: &Path, number: u64) -> Result<File, Error> {
    let path = path(directory, number);
    let file = OpenOptions::new()
        .create_new(true)
        .append(true)
        .mode(0o600)
        .open(&path)
        .map_err(of(&path))?;
    // Without this a power loss could take the file away with all that was synced into it.
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(of(directory))?;
    Ok(file)
}

pub(super) fn delete(files: &[PathBuf]) -> Result<(), Error> {
    files.iter().try_for_each(|file| std::fs::remove_file(file).map_err(of(file)))
}

/// The payloads of a journal file, up to the first frame that is not whole.
pub(super) struct Frames {
    file: BufReader<File>,
    /// Bytes of the file not yet handed out.
    left: u64,
    payload: Vec<u8>,
}

impl Frames {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let left = file.metadata()?.len();
        Ok(Self { file: BufReader::with_capacity(256 * 1024, file), left, payload: Vec::new() })
    }

    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let mut header = [0; HEADER];
        if self.left < HEADER as u64 {
            return Ok(None);
        }
        self.file.read_exact(&mut header)?;
        let [l0, l1, l2, l3, c0, c1, c2, c3] = header;
        let length = [l0, l1, l2, l3];
        let size = u32::from_le_bytes(length);
        let frame = HEADER as u64 + u64::from(size);
        if frame > self.left {
            return Ok(None);
        }
        self.payload.resize(size as usize, 0);
        self.file.read_exact(&mut self.payload)?;
        if checksum(length, &self.payload) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Ok(None);
        }
        self.left -= frame;
        Ok(Some(&self.payload))
    }

    /// Bytes after the last whole frame, once [`Frames::next`] has returned `None`. It must not be
    /// called again then.
    pub(super) fn ignored(&self) -> u64 {
        self.left
    }
}

#[cfg(test)]
mod tests;
