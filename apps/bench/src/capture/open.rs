//! Opens captures.

use super::error::CaptureError;
use super::file::{self, FileFacts};
use super::source;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Calls `each` with every packet of a capture; `-` is the standard input.
pub(super) fn read(
    path: &Path,
    each: impl FnMut(file::Frame<'_>),
) -> Result<FileFacts, CaptureError> {
    if path == Path::new("-") {
        return read_bytes(path, io::stdin(), each);
    }
    let file = File::open(path).map_err(|error| CaptureError::Read(path.to_owned(), error))?;
    let is_folder = file.metadata().is_ok_and(|about| about.is_dir());
    if is_folder {
        let error = io::Error::from(io::ErrorKind::IsADirectory);
        return Err(CaptureError::Read(path.to_owned(), error));
    }
    read_bytes(path, file, each)
}

pub(super) fn read_bytes(
    path: &Path,
    source: impl Read + Send,
    each: impl FnMut(file::Frame<'_>),
) -> Result<FileFacts, CaptureError> {
    let source =
        source::open(source).map_err(|error| CaptureError::Read(path.to_owned(), error))?;
    let facts = file::read(source.reader, each)
        .map_err(|file::NoCapture| CaptureError::NoCapture(path.to_owned()))?;
    let end = source.broken.get().copied().unwrap_or(facts.end);
    Ok(FileFacts { gzip: source.is_packed, end, ..facts })
}
