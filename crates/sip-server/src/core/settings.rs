//! The configuration with indices for the lookups of the packet path.

use crate::core::config::{Advertised, Config, Joining, Listener, Mode, Network, State};
use crate::core::flow::{Flow, is_inside};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use hashbrown::HashMap;
use sip::uri::TelUri;
use sip::{Host, SipUri, Transport};
use smallvec::SmallVec;

/// A configuration with its indices.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    names: HashMap<Box<[u8]>, u16>,
    addresses: HashMap<IpAddr, u16>,
    /// The keys of `addresses`, in the order of the configuration.
    own: Vec<IpAddr>,
}

/// The trust in the network of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The operator trusts the network: it is not limited, and its assertions are accepted.
    Trusted,
    /// An unknown party.
    Stranger,
}

/// The index of a served domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DomainIndex(u16);

impl DomainIndex {
    pub(crate) const DEFAULT: Self = Self(0);
}

impl Settings {
    pub(crate) fn new(config: Config) -> Self {
        let mut names = HashMap::new();
        let mut addresses = HashMap::new();
        let mut own = Vec::new();
        for (index, domain) in (0u16..).zip(&config.domains) {
            for host in core::iter::once(&domain.name).chain(&domain.aliases) {
                match host.parse::<IpAddr>() {
                    Ok(address) => {
                        addresses.entry(address.to_canonical()).or_insert(index);
                        own.push(address.to_canonical());
                    }
                    Err(_) => {
                        let name = host.to_ascii_lowercase().into_bytes().into_boxed_slice();
                        names.entry(name).or_insert(index);
                    }
                }
            }
        }
        for advertised in &config.advertised {
            let address = advertised.address.ip().to_canonical();
            addresses.entry(address).or_insert(DomainIndex::DEFAULT.0);
        }
        Self { config, names, addresses, own }
    }

    /// Returns the local domain that `host` names, if any.
    pub(crate) fn domain_of(&self, host: &Host<'_>) -> Option<DomainIndex> {
        let index = match host {
            Host::Ip(address) => self.addresses.get(&address.to_canonical()),
            Host::Name(name) => {
                let name = name.strip_suffix(b".").unwrap_or(name);
                // Fast path: usually it is the only domain, in the configured spelling.
                if let Some(domain) = self.config.domains.first()
                    && name == domain.name.as_bytes()
                {
                    return Some(DomainIndex::DEFAULT);
                }
                let lower: SmallVec<[u8; 64]> = name.iter().map(u8::to_ascii_lowercase).collect();
                self.names.get(&lower[..])
            }
        };
        index.copied().map(DomainIndex)
    }

    /// True if `uri` belongs to a domain of another registrar that this server is an edge of. Ports
    /// other than those of SIP are excluded, because the sender is not authenticated and may try to
    /// reach another service.
    pub(crate) fn is_edge_of(&self, uri: &SipUri<'_>) -> bool {
        let is_of_sip = matches!(uri.port, None | Some(5060 | 5061));
        let mut domains = self.config.edge_domains.iter();
        is_of_sip
            && domains.any(|domain| {
                Host::parse(domain.as_bytes()).is_ok_and(|domain| domain.is_equivalent(&uri.host))
            })
    }

    /// The domain of the users that a number may name (RFC 3966 section 5.1.5): the phone-context
    /// of a local number, or `otherwise`. Returns `None` if the number is local to another place.
    pub(crate) fn domain_of_number(
        &self,
        tel: &TelUri<'_>,
        otherwise: DomainIndex,
    ) -> Option<DomainIndex> {
        match tel.params.value("phone-context") {
            Some(context) if !tel.number.starts_with(b"+") => {
                Host::parse(context).ok().and_then(|host| self.domain_of(&host))
            }
            _ => Some(otherwise),
        }
    }

    /// The user that a number names, without visual separators, and the domain from
    /// [`Settings::domain_of_number`].
    pub(crate) fn user_of_number(
        &self,
        tel: &TelUri<'_>,
        otherwise: DomainIndex,
    ) -> Option<(Vec<u8>, DomainIndex)> {
        let domain = self.domain_of_number(tel, otherwise)?;
        let mut number = Vec::new();
        tel.write_canonical_number(&mut number);
        Some((number, domain))
    }

