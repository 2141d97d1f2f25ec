//! The command line.

use crate::impression::{self, Expectation};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use media::Codec;
use net::tls::Trust;
use srtp::Suite;
use srtp::plus::{Placement, Plus, Scheme};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A softphone for the shell: places and takes secure calls. Without a command it has the whole
/// screen.
#[derive(Debug, Parser)]
#[command(name = "barebell-phone", version, about, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) line: LineArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Place a call
    Call(CallArgs),
    /// Wait for calls, and take them
    Answer(AnswerArgs),
    /// Do the steps of a script
    Run(RunArgs),
    /// Look at configuration, network, DNS and account: what works, what does not, and what to do
    Check(CheckArgs),
    /// List the sound devices of this machine
    Devices,
    /// Do what the lines of the standard input say, each a command in JSON
    Control(ControlArgs),
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

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// Who is called, such as sip:bob@example.org or sip:bob@192.0.2.7:5070
    #[arg(value_name = "URI")]
    pub(crate) uri: String,
    /// Hang up so long after the answer, such as 30s; else when the other end does, or at Ctrl-C
    #[arg(long, value_parser = humantime::parse_duration)]
    pub(crate) duration: Option<Duration>,
    #[command(flatten)]
    pub(crate) expected: ExpectedArgs,
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
    pub(crate) expected: ExpectedArgs,
    #[command(flatten)]
    pub(crate) line: LineArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The script (TOML)
    #[arg(value_name = "SCRIPT")]
    pub(crate) script: PathBuf,
    /// Write what came of each step as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) line: LineArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) line: LineArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ControlArgs {
    #[command(flatten)]
    pub(crate) line: LineArgs,
}

/// What is expected of calls.
#[derive(Debug, Args)]
pub(crate) struct ExpectedArgs {
    /// What is to be heard, or the exit status is 21: tone:HERTZ, audio, silence, or dtmf:KEYS;
    /// more than once for more
    #[arg(long, value_name = "WHAT")]
    pub(crate) expect: Vec<Expectation>,
    /// The lowest mean opinion score, such as 4.0
    #[arg(long, value_name = "SCORE", value_parser = impression::mos)]
    pub(crate) min_mos: Option<f64>,
    /// The highest part of the packets that may be lost, such as 1%
    #[arg(long, value_name = "PERCENT", value_parser = impression::loss)]
    pub(crate) max_loss: Option<f64>,
    /// Write what was judged as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
}

impl ExpectedArgs {
    /// All that is expected.
    pub(crate) fn all(&self) -> Vec<Expectation> {
        let mos = self.min_mos.map(Expectation::Mos);
        let loss = self.max_loss.map(Expectation::Loss);
        self.expect.iter().cloned().chain(mos).chain(loss).collect()
    }
}

