//! Sockets as the programs use them: upstairs of the protocol crates, shared by all apps.

mod udp;

pub use udp::{BATCH, Inbox, MAX_DATAGRAM, Options, Outbox, Outgoing, Received, Socket};
