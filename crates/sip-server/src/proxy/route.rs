//! Route preprocessing and the destination of a request (RFC 3261 sections 16.4 and 16.5).

use super::dialogs;
use super::edge;
#[cfg(feature = "office")]
use super::pass::OnTrunk;
use super::pass::Pass;
use super::token::Token;
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::lines::write_line;
use crate::core::next_hop::{NextHop, NoRoute};
use crate::core::settings::{DomainIndex, Settings};
use crate::core::trunks::TrunkId;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::net::SocketAddr;
use sip::dialog::DialogId;
use sip::header::NameAddr;
use sip::message::RequestHead;
use sip::uri::unescape;
use sip::{HeaderName, Message, Method, SipUri, Uri};
use smallvec::SmallVec;

/// A request without the Route elements of this server.
#[derive(Debug)]
pub(crate) struct Preprocessed<'m> {
    pub(crate) uri: Uri<'m>,
    pub(crate) uri_bytes: &'m [u8],
    /// The remaining Route elements.
    routes: SmallVec<[&'m [u8]; 4]>,
    is_changed: bool,
    /// The token from the Record-Route of the dialog, for a request within a dialog.
    pub(super) token: Option<Token>,
    /// True if the token came in a SIPS URI, so the dialog began with SIPS.
    pub(super) is_by_sips: bool,
    /// The pass of a call that comes from the B2BUA of the owner.
    pub(super) pass: Option<Pass>,
    /// True if the request replaces a call of the owner's B2BUA.
    pub(super) replaces_joined: bool,
    /// True if the request picks up a ringing call that its Replaces names.
    pub(super) picks_up: bool,
    /// The flow to a phone of another registrar, if this server is in the Path of the phone.
    pub(super) edge_flow: Option<Flow>,
}

/// The destination of a request.
#[derive(Debug)]
pub(crate) enum Destination<'m> {
    /// This server itself.
    Server,
    /// The request is forwarded, or has no route for this reason.
    Onward(Result<Onward<'m>, NoRoute>),
}

/// The destination of a request that is forwarded.
#[derive(Debug)]
pub(crate) enum Onward<'m> {
    /// A user of a local domain, by name or number, without escapes.
    User { user: Cow<'m, [u8]>, domain: DomainIndex },
    /// Another element, through this next hop. The request URI to forward with may differ from the
    /// received one.
    Elsewhere { next_hop: NextHop, flow_bound: bool, uri: &'m [u8], routes: Option<Vec<u8>> },
}

/// The maximum number of Route elements of this server that are examined for a token.
const MOST_READ: usize = 3;

/// Reverses strict routing and removes the Route elements of this server.
pub(crate) fn preprocess<'m>(
    message: &Message<'m>,
    head: &RequestHead<'m>,
    flow: &Flow,
    env: &Env<'_>,
) -> Preprocessed<'m> {
    let (settings, keys) = (env.settings, env.keys);
    let mut routes: SmallVec<[&'m [u8]; 4]> = message.elements(HeaderName::Route).collect();
    let (mut uri, mut uri_bytes) = (head.uri, head.uri_bytes);
    let mut is_changed = false;
    // A token is valid only within a dialog.
    let id = head.to.tag().map(|_| dialogs::id_of(head));
    let token_of = |uri: &SipUri<'_>| Token::parse(&keys.token, id.as_ref()?, &unescape(uri.user?));
    let mut token = None;
    let mut is_by_sips = false;
    if let Uri::Sip(own) = uri
        && settings.is_us(&own.host, own.port).is_some()
        && let Some(own_token) = token_of(&own)
        && let Some(&last) = routes.last()
        && let Ok(address) = NameAddr::parse(HeaderName::Route, last)
        && let Ok(target) = address.uri()
    {
        // The previous element is a strict router: it has put the request URI at the end of the
        // routes.
        (uri, uri_bytes) = (target, address.uri_bytes);
        routes.pop();
        token = Some(own_token);
        is_by_sips = own.secure;
        is_changed = true;
    }
    let (mut edge_flow, mut pass) = (None, None);
    let mut passed = 0;
    while let Some(own) = routes.get(passed).and_then(|route| route_uri(route))
        && settings.is_us(&own.host, own.port).is_some()
    {
        // A phone may put its outbound proxy before the route set. The limit bounds the cost of
        // many elements.
        if passed < MOST_READ {
            if token.is_none() {
                token = token_of(&own);
                is_by_sips = own.secure;
            }
            if pass.is_none() && head.method == Method::Invite && id.is_none() {
                pass = Pass::of_route(&own, uri_bytes, flow, env);
            }
            edge_flow = edge_flow.or_else(|| edge::flow_of(&own, env.now, &keys.edge));
        }
        passed += 1;
        is_changed = true;
    }
    routes.drain(..passed);
    let [replaces_joined, picks_up] = [false; 2];
    Preprocessed {
        uri,
        uri_bytes,
        routes,
        is_changed,
        token,
        is_by_sips,
        pass,
        replaces_joined,
        picks_up,
        edge_flow,
    }
}

