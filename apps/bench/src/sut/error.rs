//! The errors of systems under test.

use crate::watch::WatchError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// An error of starting or finding a system.
#[derive(Debug)]
pub(crate) enum SutError {
    /// The text on the command line is not a valid system.
    Spec(String),
    /// The processes to watch of a running system are invalid.
    Watch(WatchError),
    /// The host cannot be resolved.
    Host(String, io::Error),
    /// The profile cannot be read, or is invalid.
    Profile(PathBuf, String),
    /// The system does not support the mode or the request.
    Cannot(String, String),
    /// The program is not installed; with the remedy.
    Missing(String, String),
    /// A local I/O error: the action, and the error.
    Io(String, io::Error),
    /// A command of the profile failed: the command, and its output.
    Failed(String, String),
    /// The system ended or did not answer: its name, the reason, and its last output.
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
