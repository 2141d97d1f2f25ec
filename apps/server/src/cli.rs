//! The command line.

use crate::accounts::ForwardKind;
use crate::config_file::{self, LoadError};
use crate::domains;
use crate::listen::Listen;
use crate::settings::Settings;
use crate::times;
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use sip_server::config::{Domain, Mode, State};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A secure SIP registrar, redirect server and proxy.
#[derive(Debug, Parser)]
#[command(name = "barebell", version, about, args_conflicts_with_subcommands = true)]
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
    Status(ScreenFlags),
    /// Show the registrations: address of record, contact, flow, expiry
    Registrations(ScreenFlags),
    /// Show the calls that are relayed or pass the B2BUA, with their quality, search those that
    /// have ended, or end one
    Calls(CallsFlags),
    /// Show the trunks: the state and the last reason of each server and account
    Trunks(ScreenFlags),
    /// Show the numbers of voice messages of a user, or set them: the lamp of the user's phones
    Messages(MessagesFlags),
    /// Trace the SIP messages of calls: mark calls in advance, show a traced one as a ladder
    Trace(TraceFlags),
    /// Show the destination of a number by the numbering plan, and each step that leads to it,
    /// without a call. The exit status is 1 if the call would be refused
    Route(RouteFlags),
    /// Create short-lived credentials of a user for the TURN servers of the configuration
    Turn(TurnFlags),
    /// List, export and delete the messages of mailboxes
    #[command(subcommand)]
    Voicemail(VoicemailCommand),
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

/// The flags for the configuration and the data.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Place {
    /// Configuration file (TOML; every key is optional)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Data directory [default: /var/lib/barebell as root, else barebell in the XDG data directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

impl Place {
    /// The settings of a command other than `serve`.
    ///
    /// # Errors
    /// [`LoadError`] if the configuration file cannot be used.
    pub(crate) fn settings(&self) -> Result<Settings, LoadError> {
        let mut settings = match &self.config {
            Some(file) => config_file::load(file)?,
            None => Settings::default(),
        };
        settings.data = self.data.clone().or(settings.data);
        Ok(settings)
    }

    /// The flags that select this place, quoted for a shell.
    pub(crate) fn flags(&self) -> Vec<String> {
        [("--config", &self.config), ("--data", &self.data)]
            .into_iter()
            .filter_map(|(flag, path)| Some((flag, path.as_ref()?)))
            .flat_map(|(flag, path)| [flag.to_owned(), shell_word(&path.to_string_lossy())])
            .collect()
    }
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

/// A command about users.
#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Add a user, or change the password of an existing one
    Add {
        /// The user's name, alone or with the domain
        #[arg(value_name = "NAME[@DOMAIN]")]
        name: String,
        #[command(flatten)]
        #[allow(missing_docs)]
        password: Password,
        /// A further login name, called authentication name, user or ID in phones; it stays when
        /// the password is changed
        #[arg(long, value_name = "NAME")]
        auth_name: Option<String>,
        #[command(flatten)]
        #[allow(missing_docs)]
        user: UserFlags,
    },
    /// Add the users of a file of lines `name:password`
    ///
    /// A line `name<authentication name>:password` gives the user a further login name. Empty lines
    /// and lines that begin with # are skipped. A password may contain colons. Existing users get
    /// the new password. If a line is invalid, nothing is imported.
    Import {
        /// The file; `-` for standard input
        file: PathBuf,
        #[command(flatten)]
        #[allow(missing_docs)]
        user: UserFlags,
    },
    /// List the users
    List {
        #[command(flatten)]
        #[allow(missing_docs)]
        user: UserFlags,
        /// Print a JSON object on each line
        #[arg(long)]
        json: bool,
    },
    /// Set, remove or show the forwards of a user's calls
    ///
    /// A TARGET is a user or a group of this server: a name, alone or with the domain. Without
    /// flags the forwards are shown.
    Forward {
        /// The user's name, alone or with the domain
        #[arg(value_name = "NAME[@DOMAIN]")]
        name: String,
        #[command(flatten)]
        #[allow(missing_docs)]
        forwards: ForwardFlags,
        #[command(flatten)]
        #[allow(missing_docs)]
        user: UserFlags,
    },
    /// Keep calls from the phones of a user: do not disturb, on or off
    ///
    /// Calls go to the target of `user forward NAME --busy`, or get 480.
    Dnd {
        /// The user's name, alone or with the domain
        #[arg(value_name = "NAME[@DOMAIN]")]
        name: String,
        /// on or off
        #[arg(
            value_name = "on|off",
            value_parser = config_file::on_off,
            action = clap::ArgAction::Set
        )]
        is_on: bool,
        #[command(flatten)]
        #[allow(missing_docs)]
        user: UserFlags,
    },
    /// Move all users of a domain to another one
    ///
    /// They keep their passwords and authentication names. Use it if users were added before the
    /// domain of the server was configured, or to rename a domain.
    Move {
        /// The present domain of the users
        #[arg(value_name = "FROM", value_parser = domains::canonical)]
        from: String,
        /// The new domain of the users
        #[arg(value_name = "TO", value_parser = domains::canonical)]
        to: String,
        #[command(flatten)]
        #[allow(missing_docs)]
        place: Place,
    },
    /// Remove a user
    Remove {
        /// The user's name, alone or with the domain
        #[arg(value_name = "NAME[@DOMAIN]")]
        name: String,
        #[command(flatten)]
        #[allow(missing_docs)]
        user: UserFlags,
    },
}

