//! The flags of `trace` and `why`.

use super::place::Place;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// The flags of `trace`. Without a target, a call or a user, the marks and the traced calls are
/// listed.
#[derive(Debug, Args)]
pub(crate) struct TraceFlags {
    /// Show the messages of the last minutes of a call (Call-ID, or identifier in `barebell
    /// calls`), of a user (NAME or NAME@DOMAIN), or of an address (ADDRESS or ADDRESS:PORT)
    #[arg(value_name = "TARGET", group = "shown", conflicts_with = "user")]
    pub(crate) target: Option<String>,
    /// Show only messages of this time, such as 90s; a number alone is one of minutes
    #[arg(long, value_name = "TIME", requires = "target", value_parser = minutes)]
    pub(crate) last: Option<Duration>,
    /// Show the messages of this marked call, by its Call-ID or its identifier in `barebell calls`;
    /// a call without kept messages is marked: its messages are kept from now on
    #[arg(long, value_name = "ID", group = "shown", conflicts_with = "user")]
    pub(crate) call: Option<String>,
    /// Mark the calls from and to this user that begin from now on
    #[arg(long, value_name = "NAME[@DOMAIN]")]
    pub(crate) user: Option<String>,
    /// The time after which a mark ends, at most 24 hours
    #[arg(long = "for", value_name = "TIME", default_value = "1h",
        value_parser = humantime::parse_duration)]
    pub(crate) time: Duration,
    /// Keep credentials and keys of media in messages of marked calls. Otherwise they are blanked
    #[arg(long, conflicts_with = "target")]
    pub(crate) secrets: bool,
    /// Write the messages to a pcapng file, for Wireshark
    #[arg(long, value_name = "FILE", requires = "shown")]
    pub(crate) pcapng: Option<PathBuf>,
    /// Print JSON, one value on each line
    #[arg(long, conflicts_with = "pcapng")]
    pub(crate) json: bool,
    /// Forget all marks and messages of marked calls
    #[arg(long, conflicts_with_all = ["shown", "user"])]
    pub(crate) end: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) place: Place,
}

/// The flags of `why`.
#[derive(Debug, Args)]
pub(crate) struct WhyFlags {
    /// A user (NAME or NAME@DOMAIN), a Call-ID, or an address (ADDRESS or ADDRESS:PORT)
    #[arg(value_name = "TARGET")]
    pub(crate) target: String,
    /// Print JSON, one value on each line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) place: Place,
}

/// Parses a duration, or a number of minutes.
fn minutes(text: &str) -> Result<Duration, humantime::DurationError> {
    match text.parse::<u32>() {
        Ok(minutes) => Ok(Duration::from_secs(60 * u64::from(minutes))),
        Err(_) => humantime::parse_duration(text),
    }
}
