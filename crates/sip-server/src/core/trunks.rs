//! The trunks of the owner: the connections to other telephone systems, as the proxy asks about
//! them.

use crate::core::flow::Flow;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use relay::{Codec, Keying};
use sip::{Endpoint, Transport};

/// The number of a trunk: its place in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrunkId(pub u8);

impl TrunkId {
    /// The user agent in the process that registers at the trunk.
    #[must_use]
    pub const fn endpoint(self) -> Endpoint {
        Endpoint::Trunk(self.0)
    }
}

/// True if `flow` leads to the user agent of a trunk in this process. An engine without the feature
/// `office` has none.
pub(crate) const fn is_of_trunk(flow: &Flow) -> bool {
    cfg!(feature = "office") && matches!(flow.endpoint(), Some(Endpoint::Trunk(_)))
}

/// The place to which all requests to a trunk go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrunkTarget {
    /// The transport.
    pub transport: Transport,
    /// The address and port of the trunk.
    pub remote: SocketAddr,
    /// The local address to send from. It is not a wildcard, and has the port of the listener.
    pub local: SocketAddr,
    /// The host that the owner has configured, a domain or an address. On TLS the certificate of
    /// the trunk has to prove it.
    pub name: Arc<str>,
}

impl TrunkTarget {
    /// The flow of requests to the trunk. A stream that is open is used again.
    #[must_use]
    pub const fn flow(&self) -> Flow {
        Flow { transport: self.transport, local: self.local, remote: self.remote, connection: None }
    }
}

/// The media of calls on a trunk. They need the relay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrunkMedia {
    /// The keys of SRTP in the first offer to the trunk. With [`Keying::Required`] its own offers
    /// must have keys, too. `None`: by [`MediaKeys`](crate::config::MediaKeys).
    pub keying: Option<Keying>,
    /// The codecs of the first offer to the trunk, which the relay converts if the caller lacks
    /// them, and of the offers of the trunk to phones. Empty: those of the callers.
    pub codecs: Vec<Codec>,
}

/// The trunks of the owner. The methods must not call the server.
pub trait Trunks: Send + Sync {
    /// Returns the target of requests to `trunk` now. `None` if it has none: its servers do not
    /// answer, it is not registered, or there is no such trunk.
    fn target(&self, trunk: TrunkId) -> Option<TrunkTarget>;

    /// Returns the trunk of a request on `flow` with `user`, without escapes, as the user part of
    /// its request URI: by the contact of a registration, or by the source of the request. `None`
    /// if it comes from no trunk. A source address of a datagram may be forged.
    fn of_request(&self, flow: &Flow, user: &[u8]) -> Option<TrunkId>;

    /// The media of calls on `trunk`. `None`: as those of other calls.
    fn media(&self, trunk: TrunkId) -> Option<Arc<TrunkMedia>> {
        let _ = trunk;
        None
    }

    /// True if the names that `trunk` asserts are accepted (RFC 3325), and ours are asserted to it.
    fn is_trusted(&self, trunk: TrunkId) -> bool {
        let _ = trunk;
        false
    }
}
