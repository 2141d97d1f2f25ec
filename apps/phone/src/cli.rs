//! The command line.

use crate::impression::{self, Expectation};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use media::Codec;
use net::tls::Trust;
use srtp::Suite;
use srtp::plus::{Placement, Scheme, SrtpPlus};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stun::TurnUri;

/// A softphone for the shell: places and takes secure calls. Without a command it starts the
/// full-screen interface.
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
    /// Wait for calls and answer them
    Answer(AnswerArgs),
    /// Run the steps of a script
    Run(RunArgs),
    /// Test configuration, network, DNS and account, and advise on faults
    Check(CheckArgs),
    /// Fetch the settings of an account by a link of a server, and write them to the configuration
    Provision(ProvisionArgs),
    /// List the sound devices of this machine
    Devices,
    /// Execute commands from the standard input, one JSON object per line
    Control(ControlArgs),
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

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The URI to call, such as sip:bob@example.org or sip:bob@192.0.2.7:5070
    #[arg(value_name = "URI")]
    pub(crate) uri: String,
    /// Hang up this long after the answer, such as 30s; by default the call ends when the other end
    /// hangs up, or at Ctrl-C
    #[arg(long, value_parser = humantime::parse_duration)]
    pub(crate) duration: Option<Duration>,
    #[command(flatten)]
    pub(crate) expected: ExpectedArgs,
    #[command(flatten)]
    pub(crate) line: LineArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// Answer calls automatically; otherwise the return key answers each call
    #[arg(long)]
    pub(crate) auto: bool,
    /// Send received sound back
    #[arg(long, conflicts_with = "play")]
    pub(crate) echo: bool,
    /// End after this number of calls; otherwise at Ctrl-C
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
    /// Write the result of each step as JUnit XML
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
pub(crate) struct ProvisionArgs {
    /// The link, as the panel of the server shows it; - reads it from the standard input, so that
    /// no other user of this machine sees it
    #[arg(value_name = "LINK")]
    pub(crate) link: String,
    /// The configuration file (TOML) [default: barebell/phone.toml in the configuration folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The trust anchors of TLS: system, a PEM file of issuers, or sha256: and the fingerprint of a
    /// certificate; they are written to the file, if it has none [default: tls.trust of the
    /// configuration, or system]
    #[arg(long, value_name = "TRUST")]
    pub(crate) trust: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ControlArgs {
    #[command(flatten)]
    pub(crate) line: LineArgs,
}

/// The expectations for calls.
#[derive(Debug, Args)]
pub(crate) struct ExpectedArgs {
    /// Sound that must be received, or the exit status is 21: tone:HERTZ, audio, silence, or
    /// dtmf:KEYS; can be repeated
    #[arg(long, value_name = "WHAT")]
    pub(crate) expect: Vec<Expectation>,
    /// The minimum mean opinion score, such as 4.0
    #[arg(long, value_name = "SCORE", value_parser = impression::mos)]
    pub(crate) min_mos: Option<f64>,
    /// The maximum packet loss, such as 1%
    #[arg(long, value_name = "PERCENT", value_parser = impression::loss)]
    pub(crate) max_loss: Option<f64>,
    /// Write the verdicts as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
}

impl ExpectedArgs {
    /// All expectations.
    pub(crate) fn all(&self) -> Vec<Expectation> {
        let mos = self.min_mos.map(Expectation::Mos);
        let loss = self.max_loss.map(Expectation::Loss);
        self.expect.iter().cloned().chain(mos).chain(loss).collect()
    }
}

/// Options of all commands.
#[derive(Clone, Debug, Args)]
pub(crate) struct LineArgs {
    /// The sound to send: a WAV file, tone:HERTZ, silence, marks to measure the delay of sound that
    /// comes back, or - for raw samples from the standard input
    #[arg(long, value_name = "WHAT", default_value = "silence")]
    pub(crate) play: String,
    /// Send it before the answer, too, as early media; otherwise silence is sent until the answer
    #[arg(long)]
    pub(crate) early: bool,
    /// Record received sound in a WAV file; - writes raw samples to the standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Use the sound devices of this machine: the microphone is sent, unless --play names a sound,
    /// and received sound is played
    #[arg(long)]
    pub(crate) audio: bool,
    /// The microphone, by its name in `devices` [default: the system's default]
    #[arg(long, value_name = "NAME")]
    pub(crate) microphone: Option<String>,
    /// The speaker, by its name in `devices` [default: the system's default]
    #[arg(long, value_name = "NAME")]
    pub(crate) speaker: Option<String>,
    /// Use the sound devices with echo cancellation, so that the other end does not hear itself
    #[arg(long)]
    pub(crate) echo_cancel: bool,
    /// Sample rate of raw input and output
    #[arg(long, value_name = "HERTZ", default_value = "8000", value_parser = pcm_rate)]
    pub(crate) pcm_rate: u32,
    /// Use of SRTP: off, optional if the other end supports it, or required
    #[arg(long, value_enum, default_value_t = Srtp::Optional)]
    pub(crate) srtp: Srtp,
    /// The protocols for SRTP keys to offer and accept, the preferred first: sdes (keys in the
    /// session description), dtls (a handshake with the other end, DTLS-SRTP), zrtp (an exchange
    /// with the other end, whose short string the users compare by voice)
    #[arg(long, value_name = "KEYS", value_enum, value_delimiter = ',', default_value = "sdes")]
    pub(crate) keys: Vec<Keys>,
    /// The codecs to offer and accept, the preferred first [default: accept all, offer the usual
    /// ones]
    #[arg(long, value_name = "CODEC", value_delimiter = ',', value_parser = codec)]
    pub(crate) codecs: Option<Vec<Codec>>,
    /// The SRTP crypto suites to offer and accept, the preferred first [default: accept all, offer
    /// the usual ones]
    #[arg(long, value_name = "SUITE", value_delimiter = ',', value_parser = suite)]
    pub(crate) suites: Option<Vec<Suite>>,
    /// Offer SRTP+, which rejects forged packets at less cost: sequence, hash, chain or header, in
    /// the header extension, or behind the packet as in hash:trailer
    #[arg(long, value_name = "SCHEME", value_parser = srtp_plus)]
    pub(crate) srtp_plus: Option<SrtpPlus>,
    /// A STUN server to learn the public address of ports behind a NAT, such as stun.example.org or
    /// 192.0.2.1:3478; with two of them the kind of NAT is detected
    #[arg(long, value_name = "HOST")]
    pub(crate) stun: Vec<String>,
    /// Use ICE with other ends that know it: the addresses of this machine, those that --stun
    /// reports and those of --turn are tried
    #[arg(long)]
    pub(crate) ice: bool,
    /// A TURN server that relays media if nothing else works, such as turn:turn.example.org,
    /// turn:192.0.2.1:3478?transport=tcp or turns:turn.example.org; can be repeated, includes --ice
    #[arg(long, value_name = "URI", requires = "turn_user")]
    pub(crate) turn: Vec<TurnUri>,
    /// The user at the TURN servers. The password is in the environment variable
    /// BAREBELL_PHONE_TURN_PASSWORD
    #[arg(long, value_name = "NAME", requires = "turn")]
    pub(crate) turn_user: Option<String>,
    /// Read the password for the TURN servers from this file
    #[arg(long, value_name = "FILE", requires = "turn")]
    pub(crate) turn_password_file: Option<PathBuf>,
    /// Accept calls, too, that do not come through the server of an account
    #[arg(long)]
    pub(crate) direct: bool,
    /// Register with a push notification service, by which the server can wake this phone: the
    /// service and the token of the phone there, such as fcm:TOKEN (RFC 8599)
    #[arg(long, value_name = "SERVICE:TOKEN", value_parser = push)]
    pub(crate) push: Option<String>,
    /// Subscribe to the numbers of voice messages at the server of each account
    #[arg(long)]
    pub(crate) messages: bool,
    /// Maximum number of incoming calls at a time, ringing or established; further calls are
    /// answered with 486 Busy Here
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) incoming: u16,
    /// Send nothing during silence if the other end generates comfort noise (RFC 3389); not with
    /// Opus
    #[arg(long)]
    pub(crate) vad: bool,
    /// Print the time of each SRTP step at the end of a call
    #[arg(long)]
    pub(crate) timings: bool,
    /// Print events as JSON, one per line
    #[arg(long)]
    pub(crate) json: bool,
    /// Print no text but the reason why the program ends
    #[arg(long, conflicts_with = "json")]
    pub(crate) quiet: bool,
    /// Time limit for ringing, such as 30s [default: 3m]
    #[arg(long, value_name = "TIME", value_parser = ring_timeout)]
    pub(crate) ring_timeout: Option<Duration>,
    /// The From URI of calls and messages without an account
    #[arg(long, value_name = "URI", value_parser = from, conflicts_with_all = ["account", "config"])]
    pub(crate) from: Option<String>,
    /// Listening address of SIP over UDP and TCP, such as 192.0.2.1:5070 or [::]:5060; the latter
    /// is for IPv4, too [default: all addresses; port 5060 to answer, or another one if it is in
    /// use and there is an account; any to call]
    // `[::]` in the text of `--help` is an address, and no link.
    #[allow(rustdoc::broken_intra_doc_links)]
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Print SIP messages to standard error, without passwords and keys
    #[arg(long)]
    pub(crate) trace: bool,
    /// Write SIP messages, without passwords and keys, and RTP as it is on the wire, for Wireshark
    /// (pcapng)
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// Configuration file with accounts (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The account to call or answer with: its URI, with or without "sip:" [default: the first in
    /// the configuration]
    #[arg(long, value_name = "URI")]
    pub(crate) account: Option<String>,
    /// Outbound proxy of an account that is not in the configuration [default: located by the
    /// domain of the account]
    #[arg(long, value_name = "HOST", requires = "account", conflicts_with = "config")]
    pub(crate) proxy: Option<String>,
    /// Transport of the account's messages: udp, tcp, tls, ws or wss [default: from the DNS, or
    /// from the proxy]
    #[arg(long, value_name = "TRANSPORT", requires = "account", conflicts_with = "config")]
    pub(crate) transport: Option<String>,
    /// The trust anchors of TLS: system, a PEM file of issuers, or sha256: and the fingerprint of a
    /// certificate [default: tls.trust of the configuration, or system]
    #[arg(long, value_name = "TRUST")]
    pub(crate) trust: Option<Trust>,
    /// Read the account's password from this file descriptor; otherwise from the environment
    /// variable BAREBELL_PHONE_PASSWORD
    #[arg(long, value_name = "N", requires = "account", conflicts_with = "config")]
    pub(crate) password_fd: Option<u32>,
}

