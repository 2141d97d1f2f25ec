//! The far ends of connections.

use net::tls::ServerName;
use sip::Transport;
use std::net::SocketAddr;

/// A far end: transport, address and, over TLS, the authenticated name. A peer that opened the
/// connection has no name here, and is sent responses only.
pub(super) type FarEnd = (Transport, SocketAddr, Option<ServerName<'static>>);
