//! Interactive Connectivity Establishment in session descriptions (RFC 8839).

use crate::{MediaDescription, SessionDescription};
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::str::FromStr;

/// The maximum number of candidates of a medium that are parsed. A browser offers about ten.
const MAX_CANDIDATES: usize = 64;
/// The lengths of a user fragment and of a password (RFC 8839 section 5.4).
const UFRAG: core::ops::RangeInclusive<usize> = 4..=256;
const PASSWORD: core::ops::RangeInclusive<usize> = 22..=256;

/// The parameters of ICE of a medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IceParameters<'a> {
    /// The user fragment (`a=ice-ufrag`). Checks name the medium by it.
    pub ufrag: &'a str,
    /// The password (`a=ice-pwd`) that authenticates checks.
    pub password: &'a str,
    /// True if the author implements ICE lite (`a=ice-lite`): it sends no checks.
    pub is_lite: bool,
    /// True if candidates may follow in later messages (`a=ice-options:trickle`, RFC 8838).
    pub trickles: bool,
    /// True if no candidate follows (`a=end-of-candidates`).
    pub has_all_candidates: bool,
    /// The candidates, in the order of the description, without malformed ones and those of
    /// unknown transports.
    pub candidates: Vec<Candidate<'a>>,
}

/// A candidate (`a=candidate`, RFC 8839 section 5.1): an address at which its author may be
/// reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The foundation: equal for candidates of one type, base and server.
    pub foundation: &'a str,
    /// The component: 1 for RTP, 2 for RTCP on a port of its own.
    pub component: u16,
    /// The transport protocol.
    pub transport: Transport,
    /// The priority: the highest is checked first.
    pub priority: u32,
    /// The address.
    pub address: CandidateAddress<'a>,
    /// The port. 9 for an active TCP candidate, which cannot be connected to.
    pub port: u16,
    /// The type.
    pub kind: CandidateType,
    /// The base of a reflexive candidate, or the mapped address of a relayed one, for diagnosis.
    pub related: Option<SocketAddr>,
}

/// The address of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateAddress<'a> {
    /// An IP address.
    Ip(IpAddr),
    /// A name: that of multicast DNS, with which browsers conceal their address, or another.
    Name(&'a str),
}

/// The transport protocol of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP, to be connected from (RFC 6544).
    TcpActive,
    /// TCP, to be connected to.
    TcpPassive,
    /// TCP, connected from both ends at once.
    TcpSimultaneous,
}

/// The type of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateType {
    /// An address of the host itself.
    Host,
    /// The address that a STUN server sees.
    ServerReflexive,
    /// The address that the peer sees.
    PeerReflexive,
    /// An address of a TURN server.
    Relayed,
}

/// The reason why ICE cannot be used with a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IceError {
    /// There is a user fragment without a password, or the reverse.
    HalfCredentials,
    /// The user fragment has not 4 to 256 letters, digits, `+` and `/`.
    Ufrag,
    /// The password has not 22 to 256 letters, digits, `+` and `/`.
    Password,
}

impl fmt::Display for IceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HalfCredentials => "a=ice-ufrag and a=ice-pwd belong together: one is missing",
            Self::Ufrag => "a=ice-ufrag: expected 4 to 256 letters, digits, `+` and `/`",
            Self::Password => "a=ice-pwd: expected 22 to 256 letters, digits, `+` and `/`",
        })
    }
}

impl Error for IceError {}

/// The reason why a candidate is ignored (RFC 8839 section 5.1): the part of `a=candidate` that is
/// missing, malformed or unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CandidateError {
    /// The foundation has not 1 to 32 letters, digits, `+` and `/`.
    Foundation,
    /// The component is not a number from 1 to 65535.
    Component,
    /// The transport is neither UDP, nor TCP with a known `tcptype`.
    Transport,
    /// The priority is not a number of 32 bits.
    Priority,
    /// There is no address.
    Address,
    /// The port is not a number from 0 to 65535.
    Port,
    /// The type after `typ` is not `host`, `srflx`, `prflx` or `relay`.
    Type,
}

