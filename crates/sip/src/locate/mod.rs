//! Where to send a request, by DNS: RFC 3263 section 4.
//!
//! A [`Locator`] says what to ask, is given the answers, and ends with a list of [`Target`]s to be
//! tried in order. It serves responses too (section 5), with the host and port of the Via header
//! field and its transport as the explicit one.

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

/// The most queries for one location.
pub const MAX_QUERIES: u8 = 16;
/// A host as it stands in a URI or a Via header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A domain name in lower case, without a dot at the end.
    Name(String),
    /// A numeric address.
    Ip(IpAddr),
}

impl Host {
    /// Parses a name, an IPv4 address or an IPv6 address in brackets or, as some write it, without.
    ///
    /// `None` if it is none of these; a name has letters, digits, `-`, `_` and dots, at most 253.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = str::from_utf8(text).ok()?;
        if let Some(inner) = text.strip_prefix('[') {
            let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Ip(address.into()));
        }
        if let Ok(address) = text.parse() {
            return Some(Self::Ip(address));
        }
        dns::is_name(text).then(|| Self::Name(dns::normal(text)))
    }
}

/// What is to be located.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The `maddr` parameter of the URI, or else its host.
    pub host: Host,
    /// The port, if the URI gives one.
    pub port: Option<u16>,
    /// The transport, if the URI gives one.
    pub transport: Option<Transport>,
    /// Whether it is a SIPS URI: then there is no other transport than TLS.
    pub sips: bool,
}

/// Which families of addresses to use, and which to try first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Families {
    /// IPv4 alone.
    V4,
    /// IPv6 alone.
    V6,
    /// Both, IPv4 first.
    V4First,
    /// Both, IPv6 first.
    V6First,
}

impl Families {
    const fn records(self) -> &'static [RecordType] {
        match self {
            Self::V4 => &[RecordType::A],
            Self::V6 => &[RecordType::Aaaa],
            Self::V4First => &[RecordType::A, RecordType::Aaaa],
            Self::V6First => &[RecordType::Aaaa, RecordType::A],
        }
    }
}

/// One place to send to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// By which transport.
    pub transport: Transport,
    /// Where.
    pub address: SocketAddr,
}

/// What a [`Locator`] wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask this, and give the answer to [`Locator::on_answer`].
    Query(Query),
    /// Try these in order, the next one if a target cannot be reached, is silent, or answers 503
    /// (section 4.3). Never empty.
    Done(Vec<Target>),
    /// There is nowhere to send to.
    Failed(Failure),
}

/// Why there is nowhere to send to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The destination asks for a transport that is not among ours.
    Transport,
    /// DNS has no address for it, or none within [`MAX_QUERIES`].
    NotFound,
    /// A query failed, and the others found nothing. It may be different later.
    Dns,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Transport => "the transport that the destination asks for is not served",
            Self::NotFound => "DNS has no address for the destination",
            Self::Dns => "a DNS query for the destination failed",
        })
    }
}

impl core::error::Error for Failure {}

/// A query that is due, with what its answer is for.
#[derive(Clone, Debug)]
enum Lookup {
    Naptr,
    Srv { transport: Transport, name: String },
    Address { transport: Transport, name: String, port: u16, record: RecordType },
}

/// The search for one destination.
#[derive(Clone, Debug)]
pub struct Locator {
    /// The name that is located, which NAPTR and fallback are asked for.
    name: String,
    /// Those of ours that the destination allows, the preferred first.
    transports: SmallVec<[Transport; 3]>,
    families: Families,
    /// Worked from the front, so that the targets come out in the order of preference.
    pending: VecDeque<Lookup>,
    /// The transport for the name's own addresses, which count if there are no SRV records.
    fallback: Option<Transport>,
    targets: Vec<Target>,
    queries: u8,
    query_failed: bool,
}

impl Locator {
    /// Starts the search for `destination` over the transports `ours`, the preferred first.
    #[must_use]
    pub fn new(destination: Destination, ours: &[Transport], families: Families) -> Self {
        let Destination { host, port, transport, sips } = destination;
        let explicit = match transport {
            // In a SIPS URI transport=tcp means TLS over TCP (RFC 3261 section 26.2.2).
            Some(transport) if sips => transport.secured().or(Some(transport)),
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

    /// What to do now; the same until there is another answer.
    #[must_use]
    pub fn step(&self) -> Step {
        if self.transports.is_empty() {
            return Step::Failed(Failure::Transport);
        }
        match self.pending.front() {
            Some(lookup) if self.is_within_limits() => Step::Query(self.query(lookup)),
            _ if !self.targets.is_empty() => Step::Done(self.targets.clone()),
            _ if self.query_failed => Step::Failed(Failure::Dns),
            _ => Step::Failed(Failure::NotFound),
        }
    }

    /// Takes the answer to the query of [`Locator::step`]; one of another type counts as empty.
    ///
    /// `random(n)` is a number below `n`, every one as likely: it shares the load among servers by
    /// their weights (RFC 2782). A stateless proxy derives it from the request, so that a
    /// retransmission goes the same way (section 4.4).
    pub fn on_answer(&mut self, answer: Answer, random: &mut impl FnMut(u32) -> u32) {
        if !self.is_within_limits() {
            return;
        }
        let Some(lookup) = self.pending.pop_front() else { return };
        self.queries += 1;
        self.query_failed |= answer == Answer::Failure;
        match (lookup, answer) {
            (Lookup::Naptr, Answer::Naptr(records)) => self.on_naptr(records),
            // Resolvers that do not know NAPTR fail on it, and SRV may still be there.
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
        records.sort_by_key(|naptr| (naptr.order, naptr.preference, rank(naptr)));
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

    /// For a SIP URI, UDP where the choice is ours (section 4.1).
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
                // There are no such records: a browser is told where its server is.
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
