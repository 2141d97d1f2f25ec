//! The next hop of a message (RFC 3261 sections 16.6 and 18.1.1), and the rule that makes requests
//! to a phone follow its flow.

use crate::core::config::Network;
use crate::core::event::Env;
use crate::core::flow::{Flow, is_private};
use crate::core::settings::Settings;
use core::net::SocketAddr;
use sip::locate::Destination;
use sip::{Host, Location, Message, SipUri, Transport, Uri};
use smallvec::SmallVec;

/// Length in bytes above which a request uses a congestion-controlled transport, if the target
/// leaves the choice (RFC 3261 section 18.1.1).
const MAX_UDP_REQUEST: usize = 1300;

/// Estimated length in bytes of the lines that the proxy adds, for the choice of the transport.
const OUR_LINES: usize = 200;

/// The next hop of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextHop {
    /// An existing flow.
    Flow(Flow),
    /// An address. An unset transport is UDP, or TCP for a large request (RFC 3261 section 18.1.1).
    Address {
        transport: Option<Transport>,
        remote: SocketAddr,
        /// A local address that is known to be in the same network.
        near: Option<SocketAddr>,
    },
    /// A name to look up in the DNS.
    Name(Destination),
}

/// The reason for having no route to a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoute {
    /// Messages cannot be sent to this URI scheme.
    Scheme,
    /// The server does not serve this transport.
    Transport,
    /// The number does not belong to this server.
    Number,
}

impl NextHop {
    /// True if the next hop is reached over an encrypted transport.
    pub(crate) fn is_secure(&self) -> bool {
        match self {
            Self::Flow(flow) => flow.transport.is_secure(),
            Self::Address { transport, .. } => transport.is_some_and(Transport::is_secure),
            Self::Name(destination) => destination.sips,
        }
    }

    /// True if the next hop may be reached by `transport`, as far as it is specified.
    pub(crate) fn may_be_on(&self, transport: Transport) -> bool {
        let is_it = |named: Option<Transport>| named.is_none_or(|named| named == transport);
        match self {
            Self::Flow(_) => false,
            Self::Address { transport, .. } => is_it(*transport),
            Self::Name(destination) => is_it(destination.transport),
        }
    }

    /// True if the next hop does not specify the transport.
    pub(crate) fn leaves_transport(&self) -> bool {
        match self {
            Self::Flow(_) => false,
            Self::Address { transport, .. } => transport.is_none(),
            Self::Name(destination) => destination.transport.is_none(),
        }
    }

    /// The flows for a request of `length` bytes that arrived at `arrived_at` to `place`, one of
    /// the places of this next hop, in the order to try.
    pub(crate) fn flows_to(
        &self,
        place: &Location,
        length: usize,
        arrived_at: SocketAddr,
        env: &Env<'_>,
    ) -> SmallVec<[Flow; 2]> {
        let near = match self {
            Self::Address { near: Some(near), .. } => [*near, arrived_at],
            _ => [arrived_at; 2],
        };
        flows_to(place, self.leaves_transport(), length, &near, env)
    }

    /// Returns the next hop that `uri` names.
    pub(crate) fn of_uri(
        uri: &SipUri<'_>,
        near: Option<SocketAddr>,
        settings: &Settings,
    ) -> Result<Self, NoRoute> {
        let transport = match (uri.secure, uri.transport()) {
            (true, Some(Some(transport))) => Some(transport.over_tls().ok_or(NoRoute::Transport)?),
            (true, _) => Some(Transport::Tls),
            (false, None) => None,
            (false, Some(Some(transport))) => Some(transport),
            (false, Some(None)) => return Err(NoRoute::Transport),
        };
        let ours = settings.transports();
        if transport.is_some_and(|transport| !ours.contains(&transport)) {
            return Err(NoRoute::Transport);
        }
        Ok(match uri.host {
            Host::Ip(address) => {
                let default = transport.unwrap_or(Transport::Udp).default_port();
                let remote = SocketAddr::new(address.to_canonical(), uri.port.unwrap_or(default));
                Self::Address { transport, remote, near }
            }
            Host::Name(name) => Self::Name(Destination {
                host: sip::locate::Host::parse(name).map_err(|_| NoRoute::Transport)?,
                port: uri.port,
                transport,
                sips: uri.secure,
            }),
        })
    }
}

