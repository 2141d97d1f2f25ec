//! The copy of the records of calls in the database of accounts: a thread reads the records that
//! the data directory has, and writes them to PostgreSQL. While that is gone, they wait in the data
//! directory, within the limits of `media.history`.

use super::background::{Background, Ending, Pause};
use super::copy_error::CopyError;
use super::hub::Hub;
use crate::failure::Failure;
use crate::log;
use crate::settings::Settings;
use sip::digest::Ha1Set;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::Storage;
use store::postgres::{AccountsPlace, CallsCopy};

/// The time between two looks for new records.
const PERIOD: Duration = Duration::from_secs(1);

/// The number of records that are copied in one transaction.
const BATCH: usize = 500;

/// Starts the thread, if `settings` say so.
///
/// # Errors
/// The storage fails, or the system gives no thread.
pub(super) fn start(
    settings: &Settings,
    hub: &Hub,
    storage: &Arc<dyn Storage>,
) -> Result<Option<Background>, Failure> {
    let Some(accounts) = settings.accounts.as_ref().filter(|it| it.has_records) else {
        return Ok(None);
    };
    let (Some(records), Some(_)) = (&hub.records, settings.media.history()) else {
        log::warn("records", || {
            "accounts.records has no effect: there are no records of calls (media.records, \
             media.history), or no calls are relayed (media.relay)"
                .to_owned()
        });
        return Ok(None);
    };
    let mut copy = Copy {
        place: accounts.place.clone(),
        server: server_name(&storage.secret()?),
        storage: Arc::clone(storage),
        last: None,
        uncopied: records.uncopied(),
    };
    Ok(Some(Background::start("record-copy", move |ending| copy.run(ending))?))
}

/// The name of the server in the rows of a table: the same as long as the data directory is.
pub(super) fn server_name(secret: &[u8]) -> String {
    let hash = Ha1Set::new(b"records", b"barebell", secret).sha256;
    hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The state of the thread.
struct Copy {
    place: AccountsPlace,
    server: String,
    storage: Arc<dyn Storage>,
    /// The identifier of the last record that was copied.
    last: Option<i64>,
    /// Counts records that were not copied.
    uncopied: Arc<AtomicU64>,
}

impl Copy {
    fn run(&mut self, ending: &Ending) {
        let mut pause = Pause::new();
        while let Err(error) = self.follow(ending, &mut pause) {
            log::warn("records", || {
                format!(
                    "call records are not copied to {}: {error}; they wait in the data directory, \
                     within media.history; the next attempt is in {} s",
                    self.place,
                    pause.seconds()
                )
            });
            if pause.wait(ending) {
                return;
            }
        }
    }

    /// Connects, and copies records until the server ends.
    fn follow(&mut self, ending: &Ending, pause: &mut Pause) -> Result<(), CopyError> {
        let mut copy = CallsCopy::connect(&self.place, &self.server)?;
        self.last = self.last.max(copy.last()?);
        log::info("records", || format!("call records are copied to {}", self.place));
        loop {
            // Asked before the last look, so that nothing is left.
            let has_ended = ending.wait(Duration::ZERO);
            while self.turn(&mut copy)? {}
            pause.reset();
            if has_ended {
                return Ok(());
            }
            ending.wait(PERIOD);
        }
    }

    /// Copies some records. Returns true if there may be more.
    fn turn(&mut self, copy: &mut CallsCopy) -> Result<bool, CopyError> {
        let calls = self.storage.calls_after(self.last.unwrap_or(0), BATCH)?;
        let (Some((first, _)), Some((newest, _))) = (calls.first(), calls.last()) else {
            return Ok(false);
        };
        let refused = copy.put(&calls)?;
        // Those in between were deleted before they were copied.
        let deleted = self.last.map_or(0, |last| (first - last - 1).unsigned_abs());
        self.last = Some(*newest);
        if deleted + refused > 0 {
            self.uncopied.fetch_add(deleted + refused, Ordering::Relaxed);
            log::warn("records", || {
                format!(
                    "call records were not copied to {}: {deleted} were deleted by media.history \
                     before, {refused} have content that the database refuses",
                    self.place
                )
            });
        }
        Ok(calls.len() == BATCH)
    }
}
