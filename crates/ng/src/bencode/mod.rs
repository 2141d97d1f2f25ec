//! Bencode: integers (`i7e`), byte strings (`4:ping`), lists (`l…e`) and dictionaries (`d…e`).
//!
//! [`Value::parse`] validates a whole document in one pass, without recursion and without an
//! allocation. The keys of a dictionary are in any order. Integers and lengths are canonical, so
//! that a parsed document is written with the same bytes. Each parsed document has at most
//! [`MAX_LENGTH`] bytes and [`MAX_DEPTH`] levels.

mod error;
mod reader;
mod writer;

pub use error::{BencodeError, Fault, MAX_DEPTH, MAX_LENGTH};
pub use reader::{Dictionary, List, Value};
pub use writer::{
    DictionaryWriter, ListWriter, write_dictionary, write_integer, write_list, write_string,
};

#[cfg(test)]
mod tests;
