//! The command line.

use crate::config_file;
use crate::domains;
use crate::listen::Listen;
use clap::{Args, Parser, Subcommand};
use sip_server::config::{Mode, State};
use std::path::PathBuf;

/// A secure SIP registrar, redirect server and proxy.
#[derive(Debug, Parser)]
#[command(name = "barebell", version, about, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    /// What to do; `serve` if nothing is said.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// The flags of `serve`, when no command is named.
    #[command(flatten)]
    pub(crate) serve: ServeFlags,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server (also what `barebell` alone does)
    Serve(ServeFlags),
    /// Add, import, list and remove users
    #[command(subcommand)]
    User(UserCommand),
    /// Show what the server does: users, registrations, transactions, counters, rates
    Status(ScreenFlags),
    /// Show who is registered: address of record, contact, flow, expiry
    Registrations(ScreenFlags),
    /// Say what is wrong in a configuration, with line and column
    Check(CheckFlags),
}

/// Which configuration and which data.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Place {
    /// Configuration file (TOML; every key is optional)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Data directory [default: /var/lib/barebell as root, else barebell in the XDG data directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

/// The flags of `serve`. They overrule the configuration file.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServeFlags {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) place: Place,
    /// Domain to serve; may be repeated, the first is the default [default: the host's name]
    #[arg(long, value_name = "NAME", value_parser = domains::canonical)]
    pub(crate) domain: Vec<String>,
    /// Where to listen, udp:ADDR:PORT or tcp:ADDR:PORT with IPv6 in brackets; may be repeated
    /// [default: UDP and TCP 5060 of all addresses]
    #[arg(long, value_name = "TRANSPORT:ADDR:PORT")]
    pub(crate) listen: Vec<Listen>,
    /// proxy, redirect or registrar [default: proxy]
    #[arg(long, value_parser = config_file::mode)]
    pub(crate) mode: Option<Mode>,
    /// stateful or stateless [default: stateful]
    #[arg(long, value_parser = config_file::state)]
    pub(crate) state: Option<State>,
    /// Whether users must prove who they are, on or off [default: on]
    #[arg(long, value_name = "on|off", value_parser = config_file::on_off)]
    pub(crate) auth: Option<bool>,
    /// Worker threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = workers)]
    pub(crate) workers: Option<usize>,
}

/// What to do with users.
#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Add a user, or change the password of one
    Add {
        /// The user's name, alone or with the domain
        #[arg(value_name = "NAME[@DOMAIN]")]
        name: String,
        #[command(flatten)]
        #[allow(missing_docs)]
        password: Password,
        /// Another name that the user logs in under, called authentication name, user or ID in phones; it stays
        /// when the password is changed
        #[arg(long, value_name = "NAME")]
        auth_name: Option<String>,
        #[command(flatten)]
        #[allow(missing_docs)]
        user: UserFlags,
    },
    /// Add the users of a file of lines `name:password`
    ///
    /// A line `name<authentication name>:password` gives the user another name to log in under.
    /// Empty lines and lines that begin with # are passed over. A password may contain colons.
    /// Users that exist get the new password. If a line cannot be used, nothing is imported.
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

/// Which users.
#[derive(Clone, Debug, Args)]
pub(crate) struct UserFlags {
    /// The users' domain, needed if several are served and the name has none
    #[arg(long, value_name = "NAME", value_parser = domains::canonical)]
    pub(crate) domain: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) place: Place,
}

/// Where the password comes from.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Password {
    /// The password. Others on this machine can see it while the command runs, and the shell
    /// remembers it: use --password-stdin where that matters
    #[arg(long, value_name = "PASS")]
    pub(crate) password: Option<String>,
    /// Read the password from the first line of standard input
    #[arg(long)]
    pub(crate) password_stdin: bool,
}

/// How to show something.
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

/// What to check.
#[derive(Debug, Args)]
pub(crate) struct CheckFlags {
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn serve_is_what_is_done_when_nothing_is_said() {
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
}
