//! What is to be written to a stream.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

/// More waits than may: the peer does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Bytes that may wait.
    pub most: usize,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {} bytes wait for a peer that does not read", self.most)
    }
}

impl core::error::Error for Full {}

/// The writing side of a stream: what waits until there is room for it.
#[derive(Debug)]
pub struct Output {
    bytes: Vec<u8>,
    /// How many of them were written.
    written: usize,
    most: usize,
}

impl Output {
    /// Where nothing waits, and `most` bytes may.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), written: 0, most }
    }

    /// Has `parts` written, one after the other, behind what waits.
    ///
    /// # Errors
    /// [`Full`] where that is too much. Then none of them is.
    pub fn push(&mut self, parts: &[impl Deref<Target = [u8]>]) -> Result<(), Full> {
        self.check_room(parts.iter().map(|part| part.len()).sum())?;
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        Ok(())
    }

    /// Whether `length` bytes more may wait.
    ///
    /// # Errors
    /// [`Full`] where they may not.
    pub fn check_room(&self, length: usize) -> Result<(), Full> {
        match self.pending().len() + length > self.most {
            true => Err(Full { most: self.most }),
            false => Ok(()),
        }
    }

    /// Has written what `write` appends, however much waits: what a layer below messages has to
    /// say.
    pub fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
    }

    /// What is to be written next.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// Bytes of memory that are kept for what waits.
    #[must_use]
    pub fn held(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending().is_empty()
    }

    /// The first `count` bytes of what waits were written.
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
