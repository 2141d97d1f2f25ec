//! The flags of `backup` and `restore`.

use super::place::Place;
use crate::backup::Part;
use clap::Args;
use std::path::PathBuf;

/// The flags of `backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupFlags {
    /// The new file, readable for its owner only; `-` for standard output
    pub(crate) file: PathBuf,
    /// A further part: certificates, records, voicemail, or secrets, the passwords in the
    /// configuration; may be repeated
    #[arg(long, value_name = "PART")]
    pub(crate) with: Vec<Part>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) place: Place,
}

/// The flags of `restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreFlags {
    /// The backup; `-` for standard input
    pub(crate) file: PathBuf,
    /// Show the effect, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// A part to restore; may be repeated [default: all parts that the backup has]
    #[arg(long, value_name = "PART")]
    pub(crate) part: Vec<Part>,
    /// Write the configuration in the backup to this new file
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub(crate) configuration: Option<PathBuf>,
    /// Print the effect as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) place: Place,
}
