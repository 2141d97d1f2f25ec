//! The source of a capture: a file or pipe. Data in gzip format (RFC 1952) is decompressed during
//! reading.

use super::file::End;
use flate2::read::MultiGzDecoder;
use std::io::{self, Read};
use std::sync::{Arc, OnceLock};

/// The first bytes of gzip data: the magic number, and the only compression method.
const MARK: [u8; 3] = [0x1f, 0x8b, 8];
/// The limit of decompressed bytes: a 64 MiB file at the highest compression ratio of gzip.
const UNPACKED: u64 = 64 << 30;

/// A capture, decompressed if necessary.
pub(super) struct Source<'r> {
    pub(super) reader: Box<dyn Read + Send + 'r>,
    pub(super) is_packed: bool,
    /// The reason if decompression ended before the file did.
    pub(super) broken: Arc<OnceLock<End>>,
}

/// Opens a source and detects compression.
///
/// # Errors
/// The source cannot be read.
pub(super) fn open<'r>(mut source: impl Read + Send + 'r) -> io::Result<Source<'r>> {
    let mut begin = Vec::new();
    source.by_ref().take(MARK.len() as u64).read_to_end(&mut begin)?;
    let is_packed = begin == MARK;
    let whole = io::Cursor::new(begin).chain(source);
    let broken = Arc::new(OnceLock::new());
    if !is_packed {
        return Ok(Source { reader: Box::new(Full(whole)), is_packed, broken });
    }
    let decoder = MultiGzDecoder::new(io::BufReader::new(whole));
    let unpacked = Unpacked { decoder, left: UNPACKED, broken: broken.clone() };
    Ok(Source { reader: Box::new(Full(unpacked)), is_packed, broken })
}

/// Fills the buffer as far as the source can. The capture parser treats a short read as a truncated
/// header, and a pipe returns short reads.
struct Full<R>(R);

impl<R: Read> Read for Full<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut length = 0;
        while length < buffer.len() {
            match self.0.read(&mut buffer[length..]) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The bytes before the error are returned; the next read fails again.
                Err(_) if length > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(length)
    }
}

/// A decompressor. An error ends the data, and the bytes before it are kept.
struct Unpacked<R> {
    decoder: MultiGzDecoder<R>,
    left: u64,
    broken: Arc<OnceLock<End>>,
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.broken.get().is_some() {
            return Ok(0);
        }
        let end = match self.decoder.read(buffer) {
            Ok(length) => match self.left.checked_sub(length as u64) {
                Some(left) => {
                    self.left = left;
                    return Ok(length);
                }
                None => End::TooLong,
            },
            Err(error) => match error.kind() {
                io::ErrorKind::UnexpectedEof => End::Cut,
                io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => End::Damaged,
                _ => return Err(error),
            },
        };
        self.broken.get_or_init(|| end);
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacking_is_bounded() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::copy(&mut io::repeat(0).take(100_000), &mut packed).unwrap();
        let packed = packed.finish().unwrap();
        let broken = Arc::new(OnceLock::new());
        let decoder = MultiGzDecoder::new(&packed[..]);
        let mut unpacked = Unpacked { decoder, left: 50_000, broken: broken.clone() };
        let mut bytes = Vec::new();
        unpacked.read_to_end(&mut bytes).unwrap();
        assert!(bytes.len() <= 50_000);
        assert_eq!(broken.get(), Some(&End::TooLong));
    }
}
