//! SIP (RFC 3261) without I/O: messages read and written, URIs, header fields, digest
//! authentication, transactions, dialogs and streams.
//!
//! Nothing here opens a socket, reads a clock or starts a thread. Parsers look at bytes that the
//! caller owns and never panic on them; state machines are given events and the time, and say what
//! to do.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod dialog;
pub mod digest;
mod emit;
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

pub use emit::{Emit, write_decimal, write_ip};
pub use flow::{Connection, Flow};
pub use header::{HeaderError, HeaderName};
pub use message::{Message, StartLine};
pub use method::Method;
pub use status::{Status, StatusLine};
pub use time::{Deadline, Duration, Instant};
pub use transport::Transport;
pub use uri::{Host, SipUri, Uri};
