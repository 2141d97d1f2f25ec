//! The command line.

pub(crate) mod load;
pub(crate) mod values;

use clap::{Args, Parser, Subcommand};
use load::LoadArgs;

/// Measures what any SIP server carries, and shows it.
#[derive(Debug, Parser)]
#[command(name = "barebell-bench", version, about)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Put one load on a server, and say what came of it
    Run(RunArgs),
}

/// One load.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) load: LoadArgs,
}
