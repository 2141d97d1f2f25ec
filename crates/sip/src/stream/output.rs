//! The output buffer of a stream.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

/// The output buffer is full: the peer does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// The maximum number of pending bytes.
    pub most: usize,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {} bytes wait for a peer that does not read", self.most)
    }
}

impl core::error::Error for Full {}

/// The writing side of a stream: a bounded buffer of bytes that are not yet written.
#[derive(Debug)]
pub struct Output {
    bytes: Vec<u8>,
    /// The number of leading bytes that are already written.
    written: usize,
    most: usize,
}

impl Output {
    /// Returns an empty buffer for at most `most` pending bytes.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), written: 0, most }
    }

    /// Appends `parts`, in order, behind the pending bytes.
    ///
    /// # Errors
    /// [`Full`] if the parts do not fit together with the pending bytes. Then no part is appended.
    pub fn push(&mut self, parts: &[impl Deref<Target = [u8]>]) -> Result<(), Full> {
        self.check_room(parts.iter().map(|part| part.len()).sum())?;
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        Ok(())
    }

    /// Checks that `length` more bytes fit.
    ///
    /// # Errors
    /// [`Full`] if they do not fit.
    pub fn check_room(&self, length: usize) -> Result<(), Full> {
        match self.pending().len() + length > self.most {
            true => Err(Full { most: self.most }),
            false => Ok(()),
        }
    }

    /// Lets `write` append bytes, without regard to the limit: for the output of a layer below
    /// messages.
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
    }

    /// Returns the bytes to write next.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// Returns the capacity of the buffer in bytes.
    #[must_use]
    pub fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns true if no byte is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending().is_empty()
    }

    /// Removes the first `count` pending bytes, which were written.
    pub fn consume(&mut self, count: usize) {
        self.written = (self.written + count).min(self.bytes.len());
        if self.is_empty() {
            *self = Self::new(self.most);
        } else if self.written > self.bytes.len() / 2 {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_written_in_its_order() {
        let mut output = Output::new(10);
        output.push(&[&b"abc"[..], b"def"]).unwrap();
        output.consume(2);
        assert_eq!(output.pending(), b"cdef");
        output.consume(2);
        output.push(&[&b"ghi"[..]]).unwrap();
        assert_eq!(output.pending(), b"efghi");
        output.consume(5);
        assert!(output.is_empty());
    }

    #[test]
    fn there_is_a_bound_on_what_waits() {
        let mut output = Output::new(4);
        assert_eq!(output.push(&[&b"abc"[..], b"de"]), Err(Full { most: 4 }));
        assert!(output.is_empty());
        output.push(&[&b"abcd"[..]]).unwrap();
        assert_eq!(output.push(&[&b"e"[..]]), Err(Full { most: 4 }));
        output.consume(1);
        output.push(&[&b"e"[..]]).unwrap();
        assert_eq!(output.pending(), b"bcde");
    }
}
