//! The configuration of a system to start.

use crate::users::Users;
use sip::Transport;
use std::net::IpAddr;

/// The domain of the systems that are started here (RFC 2606).
pub(crate) const DOMAIN: &str = "bench.example";

/// The handling of a request for a user. The system is a registrar too in every mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Stateful proxy (RFC 3261 section 16.2).
    Stateful,
    /// Stateless proxy (section 16.11).
    Stateless,
    /// Redirect server: answers with the user's contacts (section 8.3).
    Redirect,
}

impl Mode {
    /// All modes.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 3] = [Self::Stateful, Self::Stateless, Self::Redirect];

    /// Returns the name in profiles.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stateful => "stateful",
            Self::Stateless => "stateless",
            Self::Redirect => "redirect",
        }
    }
}

/// The configuration of a system to start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// The mode.
    pub(crate) mode: Mode,
    /// True if users are challenged.
    pub(crate) authentication: bool,
    /// The users.
    pub(crate) users: &'a Users,
    /// The listening address: an address of this machine.
    pub(crate) address: IpAddr,
    /// The transport. The system listens on UDP in any case, and on TCP too if that is the
    /// transport.
    pub(crate) transport: Transport,
    /// Its threads or processes; by default one per processor.
    pub(crate) workers: Option<usize>,
    /// The network namespace, if it is another one.
    pub(crate) namespace: Option<&'a str>,
    /// True if the system is to report the times of its processing steps.
    pub(crate) timings: bool,
    /// True if the load retransmits: a system may then drop a late request.
    pub(crate) retransmits: bool,
}