impl fmt::Display for CandidateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a=candidate: expected ")?;
        f.write_str(match self {
            Self::Foundation => "a foundation of 1 to 32 letters, digits, `+` and `/`",
            Self::Component => "a component from 1 to 65535",
            Self::Transport => "UDP, or TCP with tcptype active, passive or so",
            Self::Priority => "a priority of 32 bits",
            Self::Address => "an address",
            Self::Port => "a port from 0 to 65535",
            Self::Type => "typ host, srflx, prflx or relay",
        })
    }
}

impl Error for CandidateError {}

impl<'a> IceParameters<'a> {
    /// The parameters of `media` of `session`; `None` if its author does not offer ICE. Credentials
    /// and options of the session count for media without their own.
    ///
    /// # Errors
    /// The credentials are incomplete or malformed (RFC 8839 section 5.4).
    pub fn of(
        media: &MediaDescription<'a>,
        session: &SessionDescription<'a>,
    ) -> Result<Option<Self>, IceError> {
        let value = |name| media.attributes(name).next().or(session.attributes(name).next());
        let (ufrag, password) = match (value("ice-ufrag"), value("ice-pwd")) {
            (None, None) => return Ok(None),
            (Some(ufrag), Some(password)) => (ufrag, password),
            _ => return Err(IceError::HalfCredentials),
        };
        if !UFRAG.contains(&ufrag.len()) || !ufrag.bytes().all(is_ice_char) {
            return Err(IceError::Ufrag);
        }
        if !PASSWORD.contains(&password.len()) || !password.bytes().all(is_ice_char) {
            return Err(IceError::Password);
        }
        let options = value("ice-options").unwrap_or_default();
        Ok(Some(Self {
            ufrag,
            password,
            is_lite: session.attributes("ice-lite").next().is_some(),
            trickles: options.split_ascii_whitespace().any(|option| option == "trickle"),
            has_all_candidates: value("end-of-candidates").is_some(),
            candidates: media
                .attributes("candidate")
                .take(MAX_CANDIDATES)
                .filter_map(|value| Candidate::parse(value).ok())
                .collect(),
        }))
    }
}

impl<'a> Candidate<'a> {
    /// Parses the value of `a=candidate`. Unknown extensions are ignored.
    ///
    /// # Errors
    /// The first part that is missing or malformed, or an unknown transport or type. Such a
    /// candidate is ignored (RFC 8839 section 5.1).
    pub fn parse(value: &'a str) -> Result<Self, CandidateError> {
        use CandidateError as Expected;
        let mut words = value.split_ascii_whitespace();
        let is_foundation = |word: &&str| word.len() <= 32 && word.bytes().all(is_ice_char);
        let foundation = words.next().filter(is_foundation).ok_or(Expected::Foundation)?;
        let component = number(words.next()).filter(|component: &u16| *component > 0);
        let component = component.ok_or(Expected::Component)?;
        let protocol = words.next().ok_or(Expected::Transport)?;
        let priority = number(words.next()).ok_or(Expected::Priority)?;
        let address = words.next().ok_or(Expected::Address)?;
        let port = number(words.next()).ok_or(Expected::Port)?;
        let label = words.next().filter(|word| word.eq_ignore_ascii_case("typ"));
        let kind = label.and(words.next()).and_then(CandidateType::from_name);
        let kind = kind.ok_or(Expected::Type)?;
        let extension = |name: &str| {
            let mut rest = words.clone();
            while let (Some(found), Some(value)) = (rest.next(), rest.next()) {
                if found.eq_ignore_ascii_case(name) {
                    return Some(value);
                }
            }
            None
        };
        let transport = Transport::from_names(protocol, extension("tcptype"));
        let transport = transport.ok_or(Expected::Transport)?;
        let related = extension("raddr").and_then(|address| address.parse::<IpAddr>().ok());
        let related_port = number(extension("rport"));
        Ok(Self {
            foundation,
            component,
            transport,
            priority,
            address: match address.parse() {
                Ok(address) => CandidateAddress::Ip(address),
                Err(_) => CandidateAddress::Name(address),
            },
            port,
            kind,
            related: related.zip(related_port).map(SocketAddr::from),
        })
    }