/// What all commands have.
#[derive(Clone, Debug, Args)]
pub(crate) struct LineArgs {
    /// What is sent: a WAV file, tone:HERTZ, silence, marks whose delay is measured where they come
    /// back, or - for raw samples on the standard input
    #[arg(long, value_name = "WHAT", default_value = "silence")]
    pub(crate) play: String,
    /// Send it before the answer too, as early media; else nothing but silence is sent until then
    #[arg(long)]
    pub(crate) early: bool,
    /// Keep what is heard in a WAV file; - writes raw samples to the standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Use the sound devices of this machine: what is said goes out, unless something is played,
    /// and what comes is heard
    #[arg(long)]
    pub(crate) audio: bool,
    /// The microphone, by its name in `devices` [default: the usual one]
    #[arg(long, value_name = "NAME")]
    pub(crate) microphone: Option<String>,
    /// The speaker, by its name in `devices` [default: the usual one]
    #[arg(long, value_name = "NAME")]
    pub(crate) speaker: Option<String>,
    /// Use the sound devices, and take out of what the microphone hears what the speaker plays, so
    /// that the other end does not hear itself
    #[arg(long)]
    pub(crate) echo_cancel: bool,
    /// Samples in a second of what comes in or goes out raw
    #[arg(long, value_name = "HERTZ", default_value = "8000", value_parser = pcm_rate)]
    pub(crate) pcm_rate: u32,
    /// SRTP: not at all, where the other end knows it too, or not without it
    #[arg(long, value_enum, default_value_t = Srtp::Optional)]
    pub(crate) srtp: Srtp,
    /// The codecs that are offered and taken, the preferred first [default: all are taken, the
    /// usual ones offered]
    #[arg(long, value_name = "CODEC", value_delimiter = ',', value_parser = codec)]
    pub(crate) codecs: Option<Vec<Codec>>,
    /// The suites of SRTP that are offered and taken, the preferred first [default: all are taken,
    /// the usual ones offered]
    #[arg(long, value_name = "SUITE", value_delimiter = ',', value_parser = suite)]
    pub(crate) suites: Option<Vec<Suite>>,
    /// Offer SRTP+, by which forged packets are refused at less cost: sequence, hash, chain or
    /// header, in the header extension, or behind the packet as in hash:trailer
    #[arg(long, value_name = "SCHEME", value_parser = srtp_plus)]
    pub(crate) srtp_plus: Option<Plus>,
    /// A STUN server that tells what ports look like from outside of a NAT, such as
    /// stun.example.org or 192.0.2.1:3478; two of them tell what kind of NAT that is
    #[arg(long, value_name = "HOST")]
    pub(crate) stun: Vec<String>,
    /// Take calls, too, that do not come by the server of an account
    #[arg(long)]
    pub(crate) direct: bool,
    /// Calls at a time that others have begun, whether they ring or stand; who calls beyond that
    /// hears that it is busy
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) incoming: u16,
    /// Send nothing while nobody speaks, where the other end makes comfort noise (RFC 3389); not
    /// with Opus
    #[arg(long)]
    pub(crate) vad: bool,
    /// Tell at the end of a call what each step of SRTP has taken
    #[arg(long)]
    pub(crate) timings: bool,
    /// Print events as JSON, one on a line
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no lines for people but what ends the program
    #[arg(long, conflicts_with = "json")]
    pub(crate) quiet: bool,
    /// How long a call may ring, such as 30s [default: 3m]
    #[arg(long, value_name = "TIME", value_parser = ring_timeout)]
    pub(crate) ring_timeout: Option<Duration>,
    /// The URI that calls and messages without an account are from
    #[arg(long, value_name = "URI", value_parser = from, conflicts_with_all = ["account", "config"])]
    pub(crate) from: Option<String>,
    /// Where to listen for SIP over UDP and TCP, such as 192.0.2.1:5070 or [::]:5060; the latter is
    /// for IPv4, too [default: all addresses; port 5060 to answer, any to call]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Print SIP messages on standard error, without passwords and keys
    #[arg(long)]
    pub(crate) trace: bool,
    /// Write SIP messages, without passwords and keys, and RTP as it is on the wire, for Wireshark
    /// (pcapng)
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// Configuration file with accounts (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The account to call or answer as: its URI, with or without "sip:" [default: the first in the
    /// configuration]
    #[arg(long, value_name = "URI")]
    pub(crate) account: Option<String>,
    /// Where requests of an account go that is in no configuration [default: where its domain
    /// leads]
    #[arg(long, value_name = "HOST", requires = "account", conflicts_with = "config")]
    pub(crate) proxy: Option<String>,
    /// What carries its messages: udp, tcp, tls, ws or wss [default: what the DNS says, or the
    /// proxy]
    #[arg(long, value_name = "TRANSPORT", requires = "account", conflicts_with = "config")]
    pub(crate) transport: Option<String>,
    /// Who is trusted to be who they say, over TLS: system, a file with issuers (PEM), or sha256:
    /// and the fingerprint of a certificate [default: tls.trust of the configuration, or system]
    #[arg(long, value_name = "TRUST")]
    pub(crate) trust: Option<Trust>,
    /// Read its password from this descriptor; else it is in the environment, in
    /// BAREBELL_PHONE_PASSWORD
    #[arg(long, value_name = "N", requires = "account", conflicts_with = "config")]
    pub(crate) password_fd: Option<u32>,
}

/// How long a call may ring: a second to a day.
fn ring_timeout(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let allowed = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
    allowed.contains(&time).then_some(time).ok_or("expected 1s to 24h".into())
}

/// A SIP URI with a user, with or without `sip:`.
fn from(text: &str) -> Result<String, String> {
    let uri = crate::config::with_scheme(text);
    match sip::Uri::parse(uri.as_bytes()) {
        Ok(sip::Uri::Sip(parsed)) if parsed.user.is_some() && !uri.contains(['<', '>', '?']) => {
            Ok(uri)
        }
        _ => Err("expected a URI such as sip:alice@example.org".into()),
    }
}

fn pcm_rate(text: &str) -> Result<u32, String> {
    let rate = text.parse().ok().filter(|rate| [8000, 16_000, 48_000].contains(rate));
    rate.ok_or("expected 8000, 16000 or 48000".into())
}

/// The codec of this name.
fn codec(name: &str) -> Result<Codec, String> {
    let mut all = Codec::ALL.iter().copied();
    all.find(|codec| codec.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
        let names: Vec<&str> = Codec::ALL.iter().map(|codec| codec.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// The element of the header extension that SRTP+ stands in.
const PLUS_ELEMENT: u8 = 5;

/// SRTP+ by the name of its scheme, with its place.
fn srtp_plus(text: &str) -> Result<Plus, String> {
    let schemes = [Scheme::SEQUENCE, Scheme::Hash, Scheme::CHAIN, Scheme::Header];
    let (name, placement) = match text.strip_suffix(":trailer") {
        Some(name) => (name, Placement::Trailer),
        None => (text, Placement::Extension(PLUS_ELEMENT)),
    };
    let found = schemes.into_iter().find(|scheme| scheme.name() == name);
    let scheme =
        found.ok_or("expected sequence, hash, chain or header, with :trailer or without")?;
    Ok(Plus { scheme, placement })
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
    fn a_from_is_a_sip_uri_with_a_user() {
        assert_eq!(from("alice@example.org").as_deref(), Ok("sip:alice@example.org"));
        for wrong in ["example.org", "tel:1", "a@b>", "a@b?X=y", ""] {
            assert!(from(wrong).is_err(), "{wrong}");
        }
        assert_eq!(ring_timeout("30s"), Ok(Duration::from_secs(30)));
        assert!(["0s", "2d", "soon"].iter().all(|wrong| ring_timeout(wrong).is_err()));
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
