//! The configuration of the engine, with all defaults and limits.

use crate::core::call_services::Group;
#[cfg(feature = "office")]
use crate::core::media_services::MediaServices;
use crate::core::watching::Watching;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use sip::stream::websocket::ClientField;
use sip::transaction::Timers;
use sip::{Duration, Transport};

/// The handling of a request for a local user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Registers and forwards (RFC 3261 sections 10 and 16).
    Proxy,
    /// Registers, and answers 302 with the contacts (RFC 3261 section 8.3).
    Redirect,
    /// Registers only. Requests to be forwarded are answered 405.
    Registrar,
}

/// The calls whose media are relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relaying {
    /// None.
    Off,
    /// Calls between ends that may not reach each other: of different networks or address
    /// families, or behind different address translations.
    Needed,
    /// All calls.
    All,
}

/// The calls that go through the B2BUA of the owner, on [internal flows](crate::Flow::internal).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joining {
    /// None. The owner needs no B2BUA.
    Off,
    /// Calls that the callee refuses because of their session description: it shares no codec or
    /// no keying with the caller.
    Needed,
    /// All calls.
    All,
}

/// The SRTP keys in the descriptions of relayed calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaKeys {
    /// The keys of the ends pass.
    Passed,
    /// The keys of the ends pass. If the callee refuses the offer, it gets another one: in clear if
    /// the caller has keys, with keys if it has none.
    Converted,
    /// The relay offers keys to every callee, beside media in clear (RFC 8643).
    Offered,
    /// Media of ends with encrypted signalling are encrypted. Others are offered keys.
    Required,
}

/// The use of transactions for forwarded requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Transactions, retransmission, forking (RFC 3261 section 16.2 on).
    Stateful,
    /// One message in, one message out (RFC 3261 section 16.11).
    Stateless,
}

/// A domain that the server is responsible for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The name, in lower case. It is the host of the addresses-of-record of its users. It is also
    /// their digest realm, unless [`Authentication::realms`] has another one.
    pub name: String,
    /// Other host names and IP addresses (IPv6 without brackets) of the domain.
    pub aliases: Vec<String>,
}

/// A transport and an address that the server listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The transport.
    pub transport: Transport,
    /// The address, which may be unspecified (`0.0.0.0`, `::`), and the port.
    pub address: SocketAddr,
}

/// The external address of a listener behind a translation of addresses or ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// The listener.
    pub listener: Listener,
    /// The address and port that peers use, of the same address family.
    pub address: SocketAddr,
}

/// A range of addresses, such as `192.0.2.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// An address in the range.
    pub address: IpAddr,
    /// The length of the prefix in bits.
    pub prefix: u8,
}

impl Network {
    /// True if one of `networks` contains `address`.
    #[must_use]
    pub fn any_contains(networks: &[Self], address: IpAddr) -> bool {
        networks.iter().any(|network| network.contains(address))
    }

    /// True if the range contains `address`.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address.to_canonical(), address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differing = network.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= u32::from(self.prefix.min(32))
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differing = network.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= u32::from(self.prefix.min(128))
            }
            _ => false,
        }
    }
}

/// The registration policy (RFC 3261 section 10), and the reachability of phones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registrar {
    /// A shorter expiry is rejected with 423.
    pub min_expires: Duration,
    /// A longer expiry is reduced to this.
    pub max_expires: Duration,
    /// The expiry of a REGISTER without one.
    pub default_expires: Duration,
    /// The maximum number of contacts of one address-of-record.
    pub max_contacts: usize,
    /// The maximum length in bytes of all contacts of one address-of-record, with their Paths and
    /// instances.
    pub max_bytes: usize,
    /// True if phones that support GRUUs get them (RFC 5627). Phones use them as their contacts, so
    /// all their peers must be able to resolve the domain with the DNS.
    pub gruu: bool,
    /// The interval of keep-alives that is sent in Flow-Timer to phones with flows of RFC 5626 on
    /// streams. Zero sends no Flow-Timer. Phones on UDP send keep-alives more often without it,
    /// because UDP mappings of a NAT expire sooner.
    pub flow_timer: Duration,
    /// Networks of phones that are always reached on the flow of their REGISTER. For phones in
    /// other networks this is detected.
    pub by_flow: Vec<Network>,
    /// Networks of phones that are always reached at the address in their Contact. This list takes
    /// precedence over `by_flow`.
    pub by_contact: Vec<Network>,
}

