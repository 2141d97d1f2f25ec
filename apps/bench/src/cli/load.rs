//! The command line options of a load.

use super::values::{self, Shape};
use crate::agents::Place;
use crate::load::arrivals::Spacing;
use crate::load::engine::Settings;
use crate::load::generator::{GeneratorPlan, Part};
use crate::load::links::Sharing;
use crate::measure::{Limits, LoadSpec};
use crate::record::Operation;
use crate::target::Target;
use crate::users::{Users, UsersError};
use crate::voice::MediaKind;
use crate::watch::Subject;
use clap::Args;
use clap::builder::ArgPredicate;
use sip::transaction::Timers;
use sip::{Duration, Transport};
use std::net::IpAddr;
use std::path::PathBuf;

/// The options for the operation, rate and duration of a load.
#[derive(Clone, Debug, Args)]
pub(crate) struct LoadArgs {
    /// The server: HOST:PORT after udp:, tcp:, tls:, ws: or wss:; a domain without a port is
    /// resolved by DNS (NAPTR, SRV)
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: Option<Target>,
    /// A server to start for the measurement: barebell, kamailio, a profile.toml; or
    /// NAME@udp:HOST:PORT for a running one; may be repeated
    #[arg(long, value_name = "SYSTEM")]
    pub(crate) sut: Vec<String>,
    /// Watch these processes of the target: PID[,PID...], ssh:HOST:PID or ssh:HOST:NAME
    #[arg(long, visible_alias = "pid", value_name = "PROCESS")]
    pub(crate) watch: Option<Subject>,
    /// Generate the load on other machines, each with an equal share: ssh:HOST,ssh:HOST and, for
    /// this one too, local
    #[arg(long, value_name = "MACHINE", value_delimiter = ',')]
    pub(crate) agents: Vec<Place>,
    /// Leave the copy of this program on those machines for the next run
    #[arg(long, requires = "agents")]
    pub(crate) keep_agents: bool,
    /// Call this URI, or send OPTIONS to it, without registrations and without a probe before the
    /// load: a user agent, a trunk, SIPp's UAS. Requests go to --target or, without it, to the host
    /// of the URI (run, sweep, limit, media)
    #[arg(long, value_name = "URI", value_parser = values::uri, conflicts_with = "sut")]
    pub(crate) to: Option<String>,
    /// The operation [default: options, with --to invite]
    #[arg(long, value_enum, default_value = "options", hide_default_value = true)]
    #[arg(default_value_if("to", ArgPredicate::IsPresent, "invite"))]
    pub(crate) operation: Operation,
    /// Operations per second [default: 1000, calls 100]
    #[arg(long, value_parser = values::rate)]
    pub(crate) rate: Option<f64>,
    /// The measured time
    #[arg(long, value_parser = values::duration, default_value = "10s")]
    pub(crate) duration: Duration,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) users: UserArgs,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) detail: DetailArgs,
}

/// The options for the users.
#[derive(Clone, Debug, Args)]
pub(crate) struct UserArgs {
    /// The domain of the users [default: the host of the target]
    #[arg(long)]
    pub(crate) domain: Option<String>,
    /// The number of users made from the pattern
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) users: u32,
    /// Names and passwords of the users, with {} or {:06} for a number from 0
    #[arg(long, value_name = "NAME:PASSWORD", default_value = Users::DEFAULT_PATTERN)]
    pub(crate) user_pattern: String,
    /// A file with a name:password on each line, in place of the pattern
    #[arg(long, value_name = "FILE")]
    pub(crate) user_file: Option<PathBuf>,
    /// The server asks for credentials; a run without challenges is invalid
    #[arg(long)]
    pub(crate) auth: bool,
}

