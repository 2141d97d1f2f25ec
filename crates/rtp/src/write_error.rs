//! The error of writers.

use core::error::Error;
use core::fmt;

/// The reason why a packet or a part of it was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// The buffer is too short.
    BufferTooShort,
    /// A list or a text exceeds the range of its count or length field.
    TooLong,
    /// The length of the data is not a multiple of four bytes.
    Unaligned,
    /// The format has no elements of this identifier or length.
    Element,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BufferTooShort => "the buffer is too short for the packet",
            Self::TooLong => "a list or text is too long for its count or length field",
            Self::Unaligned => "the length of the data is not a multiple of four bytes",
            Self::Element => "the format has no elements of this identifier or length",
        })
    }
}

impl Error for WriteError {}