/// A keep-alive that the server sends to a phone on its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// An empty line, which needs no response (RFC 5626 section 3.5.1).
    EmptyLine,
    /// OPTIONS.
    Options,
}

/// Push notifications to phones that sleep (RFC 8599), which the owner requests.
#[cfg(feature = "office")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// The values of `pn-provider` of the push notification services.
    pub providers: Vec<String>,
    /// The time after its REGISTER for which a phone on UDP is awake. A phone on a connection is
    /// awake while the connection is open.
    pub awake: Duration,
}

/// The authentication of requests (RFC 7616, RFC 8760).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// True if requests are challenged.
    pub required: bool,
    /// The algorithms offered, most preferred first.
    pub algorithms: Vec<sip::digest::Algorithm>,
    /// Prefixes of the User-Agent of phones that fail if another algorithm is offered beside or
    /// before MD5. They are offered MD5 only, if it is among the algorithms.
    pub md5_only_agents: Vec<String>,
    /// The digest realms that differ from the name of the domain, by domain.
    pub realms: BTreeMap<String, String>,
    /// The lifetime of a nonce.
    pub nonce_lifetime: Duration,
    /// The maximum number of nonces with stored counts, in the whole server.
    pub max_nonces: usize,
}

/// Limits on the memory and the work that untrusted peers can cause. Each has a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of addresses-of-record with bindings.
    pub max_registered: usize,
    /// The maximum number of transactions in progress.
    pub max_transactions: usize,
    /// The maximum memory of transactions in progress, in bytes. One untrusted source and one user
    /// may use an eighth of it.
    pub max_transaction_bytes: usize,
    /// The maximum memory of the dialog table, in bytes. The oldest dialogs are dropped when it is
    /// full.
    pub max_dialog_bytes: usize,
    /// The maximum time in the receive queue for a request that begins a dialog or transaction. A
    /// later request is rejected with 503, so that requests in progress are completed. Before that
    /// limit is reached, the server serves fewer new requests: see
    /// [`Throttle`](crate::overload::Throttle). Zero disables both.
    pub max_wait: Duration,
    /// The maximum number of targets of a forked request.
    pub max_forks: usize,
    /// Networks without rate limits and bans. The server accepts their Paths, their asserted
    /// identities and their challenges.
    pub trusted: Vec<Network>,
    /// The names of local users that trusted networks may give in From without a password.
    pub speakers: Vec<Speaker>,
    /// Networks of proxies. Their connections may name the client, with the PROXY protocol or, over
    /// WebSocket, with `proxy_header`.
    pub proxies: Vec<Network>,
    /// The header field for the addresses of clients, which the proxies add.
    pub proxy_header: ClientField,
    /// Private networks that requests from other networks may be sent to. Other private networks
    /// are reached only by requests from the same network, or on the flow of a registered phone.
    pub reachable: Vec<Network>,
    /// The maximum number of requests per second without valid credentials from one source address
    /// (an IPv6 /64). Further ones are dropped. 0 means no limit.
    pub source_rate: u32,
    /// The burst of one source that `source_rate` allows.
    pub source_burst: u32,
    /// The maximum number of requests per second to local users from one source without
    /// credentials. 0 means no limit.
    pub foreign_rate: u32,
    /// The methods that an untrusted source may send to local users outside a dialog without
    /// credentials. ACK and CANCEL are always allowed.
    pub foreign_methods: Vec<String>,
    /// The maximum number of requests per second of one authenticated user. Further ones are
    /// rejected. The burst is four times as high. 0 means no limit.
    pub user_rate: u32,
    /// The number of failed authentications and, on connections, of requests for unknown users from
    /// one source within `ban_window` that ban the source. 0 means no ban.
    pub ban_failures: u32,
    /// The period over which failures are counted.
    pub ban_window: Duration,
    /// The duration of a ban.
    pub ban_time: Duration,
    /// The maximum number of source addresses with stored rates and bans.
    pub max_sources: usize,
}

