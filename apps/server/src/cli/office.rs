//! The arguments of the commands of an office: `route` and `voicemail`.

use super::place::Place;
use clap::{Args, Subcommand};
use std::convert::Infallible;
use std::path::PathBuf;

/// The flags of `route`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("caller").required(true).args(["from", "trunk", "stranger"]))]
pub(crate) struct RouteFlags {
    /// The number as it is dialed, or as the trunk names it; spaces are ignored
    #[arg(value_parser = without_spaces)]
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

/// Removes the spaces with which people write numbers.
fn without_spaces(number: &str) -> Result<String, Infallible> {
    Ok(number.split_whitespace().collect())
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
