//! SIP over WebSocket (RFC 7118), without I/O: the HTTP upgrade and the WebSocket frames (RFC
//! 6455).

mod forwarded;
mod frame;
mod input;
mod upgrade;

pub use forwarded::{ClientField, InvalidHops};
pub use frame::{Kind, Role, write_frame};
pub use input::{Input, WebSocketItem};
pub use upgrade::{Refused, Upgrade, accept, is_accepted, request, requested_path};

/// The maximum length of an HTTP head in bytes.
const MAX_HEAD: usize = 8 << 10;
/// The subprotocol that both ends name (RFC 7118 section 4.1).
pub const PROTOCOL: &str = "sip";
