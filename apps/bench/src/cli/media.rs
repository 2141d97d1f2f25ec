//! The options of simultaneous calls with media.

use super::load::LoadArgs;
use super::output::OutputArgs;
use super::values::{self, Shape};
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
    /// be repeated; all for either or, alone, for both: one with each codec, each with each
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
    /// The rate of these registrations over time: constant, ramp:FROM, or bursts, such as
    /// burst:500/10s
    #[arg(long, value_name = "SHAPE", requires = "registrations")]
    pub(crate) registrations_shape: Option<Shape>,
    /// The local address of the registrations [default: 127.0.0.2 for a server on loopback]
    #[arg(long, value_name = "IP", requires = "registrations")]
    pub(crate) registrations_from: Option<IpAddr>,
    /// Search from the first number of --calls for the highest one without a failed call, with a
    /// maximum packet delay of 90 ms on the observed call, and with processor time left
    #[arg(long)]
    pub(crate) limit: bool,
    /// The repeats that a limit has to pass
    #[arg(long, default_value_t = 1, requires = "limit")]
    pub(crate) confirmations: u32,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) output: OutputArgs,
}

/// The value of `--codecs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Codecs {
    Pair(Pair),
    /// The codec of the caller with each of the callee; `None` for each codec.
    CalleeAll(Option<CodecName>),
    /// Each codec of the caller with one of the callee.
    CallerAll(CodecName),
}

impl FromStr for Codecs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::CalleeAll(None));
        }
        let expected = "expected CALLER,CALLEE, such as PCMU,GSM or PCMU,all, or all";
        Ok(match text.split_once(',').ok_or(expected)? {
            ("all", "all") => Self::CalleeAll(None),
            ("all", callee) => Self::CallerAll(callee.parse()?),
            (caller, "all") => Self::CalleeAll(Some(caller.parse()?)),
            (caller, callee) => {
                Self::Pair(Pair { caller: caller.parse()?, callee: callee.parse()? })
            }
        })
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
        let mut pairs: Vec<Pair> = Vec::new();
        for pair in self.codecs.iter().flat_map(|codecs| codecs.pairs()) {
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        pairs
    }
}

impl Codecs {
    /// Returns the pairs; of a caller's codec first the one with itself, which others are compared
    /// with.
    fn pairs(self) -> Vec<Pair> {
        let with_all = |caller: CodecName| {
            let others = CodecName::all().filter(move |callee| *callee != caller);
            [caller].into_iter().chain(others).map(move |callee| Pair { caller, callee })
        };
        match self {
            Self::Pair(pair) => vec![pair],
            Self::CalleeAll(Some(caller)) => with_all(caller).collect(),
            Self::CalleeAll(None) => CodecName::all().flat_map(with_all).collect(),
            Self::CallerAll(callee) => {
                CodecName::all().map(|caller| Pair { caller, callee }).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_name_pairs_and_rows_of_the_matrix() {
        let pairs = |text: &str| -> Vec<String> {
            let codecs: Codecs = text.parse().expect("codecs");
            codecs.pairs().iter().map(Pair::to_string).collect()
        };
        assert_eq!(pairs("PCMU,GSM"), ["PCMU to GSM"]);
        assert_eq!(
            pairs("pcma,all"),
            [
                "PCMA",
                "PCMA to PCMU",
                "PCMA to G.726-32",
                "PCMA to GSM",
                "PCMA to G.722",
                "PCMA to Opus"
            ]
        );
        assert_eq!(pairs("all,opus").len(), 6);
        assert_eq!(pairs("all,all"), pairs("all"));
        assert_eq!(pairs("all").len(), 36);
        for text in ["", "PCMU", "PCMU,", "all,G.729"] {
            assert!(text.parse::<Codecs>().is_err(), "{text}");
        }
    }
}
