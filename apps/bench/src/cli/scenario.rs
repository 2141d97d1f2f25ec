//! The options of `scenario`.

use super::values;
use crate::target::Target;
use sip::{Duration, Transport};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Run a SIPp scenario file (XML): calls that send and receive the messages of the file. A scenario
/// that begins with send calls a server, one that begins with recv waits for calls. An element,
/// attribute or keyword that is not known is refused with its line and column; `exec command` is
/// left out on purpose.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ScenarioArgs {
    /// The scenario file
    #[arg(value_name = "FILE.xml")]
    pub(crate) file: PathBuf,
    /// The server: HOST:PORT after udp:, tcp:, tls:, ws: or wss:; a domain without a port is
    /// resolved by DNS
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: Option<Target>,
    /// Start this server, and take it as the target: barebell, kamailio, a profile.toml; its domain
    /// is `[remote_host]`
    #[arg(long, value_name = "SYSTEM", conflicts_with_all = ["target", "to"])]
    pub(crate) sut: Option<String>,
    /// The transport to the started server: udp, tcp, tls, ws or wss
    #[arg(long, value_name = "TRANSPORT", value_parser = values::transport, default_value = "udp")]
    #[arg(requires = "sut")]
    pub(crate) over: Transport,
    /// The started server asks for credentials
    #[arg(long, requires = "sut")]
    pub(crate) auth: bool,
    /// The users of the started server: a file with a name:password on each line [default: 10000
    /// from user000000:secret000000 on]
    #[arg(long, value_name = "FILE", requires = "sut")]
    pub(crate) user_file: Option<PathBuf>,
    /// Threads or processes of the started server [default: the default of the server]
    #[arg(long, value_name = "COUNT", requires = "sut")]
    pub(crate) sut_workers: Option<u16>,
    /// The URI that is called: its user is `[service]`, and its host the target without --target
    #[arg(long, value_name = "URI", value_parser = values::uri)]
    pub(crate) to: Option<String>,
    /// The local address, ADDRESS:PORT after udp:, tcp:, tls:, ws: or wss: [default: an address for
    /// the route to the target, 127.0.0.1 without one, and a free port; to wait for calls port
    /// 5060]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<Target>,
    /// Calls per second, independent of their ends
    #[arg(long, short, default_value = "10", value_parser = values::rate)]
    pub(crate) rate: f64,
    /// End after this number of calls [default: until Ctrl-C or --duration]
    #[arg(long, short = 'm', value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) calls: Option<u64>,
    /// Start calls for this time
    #[arg(long, value_parser = values::duration)]
    pub(crate) duration: Option<Duration>,
    /// The limit of simultaneous calls; a call beyond it is not started, and counted
    #[arg(long, short, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// The number of threads, each with global variables of its own and an equal share of the rate,
    /// the limit, the calls and the lines of files. Callers have a port each; those that wait for
    /// calls share one, and the calls of a source are those of one of them
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    #[arg(conflicts_with_all = ["users", "log", "media"])]
    pub(crate) workers: u16,
    /// The calls are those of this number of users, each with variables of its own; a user has one
    /// call at a time
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) users: Option<u32>,
    /// A file for `[field0]` and so on: SEQUENTIAL, RANDOM or USER in the first line, then values
    /// with semicolons; may be repeated
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) inf: Vec<PathBuf>,
    /// The text of the keyword `[NAME]`; may be repeated
    #[arg(long, num_args = 2, value_names = ["NAME", "TEXT"])]
    pub(crate) key: Vec<String>,
    /// The text of a variable before the first call; may be repeated
    #[arg(long, num_args = 2, value_names = ["VARIABLE", "TEXT"])]
    pub(crate) set: Vec<String>,
    /// The text of `[service]` [default: the user of --to, or "service"]
    #[arg(long, short)]
    pub(crate) service: Option<String>,
    /// The user of `[authentication]` without a username [default: that of the service]
    #[arg(long)]
    pub(crate) auth_user: Option<String>,
    /// The password of `[authentication]` without a password
    #[arg(long, default_value = "password")]
    pub(crate) auth_password: String,
    /// The length of a pause without one
    #[arg(long, default_value = "0", value_parser = values::duration)]
    pub(crate) pause: Duration,
    /// The longest wait for a message at a recv without a timeout [default: no limit]
    #[arg(long, value_parser = values::duration)]
    pub(crate) recv_timeout: Option<Duration>,
    /// The address of media in messages: `[media_ip]` and `[media_port]` [default: the local
    /// address and a free port]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) media: Option<SocketAddr>,
    /// Send received media back to its source
    #[arg(long)]
    pub(crate) rtp_echo: bool,
    /// The number before that of the first `[cseq]`
    #[arg(long, default_value_t = 0)]
    pub(crate) base_cseq: u32,
    /// The number of retransmissions of an INVITE after which a call has failed
    #[arg(long, default_value_t = 5)]
    pub(crate) invite_retransmissions: u32,
    /// The number of retransmissions of another message after which a call has failed
    #[arg(long, default_value_t = 7)]
    pub(crate) other_retransmissions: u32,
    /// Answer INFO, NOTIFY, OPTIONS and UPDATE that the scenario does not expect with 200
    #[arg(long)]
    pub(crate) answer_others: bool,
    /// Do not end a failed call with ACK, BYE or CANCEL
    #[arg(long)]
    pub(crate) leave_failed: bool,
    /// The longest wait for calls in progress after --duration or Ctrl-C
    #[arg(long, default_value = "32s", value_parser = values::duration)]
    pub(crate) drain: Duration,
    /// The file for the texts of log and warning
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// The seed of random numbers [default: another one for each run]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// A report file: .html or .md, or .json for the figures alone; may be repeated
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Vec<PathBuf>,
    /// Print the figures as JSON in place of the tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
