//! The arguments of `user` and `messages`.

use super::place::{Place, ScreenFlags};
use crate::accounts::ForwardKind;
use crate::config_file;
use crate::domains;
use crate::failure::Failure;
use crate::password_input::read_password;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

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
        /// Check the lines and show the effect, and change nothing
        #[arg(long)]
        dry_run: bool,
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
    /// A TARGET is a user, a group or a service of this server, such as voicemail: a name, alone or
    /// with the domain. It may be a number that the user has the right to call. Without flags the
    /// forwards are shown.
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
    /// Calls go to the target of `user forward NAME --busy`, otherwise to the mailbox of the user
    /// if the server has one, and get 480 without either.
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
#[group(id = "password_source", required = true, multiple = false)]
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

impl Password {
    /// The password.
    ///
    /// # Errors
    /// [`Failure`] if it cannot be read from standard input.
    pub(crate) fn given(&self) -> Result<String, Failure> {
        match &self.password {
            Some(password) => Ok(password.clone()),
            None => read_password(),
        }
    }
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

/// The flags of `registrations`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct RegistrationsFlags {
    /// The command; the list by default.
    #[command(subcommand)]
    pub(crate) command: Option<RegistrationsCommand>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) screen: ScreenFlags,
}

/// A command about registrations.
#[derive(Debug, Subcommand)]
pub(crate) enum RegistrationsCommand {
    /// End the registration of a user, until the phone registers again
    End {
        /// The user, alone or with the domain
        #[arg(value_name = "NAME[@DOMAIN]")]
        name: String,
        /// The contact URI of the only binding to end, as in the list
        contact: Option<String>,
        #[command(flatten)]
        #[allow(missing_docs)]
        user: UserFlags,
    },
}
