//! The analysis of SIP and RTP in captures.
//!
//! Each table has a limit in the file that keeps it, and a count of what was left out. Together
//! they take less than 2 GiB for any capture.

mod analysis;
pub(crate) mod calls;
mod captured;
mod clocks;
mod continuity;
mod endpoints;
mod error;
pub(crate) mod file;
pub(crate) mod flow;
mod hep;
mod interface;
pub(crate) mod join;
pub(crate) mod keys;
mod multipart;
mod open;
mod packet;
mod quality;
mod reading;
pub(crate) mod registrations;
mod replay;
mod rtp;
mod sdp;
pub(crate) mod sequence;
mod setup;
mod source;
mod spread;
mod srtp;
mod stream;
mod summary;
mod tables;
#[cfg(test)]
mod tests;
pub(crate) mod track;
mod transactions;
mod tunnel;
mod websocket;

pub(crate) use analysis::Analysis;
pub(crate) use error::CaptureError;
pub(crate) use join::join;
pub(crate) use reading::Reading;
pub(crate) use replay::rtp_datagrams;
pub(crate) use sdp::Assumed;
pub(crate) use tables::Tables;

use file::FileFacts;
use interface::Interface;
use open::read;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Analyses a capture; `-` is the standard input. Memory is bounded for any content: data beyond a
/// limit is left out and counted.
///
/// # Errors
/// [`CaptureError`] if the file cannot be read or is not a capture. A truncated capture is no
/// error.
pub(crate) fn analyse(path: &Path, mut reading: Reading) -> Result<Analysis, CaptureError> {
    let facts = read(path, |frame| reading.take(&frame))?;
    Ok(Analysis { file: path.to_owned(), facts, ..reading.finish() })
}

/// Captures from the interface `name`, for `duration` or until `ending` is set. Calls `on_open`
/// once the capture has begun.
///
/// # Errors
/// [`CaptureError::Interface`] if the interface cannot be captured.
pub(crate) fn listen(
    name: &str,
    duration: Option<Duration>,
    ending: &AtomicBool,
    mut reading: Reading,
    on_open: impl FnOnce(),
) -> Result<Analysis, CaptureError> {
    let mut interface = Interface::open(name).map_err(CaptureError::Interface)?;
    on_open();
    interface
        .read(duration, ending, |frame| reading.take(&frame))
        .map_err(CaptureError::Interface)?;
    let facts = FileFacts { live: true, dropped: interface.dropped, ..FileFacts::default() };
    Ok(Analysis { file: PathBuf::from(name), facts, ..reading.finish() })
}
