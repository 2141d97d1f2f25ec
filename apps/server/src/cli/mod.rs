//! The command line.

mod account;
mod backup;
mod calls;
mod office;
mod place;
mod remote;
mod token;
mod trace;
mod users;

use crate::config_file::{self, LoadError};
use crate::domains;
use crate::listen::Listen;
use crate::settings::Settings;
pub(crate) use account::AccountCommand;
pub(crate) use backup::{BackupFlags, RestoreFlags};
pub(crate) use calls::{CallsCommand, CallsFlags, DrainFlags, HistoryFlags};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
pub(crate) use office::{RouteFlags, VoicemailCommand};
pub(crate) use place::{Place, ScreenFlags, StatusFlags};
pub(crate) use remote::RemoteFlags;
use sip_server::config::{Domain, Mode, State};
use std::path::{Path, PathBuf};
pub(crate) use token::TokenCommand;
pub(crate) use trace::{TraceFlags, WhyFlags};
pub(crate) use users::{
    ForwardFlags, MessagesFlags, Password, RegistrationsCommand, RegistrationsFlags, UserCommand,
    UserFlags,
};

/// A secure SIP telephone server: registrar, proxy, media relay, B2BUA and media server.
#[derive(Debug, Parser)]
#[command(name = "barebell", version, about)]
pub(crate) struct Cli {
    /// The command; `serve` by default.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// The flags of `serve` without a command.
    #[command(flatten)]
    pub(crate) serve: ServeFlags,
}

/// A command.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server (also what `barebell` alone does)
    Serve(ServeFlags),
    /// Add, import, list, move and remove users
    #[command(subcommand)]
    User(UserCommand),
    /// Show the state of the server: users, registrations, transactions, counters, rates
    Status(StatusFlags),
    /// Show the registrations: address of record, contact, flow, expiry, User-Agent; or end one
    Registrations(RegistrationsFlags),
    /// Show the calls that are relayed or pass the B2BUA, with their quality, search those that
    /// have ended, or end one
    Calls(CallsFlags),
    /// Show the trunks: the state and the last reason of each server and account
    Trunks(ScreenFlags),
    /// Show the calls and minutes of today through trunks, of each user, trunk and class, and their
    /// limits
    Limits(ScreenFlags),
    /// Show the numbers of voice messages of a user, or set them: the lamp of the user's phones
    Messages(MessagesFlags),
    /// Show the SIP messages of the last minutes, of a call, a user or an address, as ladders; or
    /// mark calls, so that their messages are kept longer
    Trace(TraceFlags),
    /// Show the last refusals of requests, each with its rule and the setting
    Why(WhyFlags),
    /// Show the destination of a number by the numbering plan, and each step that leads to it,
    /// without a call. The exit status is 1 if the call would be refused
    Route(RouteFlags),
    /// Create short-lived credentials of a user for the TURN servers of the configuration
    Turn(TurnFlags),
    /// List, export and delete the messages of mailboxes
    #[command(subcommand)]
    Voicemail(VoicemailCommand),
    /// List the accounts of the panel, set a forgotten password, and remove a second factor
    #[command(subcommand)]
    Account(AccountCommand),
    /// Add, list and remove tokens of the HTTP API
    #[command(subcommand)]
    Token(TokenCommand),
    /// Write users, call services, accounts of the panel and the configuration to a file
    ///
    /// Certificates with their keys, records of calls, voice messages and the passwords in the
    /// configuration are in it if --with names them. The file has secrets.
    Backup(BackupFlags),
    /// Replace users, call services and accounts of the panel by those of a backup
    ///
    /// All of it is restored or nothing. Records and voice messages are added. The configuration is
    /// compared only.
    Restore(RestoreFlags),
    /// Refuse new calls, and let those that stand end by themselves: before an upgrade
    Drain(DrainFlags),
    /// Report the problems of a configuration, with line and column
    Check(CheckFlags),
    /// Find the faults of the server and its machine as they are now, each with a remedy
    Doctor(DoctorFlags),
    /// Write manual pages and shell completions to a folder: for packages
    #[command(hide = true)]
    Extras {
        /// The folder
        folder: PathBuf,
    },
}

