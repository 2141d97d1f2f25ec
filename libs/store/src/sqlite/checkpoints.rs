//! The journal of a running server: it is appended to, and stored by checkpoints.
//!
//! A checkpoint begins a new generation of journal files, stores the older ones in the database,
//! and deletes them. A crash between any two of these steps leaves files that are stored again,
//! which changes nothing.

use super::Sqlite;
use super::failure::of;
use super::journal::{JournalFile, create, files, number, path, put_away};
use crate::{Error, Journal, JournalHealth, Log, Sync};
use net::wall_clock;
use parking_lot::{Condvar, Mutex};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The interval of checkpoints, if there are changes.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(30);
/// The total length of a generation from which a checkpoint is due at once, in bytes.
const CHECKPOINT_LENGTH: u64 = 64 << 20;
/// The interval of the deletion of expired registrations.
const PURGE_INTERVAL: Duration = Duration::from_secs(3600);

/// The time for which a failed append counts. Afterwards only another one tells if the disk has
/// recovered.
const REFUSAL_TIME: Duration = Duration::from_secs(60);

/// The journal being written, and its threads. Dropping it stores everything in the database.
#[derive(Debug)]
pub(super) struct JournalFiles {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    storage: Arc<Sqlite>,
    sync: Sync,
    /// The file of each worker.
    files: Box<[Mutex<JournalFile>]>,
    /// The generation of those files.
    number: Mutex<u64>,
    is_ending: Mutex<bool>,
    /// Notified when a checkpoint is due early, and at the end.
    wake: Condvar,
    started: Instant,
    /// Microseconds from `started` to the last append, if that failed; otherwise 0.
    refused: AtomicU64,
    checkpoints: Mutex<Checkpoints>,
}

/// The checkpoints since the start.
#[derive(Clone, Copy, Debug, Default)]
struct Checkpoints {
    is_last_failed: bool,
    done: u64,
    failed: u64,
    time: Duration,
}

impl JournalFiles {
    /// Creates journal files for the number of `workers`, after any existing ones, and starts the
    /// threads that sync them and make checkpoints.
    ///
    /// # Errors
    /// [`Error`] if a file cannot be created.
    pub(super) fn start(storage: Arc<Sqlite>, sync: Sync, workers: usize) -> Result<Self, Error> {
        let shared = Arc::new(Shared::new(storage, sync, workers)?);
        let mut threads = Vec::new();
        let keeper = Arc::clone(&shared);
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        let failed = |error| Error::Database {
            doing: "start a thread of the journal",
            source: Box::new(error),
            remedy: "",
        };
        let thread = named("checkpoints").spawn(move || {
            // A checkpoint can be made at any time and must not delay calls.
            if let Err(error) = net::give_way() {
                keeper
                    .log()
                    .warn("journal", || format!("checkpoints have the priority of calls: {error}"));
            }
            keeper.keep_checkpoints();
        });
        threads.push(thread.map_err(failed)?);
        if let Sync::Every(interval) = sync {
            let syncer = Arc::clone(&shared);
            let thread = named("sync").spawn(move || syncer.keep_synced(interval));
            threads.push(thread.map_err(failed)?);
        }
        Ok(Self { shared, threads })
    }
}

impl Journal for JournalFiles {
    fn append(&self, worker: usize, payload: &[u8]) -> io::Result<()> {
        let result = self.shared.append(worker, payload);
        if let Err(error) = &result {
            self.shared.log().error("journal", || {
                format!(
                    "registrations cannot be stored in {} and are refused (500): {error}; check \
                     if its disk is full (df) or fails (dmesg). They are stored again as soon as \
                     that can be done",
                    self.shared.storage.path().display()
                )
            });
        }
        result
    }

    fn health(&self) -> JournalHealth {
        self.shared.health()
    }
}

impl Drop for JournalFiles {
    fn drop(&mut self) {
        *self.shared.is_ending.lock() = true;
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // A panic of a thread has been reported. The next start does the rest of its work.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn new(storage: Arc<Sqlite>, sync: Sync, workers: usize) -> Result<Self, Error> {
        let there = files(storage.path()).map_err(of(storage.path()))?;
        let newest = there.last().and_then(|path| number(path)).unwrap_or(0);
        let number = newest.max(storage.last_journal()?) + 1;
        let files = create(storage.path(), number, workers.max(1))?;
        Ok(Self {
            storage,
            sync,
            files: files.into_iter().map(Mutex::new).collect(),
            number: Mutex::new(number),
            is_ending: Mutex::new(false),
            wake: Condvar::new(),
            started: Instant::now(),
            refused: AtomicU64::new(0),
            checkpoints: Mutex::default(),
        })
    }

