//! The flags of `account`.

use super::place::Place;
use super::users::Password;
use clap::Subcommand;

/// A command on accounts of the panel.
#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// List the accounts of the panel
    List {
        /// Print JSON, one value on each line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        #[allow(missing_docs)]
        place: Place,
    },
    /// Set a new password of an account: its sessions end
    Password {
        /// The name
        name: String,
        #[command(flatten)]
        #[allow(missing_docs)]
        password: Password,
        /// Remove the second factor, too, if the account has one
        #[arg(long)]
        remove_second_factor: bool,
        #[command(flatten)]
        #[allow(missing_docs)]
        place: Place,
    },
    /// Remove the second factor of an account: a login needs the password alone then
    RemoveSecondFactor {
        /// The name
        name: String,
        #[command(flatten)]
        #[allow(missing_docs)]
        place: Place,
    },
}
