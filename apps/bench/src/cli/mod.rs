//! The command line: commands, options, and their defaults.

pub(crate) mod capture;
pub(crate) mod load;
pub(crate) mod media;
pub(crate) mod output;
pub(crate) mod scenario;
pub(crate) mod seeds;
pub(crate) mod values;

use crate::agents::Place;
use crate::peer::PeerArgs;
use crate::record::Operation;
use capture::CaptureArgs;
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use load::LoadArgs;
use media::MediaArgs;
pub(crate) use output::OutputArgs;
use scenario::ScenarioArgs;
use seeds::SeedsArgs;
use sip::Duration;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use values::{Counts, Rates};

/// Measures the capacity of any SIP server, and reports it.
#[derive(Debug, Parser)]
#[command(name = "barebell-bench", version, about)]
pub(crate) struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Put one load on a server and print the result
    Run(RunArgs),
    /// Rising rates: the curve of achieved rate against offered rate
    Sweep(SweepArgs),
    /// Search for the highest rate without a failure, and confirm it (RFC 7502)
    Limit(LimitArgs),
    /// Registrations in five one-second bursts, with periodic re-registration of each user
    Burst(BurstArgs),
    /// Parallel users with a UDP port each: delays and losses, on an idle and on a busy link
    Qos(QosArgs),
    /// Steps of rising call rate through a proxy, with registration and ringing times
    Proxy(ProxyArgs),
    /// Simultaneous calls with audio that the callees send back: loss, jitter, delay, sound
    Media(MediaArgs),
    /// The same load on several systems in turn, interleaved: ratios with their spread
    Compare(CompareArgs),
    /// The cost of the generator itself, beside the bare exchange of datagrams (and SIPp)
    Cost(CostArgs),
    /// A flood of forged SRTP packets at rising rates, with SRTP alone and with each scheme of
    /// SRTP+
    Srtp(SrtpArgs),
    /// The experiments of the source documents, with the figures of the sources beside ours
    Seeds(SeedsArgs),
    /// A SIPp scenario file (XML): its calls, messages and response times
    Scenario(ScenarioArgs),
    /// Message times, delays, retransmissions and RTP figures from captures (pcap, pcapng)
    Capture(CaptureArgs),
    /// A report of one or several records
    Report(ReportArgs),
    /// Another command with its course in a browser, and its report there when it ends
    Watch(WatchArgs),
    /// A scripted SIP server as a peer for tests
    Peer(PeerArgs),
    /// Generate a share of a load, controlled over standard input; started by --agents
    #[command(hide = true)]
    Agent(AgentArgs),
    /// Write manual pages and shell completions to a folder, for packages
    #[command(hide = true)]
    Extras {
        /// The folder
        folder: PathBuf,
    },
}

/// Writes manual pages and shell completions to `folder`.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write_extras(folder: &Path) -> std::io::Result<()> {
    let name = Cli::command().get_name().to_owned();
    clap_mangen::generate_to(Cli::command(), folder)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Cli::command(), &name, folder)?;
    }
    Ok(())
}

/// The options of the live page.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// The address of the page. Each host that reaches it can read the page
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8088")]
    pub(crate) listen: SocketAddr,
    /// End with the command. Otherwise the page stays until Ctrl-C
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// The command with its options: run, sweep, limit, burst, qos, proxy, media or compare
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) command: Vec<String>,
}

/// The options of an agent.
#[derive(Clone, Debug, Args)]
pub(crate) struct AgentArgs {
    /// Remove this copy of the program at the start
    #[arg(long)]
    pub(crate) remove: bool,
}

/// The options of a single load.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) output: OutputArgs,
}

