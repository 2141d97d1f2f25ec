//! The parameters of a load of calls with media.

use super::fault::Faults;
use crate::encode::{micros, text, transport};
use crate::load::generator::{local_address, of_tls, share};
use crate::load::links::{LinkError, Tls};
use media::{Codec, MediaConfig, Security};
use serde::{Deserialize, Serialize};
use sip::{Duration, Transport};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// The protection of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
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
    /// ICE and DTLS-SRTP at the callers, as in browsers, and RTP at the callees, for a server that
    /// ends them
    #[value(name = "web-to-off")]
    WebToOff,
    /// The same with SRTP at the callees, keys in the session description
    #[value(name = "web-to-sdes")]
    WebToSdes,
    /// RTP at the callers, and callees as in browsers, over WebSocket
    #[value(name = "off-to-web")]
    OffToWeb,
    /// SRTP at the callers, keys in the session description, and callees as in browsers
    #[value(name = "sdes-to-web")]
    SdesToWeb,
    /// Callers and callees as in browsers, each with ICE and DTLS-SRTP to the server
    Web,
}

/// The protection of packets at an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndProtection {
    Off,
    Sdes,
    Web,
}

impl Protection {
    /// The name on the command line and in records.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Sdes => "sdes",
            Self::SdesPlus => "sdes+plus",
            Self::SdesToOff => "sdes-to-off",
            Self::WebToOff => "web-to-off",
            Self::WebToSdes => "web-to-sdes",
            Self::OffToWeb => "off-to-web",
            Self::SdesToWeb => "sdes-to-web",
            Self::Web => "web",
        }
    }

    const fn of_end(self, is_caller: bool) -> EndProtection {
        use EndProtection::{Off, Sdes, Web};
        let (caller, callee) = match self {
            Self::Off => (Off, Off),
            Self::Sdes | Self::SdesPlus => (Sdes, Sdes),
            Self::SdesToOff => (Sdes, Off),
            Self::WebToOff => (Web, Off),
            Self::WebToSdes => (Web, Sdes),
            Self::OffToWeb => (Off, Web),
            Self::SdesToWeb => (Sdes, Web),
            Self::Web => (Web, Web),
        };
        if is_caller { caller } else { callee }
    }

    /// Returns true if the callers, or the callees, are as in browsers.
    pub(crate) const fn is_web(self, is_caller: bool) -> bool {
        matches!(self.of_end(is_caller), EndProtection::Web)
    }

    /// Returns true if a server between the ends has to end the keys of one of them.
    pub(crate) const fn needs_server(self) -> bool {
        !matches!(self, Self::Off | Self::Sdes | Self::SdesPlus)
    }

    /// Returns the protection of the same packets between the generator's own ends.
    pub(crate) const fn without_server(self) -> Self {
        if self.needs_server() { Self::Sdes } else { self }
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pair {
    #[serde(with = "text")]
    pub(crate) caller: CodecName,
    #[serde(with = "text")]
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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Callees {
    /// The generator's own, called without a server.
    Direct,
    /// The generator's own, registered at a server. Callers register before each call if
    /// `callers_register`.
    Registered { server: SocketAddr, domain: String, callers_register: bool },
    /// Another user agent, at a URI.
    Uri { uri: String, server: SocketAddr },
}

impl Callees {
    /// Returns true if callers register before each call.
    pub(crate) const fn are_called_after_registration(&self) -> bool {
        matches!(self, Self::Registered { callers_register: true, .. })
    }
}

/// The credentials of a user: name and password.
pub(crate) type User = (String, String);

/// The parameters of a load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) callees: Callees,
    /// The transport of the signalling, and its TLS configuration.
    #[serde(with = "transport")]
    pub(crate) transport: Transport,
    #[serde(skip)]
    pub(crate) tls: Option<Tls>,
    /// The local address of signalling and media.
    pub(crate) local: IpAddr,
    /// The pairs of users, a caller and its callee each.
    pub(crate) users: Vec<(User, User)>,
    /// The names of the callees of these callers, if they are not those of the pairs: callees of
    /// several machines.
    pub(crate) called: Vec<String>,
    pub(crate) codecs: Pair,
    pub(crate) protection: Protection,
    /// The simultaneous calls.
    pub(crate) calls: u64,
    /// The calls started per second.
    pub(crate) rate: f64,
    /// The number of calls after which no more are started, if there is a limit.
    pub(crate) most: Option<u64>,
    /// The length of the audio of a call.
    #[serde(with = "micros")]
    pub(crate) audio: Duration,
    /// The time before the measured time, from the first call.
    #[serde(with = "micros")]
    pub(crate) warmup: Duration,
    /// The measured time.
    #[serde(with = "micros")]
    pub(crate) duration: Duration,
    /// The faults on the packets of callers, and on those of callees.
    pub(crate) faults: Faults,
    pub(crate) echo_faults: Faults,
    /// The number of threads; none for one that depends on the calls.
    pub(crate) workers: usize,
    pub(crate) seed: u64,
}

impl Plan {
    /// Returns the share of a machine of several. Its callers call callees of all machines in turn.
    pub(crate) fn share(&self, index: usize, count: usize) -> Self {
        let users_of = |index| share(self.users.len(), index, count);
        let users = self.users[users_of(index)].to_vec();
        let called = (0..users.len()).filter_map(|place| {
            let theirs = self.users.get(users_of((index + place) % count))?;
            let (_, (callee, _)) = theirs.get(place % theirs.len().max(1))?;
            Some(callee.clone())
        });
        let called = match self.callees {
            Callees::Registered { .. } => called.collect(),
            Callees::Direct | Callees::Uri { .. } => Vec::new(),
        };
        let whole = usize::try_from(self.calls).unwrap_or(usize::MAX);
        let calls = share(whole, index, count).len() as u64;
        let rate = self.rate * calls as f64 / self.calls.max(1) as f64;
        let seed = self.seed.wrapping_add(index as u64);
        Self { users, called, calls, rate, seed, workers: 0, ..self.clone() }
    }

    /// Sets what depends on this machine: the local address, the threads, and TLS.
    ///
    /// # Errors
    /// [`LinkError`] if there is no route to the server, or no TLS.
    pub(crate) fn settle(mut self) -> Result<Self, LinkError> {
        let domain = match &self.callees {
            Callees::Registered { server, domain, .. } => Some((*server, domain.clone())),
            Callees::Uri { server, .. } => Some((*server, server.ip().to_string())),
            Callees::Direct => None,
        };
        if let Some((server, domain)) = domain {
            self.local = local_address(server)?;
            self.tls = of_tls(self.transport, &domain, true)?;
        }
        self.workers = enough(self.calls).min(self.users.len());
        Ok(self)
    }

    /// Returns the capabilities of an end with this codec.
    pub(crate) fn media_config(&self, codec: Codec, is_caller: bool) -> MediaConfig {
        let security = match self.protection.of_end(is_caller) {
            EndProtection::Off => Security::Off,
            EndProtection::Sdes | EndProtection::Web => Security::Required,
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
            answers_as_client: true,
            ..MediaConfig::default()
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

    fn plan(calls: u64, users: usize) -> Plan {
        let user = |role: &str, index: usize| (format!("{role}{index}"), String::new());
        Plan {
            callees: Callees::Registered {
                server: "192.0.2.1:5060".parse().expect("an address"),
                domain: "example.com".to_owned(),
                callers_register: true,
            },
            transport: Transport::Tcp,
            tls: None,
            local: "192.0.2.2".parse().expect("an address"),
            users: (0..users).map(|index| (user("a", index), user("b", index))).collect(),
            called: Vec::new(),
            codecs: Pair { caller: CodecName(Codec::Pcmu), callee: CodecName(Codec::G726) },
            protection: Protection::SdesPlus,
            calls,
            rate: calls as f64 / 60.0,
            most: Some(3),
            audio: Duration::from_secs(60),
            warmup: Duration::from_millis(61_500),
            duration: Duration::from_micros(7),
            faults: "loss=1%,jitter=10ms".parse().expect("faults"),
            echo_faults: Faults::default(),
            workers: 2,
            seed: u64::MAX,
        }
    }

    #[test]
    fn a_plan_arrives_at_an_agent_as_it_was_sent() {
        let plan = plan(10, 4);
        let text = serde_json::to_string(&plan).expect("JSON");
        let read: Plan = serde_json::from_str(&text).expect("a plan");
        assert_eq!(format!("{read:?}"), format!("{plan:?}"));
    }

    #[test]
    fn the_shares_of_machines_are_the_whole_load() {
        let plan = plan(100, 7);
        let shares: Vec<Plan> = (0..3).map(|index| plan.share(index, 3)).collect();
        assert_eq!(shares.iter().map(|share| share.calls).sum::<u64>(), 100);
        let rate: f64 = shares.iter().map(|share| share.rate).sum();
        assert!((rate - plan.rate).abs() < 1e-9, "{rate}");
        let users: Vec<_> = shares.iter().flat_map(|share| share.users.clone()).collect();
        assert_eq!(users, plan.users);
        for (index, share) in shares.iter().enumerate() {
            assert_eq!(share.called.len(), share.users.len());
            // The first pair calls its own machine, the next one the next machine.
            assert_eq!(share.called[0], share.users[0].1.0);
            let next = &shares[(index + 1) % 3];
            assert!(next.users.iter().any(|(_, callee)| callee.0 == share.called[1]));
        }
    }

    #[test]
    fn a_load_that_needs_a_server_has_srtp_between_own_ends() {
        use clap::ValueEnum as _;
        for &protection in Protection::value_variants() {
            let value = protection.to_possible_value().expect("a value");
            assert_eq!(value.get_name(), protection.name());
            let alone = protection.without_server();
            assert_eq!(alone == protection, !protection.needs_server(), "{alone:?}");
            assert_eq!(alone.of_end(true), alone.of_end(false), "{alone:?}");
            assert!(!alone.is_web(true) && !alone.is_web(false), "{alone:?}");
        }
    }

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