impl<'m> Preprocessed<'m> {
    /// The same request with the request URI `uri_bytes`, which replaces a call of the owner's
    /// B2BUA. `None` if the URI is malformed.
    pub(super) fn replacing<'u>(&self, uri_bytes: &'u [u8]) -> Option<Preprocessed<'u>>
    where
        'm: 'u,
    {
        Some(Preprocessed { replaces_joined: true, ..self.with_uri(uri_bytes)? })
    }

    /// The same request with the request URI `uri_bytes`, that of a user with a ringing call which
    /// the request picks up. `None` if the URI is malformed.
    #[cfg(feature = "office")]
    pub(super) fn picking_up<'u>(&self, uri_bytes: &'u [u8]) -> Option<Preprocessed<'u>>
    where
        'm: 'u,
    {
        Some(Preprocessed { picks_up: true, ..self.with_uri(uri_bytes)? })
    }

    fn with_uri<'u>(&self, uri_bytes: &'u [u8]) -> Option<Preprocessed<'u>>
    where
        'm: 'u,
    {
        Some(Preprocessed {
            uri: Uri::parse(uri_bytes).ok()?,
            uri_bytes,
            routes: self.routes.iter().copied().collect(),
            ..*self
        })
    }

    /// The trunk that the call goes to, by the pass that the B2BUA of the owner has returned.
    pub(super) fn to_trunk(&self) -> Option<TrunkId> {
        self.pass.filter(|_| cfg!(feature = "office"))?.to_trunk()
    }

    /// True for the second leg of a call from a trunk.
    #[cfg(feature = "office")]
    pub(super) fn is_from_trunk(&self) -> bool {
        self.pass.is_some_and(|pass| matches!(pass.trunk, Some(OnTrunk::From(_))))
    }

    /// The remaining Route elements.
    pub(crate) fn left(&self) -> &[&'m [u8]] {
        &self.routes
    }

    /// Returns the destination of the request. `flow` leads to the other end of its dialog.
    pub(crate) fn destination(
        &self,
        flow: Option<Flow>,
        arrived_on: &Flow,
        settings: &Settings,
    ) -> Destination<'m> {
        let near = arrived_on.local;
        match (self.routes.first(), flow) {
            (Some(next), _) => Destination::Onward(self.by_route(next, flow, near, settings)),
            (None, Some(flow)) => {
                Destination::Onward(Ok(self.elsewhere(NextHop::Flow(flow), true)))
            }
            (None, None) => match &self.uri {
                Uri::Sip(uri)
                    if uri.user.is_none()
                        && is_served(uri, settings)
                        && settings.is_us(&uri.host, uri.port).is_some() =>
                {
                    Destination::Server
                }
                _ => Destination::Onward(self.by_uri(near, settings)),
            },
        }
    }

    /// The destination `next_hop` with the received request URI.
    fn elsewhere(&self, next_hop: NextHop, flow_bound: bool) -> Onward<'m> {
        Onward::Elsewhere { next_hop, flow_bound, uri: self.uri_bytes, routes: self.routes() }
    }

    /// The destination by `next`, the first of the remaining routes.
    fn by_route(
        &self,
        next: &'m [u8],
        flow: Option<Flow>,
        near: SocketAddr,
        settings: &Settings,
    ) -> Result<Onward<'m>, NoRoute> {
        let route = route_uri(next).ok_or(NoRoute::Scheme)?;
        let flow_bound = flow.is_some();
        let next_hop = match flow {
            // The proxy of the first phone may be behind the flow.
            Some(flow) => NextHop::Flow(flow),
            None => NextHop::of_uri(&route, Some(near), settings)?,
        };
        if route.is_loose() {
            return Ok(self.elsewhere(next_hop, flow_bound));
        }
        // The next element is a strict router (RFC 3261 section 16.6 step 6).
        let mut strict = lines(&self.routes[1..]);
        let own_uri = [b"<", self.uri_bytes, b">"].concat();
        write_line(&mut strict, b"Route", &own_uri);
        let uri = NameAddr::parse(HeaderName::Route, next).map_or(next, |route| route.uri_bytes);
        Ok(Onward::Elsewhere { next_hop, flow_bound, uri, routes: Some(strict) })
    }

    fn by_uri(&self, near: SocketAddr, settings: &Settings) -> Result<Onward<'m>, NoRoute> {
        let uri = match &self.uri {
            Uri::Sip(uri) => uri,
            Uri::Tel(tel) => {
                let number = settings.user_of_number(tel, DomainIndex::DEFAULT);
                let (user, domain) = number.ok_or(NoRoute::Number)?;
                return Ok(Onward::User { user: Cow::Owned(user), domain });
            }
            Uri::Other { .. } => return Err(NoRoute::Scheme),
        };
        if !is_served(uri, settings) {
            return Err(NoRoute::Scheme);
        }
        match settings.is_us(&uri.host, uri.port) {
            Some(domain) => {
                let (user, domain) = settings.user_of(uri, domain).ok_or(NoRoute::Number)?;
                Ok(Onward::User { user, domain })
            }
            None => Ok(self.elsewhere(NextHop::of_uri(uri, Some(near), settings)?, false)),
        }
    }

    /// The Route lines without those of this server. `None` if nothing changed.
    pub(crate) fn routes(&self) -> Option<Vec<u8>> {
        self.is_changed.then(|| lines(&self.routes))
    }
}

