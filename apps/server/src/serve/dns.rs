//! Asking the DNS where to send requests (RFC 3263), through the system's resolver configuration.

use hickory_resolver::TokioResolver;
use hickory_resolver::proto::rr::{RData, RecordType as DnsType};
use sip::Transport;
use sip::locate::{
    Answer, Destination, Families, Locator, Naptr, Query, RecordType, Srv, Step, Target,
};
use std::net::{IpAddr, SocketAddr, UdpSocket};

/// The system's resolver, with its cache.
pub(crate) struct Dns {
    resolver: Option<TokioResolver>,
    transports: Vec<Transport>,
    families: Families,
}

impl Dns {
    /// A resolver for a server that sends on `transports`, over IPv6 only where `has_v6`.
    pub(crate) fn new(transports: Vec<Transport>, has_v6: bool) -> Self {
        let resolver = TokioResolver::builder_tokio().and_then(|builder| builder.build());
        let resolver = resolver
            .inspect_err(|error| {
                crate::log::warn("dns", || {
                    format!("names cannot be looked up, only addresses are reached: {error}")
                });
            })
            .ok();
        let families = if has_v6 { Families::V4First } else { Families::V4 };
        Self { resolver, transports, families }
    }

    /// Where `destination` can be reached, in the order to try; nowhere if the list is empty.
    pub(crate) async fn locate(&self, destination: Destination) -> Vec<Target> {
        let mut locator = Locator::new(destination, &self.transports, self.families);
        loop {
            match locator.step() {
                Step::Query(query) => {
                    let answer = self.ask(&query).await;
                    locator.on_answer(answer, &mut random_below);
                }
                Step::Done(targets) => return targets,
                Step::Failed(_) => return Vec::new(),
            }
        }
    }

    async fn ask(&self, query: &Query) -> Answer {
        let Some(resolver) = &self.resolver else { return Answer::Failure };
        let kind = match query.record {
            RecordType::Naptr => DnsType::NAPTR,
            RecordType::Srv => DnsType::SRV,
            RecordType::A => DnsType::A,
            RecordType::Aaaa => DnsType::AAAA,
        };
        // With a dot at its end a name is not tried in the domains of this machine, which would
        // lead requests for foreign users astray. A name of one label may be one of them.
        let mut name = query.name.clone();
        if name.contains('.') {
            name.push('.');
        }
        let found = match resolver.lookup(name, kind).await {
            Ok(found) => found,
            Err(error) if error.is_no_records_found() => return empty(query.record),
            Err(error) => {
                crate::log::warn("dns", || {
                    format!("the DNS does not answer for {}: {error}", query.name)
                });
                return Answer::Failure;
            }
        };
        let records = found.answers().iter().map(|record| &record.data);
        match query.record {
            RecordType::Naptr => Answer::Naptr(records.filter_map(naptr).collect()),
            RecordType::Srv => Answer::Srv(records.filter_map(srv).collect()),
            RecordType::A | RecordType::Aaaa => {
                Answer::Addresses(records.filter_map(RData::ip_addr).collect())
            }
        }
    }
}

const fn empty(record: RecordType) -> Answer {
    match record {
        RecordType::Naptr => Answer::Naptr(Vec::new()),
        RecordType::Srv => Answer::Srv(Vec::new()),
        RecordType::A | RecordType::Aaaa => Answer::Addresses(Vec::new()),
    }
}

fn naptr(data: &RData) -> Option<Naptr> {
    let RData::NAPTR(found) = data else { return None };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(Naptr {
        order: found.order,
        preference: found.preference,
        flags: text(&found.flags),
        service: text(&found.services),
        replacement: found.replacement.to_utf8(),
    })
}

fn srv(data: &RData) -> Option<Srv> {
    let RData::SRV(found) = data else { return None };
    Some(Srv {
        priority: found.priority,
        weight: found.weight,
        port: found.port,
        target: found.target.to_utf8(),
    })
}

/// A number below `bound`, for sharing out load; not a secret. 0 where the system gives none.
fn random_below(bound: u32) -> u32 {
    getrandom::u32().unwrap_or(0) % bound.max(1)
}

/// The address that this machine sends to `remote` from, by its routes.
pub(crate) fn source_for(remote: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if remote.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
    // Connecting a datagram socket sends nothing.
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(remote).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}
