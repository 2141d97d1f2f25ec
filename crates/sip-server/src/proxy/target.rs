//! Where a request goes: its targets, and the next hop to each (RFC 3261 sections 16.5 and 16.6).

use crate::binding::Binding;
use crate::config::Network;
use crate::event::Env;
use crate::flow::{Flow, is_private};
use crate::output::Location;
use crate::reach::Scope;
use crate::settings::{DomainIndex, Settings};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use memchr::memchr;
use sip::locate::Destination;
use sip::uri::is_sips;
use sip::{Host, Message, SipUri, Transport, Uri};
use smallvec::SmallVec;

/// Requests that are longer go over a congestion-controlled transport where the target leaves the
/// choice (RFC 3261 section 18.1.1).
const MAX_UDP_REQUEST: usize = 1300;

/// Room for the lines that the proxy adds, when it is guessed whether a request fits a datagram.
const OUR_LINES: usize = 200;

/// How a message gets to its next hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextHop {
    /// On a flow that is there.
    Flow(Flow),
    /// To an address. An unset transport is UDP, or TCP for a large request (RFC 3261 section
    /// 18.1.1).
    Address {
        transport: Option<Transport>,
        remote: SocketAddr,
        /// An address of ours that is known to be near it.
        near: Option<SocketAddr>,
    },
    /// To what the DNS says.
    Name(Destination),
}

/// One place that a request is forwarded to.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The URI as it was registered or asked for.
    pub(crate) uri: SmallVec<[u8; 80]>,
    /// The Path to the target, to be written as Route; empty for none.
    pub(crate) path: Vec<u8>,
    pub(crate) next_hop: NextHop,
    /// Preference in thousandths.
    pub(crate) q: u16,
    /// Whether later requests of the dialog must come on the flow of `next_hop`.
    pub(crate) flow_bound: bool,
    /// In what network whoever named the target is.
    pub(crate) origin: Scope,
    /// Where this is one of the flows to a phone.
    pub(crate) flows: Option<Box<Flows>>,
}

/// A phone that has numbered flows (RFC 5626).
#[derive(Clone, Debug)]
pub(crate) struct Flows {
    /// A hash of whose it is, where targets are of several users; and its instance.
    pub(crate) user: u64,
    phone: Box<[u8]>,
    /// Those to be tried one after the other where this one fails, the newest first.
    further: Vec<Target>,
}

/// The places that a request is forwarded to: nearly always one.
pub(crate) type Targets = SmallVec<[Target; 1]>;

/// Why there is no way to a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoute {
    /// The scheme is none that a message can be sent to.
    Scheme,
    /// The transport is none of ours.
    Transport,
    /// The number is one of another place.
    Number,
}

impl NextHop {
    /// Whether nobody on the way there reads what is sent.
    fn is_secure(&self) -> bool {
        match self {
            Self::Flow(flow) => flow.transport.is_secure(),
            Self::Address { transport, .. } => transport.is_some_and(Transport::is_secure),
            Self::Name(destination) => destination.sips,
        }
    }

    /// Whether it may be reached by `transport`, as far as it says.
    pub(crate) fn may_be_on(&self, transport: Transport) -> bool {
        let is_it = |named: Option<Transport>| named.is_none_or(|named| named == transport);
        match self {
            Self::Flow(_) => false,
            Self::Address { transport, .. } => is_it(*transport),
            Self::Name(destination) => is_it(destination.transport),
        }
    }

    /// Whether it leaves to us by which transport a long request goes.
    pub(super) fn leaves_transport(&self) -> bool {
        match self {
            Self::Flow(_) => false,
            Self::Address { transport, .. } => transport.is_none(),
            Self::Name(destination) => destination.transport.is_none(),
        }
    }

    /// The flows on which a request of `length` bytes, which came in at `arrived_at`, may go to
    /// `place`, where this leads, in the order to try.
    pub(super) fn flows_to(
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

    /// The next hop that `uri` names.
    pub(crate) fn of_uri(
        uri: &SipUri<'_>,
        near: Option<SocketAddr>,
        settings: &Settings,
    ) -> Result<Self, NoRoute> {
        let transport = match (uri.secure, uri.transport()) {
            (true, Some(Some(transport))) => Some(transport.secured().ok_or(NoRoute::Transport)?),
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
                host: sip::locate::Host::parse(name).ok_or(NoRoute::Transport)?,
                port: uri.port,
                transport,
                sips: uri.secure,
            }),
        })
    }
}

/// The flows on which a request of `length` bytes may go to `place`, in the order to try: a long
/// one by TCP first, where that is left to us (RFC 3261 section 18.1.1). None, which is counted,
/// where no listener of ours can carry it. It leaves from where one of `near` is, if that can be.
pub(super) fn flows_to(
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
    // A listener of ours may be there, and not on the other transport.
    let by_tcp = by_tcp.filter(|_| !env.settings.is_own_end(Transport::Tcp, remote));
    let by_tcp = by_tcp.map(|local| flow(Transport::Tcp, local));
    by_tcp.into_iter().chain([flow(transport, local)]).collect()
}

