//! SIP on streams (RFC 3261 section 18), without I/O: what was read becomes messages and pings,
//! what is to be written waits with a bound, and those who have much to say take turns.
//!
//! Whoever has the socket gives the bytes that came to [`Input`], and writes what [`Output`] holds.
//! What lies between, such as TLS, is given the bytes first and hands on what it makes of them.

mod backlog;
mod frame;
mod input;
mod output;
mod patience;
pub mod proxy_protocol;
pub mod websocket;

pub use backlog::{Backlog, Came, Waiting};
pub use frame::{Frame, FrameError, Framer};
pub use input::{Fault, Heard, Input, Progress};
pub use output::{Full, Output};
pub use patience::{Patience, Timeouts};

/// What answers a ping (RFC 5626 section 3.5.1).
pub const PONG: &[u8] = b"\r\n";
