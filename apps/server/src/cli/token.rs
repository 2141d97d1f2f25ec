//! The flags of `token`.

use super::place::Place;
use clap::Subcommand;

/// A command on tokens of the HTTP API.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Add a token, and print it: it is not shown again
    Add {
        /// The name
        name: String,
        /// The role: reader, operator or administrator
        #[arg(long, default_value = "reader")]
        role: String,
        #[command(flatten)]
        #[allow(missing_docs)]
        place: Place,
    },
    /// List the tokens, without their secrets
    List {
        /// Print JSON, one value on each line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        #[allow(missing_docs)]
        place: Place,
    },
    /// Remove a token: it is refused at once
    Remove {
        /// The name
        name: String,
        #[command(flatten)]
        #[allow(missing_docs)]
        place: Place,
    },
}