/// The options of a sweep over rising rates.
#[derive(Debug, Args)]
#[command(mut_arg("rate", |rate| rate.hide(true)))]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) load: LoadArgs,
    /// The rates: LOWEST..HIGHEST, or RATE,RATE,...
    #[arg(long, default_value = "1000..10000")]
    pub(crate) rates: Rates,
    /// The number of rates between the lowest and the highest, both included
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) steps: u32,
    /// The factor between consecutive rates, in place of equal steps
    #[arg(long)]
    pub(crate) factor: Option<f64>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) output: OutputArgs,
}

/// The options of a search for the limit.
#[derive(Debug, Args)]
pub(crate) struct LimitArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) load: LoadArgs,
    /// The precision of the limit in percent
    #[arg(long, default_value_t = 5.0)]
    pub(crate) precision: f64,
    /// The number of runs that confirm the limit
    #[arg(long, default_value_t = 3)]
    pub(crate) confirmations: u32,
    /// Count a retransmission as a failure
    #[arg(long)]
    pub(crate) no_retransmissions: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) output: OutputArgs,
}

/// The options of registrations in bursts.
#[derive(Debug, Args)]
#[command(mut_arg("rate", |rate| rate.hide(true)))]
pub(crate) struct BurstArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) load: LoadArgs,
    /// The number of registering users; several for consecutive tests
    #[arg(long, value_delimiter = ',', default_value = "6400")]
    pub(crate) registrations: Vec<u32>,
    /// The number of users that exist at servers that are started [default: those that register,
    /// with --calls 200 more]
    #[arg(long, value_name = "COUNT")]
    pub(crate) existing: Option<u32>,
    /// Calls per second beside the bursts, of further users and from a process of its own
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    pub(crate) calls: Option<f64>,
    /// The source address of those calls [default: 127.0.0.2 to a server on loopback, otherwise
    /// that of the route]
    #[arg(long, value_name = "ADDRESS", requires = "calls")]
    pub(crate) calls_from: Option<IpAddr>,
    /// The time over which the users register the first time, at equal distances: a long one is a
    /// slow rise of held registrations
    #[arg(long, value_parser = values::duration, default_value = "5s")]
    pub(crate) rise: Duration,
    /// The time from a registration to the next of the same user
    #[arg(long, value_parser = values::duration, default_value = "60s")]
    pub(crate) interval: Duration,
    /// The time from a failed registration to the next attempt
    #[arg(long, value_parser = values::duration, default_value = "10s")]
    pub(crate) wait: Duration,
    /// The length of the test
    #[arg(long, value_parser = values::duration, default_value = "15m")]
    pub(crate) length: Duration,
    /// The factor for all times: the rise, the interval, the wait, the length
    #[arg(long, default_value_t = 1.0)]
    pub(crate) scale: f64,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) output: OutputArgs,
}

/// The options of parallel users.
#[derive(Debug, Args)]
#[command(mut_arg("rate", |rate| rate.hide(true)))]
pub(crate) struct QosArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) load: LoadArgs,
    /// The number of simultaneous callers (each has its own callee): a list, or FROM..TO for the
    /// steps 1, 10, 50, 100, 200, 300, 500, 700 and 1000 in that range
    #[arg(long, value_name = "COUNTS", default_value = "1..1000")]
    pub(crate) callers: Counts,
    /// The number of repeats of each step
    #[arg(long, default_value_t = 10)]
    pub(crate) repeats_of_step: u32,
    /// Put all callees on another machine, reached over ssh; the callers are here
    #[arg(long, value_name = "ssh:HOST", conflicts_with_all = ["agents", "link"])]
    pub(crate) receiver: Option<Place>,
    /// The rate of a link, such as 100M, between the load and the servers that are started; needs
    /// root [default: none, with --busy 100M]
    #[arg(long, value_name = "BITS", value_parser = values::bits)]
    pub(crate) link: Option<u64>,
    /// Repeat all steps with background traffic: over the link in both directions, to a target in
    /// one direction [default: half of the link]
    #[arg(long, value_name = "BITS", value_parser = values::bits, num_args = 0..=1)]
    pub(crate) busy: Option<Option<u64>>,
    /// The destination of background traffic to a target [default: its port 9]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) busy_target: Option<SocketAddr>,
    /// Capture each repeat on this interface, and take the delays from the captures; needs root
    /// [default: the interface of the link, or lo]
    #[arg(long, value_name = "INTERFACE", num_args = 0..=1)]
    pub(crate) capture: Option<Option<String>>,
    /// Send no BYE: the sessions stay. The operation ends after the holding time
    #[arg(long, conflicts_with_all = ["agents", "receiver"])]
    pub(crate) no_bye: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) output: OutputArgs,
}

