//! The command line.

pub(crate) mod load;
pub(crate) mod target;
pub(crate) mod values;

use crate::capture::CaptureArgs;
use crate::peer::PeerArgs;
use crate::record::{Criterion, Operation, Run};
use crate::require::Requirements;
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use load::LoadArgs;
use sip::Duration;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use values::{Counts, Rates};

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
    /// Rising rates: the curve of what was achieved against what was offered
    Sweep(SweepArgs),
    /// Search for the highest rate without a failure, and confirm it (RFC 7502)
    Limit(LimitArgs),
    /// Registrations in five one-second bursts, each user registering anew time and again
    Burst(BurstArgs),
    /// Parallel users with a UDP port each: delays and losses, on an idle and on a busy link
    Qos(QosArgs),
    /// Steps of rising call rate through a proxy, with the time to register and to ring
    Proxy(ProxyArgs),
    /// The same work on several systems in turn, interleaved: ratios with their spread
    Compare(CompareArgs),
    /// What the generator itself costs, beside the bare exchange of datagrams (and SIPp)
    Cost(CostArgs),
    /// A flood of forged SRTP packets at rising rates, with SRTP alone and with each scheme of
    /// SRTP+
    Srtp(SrtpArgs),
    /// Message times, delays, retransmissions and RTP figures from captures (pcap, pcapng)
    Capture(CaptureArgs),
    /// One page of one or several records
    Report(ReportArgs),
    /// A SIP server that answers from a script, as a partner for tests
    Peer(PeerArgs),
    /// Put a share of a load on, as a controller says on standard input: what --agents starts
    #[command(hide = true)]
    Agent(AgentArgs),
    /// Write manual pages, and what completes commands in shells, to a folder: for packages
    #[command(hide = true)]
    Extras {
        /// Where to
        folder: PathBuf,
    },
}

/// Writes manual pages, and what completes commands in shells, to `folder`.
///
/// # Errors
/// When they cannot be written.
pub(crate) fn write_extras(folder: &Path) -> std::io::Result<()> {
    let name = Cli::command().get_name().to_owned();
    clap_mangen::generate_to(Cli::command(), folder)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Cli::command(), &name, folder)?;
    }
    Ok(())
}

/// An agent.
#[derive(Clone, Debug, Args)]
pub(crate) struct AgentArgs {
    /// Remove this copy of the program at once, while it runs
    #[arg(long)]
    pub(crate) remove: bool,
}

/// What a command leaves behind.
#[derive(Clone, Debug, Args)]
pub(crate) struct OutputArgs {
    /// What must hold for the exit status to be 0, such as 'success>=100%,srd.p99<50ms'
    #[arg(long, value_name = "CRITERIA")]
    pub(crate) require: Option<Requirements>,
    /// Where to write the report, in the form that the name ends with: .html .md .csv .json .xml
    /// (JUnit); may be repeated [default: a .json and a .html file named after the command and the
    /// time]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Vec<PathBuf>,
    /// Write no report
    #[arg(long)]
    pub(crate) no_report: bool,
    /// Print the record as JSON in place of the summary
    #[arg(long)]
    pub(crate) json: bool,
    /// Do not tell how it goes
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl OutputArgs {
    /// What is required, and whether it holds in `runs`.
    pub(crate) fn criteria(&self, runs: &[Run]) -> Vec<Criterion> {
        self.require.as_ref().map(|require| require.check(runs)).unwrap_or_default()
    }
}

/// One load.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) output: OutputArgs,
}

/// Rising rates.
#[derive(Debug, Args)]
#[command(mut_arg("rate", |rate| rate.hide(true)))]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) load: LoadArgs,
    /// The rates: LOWEST..HIGHEST, or RATE,RATE,...
    #[arg(long, default_value = "1000..10000")]
    pub(crate) rates: Rates,
    /// How many rates between the lowest and the highest, both included
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) steps: u32,
    /// Each rate so many times the one before, in place of equal steps
    #[arg(long)]
    pub(crate) factor: Option<f64>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) output: OutputArgs,
}

/// A search for the limit.
#[derive(Debug, Args)]
pub(crate) struct LimitArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) load: LoadArgs,
    /// How close to come to the limit, in percent
    #[arg(long, default_value_t = 5.0)]
    pub(crate) precision: f64,
    /// How often the limit has to hold once it is found
    #[arg(long, default_value_t = 3)]
    pub(crate) confirmations: u32,
    /// A message sent again is a failure, too
    #[arg(long)]
    pub(crate) no_retransmissions: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) output: OutputArgs,
}

/// Registrations in bursts.
#[derive(Debug, Args)]
#[command(mut_arg("rate", |rate| rate.hide(true)))]
pub(crate) struct BurstArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) load: LoadArgs,
    /// How many users register; may be several, for one test after the other
    #[arg(long, value_delimiter = ',', default_value = "6400")]
    pub(crate) registrations: Vec<u32>,
    /// From a registration to the next of the same user
    #[arg(long, value_parser = values::duration, default_value = "60s")]
    pub(crate) interval: Duration,
    /// From a failed registration to the next attempt
    #[arg(long, value_parser = values::duration, default_value = "10s")]
    pub(crate) wait: Duration,
    /// How long the users hold their registrations
    #[arg(long, value_parser = values::duration, default_value = "15m")]
    pub(crate) length: Duration,
    /// All times are multiplied by this: the bursts, the interval, the wait, the length
    #[arg(long, default_value_t = 1.0)]
    pub(crate) scale: f64,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) output: OutputArgs,
}

