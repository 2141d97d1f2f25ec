//! What all operations of a load have in common, and their users.

use sip::transaction::Timers;
use sip::{Duration, Transport};
use std::net::SocketAddr;

/// What all operations of a load have in common.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Tells the messages of this load from those of others; random.
    pub(crate) salt: u32,
    /// Where requests outside of dialogs go.
    pub(crate) target: SocketAddr,
    /// The URI that is called and asked in place of the users and their domain: a user agent server
    /// that is no registrar.
    pub(crate) to: Option<String>,
    /// Whether messages are sent again while no answer comes.
    pub(crate) retransmits: bool,
    /// The domain of all users.
    pub(crate) domain: String,
    /// How messages travel.
    pub(crate) transport: Transport,
    /// T1, T2 and T4.
    pub(crate) timers: Timers,
    /// How long a callee rings before it answers.
    pub(crate) ring: Duration,
    /// How long a call is held.
    pub(crate) hold: Duration,
    /// How long registrations are to last, in seconds, unless the server wants them longer.
    pub(crate) expires: u32,
    /// Whether each caller registers before it calls (row D1 of docs/sources.md).
    pub(crate) register_first: bool,
    /// Whether the nonce of a challenge is used again, as long as the server takes it (RFC 7616
    /// section 3.3), or each operation waits for a challenge.
    pub(crate) reuse_nonces: bool,
}

/// A user that a worker plays.
#[derive(Clone, Debug)]
pub(crate) struct Party {
    /// The name.
    pub(crate) name: String,
    /// The password.
    pub(crate) password: String,
    /// The link where the user is to be called.
    pub(crate) link: u32,
    /// The link by which the user's requests leave.
    pub(crate) way: u32,
}
