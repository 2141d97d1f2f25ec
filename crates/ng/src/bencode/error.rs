//! The reader's error, and its limits.

use core::error::Error;
use core::fmt;

/// The maximum length of a document in bytes: that of a datagram.
pub const MAX_LENGTH: usize = 65_535;

/// The maximum number of lists and dictionaries within each other.
pub const MAX_DEPTH: usize = 16;

/// The first fault of a document, with its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BencodeError {
    /// The offset of the fault in bytes.
    pub offset: usize,
    /// The fault.
    pub fault: Fault,
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The document is longer than [`MAX_LENGTH`]. The offset is its length.
    TooLong,
    /// The document ends within a value.
    Truncated,
    /// The byte begins no value.
    Byte(u8),
    /// The integer has no digits, a leading zero, or does not fit into 64 bits with a sign.
    Integer,
    /// The length of the string is malformed, or extends beyond the end of the document.
    Length,
    /// The key of a dictionary is not a string.
    Key,
    /// The key before it has no value.
    NoValue,
    /// More than [`MAX_DEPTH`] lists and dictionaries are open.
    TooDeep,
    /// Bytes follow the value.
    Trailing,
}

impl fmt::Display for BencodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, fault } = self;
        write!(f, "bencode, offset {offset}: ")?;
        match fault {
            Fault::TooLong => write!(f, "more than {MAX_LENGTH} bytes"),
            Fault::Truncated => f.write_str("the document ends within a value"),
            Fault::Byte(byte) => {
                write!(f, "byte {byte:#04x}, expected the begin of a value: a digit, i, l or d")
            }
            Fault::Integer => f.write_str(
                "malformed integer, expected digits without leading zeros, of at most 64 bits",
            ),
            Fault::Length => f.write_str(
                "the length of the string is malformed or extends beyond the end of the document",
            ),
            Fault::Key => f.write_str("the key of a dictionary is not a string"),
            Fault::NoValue => f.write_str("the key before has no value"),
            Fault::TooDeep => {
                write!(f, "more than {MAX_DEPTH} lists and dictionaries within each other")
            }
            Fault::Trailing => f.write_str("bytes follow the value"),
        }
    }
}

impl Error for BencodeError {}
