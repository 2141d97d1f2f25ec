//! The options of `capture`.

use super::values;
use crate::capture::Assumed;
use std::path::PathBuf;

/// Analyse SIP and RTP in captures: message times, delays, retransmissions, losses, RTP
/// interarrival times and jitter.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CaptureArgs {
    /// Captures, pcap or pcapng, also compressed by gzip; `-` is the standard input. Each is
    /// analysed separately, since the clocks of two machines differ, unless --join is given.
    #[arg(required_unless_present = "interface", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Analyse the captures of several machines as one, by the clock of the first; the offset of
    /// another clock comes from datagrams that are in two captures. Each datagram counts once.
    #[arg(long, conflicts_with = "interface")]
    pub(crate) join: bool,
    /// Capture from a network interface instead, which needs root; it ends after --duration or by
    /// Ctrl-C.
    #[arg(long, value_name = "NAME", conflicts_with = "files")]
    pub(crate) interface: Option<String>,
    /// The length of the live capture: 10s, 5m.
    #[arg(long, value_name = "TIME", requires = "interface", value_parser = values::duration)]
    pub(crate) duration: Option<sip::Duration>,
    /// The encoding and clock rate of payload types without a session description in the capture:
    /// TYPE=NAME/RATE or TYPE=RATE, such as 111=opus/48000; may be repeated, or separated by
    /// commas.
    #[arg(long, value_name = "TYPE=NAME/RATE", value_delimiter = ',', value_parser = Assumed::parse)]
    pub(crate) rtpmap: Vec<Assumed>,
    /// Print JSON: an array with an object for each file.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the message flow of every call too.
    #[arg(long)]
    pub(crate) calls: bool,
    /// Write a report too, with a ladder diagram of every call; the suffix selects the form: .html
    /// or .md.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