    /// The socket address, unless the candidate has a name.
    #[must_use]
    pub const fn socket_address(&self) -> Option<SocketAddr> {
        match self.address {
            CandidateAddress::Ip(address) => Some(SocketAddr::new(address, self.port)),
            CandidateAddress::Name(_) => None,
        }
    }
}

impl fmt::Display for Candidate<'_> {
    /// Writes the value of `a=candidate`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { foundation, component, priority, port, .. } = self;
        let (protocol, tcp_type) = self.transport.names();
        write!(f, "{foundation} {component} {protocol} {priority} ")?;
        match self.address {
            CandidateAddress::Ip(address) => write!(f, "{address}")?,
            CandidateAddress::Name(name) => f.write_str(name)?,
        }
        write!(f, " {port} typ {}", self.kind.name())?;
        if let Some(related) = self.related {
            write!(f, " raddr {} rport {}", related.ip(), related.port())?;
        }
        tcp_type.map_or(Ok(()), |tcp_type| write!(f, " tcptype {tcp_type}"))
    }
}

impl Transport {
    const fn names(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Udp => ("UDP", None),
            Self::TcpActive => ("TCP", Some("active")),
            Self::TcpPassive => ("TCP", Some("passive")),
            Self::TcpSimultaneous => ("TCP", Some("so")),
        }
    }

    fn from_names(protocol: &str, tcp_type: Option<&str>) -> Option<Self> {
        [Self::Udp, Self::TcpActive, Self::TcpPassive, Self::TcpSimultaneous].into_iter().find(
            |it| {
                let (name, kind) = it.names();
                protocol.eq_ignore_ascii_case(name)
                    && kind
                        .is_none_or(|kind| tcp_type.is_some_and(|it| it.eq_ignore_ascii_case(kind)))
            },
        )
    }
}

impl CandidateType {
    const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::ServerReflexive => "srflx",
            Self::PeerReflexive => "prflx",
            Self::Relayed => "relay",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Host, Self::ServerReflexive, Self::PeerReflexive, Self::Relayed]
            .into_iter()
            .find(|kind| name.eq_ignore_ascii_case(kind.name()))
    }
}

fn number<T: FromStr>(word: Option<&str>) -> Option<T> {
    word?.parse().ok()
}

