//! Journal files: the changes of registrations since the last checkpoint.
//!
//! Each worker appends to a file of its own, so that a slow write delays no other worker. The
//! present files of all workers are one generation, and carry its number.

mod file;
mod frames;

pub(super) use file::{Damaged, JournalFile, create, files, number, path, put_away};
pub(super) use frames::Frames;
#[cfg(test)]
pub(super) use frames::write;