/// The options for the details of a load.
#[derive(Clone, Debug, Args)]
pub(crate) struct DetailArgs {
    /// The distribution of arrivals around their mean rate
    #[arg(long, value_enum, default_value_t)]
    pub(crate) arrivals: Spacing,
    /// The rate over time: constant, ramp:FROM, steps:RATE,RATE,... or burst:OPERATIONS/EVERY
    #[arg(long, default_value = "constant")]
    pub(crate) shape: Shape,
    /// Load before the measured time [default: 1s plus, for calls, their holding time]
    #[arg(long, value_parser = values::duration)]
    pub(crate) warmup: Option<Duration>,
    /// Load after the measured time
    #[arg(long, value_parser = values::duration, default_value = "500ms")]
    pub(crate) tail: Duration,
    /// The time to wait for responses after the last start [default: 64 times T1]
    #[arg(long, value_parser = values::duration)]
    pub(crate) drain: Option<Duration>,
    /// The holding time of calls
    #[arg(long, value_parser = values::duration, default_value = "0")]
    pub(crate) hold: Duration,
    /// The ringing time of callees
    #[arg(long, value_parser = values::duration, default_value = "0")]
    pub(crate) ring: Duration,
    /// The requested expiry of registrations
    #[arg(long, value_parser = values::duration, default_value = "1h")]
    pub(crate) expires: Duration,
    /// T1 of RFC 3261: the first retransmission interval
    #[arg(long, value_parser = values::duration, default_value = "500ms")]
    pub(crate) t1: Duration,
    /// The number of threads [default: one per processor, at most one per 20000 operations per
    /// second]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,
    /// Sockets or connections: one per thread, user or operation
    #[arg(long, value_enum, default_value_t)]
    pub(crate) sockets: Sharing,
    /// Send each datagram with its own system call, as most peers do; otherwise those of one length
    /// go together if a thread has one socket (UDP segmentation offload)
    #[arg(long)]
    pub(crate) no_segmentation: bool,
    /// The timer tick of the generator; 0 for no ticks, at a higher CPU cost [default: such that a
    /// thread starts 16 operations per tick, at most 2 ms]
    #[arg(long, value_parser = values::duration)]
    pub(crate) clock: Option<Duration>,
    /// Reuse a nonce with a rising count while the server accepts it, as phones do [default: each
    /// operation is challenged, as in the published figures]
    #[arg(long)]
    pub(crate) reuse_nonces: bool,
    /// A full TLS handshake for each connection, without session resumption
    #[arg(long)]
    pub(crate) no_resumption: bool,
    /// Do not probe the server with OPTIONS before the load
    #[arg(long)]
    pub(crate) no_probe: bool,
    /// Each caller registers before the call
    #[arg(long)]
    pub(crate) register_first: bool,
    /// Calls with audio that the callees send back: CODEC, or CODEC,srtp or CODEC,srtp+; with
    /// --operation invite and --hold (run, sweep, limit, proxy)
    #[arg(long, value_name = "CODEC[,srtp]")]
    pub(crate) media: Option<MediaKind>,
    /// With media: do not measure before the load how many streams the generator itself can send
    /// and receive
    #[arg(long)]
    pub(crate) no_headroom: bool,
    /// The local address of the generator [default: that of the route to the server]
    #[arg(long, value_name = "IP", conflicts_with = "agents")]
    pub(crate) from: Option<IpAddr>,
    /// The number of repeats of the load
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeats: u32,
    /// The time to go on sampling the server after the load, for deferred work [default: 6s for
    /// calls, else 0]
    #[arg(long, value_parser = values::duration)]
    pub(crate) settle: Option<Duration>,
    /// Start the server as a stateless proxy
    #[arg(long)]
    pub(crate) stateless: bool,
    /// The transport to servers that are started: udp, tcp, tls, ws or wss
    #[arg(long, value_name = "TRANSPORT", value_parser = values::transport, default_value = "udp", conflicts_with = "tcp")]
    pub(crate) over: Transport,
    /// The same as --over tcp
    #[arg(long)]
    pub(crate) tcp: bool,
    /// The listening address of servers that are started: an address of this machine that the load
    /// machines reach
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) sut_address: IpAddr,
    /// The network namespace of servers that are started; needs root
    #[arg(long, value_name = "NAME")]
    pub(crate) sut_namespace: Option<String>,
    /// True if requests are retransmitted while no response comes.
    #[arg(skip = true)]
    pub(crate) retransmits: bool,
    /// True if a BYE ends each call.
    #[arg(skip = true)]
    pub(crate) hangs_up: bool,
    /// Threads or processes of servers that are started [default: the default of the server]
    #[arg(long, value_name = "COUNT")]
    pub(crate) sut_workers: Option<u16>,
    /// Collect the times of processing steps from servers that are started and support it
    /// (Barebell)
    #[arg(long)]
    pub(crate) timings: bool,
    /// The highest 99th percentile of the generator's sending delay for a valid run
    #[arg(long, value_parser = values::duration, default_value = "10ms")]
    pub(crate) max_lag: Duration,
    /// The highest share of the processors' time, in percent, that other programs may use on the
    /// machine of the system under test in a valid run
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    pub(crate) max_other_load: f64,
    /// The seed of Poisson arrivals
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl DetailArgs {
    /// Returns the transport to servers that are started.
    pub(crate) const fn transport(&self) -> Transport {
        if self.tcp { Transport::Tcp } else { self.over }
    }

    /// Returns the limits of a valid run.
    pub(crate) fn limits(&self) -> Limits {
        Limits { lag: self.max_lag, others: self.max_other_load / 100.0, ..Limits::default() }
    }

    /// Returns the time to wait for responses after the last start.
    pub(crate) fn drain(&self) -> Duration {
        self.drain.unwrap_or(self.t1.times(64) + Duration::from_millis(500))
    }
}