/// Parallel users.
#[derive(Debug, Args)]
#[command(mut_arg("rate", |rate| rate.hide(true)))]
pub(crate) struct QosArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) load: LoadArgs,
    /// How many users call at once (each has another to call): a list, or FROM..TO for the steps 1,
    /// 10, 50, 100, 200, 300, 500, 700 and 1000 that lie between
    #[arg(long, value_name = "COUNTS", default_value = "1..1000")]
    pub(crate) callers: Counts,
    /// How often each step is repeated
    #[arg(long, default_value_t = 10)]
    pub(crate) repeats_of_step: u32,
    /// The rate of a link, such as 100M, that is set up between the load and servers that are
    /// started; takes root [default: none, with --busy 100M]
    #[arg(long, value_name = "BITS", value_parser = values::bits)]
    pub(crate) link: Option<u64>,
    /// Repeat all with other traffic: over the link both ways, to a target one way [default: half
    /// of the link]
    #[arg(long, value_name = "BITS", value_parser = values::bits, num_args = 0..=1)]
    pub(crate) busy: Option<Option<u64>>,
    /// Where the other traffic goes that a target gets [default: its port 9]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) busy_target: Option<SocketAddr>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) output: OutputArgs,
}

/// Steps of rising call rate.
#[derive(Debug, Args)]
#[command(mut_arg("rate", |rate| rate.hide(true)))]
pub(crate) struct ProxyArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) load: LoadArgs,
    /// The call rates: LOWEST..HIGHEST, or RATE,RATE,...
    #[arg(long, default_value = "100..1000")]
    pub(crate) rates: Rates,
    /// How many rates between the lowest and the highest, both included
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) steps: u32,
    /// Each rate so many times the one before, in place of equal steps
    #[arg(long)]
    pub(crate) factor: Option<f64>,
    /// How long each call is held
    #[arg(long, value_parser = values::duration, default_value = "10s")]
    pub(crate) call: Duration,
    /// The measured middle of each step
    #[arg(long, value_parser = values::duration, default_value = "10m")]
    pub(crate) middle: Duration,
    /// Go on to the last step when one has failed
    #[arg(long)]
    pub(crate) all_steps: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) output: OutputArgs,
}

/// Several systems.
#[derive(Debug, Args)]
#[command(mut_arg("rate", |rate| rate
    .help("Operations a second, of calls too without --call-rate [default: 10000, calls 1000]")))]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) load: LoadArgs,
    /// The operations [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) operations: Vec<Operation>,
    /// Calls a second [default: --rate where it is given, else 1000]
    #[arg(long, value_parser = values::rate)]
    pub(crate) call_rate: Option<f64>,
    /// Without and with authentication
    #[arg(long)]
    pub(crate) both: bool,
    /// Beside them, what it costs to receive and send as many datagrams of the same lengths without
    /// looking into them
    #[arg(long)]
    pub(crate) bare: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) output: OutputArgs,
}

/// The generator's own cost.
#[derive(Debug, Args)]
pub(crate) struct CostArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) load: LoadArgs,
    /// Measure SIPp beside it, with the same operation against the same peer (register and invite)
    #[arg(long)]
    pub(crate) sipp: bool,
}

/// Floods of forged SRTP packets.
#[derive(Debug, Args)]
pub(crate) struct SrtpArgs {
    /// The crypto suite, by its name in SDP
    #[arg(long, default_value = "AES_CM_128_HMAC_SHA1_80")]
    pub(crate) suite: String,
    /// Forged packets a second: FROM..TO in --steps, or a list with commas
    #[arg(long, default_value = "200000..2000000")]
    pub(crate) rates: Rates,
    /// How many rates of a range to go through
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) steps: u32,
    /// Legitimate sources, each of which sends 50 packets a second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) sources: u32,
    /// Bytes of payload in a packet: 160 for 20 ms of G.711
    #[arg(long, default_value_t = 160)]
    pub(crate) payload: usize,
    /// How long each flood takes
    #[arg(long, default_value = "1s", value_parser = values::duration)]
    pub(crate) duration: Duration,
    /// How often each is measured, in turn with all others
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeats: u32,
    /// How late the sender may be, in the 99th percentile, for a flood to be valid
    #[arg(long, value_parser = values::duration, default_value = "10ms")]
    pub(crate) max_lag: Duration,
    /// Where to write a report with charts, .html or .md; may be repeated
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Vec<PathBuf>,
}

/// A report.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Records: .json files of earlier runs
    #[arg(required = true, value_name = "RECORD")]
    pub(crate) records: Vec<PathBuf>,
    /// Where to write it: .html .md .csv .json .xml; may be repeated
    #[arg(long, short, value_name = "FILE", default_value = "report.html")]
    pub(crate) output: Vec<PathBuf>,
}
