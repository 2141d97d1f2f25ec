//! The options of simultaneous calls with media.

use super::load::LoadArgs;
use super::output::OutputArgs;
use super::values;
use crate::voice::fault::Faults;
use crate::voice::{CodecName, Pair, Protection};
use clap::Args;
use sip::Duration;
use std::net::IpAddr;
use std::str::FromStr;

/// The options of simultaneous calls with media.
#[derive(Debug, Args)]
#[command(mut_arg("rate", |rate| rate.hide(true)))]
#[command(mut_arg("duration", |duration| duration.default_value("60s")))]
pub(crate) struct MediaArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) load: LoadArgs,
    /// The simultaneous calls, several for consecutive steps; calls start at this number divided by
    /// --audio a second
    #[arg(long, value_delimiter = ',', default_value = "10", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub(crate) calls: Vec<u32>,
    /// The length of the audio of a call
    #[arg(long, value_parser = audio, default_value = "60s")]
    pub(crate) audio: Duration,
    /// The codecs of both ends: PCMU, PCMA, G.726-32, GSM, G.722, Opus; several for consecutive
    /// steps
    #[arg(long, value_delimiter = ',', default_value = "PCMU", conflicts_with = "codecs")]
    pub(crate) codec: Vec<CodecName>,
    /// The codecs of the caller and of the callee, which differ, for a server that transcodes; may
    /// be repeated; all: each codec with each other
    #[arg(long, value_name = "CALLER,CALLEE")]
    pub(crate) codecs: Vec<Codecs>,
    /// The protection of packets; several for consecutive steps
    #[arg(long, value_enum, value_delimiter = ',', default_value = "off")]
    pub(crate) srtp: Vec<Protection>,
    /// Faults that callers apply to their own packets: loss=1%,duplicate=1%,reorder=1%,delay=20ms,
    /// jitter=10ms
    #[arg(long, value_name = "FAULTS")]
    pub(crate) fault: Option<Faults>,
    /// The same for the packets that callees send back
    #[arg(long, value_name = "FAULTS")]
    pub(crate) echo_fault: Option<Faults>,
    /// Registrations a second during the load, by a process of its own, of users that do not call
    #[arg(long, value_parser = values::rate)]
    pub(crate) registrations: Option<f64>,
    /// The local address of the registrations [default: 127.0.0.2 for a server on loopback]
    #[arg(long, value_name = "IP", requires = "registrations")]
    pub(crate) registrations_from: Option<IpAddr>,
    /// Search from the first number of --calls for the highest one without a failed call, with a
    /// maximum packet delay of 90 ms on the observed call, and with processor time left
    #[arg(long)]
    pub(crate) limit: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) output: OutputArgs,
}

/// The value of `--codecs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codecs {
    Pair(Pair),
    /// Each codec with each.
    All,
}

impl FromStr for Codecs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let pair =
            text.split_once(',').ok_or("expected CALLER,CALLEE, such as PCMU,GSM, or all")?;
        Ok(Self::Pair(Pair { caller: pair.0.parse()?, callee: pair.1.parse()? }))
    }
}

/// Parses the length of the audio.
fn audio(text: &str) -> Result<Duration, String> {
    values::duration(text).and_then(|audio| match audio {
        audio if audio < Duration::from_secs(1) => Err("expected one second at least".to_owned()),
        audio => Ok(audio),
    })
}

impl MediaArgs {
    /// Returns the pairs of codecs.
    pub(crate) fn pairs(&self) -> Vec<Pair> {
        if self.codecs.is_empty() {
            return self.codec.iter().map(|&codec| Pair { caller: codec, callee: codec }).collect();
        }
        let all = || {
            CodecName::all()
                .flat_map(|caller| CodecName::all().map(move |callee| Pair { caller, callee }))
        };
        let pairs = self.codecs.iter().flat_map(|codecs| match codecs {
            Codecs::Pair(pair) => vec![*pair],
            Codecs::All => all().collect(),
        });
        pairs.collect()
    }
}
