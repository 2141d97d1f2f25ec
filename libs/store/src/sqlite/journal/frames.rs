//! The frames of journal files. Integers are little-endian:
//!
//! ```text
//! u32 length of payload | u32 CRC-32 of the length and the payload | payload
//! ```
//!
//! A payload is the content of [`sip_server::Output::journal`] for one batch of messages. Each
//! frame is appended with one write, so after a crash only the last can be incomplete. A damaged
//! frame is skipped.

use std::fs::File;
use std::io::{self, BufReader, IoSlice, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// The length of a frame header in bytes.
const HEADER: usize = 8;
/// The maximum length of the rest of a file that is searched for the next intact frame, in bytes:
/// it is read into memory.
const MAX_SEARCHED: u64 = 256 << 20;
/// The maximum length of a frame found by a search, in bytes. Longer ones are rare, and the
/// checksum of each candidate is computed.
const MAX_FOUND: usize = 1 << 20;

/// Appends one frame with one system call. Returns its length in bytes.
pub(in crate::sqlite) fn write(mut file: &File, payload: &[u8]) -> io::Result<u64> {
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

/// A reader of the intact frames of a journal file.
pub(in crate::sqlite) struct Frames {
    file: BufReader<File>,
    /// The number of unread bytes of the file.
    left: u64,
    /// The number of bytes in damaged frames.
    damaged: u64,
    payload: Vec<u8>,
}

impl Frames {
    pub(in crate::sqlite) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let left = file.metadata()?.len();
        let file = BufReader::with_capacity(256 * 1024, file);
        Ok(Self { file, left, damaged: 0, payload: Vec::new() })
    }

    /// The next payload. After a read error the rest of the file counts as damaged.
    pub(in crate::sqlite) fn next(&mut self) -> Option<&[u8]> {
        let mut is_read = self.read().ok()?;
        if !is_read && self.pass_over().ok()? {
            is_read = self.read().ok()?;
        }
        is_read.then_some(&self.payload[..])
    }

    /// Reads a frame. Returns false if there is no intact one at this position.
    fn read(&mut self) -> io::Result<bool> {
        let mut header = [0; HEADER];
        if self.left < HEADER as u64 {
            return Ok(false);
        }
        self.file.read_exact(&mut header)?;
        let (length, sum) = fields(header);
        let frame = HEADER as u64 + u64::from(u32::from_le_bytes(length));
        if frame > self.left {
            return Ok(false);
        }
        self.payload.resize(frame as usize - HEADER, 0);
        self.file.read_exact(&mut self.payload)?;
        if checksum(length, &self.payload) != sum {
            return Ok(false);
        }
        self.left -= frame;
        Ok(true)
    }

    /// Skips a damaged frame, to the next intact one. Returns false if there is no such frame.
    fn pass_over(&mut self) -> io::Result<bool> {
        if self.left == 0 || self.left > MAX_SEARCHED {
            return Ok(false);
        }
        let start = self.file.get_ref().metadata()?.len() - self.left;
        self.file.seek(SeekFrom::Start(start))?;
        let mut rest = Vec::new();
        self.file.read_to_end(&mut rest)?;
        let Some(next) = find(&rest) else { return Ok(false) };
        self.file.seek(SeekFrom::Start(start + next as u64))?;
        self.left -= next as u64;
        self.damaged += next as u64;
        Ok(true)
    }

    /// The number of bytes outside intact frames, after [`Frames::next`] has returned `None`.
    /// `next` must not be called again.
    pub(in crate::sqlite) fn ignored(&self) -> u64 {
        self.left + self.damaged
    }
}

fn fields([l0, l1, l2, l3, c0, c1, c2, c3]: [u8; HEADER]) -> ([u8; 4], u32) {
    ([l0, l1, l2, l3], u32::from_le_bytes([c0, c1, c2, c3]))
}

/// The offset of the next intact frame in `rest`, which begins with a damaged one.
fn find(rest: &[u8]) -> Option<usize> {
    // If only the payload is damaged, the length is still valid.
    let (length, _) = fields(*rest.first_chunk()?);
    let end = HEADER + u32::from_le_bytes(length) as usize;
    if rest.get(end..).is_some_and(|next| whole(next, usize::MAX).is_some()) {
        return Some(end);
    }
    (1..rest.len()).find(|&at| whole(&rest[at..], MAX_FOUND).is_some() && is_row(&rest[at..]))
}

/// The length of the intact frame at the start of `bytes`, if there is one and it is not longer
/// than `longest`.
fn whole(bytes: &[u8], longest: usize) -> Option<usize> {
    let (header, rest) = bytes.split_first_chunk()?;
    let (length, sum) = fields(*header);
    let size = u32::from_le_bytes(length) as usize;
    let payload = rest.get(..size).filter(|_| HEADER + size <= longest)?;
    (checksum(length, payload) == sum).then_some(HEADER + size)
}

/// Returns true if `bytes` consist of intact frames up to the end. A frame that a malicious user
/// puts into a contact does not pass: the bytes after the contact would have to be a frame, too.
fn is_row(mut bytes: &[u8]) -> bool {
    while let Some(length) = whole(bytes, usize::MAX) {
        bytes = &bytes[length..];
    }
    bytes.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payloads(path: &Path) -> (Vec<Vec<u8>>, u64) {
        let mut frames = Frames::open(path).unwrap();
        let mut payloads = Vec::new();
        while let Some(payload) = frames.next() {
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
    fn a_damaged_frame_is_passed_over_and_never_handed_out() {
        let directory = tempfile::tempdir().unwrap();
        let (bytes, ends) = three_frames(directory.path());
        let damaged_file = directory.path().join("damaged");
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x40;
            std::fs::write(&damaged_file, &damaged).unwrap();
            let frame = ends.iter().filter(|&&end| end <= at).count();
            let start = if frame == 0 { 0 } else { ends[frame - 1] };
            let mut expected = vec![b"first".to_vec(), Vec::new(), b"the third".to_vec()];
            expected.remove(frame);
            let lost = (ends[frame] - start) as u64;
            assert_eq!(payloads(&damaged_file), (expected, lost), "damaged at {at}");
        }
    }

    #[test]
    fn data_of_users_is_never_read_as_a_frame() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let forged = three_frames(directory.path()).0;
        let file = File::create(&path).unwrap();
        for payload in [&[&b"contact "[..], &forged, b" and more"].concat()[..], b"good"] {
            write(&file, payload).unwrap();
        }
        let whole = std::fs::read(&path).unwrap();
        for at in 0..4 {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x21;
            std::fs::write(&path, &damaged).unwrap();
            assert_eq!(payloads(&path).0, [b"good"], "damaged at {at}");
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