/// A trusted network that may give names of local users in From: a gateway that returns calls with
/// the numbers of their callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speaker {
    /// The addresses of the network.
    pub network: Network,
    /// Names of users. A name that ends in `*` is a prefix.
    pub names: Vec<String>,
}

impl Speaker {
    /// True if `name`, a user part without escapes, is one of the names.
    #[must_use]
    pub fn has(&self, name: &[u8]) -> bool {
        self.names.iter().any(|known| match known.strip_suffix('*') {
            Some(start) => name.starts_with(start.as_bytes()),
            None => name == known.as_bytes(),
        })
    }
}

/// The configuration of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The handling of requests for local users.
    pub mode: Mode,
    /// The use of transactions.
    pub state: State,
    /// The transports and addresses that the server listens on.
    pub listeners: Vec<Listener>,
    /// The listeners that peers reach at another address.
    pub advertised: Vec<Advertised>,
    /// The domains served; the first is the default.
    pub domains: Vec<Domain>,
    /// Domains of other registrars, in lower case. Their phones register and are reached through
    /// this server (RFC 5626 section 5). Requests to them are forwarded without authentication,
    /// because their registrar authenticates them, and are limited like requests of strangers to
    /// local users.
    pub edge_domains: Vec<String>,
    /// Transaction timers.
    pub timers: Timers,
    /// Timer C: the maximum time that a proxied INVITE may wait for a final or a further
    /// provisional response. More than 3 minutes (RFC 3261 section 16.6 step 11).
    pub timer_c: Duration,
    /// Registration policy.
    pub registrar: Registrar,
    /// Authentication policy.
    pub authentication: Authentication,
    /// True if the proxy stays in the path of the dialogs that it starts (RFC 3261 section 16.6
    /// step 4).
    pub record_route: bool,
    /// The value of the Server header field, empty for none.
    pub server_name: String,
    /// True if the steps of message handling are measured: see
    /// [`Server::timings`](crate::Server::timings).
    pub timings: bool,
    /// The calls whose media are relayed, if the server has a relay.
    pub relaying: Relaying,
    /// The SRTP keys of relayed calls.
    pub media_keys: MediaKeys,
    /// The codecs that offers of relayed calls get, for a conversion.
    pub transcode: Vec<relay::Codec>,
    /// The calls that go through the owner's B2BUA. It serves calls of [`Mode::Proxy`] and
    /// [`State::Stateful`] with `record_route` only.
    pub joining: Joining,
    /// The groups of users. They are called in [`Mode::Proxy`] and [`State::Stateful`] only.
    pub groups: Vec<Group>,
    /// The services of the owner's media server.
    #[cfg(feature = "office")]
    pub media_services: MediaServices,
    /// The display names of callers, by the names of users: they are in the P-Asserted-Identity of
    /// calls to users of this server. Quotes and control characters are not allowed.
    #[cfg(feature = "office")]
    pub caller_names: BTreeMap<Vec<u8>, String>,
    /// The names of users to which other users of this server may send requests for an automatic
    /// answer (Call-Info, Alert-Info, Answer-Mode). A name that ends in `*` is a prefix.
    #[cfg(feature = "office")]
    pub auto_answer: Vec<String>,
    /// True if the owner keeps MESSAGE requests for users without a reachable phone.
    #[cfg(feature = "office")]
    pub keeps_messages: bool,
    /// The push notifications to phones that sleep. `None` if the owner requests none.
    #[cfg(feature = "office")]
    pub push: Option<Push>,
    /// The subscriptions to the states of users, and the pickup of calls.
    pub watching: Watching,
    /// The limits on memory and work.
    pub limits: Limits,
}

