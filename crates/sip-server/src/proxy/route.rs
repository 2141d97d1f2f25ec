//! Reading the way that a request asks for (RFC 3261 sections 16.4 and 16.5).

use super::edge;
use super::target::{NextHop, NoRoute};
use super::token::Token;
use crate::dialogs;
use crate::event::Env;
use crate::flow::Flow;
use crate::lines::write_line;
use crate::settings::{DomainIndex, Settings};
use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::net::SocketAddr;
use sip::dialog::DialogId;
use sip::header::NameAddr;
use sip::message::RequestHead;
use sip::uri::unescape;
use sip::{HeaderName, Message, SipUri, Uri};
use smallvec::SmallVec;

/// A request without the routes that led here.
#[derive(Debug)]
pub(crate) struct Preprocessed<'m> {
    pub(crate) uri: Uri<'m>,
    pub(crate) uri_bytes: &'m [u8],
    /// The Route elements that are left.
    routes: SmallVec<[&'m [u8]; 4]>,
    is_changed: bool,
    /// What we wrote into the Record-Route of the dialog, if the request is of one.
    pub(super) token: Option<Token>,
    /// Whether the token came in a SIPS URI: the dialog began so.
    pub(super) is_by_sips: bool,
    /// The flow to a phone of another registrar, whose Path we are in.
    pub(super) edge_flow: Option<Flow>,
}

/// Who a request is for.
#[derive(Debug)]
pub(crate) enum Destination<'m> {
    /// This server itself.
    Server,
    /// It goes on, or to nobody, for this reason.
    Onward(Result<Onward<'m>, NoRoute>),
}

/// Who a request is for that goes on.
#[derive(Debug)]
pub(crate) enum Onward<'m> {
    /// A user of one of our domains, by name or number, without escapes.
    User { user: Cow<'m, [u8]>, domain: DomainIndex },
    /// Somebody else, this way. The request URI to forward with may not be the one that came.
    Elsewhere { next_hop: NextHop, flow_bound: bool, uri: &'m [u8], routes: Option<Vec<u8>> },
}

/// How many Route elements that lead here are looked into.
const MOST_READ: usize = 3;

/// Undoes strict routing and takes our own routes away.
pub(crate) fn preprocess<'m>(
    message: &Message<'m>,
    head: &RequestHead<'m>,
    env: &Env<'_>,
) -> Preprocessed<'m> {
    let (settings, keys) = (env.settings, env.keys);
    let mut routes: SmallVec<[&'m [u8]; 4]> = message.elements(HeaderName::Route).collect();
    let (mut uri, mut uri_bytes) = (head.uri, head.uri_bytes);
    let mut is_changed = false;
    // What is not of a dialog is not by a token either.
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
        // The element before us is a strict router: it put the request URI at the end.
        (uri, uri_bytes) = (target, address.uri_bytes);
        routes.pop();
        token = Some(own_token);
        is_by_sips = own.secure;
        is_changed = true;
    }
    let mut edge_flow = None;
    let mut passed = 0;
    while let Some(own) = routes.get(passed).and_then(|route| route_uri(route))
        && settings.is_us(&own.host, own.port).is_some()
    {
        // A phone may put its outbound proxy before ours. To look at all would cost much where
        // there are many.
        if passed < MOST_READ {
            if token.is_none() {
                token = token_of(&own);
                is_by_sips = own.secure;
            }
            edge_flow = edge_flow.or_else(|| edge::flow_of(&own, env.now, &keys.edge));
        }
        passed += 1;
        is_changed = true;
    }
    routes.drain(..passed);
    Preprocessed { uri, uri_bytes, routes, is_changed, token, is_by_sips, edge_flow }
}

impl<'m> Preprocessed<'m> {
    /// The Route elements that are left.
    pub(crate) fn left(&self) -> &[&'m [u8]] {
        &self.routes
    }

    /// Who the request is for. `flow` is the one that leads to the other end of its dialog.
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

    /// On to `next_hop` with the request URI that came.
    fn elsewhere(&self, next_hop: NextHop, flow_bound: bool) -> Onward<'m> {
        Onward::Elsewhere { next_hop, flow_bound, uri: self.uri_bytes, routes: self.routes() }
    }

    /// By `next`, the first of the routes that are left.
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
            // The first phone's proxy may be behind the flow.
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

    /// Route lines without those that led here; `None` where nothing changed.
    pub(crate) fn routes(&self) -> Option<Vec<u8>> {
        self.is_changed.then(|| lines(&self.routes))
    }
}

/// Whether the scheme is one that this server serves: without TLS there is no SIPS (RFC 5630
/// section 5.3).
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

/// Whether `message` has a token of this server for its dialog in Route. That it holds no longer,
/// or for another target, is found out when the message is read.
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