/// True if the scheme is served. Without TLS there is no SIPS (RFC 5630 section 5.3).
pub(crate) fn is_served(uri: &SipUri<'_>, settings: &Settings) -> bool {
    !uri.secure || settings.transports().into_iter().any(sip::Transport::is_secure)
}

fn lines(routes: &[&[u8]]) -> Vec<u8> {
    let mut lines = Vec::new();
    for route in routes {
        write_line(&mut lines, b"Route", route);
    }
    lines
}

/// True if `message` has a token of this server for its dialog in Route. The expiry and the target
/// of the token are checked later, when the message is processed.
pub(crate) fn has_token(message: &Message<'_>, env: &Env<'_>) -> bool {
    let tag = |name| NameAddr::parse(name, message.value(name)?).ok()?.tag();
    let (Some(call_id), Some(local_tag), Some(remote_tag)) =
        (message.value(HeaderName::CallId), tag(HeaderName::To), tag(HeaderName::From))
    else {
        return false;
    };
    let id = DialogId { call_id, local_tag, remote_tag };
    let routes = message.elements(HeaderName::Route).take(MOST_READ);
    let mut users = routes.filter_map(|route| route_uri(route)?.user);
    users.any(|user| Token::parse(&env.keys.token, &id, &unescape(user)).is_some())
}

fn route_uri<'m>(route: &'m [u8]) -> Option<SipUri<'m>> {
    match NameAddr::parse(HeaderName::Route, route).ok()?.uri() {
        Ok(Uri::Sip(uri)) => Some(uri),
        _ => None,
    }
}