impl Cli {
    /// Parses the command line of this process. Prints an error, the help or the version instead,
    /// and ends the process.
    pub(crate) fn of_process() -> Self {
        Self::of(std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    fn of<W: Into<std::ffi::OsString> + Clone>(
        words: impl IntoIterator<Item = W>,
    ) -> Result<Self, clap::Error> {
        let mut command = Self::command();
        let matches = command.try_get_matches_from_mut(words)?;
        if let Some((name, _)) = matches.subcommand()
            && let Some(flag) = flag_of_serve(&command, &matches)
        {
            let text = format!("{flag} is a flag of `serve`: it cannot precede `{name}`");
            return Err(command.error(ErrorKind::ArgumentConflict, text));
        }
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}

/// A given flag that is for `serve` alone.
fn flag_of_serve(command: &clap::Command, matches: &ArgMatches) -> Option<String> {
    let is_given = |flag: &&clap::Arg| {
        matches.value_source(flag.get_id().as_str()) == Some(ValueSource::CommandLine)
    };
    let flag = command.get_arguments().filter(|flag| !flag.is_global_set()).find(is_given)?;
    flag.get_long().map(|name| format!("--{name}"))
}

/// Writes manual pages and shell completions to `folder`.
///
/// # Errors
/// The files cannot be written.
pub(crate) fn write_extras(folder: &Path) -> std::io::Result<()> {
    let name = Cli::command().get_name().to_owned();
    clap_mangen::generate_to(Cli::command(), folder)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Cli::command(), &name, folder)?;
    }
    Ok(())
}

/// The flags of `serve`. They override the configuration file.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServeFlags {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) place: Place,
    /// Domain to serve; may be repeated, the first is the default [default: the host's name]
    #[arg(long, value_name = "NAME", value_parser = domains::canonical)]
    pub(crate) domain: Vec<String>,
    /// Address to listen on, with udp, tcp, tls, ws or wss and IPv6 in brackets, such as
    /// udp:192.0.2.1:5060; may be repeated [default: UDP and TCP 5060 of all addresses]
    #[arg(long, value_name = "TRANSPORT:ADDR:PORT")]
    pub(crate) listen: Vec<Listen>,
    /// proxy, redirect or registrar [default: proxy]
    #[arg(long, value_parser = config_file::mode)]
    pub(crate) mode: Option<Mode>,
    /// stateful or stateless [default: stateful]
    #[arg(long, value_parser = config_file::state)]
    pub(crate) state: Option<State>,
    /// Require users to authenticate, on or off [default: on]
    #[arg(long, value_name = "on|off", value_parser = config_file::on_off)]
    pub(crate) auth: Option<bool>,
    /// Worker threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = workers)]
    pub(crate) workers: Option<usize>,
}

impl ServeFlags {
    /// The settings of `serve`: those of the file, overridden by the flags. A further call reads
    /// the file again.
    ///
    /// # Errors
    /// [`LoadError`] if the configuration file cannot be used.
    pub(crate) fn settings(&self) -> Result<Settings, LoadError> {
        let mut settings = self.place.settings()?;
        let engine = &mut settings.engine;
        if !self.domain.is_empty() {
            let configured = std::mem::take(&mut engine.domains);
            for name in distinct(&self.domain) {
                let known = configured.iter().find(|domain| domain.name == name);
                let plain = || Domain { name, aliases: Vec::new() };
                engine.domains.push(known.cloned().unwrap_or_else(plain));
            }
        }
        engine.mode = self.mode.unwrap_or(engine.mode);
        engine.state = self.state.unwrap_or(engine.state);
        engine.authentication.required = self.auth.unwrap_or(engine.authentication.required);
        if !self.listen.is_empty() {
            settings.listens = distinct(&self.listen);
        }
        settings.workers = self.workers.or(settings.workers);
        Ok(settings)
    }
}

/// The flags of `turn`.
#[derive(Debug, Args)]
pub(crate) struct TurnFlags {
    /// The user, such as alice or alice@example.org: a part of the name at the TURN servers
    pub(crate) user: String,
    /// Print JSON, with the fields of the REST API of TURN servers
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) place: Place,
}

