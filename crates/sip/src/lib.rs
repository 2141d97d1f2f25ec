#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`message`]: parsers and writers of messages. [`Message::parse`] keeps offsets into the bytes;
//!   header fields are parsed on demand.
//! - [`header`], [`uri`], [`param`]: typed values. [`Encode`] writes them.
//! - [`digest`]: challenges, credentials and hashes (RFC 7616, RFC 8760).
//! - [`transaction`], [`dialog`]: the state machines of RFC 3261 sections 17 and 12. The
//!   owner keeps the messages.
//! - [`stream`]: messages from the bytes of a connection, WebSocket (RFC 7118), PROXY protocol.
//! - [`locate`]: the location of servers (RFC 3263), as DNS queries and answers.
//! - [`time`]: microseconds, which the caller passes.
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
mod source;
mod status;
pub mod stream;
pub mod time;
pub mod transaction;
mod transport;
pub mod uri;

pub use encode::{Encode, write_decimal, write_ip};
pub use flow::{Connection, Endpoint, Flow, Location, Transmit};
pub use header::{HeaderError, HeaderName};
pub use message::{Message, StartLine};
pub use method::Method;
pub use smallvec;
pub use source::Source;
pub use status::{Status, StatusLine};
pub use time::{Deadline, Duration, Instant};
pub use transport::Transport;
pub use uri::{Host, SipUri, Uri};
