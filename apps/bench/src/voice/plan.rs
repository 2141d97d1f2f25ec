//! The parameters of a load of calls with media.

use super::fault::Faults;
use media::{Codec, MediaConfig, Security};
use sip::Duration;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// The protection of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Protection {
    /// RTP without encryption
    #[default]
    Off,
    /// SRTP with keys in the session description (RFC 4568)
    Sdes,
    /// The same with a tag of SRTP+ in each packet
    #[value(name = "sdes+plus")]
    SdesPlus,
    /// SRTP at the callers and RTP at the callees, for a server that ends the keys
    #[value(name = "sdes-to-off")]
    SdesToOff,
}

impl Protection {
    /// The name on the command line and in records.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Sdes => "sdes",
            Self::SdesPlus => "sdes+plus",
            Self::SdesToOff => "sdes-to-off",
        }
    }
}

/// A codec by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodecName(pub(crate) Codec);

impl CodecName {
    /// All codecs with their names.
    const ALL: [(&'static str, Codec); 6] = [
        ("PCMU", Codec::Pcmu),
        ("PCMA", Codec::Pcma),
        ("G.726-32", Codec::G726),
        ("GSM", Codec::Gsm),
        ("G.722", Codec::G722),
        ("Opus", Codec::Opus),
    ];

    /// All codecs.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().map(|(_, codec)| Self(codec))
    }

    /// The name.
    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, codec)| *codec == self.0).map_or("", |(name, _)| *name)
    }
}

impl FromStr for CodecName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |name: &str| name.to_ascii_lowercase().replace(['.', '-'], "");
        let is_it = |(name, _): &&(&str, Codec)| plain(name).starts_with(&plain(text));
        let exact = Self::ALL.iter().find(|(name, _)| plain(name) == plain(text));
        let short = Self::ALL.iter().find(is_it).filter(|_| text.len() >= 4);
        exact.or(short).map(|(_, codec)| Self(*codec)).ok_or_else(|| {
            let names = Self::ALL.map(|(name, _)| name).join(", ");
            format!("{text}: expected one of {names}; other codecs are not supported")
        })
    }
}

impl fmt::Display for CodecName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The codecs of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) caller: CodecName,
    pub(crate) callee: CodecName,
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.caller == self.callee {
            true => self.caller.fmt(f),
            false => write!(f, "{} to {}", self.caller, self.callee),
        }
    }
}

/// The codec of both ends, and the protection: the value of `--media`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MediaKind {
    pub(crate) codec: CodecName,
    pub(crate) protection: Protection,
}

impl MediaKind {
    /// Returns the codecs of the two ends.
    pub(crate) const fn pair(self) -> Pair {
        Pair { caller: self.codec, callee: self.codec }
    }
}

impl FromStr for MediaKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (codec, protection) = match text.split_once(',') {
            None => (text, Protection::Off),
            Some((codec, "srtp")) => (codec, Protection::Sdes),
            Some((codec, "srtp+")) => (codec, Protection::SdesPlus),
            Some(_) => return Err("expected CODEC, CODEC,srtp or CODEC,srtp+".to_owned()),
        };
        Ok(Self { codec: codec.parse()?, protection })
    }
}

/// The callees of the load.
#[derive(Clone, Debug)]
pub(crate) enum Callees {
    /// The generator's own, called without a server.
    Direct,
    /// The generator's own, registered at a server.
    Registered { server: SocketAddr, domain: String },
    /// Another user agent, at a URI.
    Uri { uri: String, server: SocketAddr },
}

/// The credentials of a user: name and password.
pub(crate) type User = (String, String);

/// The parameters of a load.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) callees: Callees,
    /// The local address of signalling and media.
    pub(crate) local: IpAddr,
    /// The pairs of users, a caller and its callee each.
    pub(crate) users: Vec<(User, User)>,
    pub(crate) codecs: Pair,
    pub(crate) protection: Protection,
    /// The simultaneous calls.
    pub(crate) calls: u64,
    /// The calls started per second.
    pub(crate) rate: f64,
    /// The number of calls after which no more are started, if there is a limit.
    pub(crate) most: Option<u64>,
    /// The length of the audio of a call.
    pub(crate) audio: Duration,
    /// The time before the measured time, from the first call.
    pub(crate) warmup: Duration,
    /// The measured time.
    pub(crate) duration: Duration,
    /// The faults on the packets of callers, and on those of callees.
    pub(crate) faults: Faults,
    pub(crate) echo_faults: Faults,
    pub(crate) workers: usize,
    pub(crate) seed: u64,
}

impl Plan {
    /// Returns the capabilities of an end with this codec.
    pub(crate) fn wishes(&self, codec: Codec, is_caller: bool) -> MediaConfig {
        let security = match self.protection {
            Protection::Off => Security::Off,
            Protection::SdesToOff if !is_caller => Security::Off,
            Protection::Sdes | Protection::SdesPlus | Protection::SdesToOff => Security::Required,
        };
        let plus = (self.protection == Protection::SdesPlus).then_some(srtp::plus::SrtpPlus {
            scheme: srtp::plus::Scheme::Header,
            placement: srtp::plus::Placement::Trailer,
        });
        let suites = vec![srtp::Suite::AesCm128HmacSha1_80];
        let codecs = vec![codec];
        MediaConfig {
            codecs,
            security,
            suites,
            offers_all_codecs: true,
            offers_all_suites: true,
            plus,
        }
    }
}

/// Returns the number of threads for this number of calls, limited by the number of processors.
pub(crate) fn enough(calls: u64) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = calls.div_ceil(200).max(1);
    cores.min(usize::try_from(wanted).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_have_the_names_of_the_field() {
        for (text, codec) in [
            ("PCMU", Codec::Pcmu),
            ("pcma", Codec::Pcma),
            ("G.726-32", Codec::G726),
            ("g726", Codec::G726),
            ("gsm", Codec::Gsm),
            ("G722", Codec::G722),
            ("opus", Codec::Opus),
        ] {
            assert_eq!(text.parse(), Ok(CodecName(codec)), "{text}");
        }
        let kind: MediaKind = "pcma,srtp".parse().expect("a codec with a protection");
        assert_eq!(kind, MediaKind { codec: CodecName(Codec::Pcma), protection: Protection::Sdes });
        assert!("PCMA,zrtp".parse::<MediaKind>().is_err());
        assert!("G.729".parse::<CodecName>().is_err() && "g".parse::<CodecName>().is_err());
    }
}
