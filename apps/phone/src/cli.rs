//! The command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use srtp::Suite;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A softphone for the shell: places and takes secure calls.
#[derive(Debug, Parser)]
#[command(name = "barebell-phone", version, about)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Place a call
    Call(CallArgs),
    /// Wait for calls, and take them
    Answer(AnswerArgs),
    /// Do what the lines of the standard input say, each a command in JSON
    Control(ControlArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// Who is called, such as sip:bob@example.org or sip:bob@192.0.2.7:5070
    #[arg(value_name = "URI")]
    pub(crate) uri: String,
    /// Hang up so long after the answer, such as 30s; else when the other end does, or at Ctrl-C
    #[arg(long, value_parser = humantime::parse_duration)]
    pub(crate) duration: Option<Duration>,
    #[command(flatten)]
    pub(crate) line: LineArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// Take calls without asking; else each is taken by the return key
    #[arg(long)]
    pub(crate) auto: bool,
    /// Send back what is heard
    #[arg(long, conflicts_with = "play")]
    pub(crate) echo: bool,
    /// End after so many calls; else at Ctrl-C
    #[arg(long, value_name = "N")]
    pub(crate) calls: Option<u64>,
    #[command(flatten)]
    pub(crate) line: LineArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ControlArgs {
    #[command(flatten)]
    pub(crate) line: LineArgs,
}

/// What all commands have.
#[derive(Debug, Args)]
pub(crate) struct LineArgs {
    /// What is sent: a WAV file, tone:HERTZ, or silence
    #[arg(long, value_name = "WHAT", default_value = "silence")]
    pub(crate) play: String,
    /// Keep what is heard in a WAV file
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Append all SIP messages to a file, those sent and those received; keys of SRTP stand in them
    #[arg(long, value_name = "FILE")]
    pub(crate) sip_log: Option<PathBuf>,
    /// SRTP: not at all, where the other end knows it too, or not without it
    #[arg(long, value_enum, default_value_t = Srtp::Optional)]
    pub(crate) srtp: Srtp,
    /// The suites of SRTP that are offered and taken, the preferred first [default: all that there are]
    #[arg(long, value_name = "SUITE", value_delimiter = ',', value_parser = suite)]
    pub(crate) suites: Option<Vec<Suite>>,
    /// Print events as JSON, one on a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Where to listen for SIP over UDP [default: port 5060 to answer, any to call]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Configuration file with accounts (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The account to call or answer as: its URI, with or without "sip:" [default: the first]
    #[arg(long, value_name = "URI", requires = "config")]
    pub(crate) account: Option<String>,
}

/// The suite of this name.
fn suite(name: &str) -> Result<Suite, String> {
    Suite::from_name(name).ok_or_else(|| {
        let names = Suite::ALL.map(Suite::name).join(", ");
        format!("expected one of {names}")
    })
}

/// What is wanted of SRTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Srtp {
    Off,
    Optional,
    Required,
}

impl From<Srtp> for media::Security {
    fn from(srtp: Srtp) -> Self {
        match srtp {
            Srtp::Off => Self::Off,
            Srtp::Optional => Self::Optional,
            Srtp::Required => Self::Required,
        }
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
}
