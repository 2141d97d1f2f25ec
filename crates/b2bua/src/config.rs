//! The configuration of the B2BUA: addresses, limits, the session timer of the legs.

use crate::trunk::Trunk;
use alloc::string::String;
use alloc::vec::Vec;
use sip::Duration;

/// The configuration of a [`B2bua`](crate::B2bua).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The product name in User-Agent.
    pub product: String,
    /// The maximum number of calls. Further ones are rejected with 503.
    pub calls: usize,
    /// The maximum number of calls of one source: an IPv4 address, or an IPv6 /64.
    pub calls_of_source: usize,
    /// The maximum length of a body in bytes, without its session description. Requests with a
    /// longer one are rejected with 413, and responses lose it.
    pub body: usize,
    /// The maximum time until a call is answered.
    pub ringing: Duration,
    /// The session interval of each leg (RFC 4028): a leg without a refresh for that time ends.
    pub session_expires: Duration,
    /// The interval in which a leg that sends no request is checked by an OPTIONS within its
    /// dialog. A call with a leg that is gone ends. `None` disables it.
    pub probe: Option<Duration>,
    /// The trunks. The proxy names a trunk by its place among them.
    pub trunks: Vec<Trunk>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            product: concat!("barebell/", env!("CARGO_PKG_VERSION")).into(),
            calls: 5_000,
            calls_of_source: 500,
            body: 16_384,
            ringing: Duration::from_secs(300),
            session_expires: Duration::from_secs(1800),
            probe: Some(Duration::from_secs(120)),
            trunks: Vec::new(),
        }
    }
}
