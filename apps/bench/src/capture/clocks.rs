//! The clocks of joined captures.

use crate::record::Histogram;
use serde::Serialize;
use std::net::IpAddr;
use std::path::PathBuf;

/// The clock of a capture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Clock {
    /// The file.
    pub(crate) file: PathBuf,
    /// Microseconds that it is ahead of the clock of the first file, and the largest error.
    pub(crate) ahead_us: f64,
    pub(crate) error_us: f64,
    /// The common datagrams with a known offset.
    pub(crate) datagrams: u64,
}

/// The time of datagrams between two machines with captures.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Transit {
    /// The addresses of the sender and of the receiver.
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    /// In microseconds, by the aligned clocks.
    pub(crate) delay_us: Histogram,
}
