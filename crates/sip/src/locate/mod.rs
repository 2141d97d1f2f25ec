//! Location of SIP servers by DNS (RFC 3263 section 4).
//!
//! A [`Locator`] returns DNS queries, receives the answers, and ends with a list of [`Target`]s to
//! be tried in order. It also locates the destination of responses (section 5), with the host, port
//! and transport of the Via header field.

mod dns;
#[cfg(test)]
mod tests;

pub use dns::{Answer, MAX_TARGETS, Naptr, Query, RecordType, Srv};

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::str;

use smallvec::SmallVec;

use crate::Transport;

/// The maximum number of queries per location.
pub const MAX_QUERIES: u8 = 16;

/// A host of a URI or a Via header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A domain name in lower case, without a trailing dot.
    Name(String),
    /// A numeric address.
    Ip(IpAddr),
}

impl Host {
    /// Parses a name, an IPv4 address, or an IPv6 address with or without brackets. A name consists
    /// of letters, digits, `-`, `_` and dots, at most 253.
    ///
    /// # Errors
    /// [`HostError`] for other text.
    pub fn parse(text: &[u8]) -> Result<Self, HostError> {
        let text = str::from_utf8(text).map_err(|_| HostError::Name)?;
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(HostError::Address)?;
            let address: Ipv6Addr = inner.parse().map_err(|_| HostError::Address)?;
            return Ok(Self::Ip(address.into()));
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Ip(address));
        }
        dns::is_name(text).then(|| Self::Name(dns::normal(text))).ok_or(HostError::Name)
    }
}

/// The reason why a text is not a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostError {
    /// The text in brackets is not an IPv6 address.
    Address,
    /// The text is neither a numeric address nor a domain name.
    Name,
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "the text in brackets is not an IPv6 address",
            Self::Name => "the host is neither an address nor a name",
        })
    }
}

impl core::error::Error for HostError {}

/// A destination to be located.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The `maddr` parameter of the URI, or its host.
    pub host: Host,
    /// The port, if the URI has one.
    pub port: Option<u16>,
    /// The transport, if the URI has one.
    pub transport: Option<Transport>,
    /// True for a SIPS URI, which requires TLS.
    pub sips: bool,
}

/// The address families to use, and their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressFamilies {
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
    /// Both, IPv4 first.
    V4First,
    /// Both, IPv6 first.
    V6First,
}

impl AddressFamilies {
    const fn records(self) -> &'static [RecordType] {
        match self {
            Self::V4 => &[RecordType::A],
            Self::V6 => &[RecordType::Aaaa],
            Self::V4First => &[RecordType::A, RecordType::Aaaa],
            Self::V6First => &[RecordType::Aaaa, RecordType::A],
        }
    }
}

/// An address to send to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The transport.
    pub transport: Transport,
    /// The address.
    pub address: SocketAddr,
}

/// The next step of a [`Locator`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocateStep {
    /// Send this query, and pass the answer to [`Locator::on_dns_answer`].
    Query(Query),
    /// Try these targets in order. The next one is tried if a target is unreachable, does not
    /// respond, or responds 503 (section 4.3). Never empty.
    Done(Vec<Target>),
    /// No target was found.
    Failed(LocateError),
}

/// The reason why no target was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LocateError {
    /// The destination requires a transport that is not available.
    Transport,
    /// DNS has no address, or none within [`MAX_QUERIES`].
    NotFound,
    /// A query failed, and the others found nothing. A later attempt may succeed.
    Dns,
}

impl fmt::Display for LocateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Transport => "the transport that the destination asks for is not served",
            Self::NotFound => "DNS has no address for the destination",
            Self::Dns => "a DNS query for the destination failed",
        })
    }
}

impl core::error::Error for LocateError {}

/// A pending query and the use of its answer.
#[derive(Clone, Debug)]
enum Lookup {
    Naptr,
    Srv { transport: Transport, name: String },
    Address { transport: Transport, name: String, port: u16, record: RecordType },
}

/// The location of one destination.
#[derive(Clone, Debug)]
pub struct Locator {
    /// The name of the destination, for NAPTR and address queries.
    name: String,
    /// The usable transports in order of preference.
    transports: SmallVec<[Transport; 3]>,
    families: AddressFamilies,
    /// A queue, so that the targets are in the order of preference.
    pending: VecDeque<Lookup>,
    /// The transport of the name's own addresses, which are used without SRV records.
    fallback: Option<Transport>,
    targets: Vec<Target>,
    queries: u8,
    query_failed: bool,
}

impl Locator {
    /// Starts the location of `destination` with the transports `ours`, in order of preference.
    #[must_use]
    pub fn new(destination: Destination, ours: &[Transport], families: AddressFamilies) -> Self {
        let Destination { host, port, transport, sips } = destination;
        let explicit = match transport {
            // In a SIPS URI transport=tcp means TLS over TCP (RFC 3261 section 26.2.2).
            Some(transport) if sips => transport.over_tls().or(Some(transport)),
            other => other,
        };
        let mut transports = SmallVec::new();
        for &transport in ours {
            let allowed = explicit.is_none_or(|explicit| explicit == transport)
                && (!sips || transport.is_secure());
            if allowed && !transports.contains(&transport) {
                transports.push(transport);
            }
        }
        let mut locator = Self {
            name: String::new(),
            transports,
            families,
            pending: VecDeque::new(),
            fallback: None,
            targets: Vec::new(),
            queries: 0,
            query_failed: false,
        };
        let Some(default) = locator.default_transport() else { return locator };
        match (host, port) {
            (Host::Ip(ip), port) => {
                let port = port.unwrap_or(default.default_port());
                locator.push_target(default, SocketAddr::new(ip, port));
            }
            (Host::Name(name), Some(port)) => locator.ask_addresses(default, &name, port),
            (Host::Name(name), None) => {
                locator.name = name;
                locator.fallback = Some(default);
                if explicit.is_some() {
                    locator.ask_services();
                } else {
                    locator.pending.push_back(Lookup::Naptr);
                }
            }
        }
        locator
    }

