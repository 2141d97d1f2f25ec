//! How a system is to be started.

use crate::users::Users;
use sip::Transport;
use std::net::IpAddr;

/// The domain of the systems that are started here (RFC 2606).
pub(crate) const DOMAIN: &str = "bench.example";

/// What a system does with a request for a user. It is a registrar too in every mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Forwards it and keeps the transaction (RFC 3261 section 16.2).
    Stateful,
    /// Forwards it and forgets it (section 16.11).
    Stateless,
    /// Answers with the user's contacts (section 8.3).
    Redirect,
}

impl Mode {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 3] = [Self::Stateful, Self::Stateless, Self::Redirect];

    /// The name in profiles.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stateful => "stateful",
            Self::Stateless => "stateless",
            Self::Redirect => "redirect",
        }
    }
}

/// How a system is to be started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// What it does.
    pub(crate) mode: Mode,
    /// Whether it asks users for credentials.
    pub(crate) authentication: bool,
    /// Whom it serves.
    pub(crate) users: &'a Users,
    /// Where it listens: an address of this machine.
    pub(crate) address: IpAddr,
    /// What it is spoken to by. It listens on UDP in any case, and on TCP too if that is wanted.
    pub(crate) transport: Transport,
    /// Its threads or processes; one for each processor if nothing is said.
    pub(crate) workers: Option<usize>,
    /// The network namespace to start it in, if that is another one.
    pub(crate) namespace: Option<&'a str>,
    /// Whether it is to say how long the steps of its work take.
    pub(crate) timings: bool,
}