/// The flags of `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckFlags {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) place: Place,
}

/// The flags of `doctor`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorFlags {
    /// Compare the clock with that of this NTP server, such as pool.ntp.org
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) ntp: Option<String>,
    /// Compare the public address, as this STUN server sees it, with the configuration
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) stun: Option<String>,
    /// Print JSON, one value on each line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) place: Place,
}

fn workers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a whole number from 1 on".to_owned()),
        Ok(workers) => Ok(workers),
    }
}

/// `values` without duplicates.
fn distinct<T: Clone + PartialEq>(values: &[T]) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(value) {
            distinct.push(value.clone());
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::io::Write;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn serve_is_the_default_command() {
        let bare = Cli::parse_from(["barebell"]);
        assert!(bare.command.is_none());
        let flags = Cli::parse_from(["barebell", "--domain", "Example.com", "--auth", "off"]);
        assert!(flags.command.is_none());
        assert_eq!(flags.serve.domain, ["example.com"]);
        assert_eq!(flags.serve.auth, Some(false));
    }

    #[test]
    fn flags_of_serve_precede_no_command_and_those_of_a_server_elsewhere_do() {
        let parse = |line: &str| Cli::of(line.split(' '));
        for line in [
            "barebell --server https://a.example --ca x.pem user list --json",
            "barebell user list --json --server https://a.example --ca x.pem",
            "barebell --server https://a.example user list --json --ca x.pem",
        ] {
            let Some(Command::User(UserCommand::List { user, .. })) = parse(line).unwrap().command
            else {
                panic!("{line}: another command");
            };
            let remote = user.place.remote;
            assert_eq!(remote.server.as_deref(), Some("https://a.example"), "{line}");
            assert_eq!(remote.ca.as_deref(), Some(Path::new("x.pem")), "{line}");
        }
        let calls = parse("barebell --server https://a.example calls end 7").unwrap().command;
        let Some(Command::Calls(CallsFlags {
            command: Some(CallsCommand::End { place, .. }), ..
        })) = calls
        else {
            panic!("another command");
        };
        assert!(place.remote.is_used());
        for line in ["barebell --domain a.example user list", "barebell --data /x user list"] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains("is a flag of `serve`"), "{error}");
        }
        assert!(parse("barebell --domain a.example --data /x").unwrap().command.is_none());
    }

    #[test]
    fn a_password_comes_from_one_place() {
        let parse = |flags: &[&str]| {
            Cli::try_parse_from(["barebell", "user", "add", "alice"].iter().chain(flags)).is_ok()
        };
        assert!(parse(&["--password", "p"]));
        assert!(parse(&["--password-stdin"]));
        assert!(!parse(&[]));
        assert!(!parse(&["--password", "p", "--password-stdin"]));
    }

    #[test]
    fn flags_override_the_file_and_keep_its_settings_of_a_domain() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = "mode = \"redirect\"\nworkers = 3\ndata = \"/from/file\"\n\
                    domains = [\"a.com\", { name = \"b.com\", aliases = [\"sip.b.com\"] }]";
        file.write_all(text.as_bytes()).unwrap();
        let words = "barebell serve --domain b.com --domain c.com --domain b.com --auth off \
                     --listen udp:127.0.0.1:1 --listen udp:127.0.0.1:1 --mode registrar --config";
        let words = words.split(' ').map(str::to_owned);
        let cli = Cli::parse_from(words.chain([file.path().display().to_string()]));
        let Some(Command::Serve(flags)) = cli.command else { panic!("not serve") };
        let settings = flags.settings().unwrap();
        let names: Vec<_> = settings.engine.domains.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["b.com", "c.com"]);
        assert_eq!(settings.engine.domains[0].aliases, ["sip.b.com"]);
        assert_eq!(settings.engine.mode, Mode::Registrar);
        assert!(!settings.engine.authentication.required);
        assert_eq!(settings.listens.len(), 1);
        assert_eq!(settings.workers(), 3);
        assert_eq!(settings.data().unwrap(), PathBuf::from("/from/file"));
    }
}
