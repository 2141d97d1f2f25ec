//! Network access of all programs: UDP sockets with batched system calls, non-blocking TCP sockets,
//! TLS, a clock, and the DNS.

mod ask;
mod clock;
mod dns;
mod documents;
mod filter;
mod origins;
mod priority;
mod reader;
mod route;
mod tcp;
pub mod tls;
mod udp;
mod wire;

pub use ask::ask;
pub use clock::{Clock, nanoseconds, thread_time, wall_clock};
pub use dns::Dns;
pub use documents::Document;
pub use origins::Origins;
pub use priority::{give_way, take_short_turns};
pub use reader::{Hops, Reader, Reply};
pub use route::source_for;
pub use tcp::{bound_output, connect, connect_in_class, listen, set_class};
pub use udp::{
    BATCH, Inbox, MAX_DATAGRAM, Options, Outbox, Outgoing, RECEIVE_BUFFER, Received, Socket,
    Undelivered, disconnect,
};
pub use wire::Wire;
