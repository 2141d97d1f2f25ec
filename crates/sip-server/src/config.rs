//! What the operator decides, as the engine needs it, with every default and every limit.

use alloc::string::String;
use alloc::vec::Vec;
use sip::Duration;

/// What the server does with a request that is for one of its users (seed row A1).
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
    /// The name, in lower case. It is the digest realm of its users and the host of their
    /// addresses of record.
    pub name: String,
    /// Host names and IP addresses (IPv6 without brackets) that mean the same domain.
    pub aliases: Vec<String>,
}

/// The timers of RFC 3261 table 4 that others are derived from, and timer C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Round-trip time estimate, 500 ms.
    pub t1: Duration,
    /// Longest interval between retransmissions, 4 s.
    pub t2: Duration,
    /// Longest time that a message remains in the network, 5 s.
    pub t4: Duration,
    /// How long a proxied INVITE may go without a final response, more than 3 minutes.
    pub c: Duration,
}

/// How registrations are kept (RFC 3261 section 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registrar {
    /// A shorter expiry is refused with 423.
    pub min_expires: Duration,
    /// A longer expiry is cut to this.
    pub max_expires: Duration,
    /// The expiry of a REGISTER that names none.
    pub default_expires: Duration,
    /// Contacts that one address of record may have.
    pub max_contacts: usize,
}

/// How requests are authenticated (RFC 7616, RFC 8760).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// False: nobody is challenged.
    pub required: bool,
    /// The algorithms offered, most preferred first.
    pub algorithms: Vec<sip::digest::Algorithm>,
    /// How long a nonce is good.
    pub nonce_lifetime: Duration,
    /// Nonces in use whose counts are remembered, in the whole server.
    pub max_nonces: usize,
}

/// Bounds on what strangers can make the server hold or do. Each has a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Addresses of record with registrations.
    pub max_registered: usize,
    /// Transactions in progress.
    pub max_transactions: usize,
    /// Targets that one request is forked to, also the Max-Breadth given to a request without one
    /// (RFC 5393).
    pub max_forks: usize,
    /// Requests a second from one source address before further ones are dropped; 0: no limit.
    pub source_rate: u32,
    /// Requests that one source address may send at once before `source_rate` binds.
    pub source_burst: u32,
    /// Requests a second to our users from one source address without credentials; 0: no limit.
    pub foreign_rate: u32,
    /// Failed authentications from one source address within `ban_window` that ban it; 0: no ban.
    pub ban_failures: u32,
    /// The time over which failures are counted.
    pub ban_window: Duration,
    /// How long a ban lasts.
    pub ban_time: Duration,
    /// Source addresses that are remembered for rates and bans.
    pub max_sources: usize,
}

/// Everything that the engine is told by the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// What the server does with requests for its users.
    pub mode: Mode,
    /// With or without transactions.
    pub state: State,
    /// The domains served; the first is the default.
    pub domains: Vec<Domain>,
    /// Transaction timers.
    pub timers: Timers,
    /// Registration policy.
    pub registrar: Registrar,
    /// Authentication policy.
    pub authentication: Authentication,
    /// Whether the proxy stays in the path of the dialogs that it starts (RFC 3261 section 16.6
    /// step 4).
    pub record_route: bool,
    /// The name sent in the Server header, empty for none.
    pub server_name: String,
    /// Bounds.
    pub limits: Limits,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            t1: Duration::from_millis(500),
            t2: Duration::from_secs(4),
            t4: Duration::from_secs(5),
            c: Duration::from_secs(185),
        }
    }
}

impl Default for Registrar {
    fn default() -> Self {
        Self {
            min_expires: Duration::from_secs(60),
            max_expires: Duration::from_secs(7200),
            default_expires: Duration::from_secs(3600),
            max_contacts: 10,
        }
    }
}

impl Default for Authentication {
    fn default() -> Self {
        Self {
            required: true,
            algorithms: sip::digest::Algorithm::ALL.to_vec(),
            nonce_lifetime: Duration::from_secs(300),
            max_nonces: 1 << 20,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_registered: 2_000_000,
            max_transactions: 1_000_000,
            max_forks: 10,
            source_rate: 0,
            source_burst: 1000,
            foreign_rate: 20,
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
            domains: Vec::new(),
            timers: Timers::default(),
            registrar: Registrar::default(),
            authentication: Authentication::default(),
            record_route: true,
            server_name: String::from("Barebell"),
            limits: Limits::default(),
        }
    }
}
