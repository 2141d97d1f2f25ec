//! What the operator decides, as the engine needs it, with every default and every limit.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use sip::transaction::Timers;
use sip::{Duration, Transport};

/// What the server does with a request that is for one of its users (row A1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Registers and forwards (RFC 3261 sections 10 and 16).
    Proxy,
    /// Registers, and answers 302 with the contacts (RFC 3261 section 8.3).
    Redirect,
    /// Registers only; anything to be forwarded is answered 404 or 403.
    Registrar,
}

/// Whether forwarded requests are tracked in transactions.
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
    /// The name, in lower case. It is the host of its users' addresses of record, and their digest
    /// realm unless [`Authentication::realms`] has another one.
    pub name: String,
    /// Host names and IP addresses (IPv6 without brackets) that mean the same domain.
    pub aliases: Vec<String>,
}

/// Where the server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    /// What carries the messages.
    pub transport: Transport,
    /// The address, which may be unspecified (`0.0.0.0`, `::`), and the port.
    pub address: SocketAddr,
}

/// What a listener is called outside, where addresses or ports are translated on the way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// The listener.
    pub listener: Listener,
    /// Its address and port as peers know them, of the same family.
    pub address: SocketAddr,
}

/// A range of addresses, such as `192.0.2.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// An address in the range.
    pub address: IpAddr,
    /// How many leading bits all addresses of the range share.
    pub prefix: u8,
}

impl Network {
    /// Whether `address` is in one of `networks`.
    #[must_use]
    pub fn any_contains(networks: &[Self], address: IpAddr) -> bool {
        networks.iter().any(|network| network.contains(address))
    }

    /// Whether `address` is in the range.
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

/// How registrations are kept (RFC 3261 section 10), and how phones are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registrar {
    /// A shorter expiry is refused with 423.
    pub min_expires: Duration,
    /// A longer expiry is cut to this.
    pub max_expires: Duration,
    /// The expiry of a REGISTER that names none.
    pub default_expires: Duration,
    /// Contacts that one address of record may have.
    pub max_contacts: usize,
    /// Bytes that the contacts of one address of record may have together, with their Paths and
    /// instances.
    pub max_bytes: usize,
    /// Whether phones that ask get GRUUs (RFC 5627). They name themselves by them then, so that all
    /// who speak with them have to find the domain by the DNS.
    pub gruu: bool,
    /// How often phones that have flows of RFC 5626 by streams are to show that they are there, as
    /// they are told in Flow-Timer; zero: they are not told. By UDP they do it more often by
    /// themselves, for NATs forget sooner there.
    pub flow_timer: Duration,
    /// Networks whose phones are reached on the flow that they came on, whatever their messages
    /// say. Of others that is guessed.
    pub by_flow: Vec<Network>,
    /// Networks whose phones are reached where their Contact says. Where one is in both, this
    /// counts.
    pub by_contact: Vec<Network>,
}

/// How requests are authenticated (RFC 7616, RFC 8760).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// False: nobody is challenged.
    pub required: bool,
    /// The algorithms offered, most preferred first.
    pub algorithms: Vec<sip::digest::Algorithm>,
    /// How the User-Agent header field of phones begins that fail when they are offered anything
    /// else beside or before MD5. They are offered only MD5, if that is among the algorithms.
    pub md5_only_agents: Vec<String>,
    /// The digest realms of domains whose realm is not their name, by the name of the domain.
    pub realms: BTreeMap<String, String>,
    /// How long a nonce is good.
    pub nonce_lifetime: Duration,
    /// Nonces in use whose counts are remembered, in the whole server.
    pub max_nonces: usize,
}

