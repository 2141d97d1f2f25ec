//! Why a system is not there.

use crate::watch::WatchError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a system is not there.
#[derive(Debug)]
pub(crate) enum SutError {
    /// The text on the command line names no system.
    Spec(String),
    /// What is to be watched of a system that runs elsewhere is no such thing.
    Watch(WatchError),
    /// The host has no address.
    Host(String, io::Error),
    /// The profile cannot be read, or is not as it should be.
    Profile(PathBuf, String),
    /// The system of this name has no such mode, or cannot do what is asked.
    Cannot(String, String),
    /// The program is not there; what to do about it.
    Missing(String, String),
    /// Something on our side went wrong: what, and why.
    Io(String, io::Error),
    /// A command of the profile failed: the command, and what it printed.
    Failed(String, String),
    /// The system ended or did not answer: its name, what happened, and the last it printed.
    NotReady(String, String, String),
}

impl fmt::Display for SutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec(text) => write!(
                f,
                "no system '{text}': expected barebell, kamailio, PROFILE.toml, NAME=PROFILE.toml, or, \
                 if it runs already, udp:HOST:PORT or NAME@udp:HOST:PORT, with ,pid=PID, \
                 ,ssh=HOST:PID or ,ssh=HOST:NAME to watch it and ,domain=DOMAIN for the domain it serves"
            ),
            Self::Watch(error) => error.fmt(f),
            Self::Host(host, error) => write!(f, "{host} has no address: {error}"),
            Self::Profile(path, reason) => write!(f, "profile {}: {reason}", path.display()),
            Self::Cannot(name, what) => write!(f, "the profile of {name} {what}"),
            Self::Missing(program, hint) => write!(f, "{program} is missing; {hint}"),
            Self::Io(what, error) => write!(f, "{what}: {error}"),
            Self::Failed(command, printed) => write!(f, "`{command}` failed: {printed}"),
            Self::NotReady(name, what, printed) => {
                write!(f, "{name} {what}; it printed: {printed}")
            }
        }
    }
}

impl std::error::Error for SutError {}