    fn note_append(&self, is_done: bool) {
        let refused = match is_done {
            true => 0,
            false => self.started.elapsed().as_micros().max(1) as u64,
        };
        // The workers share this line of the processor's cache.
        if self.refused.load(Ordering::Relaxed) != refused {
            self.refused.store(refused, Ordering::Relaxed);
        }
    }

    fn is_refusing(&self) -> bool {
        let refused = Duration::from_micros(self.refused.load(Ordering::Relaxed));
        !refused.is_zero() && self.started.elapsed().saturating_sub(refused) < REFUSAL_TIME
    }

    fn log(&self) -> Log {
        self.storage.log
    }

    fn append(&self, worker: usize, payload: &[u8]) -> io::Result<()> {
        if payload.is_empty() {
            return Ok(());
        }
        let mut file = self.files[worker % self.files.len()].lock();
        let was_due = file.is_due(self.longest());
        let result = file.append(payload, self.log());
        let becomes_due = !was_due && file.is_due(self.longest());
        let to_sync = (self.sync == Sync::Always).then(|| file.file());
        drop(file);
        if becomes_due {
            let _is_ending = self.is_ending.lock();
            self.wake.notify_all();
        }
        let result = result.and_then(|()| to_sync.map_or(Ok(()), |file| file.sync_data()));
        self.note_append(result.is_ok());
        result
    }

    fn health(&self) -> JournalHealth {
        let Checkpoints { is_last_failed, done, failed, time } = *self.checkpoints.lock();
        JournalHealth {
            is_refusing: self.is_refusing(),
            is_behind: is_last_failed,
            checkpoints: done,
            failed_checkpoints: failed,
            checkpoint_time: time,
        }
    }

    /// The length of a worker's file from which a checkpoint is due at once, in bytes.
    fn longest(&self) -> u64 {
        CHECKPOINT_LENGTH / self.files.len() as u64
    }

    fn keep_checkpoints(&self) {
        let mut purged: Option<Instant> = None;
        loop {
            let is_ending = {
                let mut is_ending = self.is_ending.lock();
                let is_due = || self.files.iter().any(|file| file.lock().is_due(self.longest()));
                if !*is_ending && !is_due() {
                    self.wake.wait_for(&mut is_ending, CHECKPOINT_INTERVAL);
                }
                *is_ending
            };
            let purge = purged.is_none_or(|then| then.elapsed() >= PURGE_INTERVAL);
            let began = Instant::now();
            let result = self.checkpoint().and_then(|()| {
                if purge {
                    purged = Some(Instant::now());
                    self.storage.purge(wall_clock())?;
                }
                Ok(())
            });
            self.checkpoints.lock().note(result.is_ok(), began.elapsed());
            if let Err(error) = result {
                self.log().error("checkpoint", || {
                    format!("registrations stay in the journal, until the next attempt: {error}")
                });
                // With a full disk a checkpoint that stays due would be retried in a busy loop.
                if !is_ending {
                    thread::sleep(Duration::from_secs(1));
                }
            }
            if is_ending {
                return;
            }
        }
    }

    fn keep_synced(&self, interval: Duration) {
        loop {
            {
                let mut is_ending = self.is_ending.lock();
                if *is_ending {
                    return;
                }
                self.wake.wait_for(&mut is_ending, interval);
            }
            for file in &self.files {
                let unsynced = file.lock().take_unsynced();
                if let Some(Err(error)) = unsynced.map(|file| file.sync_data()) {
                    self.log()
                        .error("journal", || format!("the journal cannot be synced: {error}"));
                }
            }
        }
    }

    fn checkpoint(&self) -> Result<(), Error> {
        let old = self.rotate()?;
        let damaged = self.storage.fold(&old)?;
        put_away(&old, &damaged, self.log())
    }

    /// Begins a new generation if the present one is not empty. Returns the files of older ones.
    fn rotate(&self) -> Result<Vec<PathBuf>, Error> {
        let directory = self.storage.path();
        let mut newest = self.number.lock();
        if self.files.iter().any(|file| file.lock().is_used()) {
            let ended_number = *newest;
            let next = create(directory, ended_number + 1, self.files.len())?;
            let mut ended = Vec::new();
            for (file, next) in self.files.iter().zip(next) {
                ended.push(std::mem::replace(&mut *file.lock(), next).file());
            }
            *newest += 1;
            if self.sync != Sync::Never {
                for (worker, file) in ended.iter().enumerate() {
                    let path = path(directory, ended_number, worker);
                    file.sync_data().map_err(of(&path))?;
                }
            }
        }
        let mut files = files(directory).map_err(of(directory))?;
        files.retain(|file| number(file).is_some_and(|number| number < *newest));
        Ok(files)
    }
}

impl Checkpoints {
    fn note(&mut self, is_done: bool, took: Duration) {
        self.is_last_failed = !is_done;
        self.done += u64::from(is_done);
        self.failed += u64::from(!is_done);
        self.time += took;
    }
}

#[cfg(test)]
mod tests;