/// The flags of `user forward`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ForwardFlags {
    /// Forward all calls
    #[arg(long, value_name = "TARGET")]
    pub(crate) always: Option<String>,
    /// Forward calls that a phone of the user answers busy, and those kept away by `user dnd`
    #[arg(long, value_name = "TARGET")]
    pub(crate) busy: Option<String>,
    /// Forward calls that no phone answers in time
    #[arg(long, value_name = "TARGET")]
    pub(crate) no_answer: Option<String>,
    /// The time before the forward on no answer, such as 20s [default: 20s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) after: Option<Duration>,
    /// Forward calls that reach no phone of the user; without it, --no-answer is used
    #[arg(long, value_name = "TARGET")]
    pub(crate) unreachable: Option<String>,
    /// Remove the forwards of this kind, or all
    #[arg(long, value_name = "KIND", num_args = 0..=1, default_missing_value = "all")]
    pub(crate) off: Option<ForwardKind>,
}

/// The flags that select users.
#[derive(Clone, Debug, Args)]
pub(crate) struct UserFlags {
    /// The domain of the users, required if several are served and the name has none
    #[arg(long, value_name = "NAME", value_parser = domains::canonical)]
    pub(crate) domain: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) place: Place,
}

/// The source of the password.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Password {
    /// The password. Others on this machine can see it while the command runs, and the shell stores
    /// it in its history: use --password-stdin where that matters
    #[arg(long, value_name = "PASS")]
    pub(crate) password: Option<String>,
    /// Read the password from the first line of standard input. A terminal does not show it, and is
    /// asked twice
    #[arg(long)]
    pub(crate) password_stdin: bool,
}

/// The flags of the output.
#[derive(Debug, Args)]
pub(crate) struct ScreenFlags {
    /// Show it again every second, until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    /// Print JSON, one value on each line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) place: Place,
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

/// The flags of `route`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("caller").required(true).args(["from", "trunk", "stranger"]))]
pub(crate) struct RouteFlags {
    /// The number as it is dialed, or as the trunk names it
    pub(crate) number: String,
    /// The calling user
    #[arg(long, value_name = "NAME[@DOMAIN]")]
    pub(crate) from: Option<String>,
    /// The trunk through which the call comes in
    #[arg(long, value_name = "NAME")]
    pub(crate) trunk: Option<String>,
    /// The caller is neither a user nor a trunk
    #[arg(long)]
    pub(crate) stranger: bool,
    /// A trunk that does not answer; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) trunk_down: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) place: Place,
}

/// A command about the messages of mailboxes.
#[derive(Debug, Subcommand)]
pub(crate) enum VoicemailCommand {
    /// List the messages: mailbox, number, time, state, duration, caller
    List {
        /// The user, alone or with the domain [default: all users]
        #[arg(value_name = "NAME[@DOMAIN]")]
        user: Option<String>,
        /// Print a JSON object on each line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        #[allow(missing_docs)]
        place: Place,
    },
    /// Write a message to a WAV file
    Export {
        /// The user, alone or with the domain
        #[arg(value_name = "NAME[@DOMAIN]")]
        user: String,
        /// The number of the message, as in the list
        id: u64,
        /// The file
        file: PathBuf,
        #[command(flatten)]
        #[allow(missing_docs)]
        place: Place,
    },
    /// Delete a message, or all messages of a user
    Delete {
        /// The user, alone or with the domain
        #[arg(value_name = "NAME[@DOMAIN]")]
        user: String,
        /// The number of the message, as in the list
        id: Option<u64>,
        /// Delete all messages of the user
        #[arg(long, conflicts_with = "id")]
        all: bool,
        #[command(flatten)]
        #[allow(missing_docs)]
        place: Place,
    },
}

/// The flags of `drain`.
#[derive(Debug, Args)]
pub(crate) struct DrainFlags {
    /// Accept new calls again
    #[arg(long)]
    pub(crate) cancel: bool,
    /// Return at once, not when the last call has ended
    #[arg(long, conflicts_with = "cancel")]
    pub(crate) no_wait: bool,
    /// Wait no longer than this, such as 30m, and fail if calls still stand then
    #[arg(
        long,
        value_name = "TIME",
        conflicts_with_all = ["cancel", "no_wait"],
        value_parser = humantime::parse_duration
    )]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) place: Place,
}