impl UserArgs {
    /// Returns the users.
    ///
    /// # Errors
    /// [`UsersError`] if the user file or pattern is invalid.
    pub(crate) fn users(&self) -> Result<Users, UsersError> {
        match &self.user_file {
            Some(path) => Users::from_file(path),
            None => Users::from_pattern(&self.user_pattern, self.users as usize),
        }
    }
}

impl LoadArgs {
    /// Returns the rate, or the default of the operation.
    pub(crate) fn rate(&self) -> f64 {
        self.rate.unwrap_or(match self.operation {
            Operation::Invite => 100.0,
            _ => 1000.0,
        })
    }

    /// Applies the URI of `--to`: derives the target from it and disables the probe.
    ///
    /// # Errors
    /// A message if the URI has no usable target, or the operation needs a registrar.
    pub(crate) fn take_to(&mut self) -> Result<(), String> {
        let Some(to) = &self.to else { return Ok(()) };
        if !matches!(self.operation, Operation::Invite | Operation::Options) {
            let name = self.operation.name();
            return Err(format!("--to takes --operation invite or options; {name} needs a server"));
        }
        self.detail.no_probe = true;
        if self.target.is_none() {
            self.target = Some(Target::of_uri(to)?);
        }
        Ok(())
    }

    /// Returns the domain of the users at `target`.
    pub(crate) fn domain_at<'a>(&'a self, target: &'a Target) -> &'a str {
        self.users.domain.as_deref().unwrap_or(&target.host)
    }

    /// Returns the transport to the first system.
    pub(crate) fn transport(&self) -> Transport {
        match &self.target {
            Some(target) => target.transport,
            None => self.detail.transport(),
        }
    }

    /// Returns the load with `rate`.
    pub(crate) fn spec(&self, rate: f64) -> LoadSpec {
        let detail = &self.detail;
        let seconds = self.duration.as_micros() as f64 / 1e6;
        let spacing = match detail.arrivals {
            Spacing::Fixed => "fixed",
            Spacing::Poisson => "poisson",
        };
        let hold = match self.operation {
            Operation::Invite => detail.hold + detail.ring,
            _ => Duration::ZERO,
        };
        LoadSpec {
            operation: self.operation,
            authentication: self.users.auth,
            segments: detail.shape.segments(rate, seconds),
            spacing: detail.arrivals,
            arrivals: match &detail.shape {
                Shape::Constant => spacing.to_owned(),
                shape => format!("{spacing} {shape}"),
            },
            warmup: detail.warmup.unwrap_or(Duration::from_secs(1) + hold),
            tail: detail.tail,
            drain: detail.drain() + hold,
            hold: detail.hold,
            has_registrar: self.to.is_none(),
            seed: detail.seed,
        }
    }

    /// Returns the plan of the generator for `rate` against `target`.
    pub(crate) fn generator(
        &self,
        target: &Target,
        domain: &str,
        users: &Users,
        rate: f64,
    ) -> GeneratorPlan {
        let detail = &self.detail;
        let timers = Timers { t1: detail.t1, ..Timers::default() };
        GeneratorPlan {
            target: target.address,
            settings: Settings {
                salt: random(),
                domain: domain.to_owned(),
                transport: target.transport,
                timers,
                ring: detail.ring,
                hold: detail.hold,
                expires: u32::try_from(detail.expires.as_secs()).unwrap_or(u32::MAX),
                register_first: detail.register_first,
                reuse_nonces: detail.reuse_nonces,
                target: target.address,
                to: self.to.clone(),
                retransmits: detail.retransmits,
                hangs_up: detail.hangs_up,
            },
            users: users.clone(),
            rate,
            workers: detail.workers.map(usize::from),
            sharing: detail.sockets,
            is_segmenting: !detail.no_segmentation,
            is_resuming: !detail.no_resumption,
            tick: detail.clock,
            is_probing: !detail.no_probe,
            local: detail.from,
            part: Part::WHOLE,
        }
    }
}

/// Returns a random number that distinguishes this load from others.
fn random() -> u32 {
    getrandom::u32().unwrap_or_else(|_| std::process::id())
}
