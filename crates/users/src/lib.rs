#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`Reader`]: reads a file in parts of any length, and returns its lines.
//! - [`Line`], [`Credentials`]: a line and its password or hash.
//! - [`column()`]: the column of the fault of a line.
//! - [`check_name`], [`check_auth_name`], [`is_password`]: the rules for names and passwords.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod column;
mod line;
mod name;
mod reader;

pub use column::column;
pub use line::{Credentials, Line, LineError, MAX_LINE};
pub use name::{MAX_NAME, NameError, check_auth_name, check_name, is_password};
pub use reader::Reader;
pub use sip::digest::Algorithm;
