//! Backups: users with their hashes, call services, the accounts of the panel and the configuration
//! in one file, with certificates, records of calls and voice messages where they are named.
//!
//! The file is lines of JSON, each an [`entry::Entry`]: a head, the data, and an end with their
//! number. It holds data only: no path, no command, no script.

mod blank;
mod certificates;
mod check;
mod content;
mod entry;
mod hex;
mod make;
mod report;
mod restore;
mod stored;
mod voicemail;

pub(crate) use entry::Part;
pub(crate) use make::{Line, has_blank_passwords, make};
pub(crate) use report::Report;
pub(crate) use restore::{Wish, restore};
pub(crate) use stored::Stored;

pub(crate) use entry::Configuration;

/// The configuration in the backup `bytes`.
///
/// # Errors
/// A message: the backup cannot be used, or has no configuration.
pub(crate) fn configuration(bytes: &[u8]) -> Result<Configuration, String> {
    let content = content::read(&mut &*bytes).map_err(|fault| fault.to_string())?;
    content.configuration.ok_or_else(|| "the backup has no configuration".to_owned())
}

/// The maximum length of a backup in bytes that a command restores. It is read into memory.
pub(crate) const MAX_LENGTH: u64 = 1 << 30;
