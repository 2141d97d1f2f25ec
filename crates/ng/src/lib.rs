#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`Request`], [`Command`], [`Options`]: the parser of datagrams.
//! - [`Response`], [`CallReport`]: the writer of responses.
//! - [`Duplicates`]: the responses to repeated datagrams.
//! - [`FlagCounts`]: counts of flags without a meaning here.
//! - [`bencode`]: the reader and the writer of the encoding.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod argument;
pub mod bencode;
mod cookie;
mod duplicates;
mod name;
pub mod options;
pub mod report;
mod request;
mod response;
mod unrecognized;

pub use cookie::MAX_COOKIE;
pub use duplicates::{DuplicateLimits, Duplicates};
pub use options::Options;
pub use report::CallReport;
pub use request::{Command, DEFAULT_LIST, MAX_IDENTIFIER, Request, RequestError, RequestFault};
pub use response::{MAX_RESPONSE, Response, reason};
pub use unrecognized::{Flag, FlagCounts, Unrecognized};