/// Parses a push notification service with the token of the phone. Returns the parameters of a
/// Contact URI.
fn push(text: &str) -> Result<String, String> {
    let is_good = |text: &str, further: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || further.contains(c))
    };
    match text.split_once(':') {
        Some((service, token)) if is_good(service, "-._") && is_good(token, "-._~/:+$&%") => {
            Ok(format!(";pn-provider={service};pn-prid={token}"))
        }
        _ => Err("expected a service and a token, such as fcm:TOKEN".into()),
    }
}

/// Parses the time limit for ringing: a second to a day.
fn ring_timeout(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let allowed = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
    allowed.contains(&time).then_some(time).ok_or("expected 1s to 24h".into())
}

/// Parses a SIP URI with a user, with or without `sip:`.
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

/// The codec with this name.
fn codec(name: &str) -> Result<Codec, String> {
    let mut all = Codec::ALL.iter().copied();
    all.find(|codec| codec.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
        let names: Vec<&str> = Codec::ALL.iter().map(|codec| codec.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// The id of the header extension element that carries SRTP+ (RFC 8285).
const PLUS_ELEMENT: u8 = 5;

/// Parses an SRTP+ scheme with its placement.
fn srtp_plus(text: &str) -> Result<SrtpPlus, String> {
    let schemes = [Scheme::SEQUENCE, Scheme::Hash, Scheme::CHAIN, Scheme::Header];
    let (name, placement) = match text.strip_suffix(":trailer") {
        Some(name) => (name, Placement::Trailer),
        None => (text, Placement::Extension(PLUS_ELEMENT)),
    };
    let found = schemes.into_iter().find(|scheme| scheme.name() == name);
    let scheme =
        found.ok_or("expected sequence, hash, chain or header, with :trailer or without")?;
    Ok(SrtpPlus { scheme, placement })
}

/// The crypto suite with this name.
fn suite(name: &str) -> Result<Suite, String> {
    Suite::from_name(name).ok_or_else(|| {
        let names = Suite::ALL.map(Suite::name).join(", ");
        format!("expected one of {names}")
    })
}

/// The use of SRTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Srtp {
    Off,
    Optional,
    Required,
}

/// A protocol for the agreement on SRTP keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Keys {
    Sdes,
    Dtls,
    Zrtp,
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