/// Returns true for the characters of credentials and foundations (`ice-char`).
const fn is_ice_char(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;
    use std::format;

    fn of(lines: &str) -> Result<Option<IceParameters<'static>>, IceError> {
        let text = format!("v=0\r\na=ice-lite\r\nm=audio 9 UDP/TLS/RTP/SAVPF 0\r\n{lines}").leak();
        let session = SessionDescription::parse(text.as_bytes()).unwrap();
        IceParameters::of(&session.media[0], &session)
    }

    #[test]
    fn the_parameters_of_a_medium_are_parsed() {
        let ice = of("a=ice-ufrag:4Zcd\r\na=ice-pwd:2/1muCWoOi3uLifh0NuRHlZe\r\n\
            a=ice-options:ice2 trickle\r\n\
            a=candidate:842163049 1 udp 1677729535 203.0.113.5 55996 typ srflx raddr 192.0.2.9 rport 4000 generation 0 network-cost 999\r\n\
            a=candidate:1 1 UDP 2122260223 d9c4a4cf-0f4d-4ab8-a1c4-f0c0a7e0d3b1.local 56143 typ host\r\n\
            a=candidate:2 2 TCP 1518280447 2001:db8::7 9 typ host tcptype active\r\n\
            a=candidate:3 1 SCTP 5 192.0.2.1 9 typ host\r\n\
            a=candidate:4 1 UDP x 192.0.2.1 9 typ host\r\na=end-of-candidates\r\n")
        .unwrap()
        .unwrap();
        assert!(ice.is_lite && ice.trickles && ice.has_all_candidates);
        assert_eq!((ice.ufrag, ice.password), ("4Zcd", "2/1muCWoOi3uLifh0NuRHlZe"));
        let [reflexive, hidden, tcp] = ice.candidates[..] else { panic!("{:?}", ice.candidates) };
        assert_eq!(reflexive.socket_address(), Some("203.0.113.5:55996".parse().unwrap()));
        assert_eq!(reflexive.related, Some("192.0.2.9:4000".parse().unwrap()));
        assert_eq!(reflexive.kind, CandidateType::ServerReflexive);
        assert_eq!((hidden.socket_address(), hidden.transport), (None, Transport::Udp));
        assert_eq!((tcp.transport, tcp.component), (Transport::TcpActive, 2));
    }

    #[test]
    fn credentials_are_complete_or_refused() {
        assert_eq!(of(""), Ok(None));
        assert_eq!(of("a=ice-ufrag:abcd\r\n"), Err(IceError::HalfCredentials));
        let of = |ufrag: &str, password: &str| {
            of(&format!("a=ice-ufrag:{ufrag}\r\na=ice-pwd:{password}\r\n"))
                .map(|found| found.is_some())
        };
        let password = "a".repeat(22);
        assert_eq!(of("abcd", &password), Ok(true));
        assert_eq!(of("abc", &password), Err(IceError::Ufrag));
        assert_eq!(of("ab:d", &password), Err(IceError::Ufrag));
        assert_eq!(of("abcd", &password[1..]), Err(IceError::Password));
        assert_eq!(of("abcd", &"a".repeat(257)), Err(IceError::Password));
    }

    #[test]
    fn the_wrong_part_of_a_candidate_is_named() {
        use CandidateError as Expected;
        assert!(Candidate::parse("1 1 UDP 1 192.0.2.1 9 TYP host").is_ok());
        for (value, expected) in [
            ("", Expected::Foundation),
            ("a-b 1 UDP 1 192.0.2.1 9 typ host", Expected::Foundation),
            ("1 0 UDP 1 192.0.2.1 9 typ host", Expected::Component),
            ("1 1", Expected::Transport),
            ("1 1 SCTP 1 192.0.2.1 9 typ host", Expected::Transport),
            ("1 1 TCP 1 192.0.2.1 9 typ host", Expected::Transport),
            ("1 1 UDP 4294967296 192.0.2.1 9 typ host", Expected::Priority),
            ("1 1 UDP 1", Expected::Address),
            ("1 1 UDP 1 192.0.2.1 65536 typ host", Expected::Port),
            ("1 1 UDP 1 192.0.2.1 9 host", Expected::Type),
            ("1 1 UDP 1 192.0.2.1 9 typ near", Expected::Type),
        ] {
            assert_eq!(Candidate::parse(value), Err(expected), "{value}");
        }
    }

    #[test]
    fn no_more_candidates_than_the_limit_are_kept() {
        let line = "a=candidate:1 1 UDP 1 192.0.2.1 9 typ host\r\n";
        let lines =
            format!("a=ice-ufrag:abcd\r\na=ice-pwd:{}\r\n{}", "a".repeat(22), line.repeat(999));
        assert_eq!(of(&lines).unwrap().unwrap().candidates.len(), MAX_CANDIDATES);
    }

    proptest! {
        #[test]
        fn any_candidate_is_written_as_it_is_parsed(
            value in "[a-z0-9+/]{1,33} [0-9]{1,5} (UDP|tcp) [0-9]{1,10} ([0-9.]{7,11}|[a-z:.]{1,9}) [0-9]{1,5} typ (host|relay|srflx)( raddr 192\\.0\\.2\\.1 rport 5)?( tcptype (so|passive))?"
        ) {
            if let Ok(candidate) = Candidate::parse(&value) {
                let written = candidate.to_string();
                prop_assert_eq!(Candidate::parse(&written), Ok(candidate));
            }
        }
    }
}