/// The flags of `calls`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct CallsFlags {
    /// The command; the list by default.
    #[command(subcommand)]
    pub(crate) command: Option<CallsCommand>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) history: HistoryFlags,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) screen: ScreenFlags,
}

/// The flags of `calls --history`.
#[derive(Debug, Args)]
pub(crate) struct HistoryFlags {
    /// Show the calls that have ended, the latest first, with parties, end and quality
    #[arg(long, conflicts_with = "watch")]
    pub(crate) history: bool,
    /// Only calls from or to this user
    #[arg(long, value_name = "NAME[@DOMAIN]", requires = "history")]
    pub(crate) user: Option<String>,
    /// Only calls that ended at this time or later: a date, a date and time (UTC), or a duration
    /// before now, such as 2026-11-27, "2026-11-27 10:00" or 2h
    #[arg(long, value_name = "TIME", requires = "history", value_parser = times::parse)]
    pub(crate) since: Option<SystemTime>,
    /// Only calls that ended before this time
    #[arg(long, value_name = "TIME", requires = "history", value_parser = times::parse)]
    pub(crate) until: Option<SystemTime>,
    /// Only calls that were not answered, or had no media
    #[arg(long, requires = "history")]
    pub(crate) failed: bool,
    /// The maximum number of calls
    #[arg(long, value_name = "N", requires = "history", default_value_t = 100)]
    pub(crate) limit: usize,
}

/// A command about relayed calls.
#[derive(Debug, Subcommand)]
pub(crate) enum CallsCommand {
    /// End a call with a BYE to both phones
    End {
        /// The identifier of the call, as in the list
        id: String,
        #[command(flatten)]
        #[allow(missing_docs)]
        place: Place,
    },
}

/// The flags of `messages`.
#[derive(Debug, Args)]
pub(crate) struct MessagesFlags {
    /// The user, with or without a domain
    #[arg(value_name = "NAME[@DOMAIN]")]
    pub(crate) name: String,
    /// The number of new messages, to be set: the lamp is lit unless it is 0
    #[arg(long, value_name = "N", requires = "old")]
    pub(crate) new: Option<u32>,
    /// The number of messages that the user has heard
    #[arg(long, value_name = "N", requires = "new")]
    pub(crate) old: Option<u32>,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) user: UserFlags,
}

/// The flags of `trace`. Without a call or a user, the marks and the traced calls are listed.
#[derive(Debug, Args)]
pub(crate) struct TraceFlags {
    /// Show the messages of this call, by its Call-ID or its identifier in `barebell calls`; if
    /// there are none, trace it from now on
    #[arg(long, value_name = "ID", conflicts_with = "user")]
    pub(crate) call: Option<String>,
    /// Trace the calls from and to this user that begin from now on
    #[arg(long, value_name = "NAME[@DOMAIN]")]
    pub(crate) user: Option<String>,
    /// The time after which nothing more is traced, at most 24 hours
    #[arg(long = "for", value_name = "TIME", default_value = "1h",
        value_parser = humantime::parse_duration)]
    pub(crate) time: Duration,
    /// Keep credentials and keys of media in traced messages. Otherwise they are blanked
    #[arg(long)]
    pub(crate) secrets: bool,
    /// Write the messages of the call to a pcapng file, for Wireshark
    #[arg(long, value_name = "FILE", requires = "call")]
    pub(crate) pcapng: Option<PathBuf>,
    /// Print JSON, one value on each line
    #[arg(long, conflicts_with = "pcapng")]
    pub(crate) json: bool,
    /// Forget all marks and messages
    #[arg(long, conflicts_with_all = ["call", "user"])]
    pub(crate) end: bool,
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
#[derive(Debug, Args)]
pub(crate) struct DoctorFlags {
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

/// `text` quoted as one word for a shell.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
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

    #[test]
    fn a_place_is_named_as_a_shell_takes_it() {
        let place = Place { config: Some("/etc/b.toml".into()), data: Some("/it's here".into()) };
        assert_eq!(place.flags(), ["--config", "/etc/b.toml", "--data", "'/it'\\''s here'"]);
        assert_eq!(Place::default().flags(), [""; 0]);
    }
}