impl Default for Registrar {
    fn default() -> Self {
        Self {
            min_expires: Duration::from_secs(60),
            max_expires: Duration::from_secs(7200),
            default_expires: Duration::from_secs(3600),
            gruu: false,
            flow_timer: Duration::from_secs(120),
            max_contacts: 10,
            max_bytes: 16 << 10,
            by_flow: Vec::new(),
            by_contact: Vec::new(),
        }
    }
}

/// These phones evaluate only the first challenge, or fail at a second one: baresip before 4.0,
/// PJSIP before 2.11, and SIPp if its scenario sends a User-Agent.
const MD5_ONLY_AGENTS: [&str; 19] = [
    "baresip v0.",
    "baresip v1.",
    "baresip v2.",
    "baresip v3.",
    "PJSUA v0.",
    "PJSUA v1.",
    "PJSUA v2.0",
    "PJSUA v2.1 ",
    "PJSUA v2.1.",
    "PJSUA v2.2",
    "PJSUA v2.3",
    "PJSUA v2.4",
    "PJSUA v2.5",
    "PJSUA v2.6",
    "PJSUA v2.7",
    "PJSUA v2.8",
    "PJSUA v2.9",
    "PJSUA v2.10",
    "SIPp",
];

impl Default for Authentication {
    fn default() -> Self {
        Self {
            required: true,
            // Several deployed phones fail if SHA-512-256 is offered at all.
            algorithms: alloc::vec![sip::digest::Algorithm::Sha256, sip::digest::Algorithm::Md5],
            md5_only_agents: MD5_ONLY_AGENTS.map(String::from).to_vec(),
            realms: BTreeMap::new(),
            nonce_lifetime: Duration::from_secs(300),
            max_nonces: 1 << 18,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_registered: 2_000_000,
            max_transactions: 1_000_000,
            max_transaction_bytes: 512 << 20,
            max_dialog_bytes: 128 << 20,
            // Well below 500 ms (T1), after which requests are retransmitted.
            max_wait: Duration::from_millis(100),
            max_forks: 10,
            trusted: alloc::vec![
                Network { address: Ipv4Addr::new(127, 0, 0, 0).into(), prefix: 8 },
                Network { address: Ipv6Addr::LOCALHOST.into(), prefix: 128 },
            ],
            speakers: Vec::new(),
            proxies: Vec::new(),
            proxy_header: ClientField::default(),
            reachable: Vec::new(),
            source_rate: 500,
            source_burst: 2000,
            foreign_rate: 20,
            foreign_methods: ["INVITE", "MESSAGE", "OPTIONS"].map(String::from).to_vec(),
            user_rate: 100,
            ban_failures: 100,
            ban_window: Duration::from_secs(60),
            ban_time: Duration::from_secs(300),
            max_sources: 65_536,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mode: Mode::Proxy,
            state: State::Stateful,
            listeners: Vec::new(),
            advertised: Vec::new(),
            domains: Vec::new(),
            edge_domains: Vec::new(),
            timers: Timers::default(),
            timer_c: Duration::from_secs(185),
            registrar: Registrar::default(),
            authentication: Authentication::default(),
            record_route: true,
            server_name: String::from("Barebell"),
            timings: false,
            relaying: Relaying::Needed,
            media_keys: MediaKeys::Converted,
            transcode: Vec::new(),
            joining: Joining::Off,
            groups: Vec::new(),
            #[cfg(feature = "office")]
            media_services: MediaServices::default(),
            #[cfg(feature = "office")]
            keeps_messages: false,
            #[cfg(feature = "office")]
            caller_names: BTreeMap::new(),
            #[cfg(feature = "office")]
            auto_answer: Vec::new(),
            #[cfg(feature = "office")]
            push: None,
            watching: Watching::default(),
            limits: Limits::default(),
        }
    }
}
