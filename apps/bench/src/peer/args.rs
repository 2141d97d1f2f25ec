//! The peer as a command of its own, for tests of other programs.

use super::script::stall;
use super::{Authentication, Peer, Rule, Script};
use crate::console::print;
use crate::users::{Users, UsersError};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The interval of checks for the end.
const LOOK: Duration = Duration::from_millis(100);

/// Answer SIP as an ideal registrar and proxy, or with scripted faults
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PeerArgs {
    /// The listening address, for UDP and TCP
    #[arg(long, default_value = "127.0.0.1:5060", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// End after this time; without it, when interrupted
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    duration: Option<Duration>,
    /// Redirect calls (302) instead of relaying them
    #[arg(long)]
    redirect: bool,
    /// Challenge requests, and accept any credentials for the given nonce
    #[arg(long, conflicts_with = "users")]
    auth: bool,
    /// Challenge requests, and verify credentials against a file with a name:password on each line
    #[arg(long, value_name = "FILE")]
    users: Option<PathBuf>,
    /// Delay messages: 5ms, register=5ms, or invite/200:10=5ms for every tenth of them
    #[arg(long, value_parser = Rule::delay, value_name = "[WHICH[:WHEN]=]TIME")]
    delay: Vec<Rule>,
    /// Lose messages: requests:10 for every tenth, responses:5%, register:first3
    #[arg(long, value_parser = Rule::lose, value_name = "WHICH[:WHEN]")]
    lose: Vec<Rule>,
    /// Answer requests with a status: invite:10=503, register=503/30 with Retry-After
    #[arg(long, value_parser = Rule::fail, value_name = "[WHICH[:WHEN]=]STATUS[/SECONDS]")]
    fail: Vec<Rule>,
    /// Send messages twice: responses:10
    #[arg(long, value_parser = Rule::repeat, value_name = "WHICH[:WHEN]")]
    repeat: Vec<Rule>,
    /// Send garbage before messages: responses:10
    #[arg(long, value_parser = Rule::garbage, value_name = "WHICH[:WHEN]")]
    garbage: Vec<Rule>,
    /// Neither read nor send in this period after the first message
    #[arg(long, value_parser = stall, value_name = "TIME..TIME")]
    stall: Vec<(Duration, Duration)>,
    /// The seed of rules with a percentage
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// An error of the peer command.
#[derive(Debug)]
pub(crate) enum PeerError {
    /// The users cannot be read.
    Users(UsersError),
    /// The peer cannot listen at this address.
    Listen(SocketAddr, io::Error),
    /// The socket failed.
    Ended(SocketAddr),
    /// Standard output cannot be written.
    Print(io::Error),
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Users(error) => error.fmt(f),
            Self::Listen(address, error) => write!(
                f,
                "the peer cannot listen on {address}: {error}; choose another with --listen"
            ),
            Self::Ended(address) => write!(f, "the peer lost its socket on {address}"),
            Self::Print(error) => write!(f, "standard output cannot be written: {error}"),
        }
    }
}

impl std::error::Error for PeerError {}

impl PeerArgs {
    /// Returns the script of the options.
    fn script(&self) -> Result<Script, UsersError> {
        let authentication = match &self.users {
            Some(path) => {
                let users = Users::from_file(path)?;
                let passwords = users.iter().map(|(name, password)| (name.into_bytes(), password));
                Authentication::Passwords(passwords.collect())
            }
            None if self.auth => Authentication::Nonce,
            None => Authentication::None,
        };
        let rules = [&self.delay, &self.lose, &self.fail, &self.repeat, &self.garbage];
        Ok(Script {
            is_redirecting: self.redirect,
            authentication,
            rules: rules.into_iter().flatten().copied().collect(),
            stalls: self.stall.clone(),
            seed: self.seed,
        })
    }
}

/// Runs a peer until its time is over or `ending` is set. Prints its address at the start, and its
/// counts at the end.
///
/// # Errors
/// [`PeerError`] if the peer cannot run.
pub(crate) fn serve(args: &PeerArgs, ending: &AtomicBool) -> Result<(), PeerError> {
    let script = args.script().map_err(PeerError::Users)?;
    let peer = Peer::listen(&script, args.listen)
        .map_err(|error| PeerError::Listen(args.listen, error))?;
    print(&format!("listening on {}\n", peer.address())).map_err(PeerError::Print)?;
    let end = args.duration.map(|duration| std::time::Instant::now() + duration);
    while !ending.load(Ordering::Relaxed) {
        if !peer.is_running() {
            return Err(PeerError::Ended(peer.address()));
        }
        let rest = end.map(|end| end.saturating_duration_since(std::time::Instant::now()));
        match rest {
            Some(Duration::ZERO) => break,
            rest => std::thread::sleep(rest.map_or(LOOK, |rest| rest.min(LOOK))),
        }
    }
    print(&format!("{}\n", peer.counts())).map_err(PeerError::Print)
}
