//! SIP (RFC 3261) without I/O: messages, URIs, header fields, digest authentication, transactions,
//! dialogs and streams.
//!
//! This crate opens no socket, reads no clock and starts no thread. Parsers work on bytes that the
//! caller owns and never panic. State machines receive events and the time, and return actions.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod dialog;
pub mod digest;
mod encode;
mod flow;
pub mod header;
mod lex;
pub mod locate;
pub mod message;
mod method;
pub mod param;
mod status;
pub mod stream;
pub mod time;
pub mod transaction;
mod transport;
pub mod uri;

pub use encode::{Encode, write_decimal, write_ip};
pub use flow::{Connection, Flow};
pub use header::{HeaderError, HeaderName};
pub use message::{Message, StartLine};
pub use method::Method;
pub use status::{Status, StatusLine};
pub use time::{Deadline, Duration, Instant};
pub use transport::Transport;
pub use uri::{Host, SipUri, Uri};
