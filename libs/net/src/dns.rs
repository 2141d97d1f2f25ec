//! DNS look-ups of SIP servers (RFC 3263), with the resolver configuration of the system.

use hickory_resolver::TokioResolver;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, RecordType as DnsType};
use hickory_resolver::system_conf::parse_resolv_conf;
use sip::Transport;
use sip::locate::{
    AddressFamilies, Answer, Destination, LocateStep, Locator, Naptr, Query, RecordType, Srv,
    Target,
};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

/// The name servers of the system.
const SYSTEM: &str = "/etc/resolv.conf";

/// A resolver with its cache. It follows changes of the system's name servers.
pub struct Dns {
    /// The file in the form of resolv.conf(5).
    file: PathBuf,
    configured: Mutex<Configured>,
    transports: Vec<Transport>,
    families: AddressFamilies,
    /// Receives warnings.
    warn: fn(&str),
}

impl Dns {
    /// The system's resolver, for a program that sends on `transports`, in order of preference, to
    /// addresses of `families`. `warn` receives messages about failures of the DNS.
    #[must_use]
    pub fn new(transports: Vec<Transport>, families: AddressFamilies, warn: fn(&str)) -> Self {
        Self::of_file(SYSTEM.into(), transports, families, warn)
    }

    fn of_file(
        file: PathBuf,
        transports: Vec<Transport>,
        families: AddressFamilies,
        warn: fn(&str),
    ) -> Self {
        let dns = Self { file, configured: Mutex::default(), transports, families, warn };
        // The warning comes at the start.
        dns.resolver();
        dns
    }

    /// Returns the resolver with the present name servers. `None` without a name server.
    fn resolver(&self) -> Option<TokioResolver> {
        let text = fs::read(&self.file);
        let mut configured = self.configured.lock().unwrap_or_else(PoisonError::into_inner);
        match text {
            Ok(text) if configured.text.as_ref() == Some(&text) => {}
            Ok(text) => {
                let resolver = resolver_of(&text).inspect_err(|error| self.warn_of(error)).ok();
                *configured = Configured { text: Some(text), resolver };
            }
            // A file that is being replaced changes nothing.
            Err(_) if configured.text.is_some() => {}
            Err(error) => {
                self.warn_of(&error);
                configured.text = Some(Vec::new());
            }
        }
        configured.resolver.clone()
    }

    fn warn_of(&self, error: &dyn std::error::Error) {
        let file = self.file.display();
        (self.warn)(&format!("no DNS, only IP addresses can be reached: {file}: {error}"));
    }

    /// Resolves `destination` to addresses, in the order to be tried. Returns an empty list if
    /// there are none.
    pub async fn locate(&self, destination: Destination) -> Vec<Target> {
        let mut locator = Locator::new(destination, &self.transports, self.families);
        loop {
            match locator.step() {
                LocateStep::Query(query) => {
                    let answer = self.ask(&query).await;
                    locator.on_dns_answer(answer, &mut random_below);
                }
                LocateStep::Done(targets) => return targets,
                LocateStep::Failed(_) => return Vec::new(),
            }
        }
    }

