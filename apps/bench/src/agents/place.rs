//! The machine of an agent, and its results.

use crate::load::worker::Found;
use crate::ssh;
use std::fmt;
use std::str::FromStr;

/// The machine of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// This machine.
    Local,
    /// Another machine, in the form of `ssh`: a name of its configuration, or `USER@HOST`.
    Ssh(String),
}

impl FromStr for Place {
    type Err = String;

    /// Parses `local` or `ssh:HOST`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "local" {
            return Ok(Self::Local);
        }
        text.strip_prefix("ssh:")
            .and_then(ssh::host)
            .map(|host| Self::Ssh(host.to_owned()))
            .ok_or_else(|| "expected ssh:HOST, ssh:USER@HOST or local".to_owned())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::Ssh(host) => write!(f, "ssh:{host}"),
        }
    }
}

/// The results of one machine.
#[derive(Debug)]
pub(crate) struct Share {
    /// The agent; `None` for this process.
    pub(crate) agent: Option<Place>,
    /// The error bound of its clock, in microseconds.
    pub(crate) clock_error_us: u64,
    /// The results of its workers.
    pub(crate) found: Vec<Found>,
}

/// Returns the results of this process.
pub(super) fn ours(found: Vec<Found>) -> Vec<Share> {
    vec![Share { agent: None, clock_error_us: 0, found }]
}

/// Returns the number of turns on one machine: its workers have equal shares of the load, and some
/// have one user more than others.
pub(super) const fn turns(users: usize, workers: usize) -> usize {
    match workers {
        0 => users,
        workers => users / workers * workers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_hosts_of_ssh_or_this_machine() {
        for (text, written) in [
            ("local", "local"),
            ("ssh:host", "ssh:host"),
            ("ssh:me@10.0.0.1", "ssh:me@10.0.0.1"),
            ("ssh:[fe80::1%eth0]", "ssh:fe80::1%eth0"),
        ] {
            assert_eq!(
                text.parse::<Place>().map(|place| place.to_string()),
                Ok(written.to_owned())
            );
        }
        for text in ["", "host", "ssh:", "ssh:-oProxyCommand=x", "ssh:a b", "ssh:a'b", "ssh:a;b"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }
}