/// Bounds on what strangers can make the server hold or do. Each has a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Addresses of record with registrations.
    pub max_registered: usize,
    /// Transactions in progress.
    pub max_transactions: usize,
    /// Bytes that transactions in progress may take; one source that is not trusted, and one user,
    /// an eighth of it.
    pub max_transaction_bytes: usize,
    /// Bytes for what is remembered of dialogs; where they do not suffice, the oldest are
    /// forgotten.
    pub max_dialog_bytes: usize,
    /// How long a request that begins something may have waited to be read before it is refused
    /// with 503, so that what has begun gets done. Before it comes to that, fewer are let in: see
    /// [`Throttle`](crate::overload::Throttle). Zero: for ever, and all are let in.
    pub max_wait: Duration,
    /// Targets that one request is forked to.
    pub max_forks: usize,
    /// Addresses to which rates and bans do not apply, and whose word counts: for a Path, for names
    /// that they have proved, for challenges.
    pub trusted: Vec<Network>,
    /// The names of our users that some of these may give in From without a password.
    pub speakers: Vec<Speaker>,
    /// Proxies: from these a connection may say by PROXY protocol, and over WebSocket by
    /// X-Forwarded-For, for which client it is.
    pub proxies: Vec<Network>,
    /// Private networks and the like to which requests may go that come from elsewhere. To others
    /// they go only from there, or on the flow of a registered phone.
    pub reachable: Vec<Network>,
    /// Requests a second without good credentials from one source address (of IPv6: one /64)
    /// before further ones are dropped; 0: no limit.
    pub source_rate: u32,
    /// Such requests that one source may send at once before `source_rate` binds.
    pub source_burst: u32,
    /// Requests a second to our users from one source that is not one of them; 0: no limit.
    pub foreign_rate: u32,
    /// Methods of requests outside of dialogs that a source that is not trusted may send to our
    /// users without credentials. ACK and CANCEL are always among them.
    pub foreign_methods: Vec<String>,
    /// Requests a second of one user with good credentials, before further ones are refused; four
    /// times as many may come at once. 0: no limit.
    pub user_rate: u32,
    /// Failed authentications and, on connections, requests for users who do not exist, from one
    /// source within `ban_window`, that ban it; 0: no ban.
    pub ban_failures: u32,
    /// The time over which failures are counted.
    pub ban_window: Duration,
    /// How long a ban lasts.
    pub ban_time: Duration,
    /// Source addresses that are remembered for rates and bans.
    pub max_sources: usize,
}

/// A trusted network that may speak for users of ours: a gateway that brings calls back with the
/// numbers of their callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speaker {
    /// Its addresses.
    pub network: Network,
    /// Names of users, or beginnings of names where they end in `*`.
    pub names: Vec<String>,
}

impl Speaker {
    /// True where `name`, a user part without escapes, is one of its names.
    #[must_use]
    pub fn has(&self, name: &[u8]) -> bool {
        self.names.iter().any(|known| match known.strip_suffix('*') {
            Some(start) => name.starts_with(start.as_bytes()),
            None => name == known.as_bytes(),
        })
    }
}

/// Everything that the engine is told by the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// What the server does with requests for its users.
    pub mode: Mode,
    /// With or without transactions.
    pub state: State,
    /// Where the server listens.
    pub listeners: Vec<Listener>,
    /// Those of them that peers know under another address.
    pub advertised: Vec<Advertised>,
    /// The domains served; the first is the default.
    pub domains: Vec<Domain>,
    /// Domains of other registrars, in lower case, whose phones reach them through this server, and
    /// are reached through it (RFC 5626 section 5). Requests to them go on unproved, for they are
    /// proved there, as often as requests of strangers to our users.
    pub edge_domains: Vec<String>,
    /// Transaction timers.
    pub timers: Timers,
    /// Timer C: how long a proxied INVITE may go without a final or another provisional response;
    /// more than 3 minutes (RFC 3261 section 16.6 step 11).
    pub timer_c: Duration,
    /// Registration policy.
    pub registrar: Registrar,
    /// Authentication policy.
    pub authentication: Authentication,
    /// Whether the proxy stays in the path of the dialogs that it starts (RFC 3261 section 16.6
    /// step 4).
    pub record_route: bool,
    /// The name sent in the Server header, empty for none.
    pub server_name: String,
    /// Whether the steps of handling a message are measured (row A11): see
    /// [`Server::timings`](crate::Server::timings).
    pub timings: bool,
    /// Bounds.
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

/// They look at the first challenge alone, or fail at a second one: baresip before 4.0, PJSIP
/// before 2.11, and SIPp where its scenario says who it is.
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
            // Several phones in the field fail where SHA-512-256 is offered at all.
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
            // Well below the half second after which requests are sent again.
            max_wait: Duration::from_millis(100),
            max_forks: 10,
            trusted: alloc::vec![
                Network { address: Ipv4Addr::new(127, 0, 0, 0).into(), prefix: 8 },
                Network { address: Ipv6Addr::LOCALHOST.into(), prefix: 128 },
            ],
            speakers: Vec::new(),
            proxies: Vec::new(),
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
            limits: Limits::default(),
        }
    }
}
