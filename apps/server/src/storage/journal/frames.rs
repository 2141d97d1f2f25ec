//! Frames: what journal files are rows of. Integers are little-endian:
//!
//! ```text
//! u32 length of payload | u32 CRC-32 of the length and the payload | payload
//! ```
//!
//! A payload is what [`sip_server::Output::journal`] held for one batch of messages. Frames are
//! appended whole, so only the last can be incomplete; reading ends there.

use std::fs::File;
use std::io::{self, BufReader, IoSlice, Read, Write};
use std::path::Path;

/// Bytes before each payload.
const HEADER: usize = 8;

/// Appends one frame with one system call. Returns its length.
pub(super) fn write(mut file: &File, payload: &[u8]) -> io::Result<u64> {
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

/// The payloads of a journal file, up to the first frame that is not whole.
pub(in crate::storage) struct Frames {
    file: BufReader<File>,
    /// Bytes of the file not yet handed out.
    left: u64,
    payload: Vec<u8>,
}

impl Frames {
    pub(in crate::storage) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let left = file.metadata()?.len();
        Ok(Self { file: BufReader::with_capacity(256 * 1024, file), left, payload: Vec::new() })
    }

    pub(in crate::storage) fn next(&mut self) -> io::Result<Option<&[u8]>> {
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
    pub(in crate::storage) fn ignored(&self) -> u64 {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payloads(path: &Path) -> (Vec<Vec<u8>>, u64) {
        let mut frames = Frames::open(path).unwrap();
        let mut payloads = Vec::new();
        while let Some(payload) = frames.next().unwrap() {
            payloads.push(payload.to_vec());
        }
        (payloads, frames.ignored())
    }

    /// A journal file with three frames, and the offset at which each ends.
    fn three_frames(directory: &Path) -> (Vec<u8>, [usize; 3]) {
        let file = File::create(directory.join("journal")).unwrap();
        let ends = [&b"first"[..], b"", b"the third"].map(|payload| {
            write(&file, payload).unwrap();
            usize::try_from(file.metadata().unwrap().len()).unwrap()
        });
        (std::fs::read(directory.join("journal")).unwrap(), ends)
    }

    #[test]
    fn a_tail_that_is_cut_anywhere_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let (bytes, ends) = three_frames(directory.path());
        let cut_file = directory.path().join("cut");
        for cut in 0..=bytes.len() {
            std::fs::write(&cut_file, &bytes[..cut]).unwrap();
            let (payloads, ignored) = payloads(&cut_file);
            let whole = ends.iter().filter(|&&end| end <= cut).count();
            assert_eq!(payloads.len(), whole, "cut at {cut}");
            let end = if whole == 0 { 0 } else { ends[whole - 1] };
            assert_eq!(ignored, (cut - end) as u64, "cut at {cut}");
        }
    }

    #[test]
    fn a_damaged_frame_ends_the_reading_and_is_never_handed_out() {
        let directory = tempfile::tempdir().unwrap();
        let (bytes, ends) = three_frames(directory.path());
        let damaged_file = directory.path().join("damaged");
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            std::fs::write(&damaged_file, &damaged).unwrap();
            let whole = ends.iter().filter(|&&end| end <= at).count();
            assert_eq!(payloads(&damaged_file).0.len(), whole, "damaged at {at}");
        }
    }

    #[test]
    fn a_tail_of_zeros_as_after_a_power_loss_is_no_frame() {
        let directory = tempfile::tempdir().unwrap();
        let (mut bytes, _) = three_frames(directory.path());
        bytes.extend_from_slice(&[0; 4096]);
        std::fs::write(directory.path().join("journal"), &bytes).unwrap();
        let (payloads, ignored) = payloads(&directory.path().join("journal"));
        assert_eq!((payloads.len(), ignored), (3, 4096));
    }
}