    /// A blocking variant of [`Dns::locate`], for a program without event loop.
    ///
    /// # Errors
    /// The event loop cannot be created.
    pub fn locate_and_wait(&self, destination: Destination) -> io::Result<Vec<Target>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(runtime.block_on(self.locate(destination)))
    }

    async fn ask(&self, query: &Query) -> Answer {
        let Some(resolver) = self.resolver() else { return Answer::Failure };
        let kind = match query.record {
            RecordType::Naptr => DnsType::NAPTR,
            RecordType::Srv => DnsType::SRV,
            RecordType::A => DnsType::A,
            RecordType::Aaaa => DnsType::AAAA,
        };
        // With a final dot the search domains of this machine are not applied to a name. They would
        // misdirect requests for foreign users. A name of one label may need them.
        let mut name = query.name.clone();
        if name.contains('.') {
            name.push('.');
        }
        let found = match resolver.lookup(name, kind).await {
            Ok(found) => found,
            Err(error) if error.is_no_records_found() => return empty(query.record),
            Err(error) => {
                (self.warn)(&format!("the DNS does not answer for {}: {error}", query.name));
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

/// A configuration and its resolver.
#[derive(Default)]
struct Configured {
    /// The text of the configuration. `None` before it is read.
    text: Option<Vec<u8>>,
    resolver: Option<TokioResolver>,
}

/// Returns the resolver with the name servers in `text`.
fn resolver_of(text: &[u8]) -> Result<TokioResolver, NetError> {
    let (config, options) = parse_resolv_conf(text)?;
    let provider = TokioRuntimeProvider::default();
    TokioResolver::builder_with_config(config, provider).with_options(options).build()
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
        replacement: found.replacement.to_ascii(),
    })
}

fn srv(data: &RData) -> Option<Srv> {
    let RData::SRV(found) = data else { return None };
    Some(Srv {
        priority: found.priority,
        weight: found.weight,
        port: found.port,
        target: found.target.to_ascii(),
    })
}

/// A random number below `bound` for load sharing, not for secrets. 0 if the system gives no random
/// number.
fn random_below(bound: u32) -> u32 {
    getrandom::u32().unwrap_or(0) % bound.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
    use sip::locate::Host;
    use std::net::SocketAddr;
    use test_support::dns::{A, NAPTR, SRV, naptr, serve, srv};

    /// A resolver that uses the name server at `server` only.
    fn dns_of(server: SocketAddr) -> Dns {
        let mut connection = ConnectionConfig::udp();
        connection.port = server.port();
        let mut servers = NameServerConfig::udp(server.ip());
        servers.connections = vec![connection];
        let config = ResolverConfig::from_parts(None, Vec::new(), vec![servers]);
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        // No file: the resolver stays.
        let resolver = builder.build().ok();
        let configured = Mutex::new(Configured { text: Some(Vec::new()), resolver });
        let transports = vec![Transport::Udp, Transport::Tcp];
        let (families, warn): (_, fn(&str)) = (AddressFamilies::V4, |text| eprintln!("{text}"));
        Dns { file: PathBuf::new(), configured, transports, families, warn }
    }

    #[test]
    fn changed_name_servers_are_used_without_a_restart() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let warn: fn(&str) = |text| eprintln!("{text}");
        let families = AddressFamilies::V4;
        let dns = Dns::of_file(file.path().into(), vec![Transport::Udp], families, warn);
        assert!(dns.resolver().is_none(), "an empty file names no server");
        fs::write(file.path(), "nameserver 192.0.2.1\n").unwrap();
        assert!(dns.resolver().is_some());
        let text = || dns.configured.lock().unwrap().text.clone().unwrap();
        assert_eq!(text(), b"nameserver 192.0.2.1\n");
        fs::remove_file(file.path()).unwrap();
        assert!(dns.resolver().is_some(), "the last ones are kept");
        fs::write(file.path(), "nameserver 192.0.2.2\n").unwrap();
        assert!(dns.resolver().is_some());
        assert_eq!(text(), b"nameserver 192.0.2.2\n");
    }

    #[test]
    fn a_domain_is_located_by_naptr_srv_and_address_records() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let records = vec![
            ("example.com", NAPTR, naptr(1, "SIP+D2T", "_sip._tcp.example.com")),
            ("example.com", NAPTR, naptr(2, "SIP+D2U", "_sip._udp.example.com")),
            ("_sip._udp.example.com", SRV, srv(2, 5080, "two.example.com")),
            ("_sip._udp.example.com", SRV, srv(1, 5070, "one.example.com")),
            ("_sip._tcp.example.com", SRV, srv(1, 5090, "one.example.com")),
            ("one.example.com", A, vec![192, 0, 2, 1]),
            ("two.example.com", A, vec![192, 0, 2, 2]),
            ("plain.example.com", A, vec![192, 0, 2, 3]),
        ];
        let dns = dns_of(serve(any, records).unwrap());
        let found = |host: &str, transport| {
            let host = Host::parse(host.as_bytes()).unwrap();
            let destination = Destination { host, port: None, transport, sips: false };
            let targets = dns.locate_and_wait(destination).unwrap();
            targets.iter().map(|target| format!("{target:?}")).collect::<Vec<_>>().join(" ")
        };
        let target = |transport, address: &str| {
            format!("{:?}", Target { transport, address: address.parse().unwrap() })
        };
        let (udp, tcp) = (Transport::Udp, Transport::Tcp);
        let (one, two) = (target(udp, "192.0.2.1:5070"), target(udp, "192.0.2.2:5080"));
        assert_eq!(found("example.com", Some(udp)), format!("{one} {two}"));
        assert_eq!(found("example.com", Some(tcp)), target(tcp, "192.0.2.1:5090"));
        assert!(found("example.com", None).starts_with(&target(tcp, "192.0.2.1:5090")), "by NAPTR");
        assert_eq!(found("plain.example.com", Some(udp)), target(udp, "192.0.2.3:5060"));
        assert_eq!(found("nobody.example.com", Some(udp)), "");
    }

    /// `idna_adapter` 1.0.0 has no tables: an encoded name must stay encoded to be queried.
    #[test]
    fn an_encoded_name_is_asked_for_as_it_came() {
        use hickory_resolver::proto::rr::{Name, rdata};
        let encoded = "xn--bcher-kva.example.";
        let found = RData::SRV(rdata::SRV::new(1, 0, 5060, Name::from_ascii(encoded).unwrap()));
        let target = super::srv(&found).unwrap().target;
        assert_eq!(target, encoded);
        assert_eq!(Name::from_utf8(target).unwrap().to_ascii(), encoded);
    }
}
