//! The errors of commands.

use crate::agents::AgentError;
use crate::capture::CaptureError;
use crate::ceiling::CeilingError;
use crate::load::links::LinkError;
use crate::measure::MeasureError;
use crate::peer::PeerError;
use crate::report::ReportError;
use crate::scenario::ScenarioError;
use crate::sut::{NoServer, SutError};
use crate::users::UsersError;
use crate::voice::VoiceError;
use crate::watch::WatchError;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An error of a command.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// No system was given.
    NoTarget,
    NoServer(NoServer),
    /// No server that the DNS lists for the host answers; with the reason for each.
    NoServers(String, Vec<String>),
    Users(UsersError),
    Link(LinkError),
    Measure(MeasureError),
    /// The agents failed outside of a measurement.
    Agent(AgentError),
    Watch(WatchError),
    Sut(SutError),
    Report(ReportError),
    Capture(CaptureError),
    Scenario(ScenarioError),
    PeerCommand(PeerError),
    /// The ideal peer failed.
    Peer(io::Error),
    /// A system has ended since an earlier run: its name, and the reason.
    Ended(String, String),
    /// The measurement of SIPp failed.
    Sipp(io::Error),
    /// Background traffic cannot be sent.
    Traffic(io::Error),
    /// The registrations beside calls with media failed.
    Beside(io::Error),
    /// A load of calls with media cannot run.
    Voice(VoiceError),
    /// A flood of SRTP packets failed.
    Flood(io::Error),
    /// The folder of `seeds`, or a file in it, cannot be written.
    Seeds(PathBuf, io::Error),
    NoCeiling(CeilingError),
    /// Files for packages cannot be written.
    Extras(io::Error),
    /// The live page cannot be served at this address.
    LivePage(SocketAddr, io::Error),
    /// Standard output cannot be written.
    Print(io::Error),
    /// A value of the command line contradicts others.
    Usage(String),
    /// The search ended at the generator's own ceiling for these systems.
    Ceiling(Vec<String>),
}

impl CommandError {
    /// Returns the exit status of the command.
    pub(super) const fn status(&self) -> u8 {
        match self {
            Self::Ceiling(_) => 3,
            _ => 2,
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTarget => f.write_str(
                "which server? Name one with --target udp:HOST:PORT, or let one be started with \
                 --sut barebell or --sut kamailio",
            ),
            Self::NoServer(error) => error.fmt(f),
            Self::NoServers(host, failures) => {
                write!(f, "no server of {host} answers: {}", failures.join("; "))
            }
            Self::Users(error) => error.fmt(f),
            Self::Link(error) => error.fmt(f),
            Self::Measure(error) => error.fmt(f),
            Self::Agent(error) => error.fmt(f),
            Self::Watch(error) => error.fmt(f),
            Self::Sut(error) => error.fmt(f),
            Self::Report(error) => error.fmt(f),
            Self::Capture(error) => error.fmt(f),
            Self::Scenario(error) => error.fmt(f),
            Self::PeerCommand(error) => error.fmt(f),
            Self::Peer(error) => write!(f, "the ideal peer does not start: {error}"),
            Self::Ended(name, last_words) => {
                write!(f, "{name} has ended: {last_words}")
            }
            Self::Sipp(error) => write!(f, "SIPp cannot be measured: {error}"),
            Self::Traffic(error) => write!(f, "no other traffic can be sent: {error}"),
            Self::Beside(error) => write!(f, "the registrations beside the calls failed: {error}"),
            Self::Voice(error) => error.fmt(f),
            Self::Flood(error) => write!(f, "the flood of forged packets failed: {error}"),
            Self::Seeds(path, error) => write!(f, "{}: {error}", path.display()),
            Self::NoCeiling(error) => error.fmt(f),
            Self::Extras(error) => write!(f, "the files for packages cannot be written: {error}"),
            Self::LivePage(address, error) => write!(
                f,
                "the live page cannot be served at {address}, which --listen names: {error}"
            ),
            Self::Print(error) => write!(f, "standard output cannot be written: {error}"),
            Self::Usage(text) => f.write_str(text),
            Self::Ceiling(systems) => write!(
                f,
                "the limit of {} was not reached: the generator could offer no more; take more \
                 machines (--agents), more --workers, or give the server fewer processors",
                systems.join(" and ")
            ),
        }
    }
}

impl std::error::Error for CommandError {}

macro_rules! from {
    ($($error:ty => $variant:ident),* $(,)?) => {
        $(impl From<$error> for CommandError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        })*
    };
}

from! {
    UsersError => Users,
    LinkError => Link,
    MeasureError => Measure,
    AgentError => Agent,
    WatchError => Watch,
    SutError => Sut,
    NoServer => NoServer,
    ReportError => Report,
    CaptureError => Capture,
    ScenarioError => Scenario,
    PeerError => PeerCommand,
    VoiceError => Voice,
}

impl From<CeilingError> for CommandError {
    fn from(error: CeilingError) -> Self {
        match error {
            CeilingError::Stopped => Self::Measure(MeasureError::Stopped),
            error => Self::NoCeiling(error),
        }
    }
}