/// The flows for a request of `length` bytes to `place`, in the order to try: a long request goes
/// by TCP first if the transport is not specified (RFC 3261 section 18.1.1). Empty, and counted, if
/// no listener can send it. The local address is one of `near`, if possible.
pub(crate) fn flows_to(
    place: &Location,
    leaves_transport: bool,
    length: usize,
    near: &[SocketAddr],
    env: &Env<'_>,
) -> SmallVec<[Flow; 2]> {
    let Location { transport, remote, local } = *place;
    let local_for = |transport, near: &[_]| env.settings.local_for(transport, remote.ip(), near);
    let Some(local) = local.or_else(|| local_for(transport, near)) else {
        env.counters.undeliverable.add();
        return SmallVec::new();
    };
    let flow = |transport, local| Flow { transport, local, remote, connection: None };
    let prefers_tcp =
        transport == Transport::Udp && leaves_transport && length + OUR_LINES > MAX_UDP_REQUEST;
    let by_tcp = prefers_tcp.then(|| local_for(Transport::Tcp, &[local])).flatten();
    // The address may be one of this server's own listeners.
    let by_tcp = by_tcp.filter(|_| !env.settings.is_own_end(Transport::Tcp, remote));
    let by_tcp = by_tcp.map(|local| flow(Transport::Tcp, local));
    by_tcp.into_iter().chain([flow(transport, local)]).collect()
}

/// The URI of the first element of a Path or Route value.
pub(crate) fn first_route(value: &[u8]) -> Option<SipUri<'_>> {
    let open = value.iter().position(|&byte| byte == b'<')?;
    let close = value.iter().position(|&byte| byte == b'>').filter(|&close| close > open)?;
    match Uri::parse(&value[open + 1..close]) {
        Ok(Uri::Sip(uri)) => Some(uri),
        _ => None,
    }
}

/// True if requests to the sender of `request` must follow the flow of `request`, and not go to the
/// address in `contact`. That is the case
///
/// - on an internal flow,
/// - if the operator configured it,
/// - on a stream,
/// - if the contact is the remote end of the flow,
/// - behind a NAT, which shows in a Via or a private contact that differs from the source address,
/// - if the phone requests it (`ob`, RFC 5626).
///
/// A phone without address translation that does not ask for `rport` sends from one port and
/// listens on another.
pub(crate) fn is_flow_bound(
    request: &Message<'_>,
    contact: &SipUri<'_>,
    flow: &Flow,
    settings: &Settings,
) -> bool {
    if flow.is_internal() {
        return true;
    }
    let (source, registrar) = (flow.remote, &settings.config.registrar);
    if Network::any_contains(&registrar.by_contact, source.ip()) {
        return false;
    }
    if flow.transport.is_stream()
        || contact.params.has("ob")
        || Network::any_contains(&registrar.by_flow, source.ip())
    {
        return true;
    }
    let port = contact.port.unwrap_or(flow.transport.default_port());
    let contact_address = contact.host.ip().map(|ip| ip.to_canonical());
    if contact_address.is_some_and(|ip| ip.is_unspecified()) {
        return true;
    }
    if contact_address == Some(source.ip()) && port == source.port() {
        return true;
    }
    if contact_address.is_some_and(is_private) && !is_private(source.ip()) {
        return true;
    }
    // With more than one Via the sender is another proxy. Its own address says nothing about the
    // phone.
    let mut vias = request.elements(sip::HeaderName::Via);
    let Some(Ok(via)) = vias.next().map(sip::header::Via::parse) else { return false };
    if vias.next().is_some() {
        return false;
    }
    let is_other_port = via.port_or_default() != source.port();
    match via.host.ip() {
        Some(ip) if ip.to_canonical() != source.ip() => true,
        Some(_) => is_other_port && via.rport().is_some(),
        None => is_other_port,
    }
}