/// The options of steps of rising call rate.
#[derive(Debug, Args)]
#[command(mut_arg("rate", |rate| rate.hide(true)))]
pub(crate) struct ProxyArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) load: LoadArgs,
    /// The call rates: LOWEST..HIGHEST, or RATE,RATE,...
    #[arg(long, default_value = "100..1000")]
    pub(crate) rates: Rates,
    /// The number of rates between the lowest and the highest, both included
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) steps: u32,
    /// The factor between consecutive rates, in place of equal steps
    #[arg(long)]
    pub(crate) factor: Option<f64>,
    /// The holding time of each call
    #[arg(long, value_parser = values::duration, default_value = "10s")]
    pub(crate) call: Duration,
    /// The length of the measured middle of each step
    #[arg(long, value_parser = values::duration, default_value = "10m")]
    pub(crate) middle: Duration,
    /// Run all steps, even after a failed one
    #[arg(long)]
    pub(crate) all_steps: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) output: OutputArgs,
}

/// The options of a comparison of several systems.
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
    /// Calls per second [default: --rate if given, else 1000]
    #[arg(long, value_parser = values::rate)]
    pub(crate) call_rate: Option<f64>,
    /// Without and with authentication
    #[arg(long)]
    pub(crate) both: bool,
    /// Measure in addition the bare cost of receiving and sending as many datagrams of the same
    /// lengths without parsing
    #[arg(long)]
    pub(crate) bare: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) output: OutputArgs,
}

/// The options of the measurement of the generator's own cost.
#[derive(Debug, Args)]
pub(crate) struct CostArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) load: LoadArgs,
    /// Measure SIPp in addition, with the same operation against the same peer (register and
    /// invite)
    #[arg(long)]
    pub(crate) sipp: bool,
}

/// The options of floods of forged SRTP packets.
#[derive(Debug, Args)]
pub(crate) struct SrtpArgs {
    /// The crypto suite, by its name in SDP
    #[arg(long, default_value = "AES_CM_128_HMAC_SHA1_80")]
    pub(crate) suite: String,
    /// Forged packets per second: FROM..TO in --steps, or a list with commas
    #[arg(long, default_value = "200000..2000000")]
    pub(crate) rates: Rates,
    /// The number of rates in a range
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) steps: u32,
    /// Legitimate sources, each with 50 packets per second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) sources: u32,
    /// Payload bytes of a packet: 160 for 20 ms of G.711
    #[arg(long, default_value_t = 160)]
    pub(crate) payload: usize,
    /// The length of each flood
    #[arg(long, default_value = "1s", value_parser = values::duration)]
    pub(crate) duration: Duration,
    /// The number of measurements of each flood, interleaved with the others
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeats: u32,
    /// The highest 99th percentile of the sender's delay for a valid flood
    #[arg(long, value_parser = values::duration, default_value = "10ms")]
    pub(crate) max_lag: Duration,
    /// A report file with charts, .html or .md, or .json for the figures alone; may be repeated
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Vec<PathBuf>,
}

/// The options of a report.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Records: .json files of earlier runs
    #[arg(required = true, value_name = "RECORD")]
    pub(crate) records: Vec<PathBuf>,
    /// The report file: .html .md .csv .json .xml; may be repeated
    #[arg(long, short, value_name = "FILE", default_value = "report.html")]
    pub(crate) output: Vec<PathBuf>,
}
