//! SIP over streams (RFC 3261 section 18), without I/O: framing of the received bytes into messages
//! and pings, a bounded output buffer, and a fair queue of received messages over the connections.
//!
//! The owner of the socket passes received bytes to [`Input`] and writes the bytes of [`Output`]. A
//! layer below SIP, such as TLS, processes the bytes first.

mod backlog;
mod frame;
mod input;
mod output;
mod patience;
pub mod proxy_protocol;
pub mod websocket;

pub use backlog::{Arrival, Backlog, Waiting};
pub use frame::{Frame, FrameError, Framer};
pub use input::{Fault, Input, Progress, StreamItem};
pub use output::{Full, Output};
pub use patience::{Patience, Timeouts};

/// The response to a ping (RFC 5626 section 3.5.1).
pub const PONG: &[u8] = b"\r\n";
