//! The settings of all operations of a load, and its users.

use sip::transaction::Timers;
use sip::{Duration, Transport};
use std::net::SocketAddr;

/// The settings of all operations of a load.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// A random number that distinguishes the messages of this load from those of others.
    pub(crate) salt: u32,
    /// The destination of requests outside of dialogs.
    pub(crate) target: SocketAddr,
    /// The Request-URI in place of the users and their domain: a user agent server without a
    /// registrar.
    pub(crate) to: Option<String>,
    /// True if requests are retransmitted while no response comes.
    pub(crate) retransmits: bool,
    /// The domain of all users.
    pub(crate) domain: String,
    /// The transport of the messages.
    pub(crate) transport: Transport,
    /// T1, T2 and T4.
    pub(crate) timers: Timers,
    /// The ringing time of a callee.
    pub(crate) ring: Duration,
    /// The holding time of a call.
    pub(crate) hold: Duration,
    /// True if a BYE ends a call after its holding time; false if the session stays.
    pub(crate) hangs_up: bool,
    /// The requested expiry of registrations in seconds, unless the server requires more.
    pub(crate) expires: u32,
    /// True if each caller registers before it calls.
    pub(crate) register_first: bool,
    /// True if a nonce is reused while the server accepts it (RFC 7616 section 3.3); false if each
    /// operation is challenged.
    pub(crate) reuse_nonces: bool,
}

/// A user of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Party {
    /// The name.
    pub(crate) name: String,
    /// The password.
    pub(crate) password: String,
    /// The link at which the user receives calls.
    pub(crate) link: u32,
    /// The link of the user's requests.
    pub(crate) way: u32,
}