    /// The current step. It does not change until the next answer.
    #[must_use]
    pub fn step(&self) -> LocateStep {
        if self.transports.is_empty() {
            return LocateStep::Failed(LocateError::Transport);
        }
        match self.pending.front() {
            Some(lookup) if self.is_within_limits() => LocateStep::Query(self.query(lookup)),
            _ if !self.targets.is_empty() => LocateStep::Done(self.targets.clone()),
            _ if self.query_failed => LocateStep::Failed(LocateError::Dns),
            _ => LocateStep::Failed(LocateError::NotFound),
        }
    }

    /// Receives the answer to the query of [`Locator::step`]. An answer of another type counts as
    /// empty.
    ///
    /// `random(n)` returns a uniform random number below `n`, which distributes the load by the
    /// servers' weights (RFC 2782). A stateless proxy derives it from the request, so that a
    /// retransmission has the same target (section 4.4).
    pub fn on_dns_answer(&mut self, answer: Answer, random: &mut impl FnMut(u32) -> u32) {
        if !self.is_within_limits() {
            return;
        }
        let Some(lookup) = self.pending.pop_front() else { return };
        self.queries += 1;
        self.query_failed |= answer == Answer::Failure;
        match (lookup, answer) {
            (Lookup::Naptr, Answer::Naptr(records)) => self.on_naptr(records),
            // A resolver without NAPTR support fails. The domain may still have SRV records.
            (Lookup::Naptr, _) => self.ask_services(),
            (Lookup::Srv { transport, .. }, Answer::Srv(records)) if !records.is_empty() => {
                self.fallback = None;
                let later = core::mem::take(&mut self.pending);
                for srv in dns::in_order(records, random) {
                    self.ask_addresses(transport, &srv.target, srv.port);
                }
                self.pending.extend(later);
            }
            (Lookup::Address { transport, port, record, .. }, Answer::Addresses(addresses)) => {
                for ip in addresses {
                    if ip.is_ipv4() == (record == RecordType::A) {
                        self.push_target(transport, SocketAddr::new(ip, port));
                    }
                }
            }
            _ => {}
        }
        if self.pending.is_empty()
            && let Some(transport) = self.fallback.take()
        {
            let name = core::mem::take(&mut self.name);
            self.ask_addresses(transport, &name, transport.default_port());
        }
    }

    fn on_naptr(&mut self, mut records: Vec<Naptr>) {
        let rank = |naptr: &Naptr| {
            let transport = naptr.transport()?;
            self.transports.iter().position(|&ours| ours == transport)
        };
        records.retain(|naptr| naptr.is_terminal() && rank(naptr).is_some());
        records.sort_unstable_by_key(|naptr| (naptr.order, naptr.preference, rank(naptr)));
        records.truncate(MAX_QUERIES.into());
        for naptr in records {
            let Some(transport) = naptr.transport() else { continue };
            if self.pending.is_empty() {
                self.fallback = Some(transport);
            }
            let name = dns::normal(&naptr.replacement);
            self.pending.push_back(Lookup::Srv { transport, name });
        }
        if self.pending.is_empty() {
            self.ask_services();
        }
    }

    fn is_within_limits(&self) -> bool {
        self.queries < MAX_QUERIES && self.targets.len() < MAX_TARGETS
    }

    /// UDP for a SIP URI without a required transport (section 4.1).
    fn default_transport(&self) -> Option<Transport> {
        if self.transports.contains(&Transport::Udp) {
            Some(Transport::Udp)
        } else {
            self.transports.first().copied()
        }
    }

    fn ask_services(&mut self) {
        for &transport in &self.transports {
            let service = match transport {
                Transport::Udp => "_sip._udp",
                Transport::Tcp => "_sip._tcp",
                Transport::Tls => "_sips._tcp",
                // WebSocket has no SRV service: browsers are configured with the server.
                Transport::Ws | Transport::Wss => continue,
            };
            let name = format!("{service}.{}", self.name);
            self.pending.push_back(Lookup::Srv { transport, name });
        }
    }

    fn ask_addresses(&mut self, transport: Transport, name: &str, port: u16) {
        for &record in self.families.records() {
            let name = name.into();
            self.pending.push_back(Lookup::Address { transport, name, port, record });
        }
    }

    fn push_target(&mut self, transport: Transport, address: SocketAddr) {
        let target = Target { transport, address };
        if self.targets.len() < MAX_TARGETS && !self.targets.contains(&target) {
            self.targets.push(target);
        }
    }

    fn query(&self, lookup: &Lookup) -> Query {
        let (record, name) = match lookup {
            Lookup::Naptr => (RecordType::Naptr, &self.name),
            Lookup::Srv { name, .. } => (RecordType::Srv, name),
            Lookup::Address { name, record, .. } => (*record, name),
        };
        Query { record, name: name.clone() }
    }
}