/// Where a binding leads.
#[derive(Debug)]
pub(crate) enum Leads {
    /// To a phone, or another server.
    Away(Target),
    /// To this server, where it is this user's, without escapes, of this domain.
    Back(Vec<u8>, DomainIndex),
}

impl Target {
    /// The target that the contact of a binding is.
    pub(crate) fn of_binding(binding: &Binding, settings: &Settings) -> Result<Leads, NoRoute> {
        let Ok(Uri::Sip(uri)) = Uri::parse(&binding.contact) else {
            return Err(NoRoute::Scheme);
        };
        if !binding.flow_bound
            && binding.path().is_empty()
            && let Some(domain) = settings.is_us(&uri.host, uri.port)
        {
            let (user, domain) = settings.user_of(&uri, domain).ok_or(NoRoute::Scheme)?;
            return Ok(Leads::Back(user.into_owned(), domain));
        }
        let near = Some(binding.flow.local);
        let first_hop = first_route(binding.path());
        let next_hop = match first_hop {
            _ if binding.flow_bound => NextHop::Flow(binding.flow),
            Some(route) => NextHop::of_uri(&route, near, settings)?,
            None => NextHop::of_uri(&uri, near, settings)?,
        };
        Ok(Leads::Away(Self {
            uri: SmallVec::from_slice(&binding.contact),
            path: binding.path().to_vec(),
            next_hop,
            q: binding.q,
            flow_bound: binding.flow_bound,
            origin: settings.scope_of(&binding.flow),
            flows: binding
                .phone_of_flow()
                .map(|phone| Box::new(Flows { user: 0, phone: phone.into(), further: Vec::new() })),
        }))
    }
}

impl Target {
    /// The same target on `flow`, and where that fails, as it was.
    pub(crate) fn first_on(self, flow: Flow) -> Self {
        let flows = Flows { user: 0, phone: Box::default(), further: alloc::vec![self.clone()] };
        Self { next_hop: NextHop::Flow(flow), flows: Some(Box::new(flows)), ..self }
    }

    /// The next of the further flows to the phone, which has those after it.
    pub(super) fn next_flow(&mut self) -> Option<Self> {
        let mut further = core::mem::take(&mut self.flows.as_mut()?.further).into_iter();
        let mut next = further.next()?;
        if let Some(flows) = &mut next.flows {
            flows.further = further.collect();
        }
        Some(next)
    }

    /// The memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let flows = self.flows.as_ref().map_or(0, |flows| {
            let further: usize = flows.further.iter().map(Self::bytes).sum();
            size_of::<Flows>() + flows.phone.len() + further
        });
        size_of::<Self>() + self.uri.len() + self.path.len() + flows
    }

    /// The request URI to forward with: header fields may stand in a contact, not in a request URI
    /// (RFC 3261 sections 16.6 step 2 and 19.1.1).
    pub(crate) fn request_uri(&self) -> &[u8] {
        if memchr(b'?', &self.uri).is_none() {
            return &self.uri;
        }
        // A question mark may stand in the user part.
        let host = memchr(b'@', &self.uri).unwrap_or(0);
        let end = memchr(b'?', &self.uri[host..]);
        end.map_or(&self.uri, |end| &self.uri[..host + end])
    }
}

/// Leaves those of `targets` that a request may go to by the scheme of its URI (RFC 5630 section
/// 5.3): one for a SIPS URI goes to SIPS URIs alone, and over TLS. One for a SIP URI goes to
/// whoever registered a SIPS URI by the SIP URI that is otherwise the same: else the dialog would
/// be half of one kind and half of the other.
pub(crate) fn keep_scheme(targets: &mut Targets, is_for_sips: bool) {
    match is_for_sips {
        true => targets.retain(|target| is_sips(&target.uri) && target.next_hop.is_secure()),
        false => targets.iter_mut().filter(|target| is_sips(&target.uri)).for_each(|target| {
            target.uri.remove(b"sip".len());
        }),
    }
}

/// Leaves of several flows to one phone the first, which the others follow: it rings once (RFC 5626
/// section 7).
pub(crate) fn join_flows(targets: &mut Targets) {
    if targets.len() < 2 {
        return;
    }
    let mut firsts = Targets::new();
    for target in targets.drain(..) {
        let phone = target.flows.as_ref().map(|flows| (flows.user, &flows.phone));
        let mut known = firsts.iter_mut().filter_map(|first| first.flows.as_mut());
        match known.find(|first| Some((first.user, &first.phone)) == phone) {
            Some(first) => first.further.push(target),
            None => firsts.push(target),
        }
    }
    *targets = firsts;
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

/// Whether requests to the sender of `request` must follow the flow on which it came, and not the
/// address in `contact`: where the operator says so; on a stream; where the contact is the flow's
/// own far end; where a NAT is in between, which shows in a Via or a private contact that is not
/// the address the request came from; or where the phone says so itself (`ob`, RFC 5626). A phone
/// whose address is not translated, and that does not ask for `rport`, sends from one port and
/// listens on another.
pub(crate) fn is_flow_bound(
    request: &Message<'_>,
    contact: &SipUri<'_>,
    flow: &Flow,
    settings: &Settings,
) -> bool {
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
    // With more than one Via the sender is another proxy, whose own address says nothing about the
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
