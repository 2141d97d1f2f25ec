//! The writer.

use alloc::vec::Vec;
use core::fmt::{self, Write as _};

/// Writes the elements of a list.
#[derive(Debug)]
pub struct ListWriter<'w>(&'w mut Vec<u8>);

/// Writes the entries of a dictionary. Other readers expect the keys in the order of their bytes.
#[derive(Debug)]
pub struct DictionaryWriter<'w>(&'w mut Vec<u8>);

/// Appends a dictionary to `out`.
pub fn write_dictionary(out: &mut Vec<u8>, entries: impl FnOnce(&mut DictionaryWriter<'_>)) {
    out.push(b'd');
    entries(&mut DictionaryWriter(out));
    out.push(b'e');
}

/// Appends a list to `out`.
pub fn write_list(out: &mut Vec<u8>, elements: impl FnOnce(&mut ListWriter<'_>)) {
    out.push(b'l');
    elements(&mut ListWriter(out));
    out.push(b'e');
}

/// Appends an integer to `out`.
pub fn write_integer(out: &mut Vec<u8>, integer: i64) {
    write_text(out, format_args!("i{integer}e"));
}

/// Appends a string to `out`.
pub fn write_string(out: &mut Vec<u8>, string: impl AsRef<[u8]>) {
    let string = string.as_ref();
    write_text(out, format_args!("{}:", string.len()));
    out.extend_from_slice(string);
}

impl ListWriter<'_> {
    /// Adds an integer.
    pub fn integer(&mut self, integer: i64) {
        write_integer(self.0, integer);
    }

    /// Adds a string.
    pub fn string(&mut self, string: impl AsRef<[u8]>) {
        write_string(self.0, string);
    }

    /// Adds a list.
    pub fn list(&mut self, elements: impl FnOnce(&mut ListWriter<'_>)) {
        write_list(self.0, elements);
    }

    /// Adds a dictionary.
    pub fn dictionary(&mut self, entries: impl FnOnce(&mut DictionaryWriter<'_>)) {
        write_dictionary(self.0, entries);
    }

    /// The number of bytes in the output.
    #[must_use]
    pub const fn written(&self) -> usize {
        self.0.len()
    }
}

impl DictionaryWriter<'_> {
    /// Adds an integer.
    pub fn integer(&mut self, key: impl AsRef<[u8]>, integer: i64) {
        write_string(self.0, key);
        write_integer(self.0, integer);
    }

    /// Adds a string.
    pub fn string(&mut self, key: impl AsRef<[u8]>, string: impl AsRef<[u8]>) {
        write_string(self.0, key);
        write_string(self.0, string);
    }

    /// Adds a list.
    pub fn list(&mut self, key: impl AsRef<[u8]>, elements: impl FnOnce(&mut ListWriter<'_>)) {
        write_string(self.0, key);
        write_list(self.0, elements);
    }

    /// Adds a dictionary.
    pub fn dictionary(
        &mut self,
        key: impl AsRef<[u8]>,
        entries: impl FnOnce(&mut DictionaryWriter<'_>),
    ) {
        write_string(self.0, key);
        write_dictionary(self.0, entries);
    }
}

fn write_text(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    Text(out).write_fmt(text).expect("a vector takes all text");
}

struct Text<'w>(&'w mut Vec<u8>);

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}