    /// The user that `uri` names, without escapes, and the domain of the user. `domain` is the host
    /// of `uri`. A telephone number names the same user as in a tel URI (RFC 3261 section 19.1.6).
    /// Returns `None` if the URI has no user, or the number is local to another place.
    pub(crate) fn user_of<'u>(
        &self,
        uri: &SipUri<'u>,
        domain: DomainIndex,
    ) -> Option<(Cow<'u, [u8]>, DomainIndex)> {
        let user = sip::uri::unescape(uri.user?);
        // Some phones add `user=phone` to every name.
        if uri.is_phone()
            && let Ok(tel) = TelUri::parse_subscriber(&user)
        {
            let (number, domain) = self.user_of_number(&tel, domain)?;
            return Some((Cow::Owned(number), domain));
        }
        Some((user, domain))
    }

    /// All served domains.
    pub(crate) fn domains(&self) -> impl Iterator<Item = DomainIndex> {
        (0..).zip(&self.config.domains).map(|(index, _)| DomainIndex(index))
    }

    /// True if `value`, of a header field with challenges or credentials, may be parsed as having a
    /// realm of this server.
    pub(crate) fn has_own_realm(&self, value: &[u8]) -> bool {
        let is_own = |realm: &[u8]| {
            let mut domains = self.config.domains.iter();
            domains.any(|domain| realm.eq_ignore_ascii_case(self.realm_of(&domain.name).as_bytes()))
        };
        // No legitimate value has more realms.
        const MOST: usize = 16;
        let mut realms = sip::digest::realms(value);
        realms.by_ref().take(MOST).any(|realm| is_own(&realm)) || realms.next().is_some()
    }

    /// Returns the settings if the server authenticates and messages on `flow` are not trusted.
    /// Challenges for our realms and asserted identities are removed from such messages. Messages
    /// on internal flows have passed this server before.
    pub(crate) fn distrusts(&self, flow: &Flow) -> Option<&Self> {
        let is_known = flow.is_internal() || self.is_trusted(flow);
        (self.config.authentication.required && !is_known).then_some(self)
    }

    /// True if calls may go through the B2BUA of the owner. It is reached only by tokens in
    /// Record-Route.
    pub(crate) fn has_b2bua(&self) -> bool {
        self.config.joining != Joining::Off && self.reaches_b2bua()
    }

    /// True if the B2BUA of the owner can be reached, as calls through trunks need it.
    pub(crate) fn reaches_b2bua(&self) -> bool {
        let Config { mode, state, record_route, .. } = &self.config;
        cfg!(feature = "office")
            && (*mode, *state) == (Mode::Proxy, State::Stateful)
            && *record_route
    }

    /// The digest realm of a domain.
    pub(crate) fn realm(&self, index: DomainIndex) -> &str {
        self.realm_of(self.domain_name(index))
    }

    fn realm_of<'a>(&'a self, domain: &'a str) -> &'a str {
        self.config.authentication.realms.get(domain).map_or(domain, |realm| realm.as_str())
    }

    /// The name of a domain.
    pub(crate) fn domain_name(&self, index: DomainIndex) -> &str {
        self.config.domains.get(usize::from(index.0)).map_or("", |domain| domain.name.as_str())
    }

    /// Returns the domain that `host` and `port` of a SIP URI name, if they name this server.
    /// Another port belongs to another program on the machine.
    pub(crate) fn is_us(&self, host: &Host<'_>, port: Option<u16>) -> Option<DomainIndex> {
        let Config { listeners, advertised, .. } = &self.config;
        let ours = port.is_none_or(|port| {
            listeners.iter().any(|listener| listener.address.port() == port)
                || advertised.iter().any(|advertised| advertised.address.port() == port)
        });
        self.domain_of(host).filter(|_| ours)
    }

    /// True if `address` is known to be an address of this machine. An address that is only
    /// advertised is not: other machines behind the same NAT share it.
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let is_advertised = |advertised: &Advertised| advertised.address.ip() == address;
        self.addresses.contains_key(&address)
            && (!self.config.advertised.iter().any(is_advertised) || self.own.contains(&address))
    }

    /// The external address of the local end of `flow`. There is no translation within this
    /// machine.
    pub(crate) fn called(&self, flow: &Flow) -> SocketAddr {
        let local = flow.local;
        let is_it = |advertised: &&Advertised| {
            let Listener { transport, address } = advertised.listener;
            transport == flow.outer_transport()
                && address.port() == local.port()
                && address.is_ipv4() == local.is_ipv4()
                && (address.ip().is_unspecified() || address.ip() == local.ip())
        };
        match self.config.advertised.iter().find(is_it) {
            Some(advertised) if !flow.remote.ip().is_loopback() => advertised.address,
            _ => local,
        }
    }

    /// The address by which the peer of `flow` reaches this server. A peer that names the address
    /// `said` as its own, in the private network of this server, gets the inner address.
    pub(crate) fn called_by(
        &self,
        flow: &Flow,
        said: impl FnOnce() -> Option<IpAddr>,
    ) -> SocketAddr {
        let outer = self.called(flow);
        if outer != flow.local && is_inside(said(), flow) { flow.local } else { outer }
    }

    /// True if this server listens at `end` on `transport`. Another program may listen there on
    /// another transport.
    pub(crate) fn is_own_end(&self, transport: Transport, end: SocketAddr) -> bool {
        let end = SocketAddr::new(end.ip().to_canonical(), end.port());
        let listens = |listener: &Listener| {
            let ip = listener.address.ip().to_canonical();
            listener.transport == transport
                && listener.address.port() == end.port()
                && (ip == end.ip() || (ip.is_unspecified() && ip.is_ipv4() == end.is_ipv4()))
        };
        let is_outer = |advertised: &Advertised| {
            advertised.listener.transport == transport && advertised.address == end
        };
        let Config { listeners, advertised, .. } = &self.config;
        listeners.iter().any(listens) && self.is_own(end.ip()) || advertised.iter().any(is_outer)
    }

    /// True if messages on `flow` would come back to this server.
    pub(crate) fn leads_here(&self, flow: &Flow) -> bool {
        !flow.is_internal() && self.is_own_end(flow.transport, flow.remote)
    }

    /// True if `address`, at which a message arrived, is not yet known to be ours: it was assigned
    /// to this machine after the start.
    pub(crate) fn is_new(&self, address: IpAddr) -> bool {
        const MOST: usize = 1024;
        !self.is_own(address)
            && crate::core::flow::is_sendable(SocketAddr::new(address, 1))
            && self.addresses.len() < MOST
    }

    /// Returns the same settings with `address` as a further local address, of the default domain.
    pub(crate) fn with_address(&self, address: IpAddr) -> Self {
        let mut settings = self.clone();
        settings.addresses.insert(address.to_canonical(), DomainIndex::DEFAULT.0);
        settings.own.push(address.to_canonical());
        settings
    }

    /// The address that we listen on with `transport`, for the local `address`. A listener with the
    /// exact address is preferred.
    pub(crate) fn listener(&self, transport: Transport, address: IpAddr) -> Option<SocketAddr> {
        let fitting = |exact: bool| {
            self.config.listeners.iter().find(|listener| {
                let ip = listener.address.ip();
                listener.transport == transport
                    && if exact {
                        ip == address
                    } else {
                        ip.is_unspecified() && ip.is_ipv4() == address.is_ipv4()
                    }
            })
        };
        fitting(true)
            .or_else(|| fitting(false))
            .map(|listener| SocketAddr::new(address, listener.address.port()))
    }

    /// The local address for sending to `remote` on `transport`. An address in `near` is preferred,
    /// with its port if we listen on it, because it has proved to be reachable.
    pub(crate) fn local_for(
        &self,
        transport: Transport,
        remote: IpAddr,
        near: &[SocketAddr],
    ) -> Option<SocketAddr> {
        let same_kind = |ip: IpAddr| {
            ip.is_ipv4() == remote.is_ipv4() && ip.is_loopback() == remote.is_loopback()
        };
        let near_ips = near.iter().map(SocketAddr::ip);
        let own = self.own.iter().copied();
        let bound = self.config.listeners.iter().map(|listener| listener.address.ip());
        let all: SmallVec<[IpAddr; 8]> =
            near_ips.chain(bound).chain(own).filter(|ip| !ip.is_unspecified()).collect();
        all.iter()
            .copied()
            .filter(|&ip| same_kind(ip))
            .chain(all.iter().copied().filter(|ip| ip.is_ipv4() == remote.is_ipv4()))
            .find_map(|ip| self.listener_near(transport, ip, near))
    }

    /// Like [`Settings::listener`], with the port of one of `near` if there are several listeners.
    fn listener_near(
        &self,
        transport: Transport,
        address: IpAddr,
        near: &[SocketAddr],
    ) -> Option<SocketAddr> {
        let listens = |port: u16| {
            self.config.listeners.iter().any(|listener| {
                let ip = listener.address.ip();
                let is_there =
                    ip == address || ip.is_unspecified() && ip.is_ipv4() == address.is_ipv4();
                listener.transport == transport && is_there && listener.address.port() == port
            })
        };
        let same = near.iter().find(|near| near.ip() == address && listens(near.port()));
        same.copied().or_else(|| self.listener(transport, address))
    }

    /// The transports of the listeners, in order of preference.
    pub(crate) fn transports(&self) -> Vec<Transport> {
        let mut transports = Vec::new();
        for transport in Transport::ALL {
            let has = self.config.listeners.iter().any(|listener| listener.transport == transport);
            if has {
                transports.push(transport);
            }
        }
        transports
    }

    /// True if the other end of `flow` may relay for a remote client, so that its address does not
    /// show the network of the client: a WebSocket, which usually comes through a web server, or a
    /// connection of a proxy that has not named its client.
    pub(crate) fn is_relayed(&self, flow: &Flow) -> bool {
        match flow.outer_transport() {
            Transport::Ws | Transport::Wss => true,
            Transport::Tcp | Transport::Tls => {
                Network::any_contains(&self.config.limits.proxies, flow.remote.ip())
            }
            _ => false,
        }
    }

    /// Returns the trust in the other end of `flow`.
    pub(crate) fn trust(&self, flow: &Flow) -> Trust {
        let is_named = Network::any_contains(&self.config.limits.trusted, flow.remote.ip());
        match is_named && !self.is_relayed(flow) {
            true => Trust::Trusted,
            false => Trust::Stranger,
        }
    }

    /// True if the other end of `flow`, which is trusted, may give the user `name` in From.
    pub(crate) fn speaks_for(&self, flow: &Flow, name: &[u8]) -> bool {
        let mut speakers = self.config.limits.speakers.iter();
        speakers.any(|speaker| speaker.network.contains(flow.remote.ip()) && speaker.has(name))
    }

    /// True if the other end of `flow` is [`Trust::Trusted`].
    pub(crate) fn is_trusted(&self, flow: &Flow) -> bool {
        self.trust(flow) == Trust::Trusted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::Domain;
    use alloc::string::String;
    use alloc::vec;

    fn settings() -> Settings {
        Settings::new(Config {
            domains: vec![
                Domain {
                    name: String::from("example.com"),
                    aliases: vec![String::from("192.0.2.1"), String::from("2001:db8::1")],
                },
                Domain { name: String::from("other.example"), aliases: vec![] },
            ],
            listeners: vec![
                Listener { transport: Transport::Udp, address: "0.0.0.0:5060".parse().unwrap() },
                Listener { transport: Transport::Tcp, address: "192.0.2.1:5070".parse().unwrap() },
            ],
            ..Config::default()
        })
    }

    #[test]
    fn domains_are_found_by_name_and_address() {
        let settings = settings();
        let name = |host| settings.domain_of(&host).map(|index| settings.domain_name(index));
        assert_eq!(name(Host::Name(b"EXAMPLE.com.")), Some("example.com"));
        assert_eq!(name(Host::Ip("::ffff:192.0.2.1".parse().unwrap())), Some("example.com"));
        assert_eq!(name(Host::Name(b"other.example")), Some("other.example"));
        assert_eq!(name(Host::Name(b"sub.example.com")), None);
    }

    #[test]
    fn a_foreign_port_on_our_address_is_not_us() {
        let settings = settings();
        let host = Host::Ip("192.0.2.1".parse().unwrap());
        assert!(settings.is_us(&host, None).is_some());
        assert!(settings.is_us(&host, Some(5070)).is_some());
        assert!(settings.is_us(&host, Some(5080)).is_none());
    }

    #[test]
    fn where_we_listen_on_one_transport_another_program_may_on_another() {
        use Transport::{Tcp, Udp};
        let settings = settings();
        for (transport, end, expected) in [
            (Udp, "192.0.2.1:5060", true),
            (Udp, "[::ffff:192.0.2.1]:5060", true),
            (Tcp, "192.0.2.1:5060", false),
            (Tcp, "192.0.2.1:5070", true),
            (Udp, "192.0.2.1:5070", false),
            // There is no listener of the other address family.
            (Udp, "[2001:db8::1]:5060", false),
            (Udp, "192.0.2.9:5060", false),
        ] {
            let is_own = settings.is_own_end(transport, end.parse().unwrap());
            assert_eq!(is_own, expected, "{transport:?} {end}");
        }
    }

    #[test]
    fn an_address_that_came_later_is_us() {
        let settings = settings();
        let local = "203.0.113.5".parse().unwrap();
        assert!(settings.is_new(local) && !settings.is_new("192.0.2.1".parse().unwrap()));
        assert!(!settings.is_new("224.0.1.75".parse().unwrap()));
        let settings = settings.with_address(local);
        assert!(!settings.is_new(local));
        let domain = |host, port| settings.is_us(&Host::Ip(host), port);
        assert_eq!(domain(local, Some(5070)), Some(DomainIndex(0)));
        assert_eq!(domain("::ffff:203.0.113.5".parse().unwrap(), None), Some(DomainIndex(0)));
        assert_eq!(domain(local, Some(5080)), None, "another program's port");
        assert_eq!(domain("203.0.113.6".parse().unwrap(), None), None);
        assert_eq!(settings.domain_of(&Host::Ip(local)), Some(DomainIndex(0)));
    }

    #[test]
    fn our_end_is_chosen_by_family_and_nearness() {
        let settings = settings();
        let near = ["198.51.100.7:5060".parse().unwrap()];
        let local =
            |transport, remote: &str| settings.local_for(transport, remote.parse().unwrap(), &near);
        assert_eq!(
            local(Transport::Udp, "203.0.113.1"),
            Some("198.51.100.7:5060".parse().unwrap())
        );
        assert_eq!(local(Transport::Tcp, "203.0.113.1"), Some("192.0.2.1:5070".parse().unwrap()));
        assert_eq!(local(Transport::Udp, "2001:db8::5"), None);
    }

    #[test]
    fn an_advertised_address_means_us_and_is_not_this_machine() {
        let mut config = settings().config;
        let listener = config.listeners[0];
        let address = "198.51.100.9:15060".parse().unwrap();
        config.advertised.push(Advertised { listener, address });
        let settings = Settings::new(config);
        let host = Host::Ip(address.ip());
        assert_eq!(settings.is_us(&host, Some(15060)), Some(DomainIndex::DEFAULT));
        assert_eq!(settings.is_us(&Host::Name(b"example.com"), Some(15060)).map(|i| i.0), Some(0));
        assert_eq!(settings.is_us(&host, Some(15061)), None);
        assert!(settings.is_own_end(Transport::Udp, address) && !settings.is_own(address.ip()));
        assert!(!settings.is_own_end(Transport::Tcp, address));
        let flow = |transport, local: &str, remote: &str| Flow {
            transport,
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            connection: None,
        };
        for (transport, local, remote, called) in [
            (Transport::Udp, "192.0.2.1:5060", "203.0.113.1:5060", "198.51.100.9:15060"),
            (Transport::Udp, "127.0.0.1:5060", "127.0.0.1:5070", "127.0.0.1:5060"),
            (Transport::Tcp, "192.0.2.1:5070", "203.0.113.1:5060", "192.0.2.1:5070"),
            (Transport::Udp, "[2001:db8::1]:5060", "[2001:db8::5]:5060", "[2001:db8::1]:5060"),
        ] {
            let flow = flow(transport, local, remote);
            assert_eq!(settings.called(&flow), called.parse().unwrap(), "{flow:?}");
        }
    }
}
