//! The errors of captures.

use super::interface::InterfaceError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// An error of a capture analysis.
#[derive(Debug)]
pub(crate) enum CaptureError {
    /// The file cannot be read.
    Read(PathBuf, io::Error),
    /// The file is neither pcap nor pcapng.
    NoCapture(PathBuf),
    /// The interface cannot be captured.
    Interface(InterfaceError),
    /// The result cannot be written.
    Write(io::Error),
    /// A capture has no datagrams of both directions in common with the others.
    Alone(PathBuf),
    /// The captures up to this one have more payload than this number of bytes.
    TooMuch(PathBuf, usize),
    /// Errors of some of several captures; the others were analysed.
    Some(Vec<Self>),
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "{} cannot be read: {error}", path.display()),
            Self::NoCapture(path) => write!(
                f,
                "{}: expected a capture in the format pcap or pcapng, as tcpdump -w writes, or such a one packed by gzip",
                path.display()
            ),
            Self::Interface(error) => error.fmt(f),
            Self::Write(error) => write!(f, "the result cannot be written: {error}"),
            Self::Alone(path) => write!(
                f,
                "{}: no datagrams of both directions are in another of the captures, too, so that \
                 its clock cannot be compared",
                path.display()
            ),
            Self::TooMuch(path, most) => write!(
                f,
                "{}: the captures together have more than {} MiB of payload: join shorter ones",
                path.display(),
                most >> 20
            ),
            Self::Some(errors) => {
                write!(f, "{} of the captures could not be analysed", errors.len())?;
                errors.iter().try_for_each(|error| write!(f, "\n  {error}"))
            }
        }
    }
}

impl std::error::Error for CaptureError {}
