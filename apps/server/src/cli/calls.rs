//! The arguments of the commands about calls: `calls` and `drain`.

use super::place::{Place, ScreenFlags};
use crate::times;
use clap::{Args, Subcommand};
use std::time::{Duration, SystemTime};

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
