//! Record-Route, and the tokens in it for the two ends of a dialog (RFC 3261 section 16.6 step 4
//! and 16.7 step 8).

use super::dialogs::Place;
use super::token::{End, Identity, Life, MAX_TEXT, Sender, TargetHash, Token, routes_hash};
use super::via_branch::{Answer, DialogFields};
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::keys::Key;
use crate::core::lines::write_address;
use crate::core::next_hop::is_flow_bound;
use crate::core::settings::Settings;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use sip::dialog::DialogId;
use sip::header::NameAddr;
use sip::uri::is_sips;
use sip::{HeaderName, Message, SipUri, Transport, Uri};
use smallvec::SmallVec;

/// The end of the dialog at the sender of `request`, which came on `arrived_on`.
pub(super) fn end_of_sender(request: &Message<'_>, arrived_on: &Flow, env: &Env<'_>) -> End {
    let keys = env.keys;
    let is_bound = |uri: &SipUri<'_>| is_flow_bound(request, uri, arrived_on, env.settings);
    let uri = uri_of_contact(request);
    let flow = uri.as_ref().is_some_and(is_bound).then_some(*arrived_on);
    End {
        target: uri
            .map_or(TargetHash::NONE, |uri| TargetHash::new(&keys.token, &uri, flow.is_some())),
        routes: routes_hash(&keys.token, request.elements(HeaderName::RecordRoute)),
        flow,
        carrier: None,
        scope: env.settings.scope_of(arrived_on),
    }
}

/// The SIP URI in Contact.
fn uri_of_contact<'m>(request: &Message<'m>) -> Option<SipUri<'m>> {
    let contact = request.elements(HeaderName::Contact).next()?;
    match NameAddr::parse(HeaderName::Contact, contact).ok()?.uri() {
        Ok(Uri::Sip(uri)) => Some(uri),
        _ => None,
    }
}

/// The flows of a request through this server.
pub(super) struct Ways<'a> {
    /// The flow that the request came on.
    pub(super) from: &'a Flow,
    /// The URI that the request is sent to.
    pub(super) uri: &'a [u8],
    /// The flow that the request is sent on.
    pub(super) to: &'a Flow,
    /// True if later requests of the dialog must follow `to`.
    pub(super) follows: bool,
}

/// The names in our domains that the two ends of a dialog may give in From.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    /// The authenticated name of the sender of the first request.
    pub(crate) sender: Identity,
    /// The called user. To is not evidence of it, because the sender chooses To.
    pub(crate) answerer: Identity,
}

/// Appends the Record-Route lines for `request`. There are two if the local addresses of the flows
/// differ, so that each side gets an address that it can reach (RFC 5658).
pub(super) fn write_record_route(
    request: &Message<'_>,
    names: Names,
    ways: &Ways<'_>,
    env: &Env<'_>,
    lines: &mut Vec<u8>,
) {
    let Ways { from, uri, to, follows } = *ways;
    let name_addr = |name| NameAddr::parse(name, request.value(name).unwrap_or_default()).ok();
    let called = name_addr(HeaderName::To);
    let from_tag = name_addr(HeaderName::From).and_then(|from| from.tag());
    let token = Token::new(
        env.now,
        Life::Dialog,
        end_of_sender(request, from, env),
        names.answerer,
        Some(Sender {
            identity: names.sender,
            onward: follows.then_some(*to),
            scope: env.settings.scope_of(to),
        }),
    );
    let id = DialogId {
        call_id: request.value(HeaderName::CallId).unwrap_or_default(),
        local_tag: from_tag.unwrap_or_default(),
        remote_tag: called.and_then(|called| called.tag()).unwrap_or_default(),
    };
    let user = token.text(&env.keys.token, &id);
    // RFC 5630 section 5.3.
    let is_sips = request.request_uri().is_some_and(is_sips);
    let mut line = |flow: &Flow, called| {
        lines.extend_from_slice(b"Record-Route: <");
        lines.extend_from_slice(if is_sips { b"sips:" } else { b"sip:" });
        lines.extend_from_slice(&user);
        write_own_end(flow, called, is_sips, lines);
        lines.extend_from_slice(b">\r\n");
    };
    let inner = env.settings.called_by(to, || address_in(uri));
    let outer = env.settings.called_by(from, || address_of_sender(request));
    line(to, inner);
    if (from.transport, from.local, outer) != (to.transport, to.local, inner) {
        line(from, outer);
    }
}

/// The address in a SIP URI.
pub(super) fn address_in(uri: &[u8]) -> Option<IpAddr> {
    match Uri::parse(uri) {
        Ok(Uri::Sip(uri)) => uri.host.ip(),
        _ => None,
    }
}

/// The address that the sender of `request` names as its own.
fn address_of_sender(request: &Message<'_>) -> Option<IpAddr> {
    let contact = || uri_of_contact(request).and_then(|uri| uri.host.ip());
    request.top_via().ok().and_then(|via| via.host.ip()).or_else(contact)
}

/// Appends the part after the token in a Record-Route or Path: the local end of `flow`, by its
/// address `called`. A SIPS URI implies TLS.
pub(super) fn write_own_end(flow: &Flow, called: SocketAddr, is_sips: bool, lines: &mut Vec<u8>) {
    lines.push(b'@');
    write_address(lines, called);
    if flow.transport.is_stream() && !(is_sips && flow.transport == Transport::Tls) {
        lines.extend_from_slice(b";transport=");
        lines.extend_from_slice(flow.transport.uri_param().as_bytes());
    }
    lines.extend_from_slice(b";lr");
}

/// Appends `lines`, which begin with the Record-Route for the flow `before`, with that Record-Route
/// rewritten for the flow `now`. Each flow has the address by which the peer knows the local end.
pub(super) fn write_record_route_anew(
    lines: &[u8],
    [before, now]: [(&Flow, SocketAddr); 2],
    out: &mut Vec<u8>,
) {
    let mut old = Vec::new();
    let is_sips = lines.starts_with(b"Record-Route: <sips:");
    write_own_end(before.0, before.1, is_sips, &mut old);
    old.extend_from_slice(b">\r\n");
    let first = memchr::memchr(b'\n', lines).map_or(0, |end| end + 1);
    let (line, rest) = lines.split_at(first);
    match line.strip_suffix(&old[..]) {
        Some(start) if start.starts_with(b"Record-Route: ") => {
            out.extend_from_slice(start);
            write_own_end(now.0, now.1, is_sips, out);
            out.extend_from_slice(b">\r\n");
        }
        _ => out.extend_from_slice(line),
    }
    out.extend_from_slice(rest);
}

/// The replacement of the token in `request` for the flow `to`. The token was written before the
/// destination was known.
pub(super) fn token_for_place<'m>(
    request: &Message<'m>,
    to: &Flow,
    env: &Env<'_>,
) -> Option<NewToken<'m>> {
    let tag_of = |name| NameAddr::parse(name, request.value(name)?).ok()?.tag();
    let given = DialogId {
        call_id: request.value(HeaderName::CallId)?,
        local_tag: tag_of(HeaderName::From)?,
        remote_tag: tag_of(HeaderName::To).unwrap_or_default(),
    };
    let key = &env.keys.token;
    let first = request.elements(HeaderName::RecordRoute).next()?;
    let (old, token, sender) = own_token(first, &given, key)?;
    let sender = Sender { scope: env.settings.scope_of(to), ..sender };
    let new = Token { sender: Some(sender), ..token };
    Some(NewToken { old, new: new.text(key, &given), end: new.end })
}

/// A token that replaces another one.
#[derive(Clone, Debug)]
pub(super) struct NewToken<'m> {
    old: &'m [u8],
    new: SmallVec<[u8; MAX_TEXT]>,
    /// The end that the new token leads to.
    end: End,
}

impl NewToken<'_> {
    /// Appends `line` with every occurrence of the old token replaced by the new one.
    pub(super) fn write(&self, line: &[u8], out: &mut Vec<u8>) {
        let mut copied = 0;
        // A token is a user part, so it ends at the `@`.
        for at in memchr::memchr_iter(b'@', line) {
            if let Some(before) = line[copied..at].strip_suffix(self.old) {
                out.extend_from_slice(before);
                out.extend_from_slice(&self.new);
                copied = at;
            }
        }
        out.extend_from_slice(&line[copied..]);
    }
}

/// The handling of the Record-Route of a response.
#[derive(Clone, Copy, Default)]
pub(crate) enum RecordRoute<'a> {
    #[default]
    Kept,
    /// The field is removed. There is no dialog, and the token in the field is meant for the
    /// answerer alone.
    Removed,
    /// The token for the sender replaces that for the answerer.
    With(&'a NewToken<'a>),
}

/// The tokens in the Record-Route of a response.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time, for a moment, and mostly the large one"
)]
pub(super) enum Tokens<'m> {
    /// No token of this server.
    None,
    /// A token for the answerer, and no dialog that a token for the sender could be made for.
    Stray,
    /// A token that is replaced by that for the sender.
    New(NewToken<'m>),
}

impl Tokens<'_> {
    pub(super) const fn record_route(&self) -> RecordRoute<'_> {
        match self {
            Self::None => RecordRoute::Kept,
            Self::Stray => RecordRoute::Removed,
            Self::New(token) => RecordRoute::With(token),
        }
    }

    /// The place that the token for the sender leads to, if there is one.
    pub(super) const fn place(&self) -> Option<Place> {
        match self {
            Self::New(NewToken { end: End { target, flow, scope, .. }, .. }) => {
                Some(Place { target: *target, flow: *flow, scope: *scope })
            }
            Self::None | Self::Stray => None,
        }
    }
}

/// The token for the sender of the request that the response `answer` is for. It replaces the token
/// for the answerer and leads to the answerer (RFC 3261 section 16.7 step 8). If the response came
/// on the connection that was `opened` for the request, the token names that connection.
pub(super) fn token_for_sender<'m>(
    answer: &Answer<'_, 'm>,
    status: u16,
    early: Life,
    opened: Option<Flow>,
    env: &Env<'_>,
) -> Tokens<'m> {
    let response = answer.message;
    if !response.has(HeaderName::RecordRoute) {
        return Tokens::None;
    }
    let has_dialog = (101..300).contains(&status);
    let new = has_dialog.then(|| new_token(answer, status, early, opened, env)).flatten();
    let mut routes = response.elements(HeaderName::RecordRoute);
    match new {
        Some(token) => Tokens::New(token),
        None if !has_dialog || routes.any(|route| leads_here(route, env.settings)) => Tokens::Stray,
        None => Tokens::None,
    }
}

/// True if a Record-Route element names this server.
fn leads_here(element: &[u8], settings: &Settings) -> bool {
    let uri = NameAddr::parse(HeaderName::RecordRoute, element).map(|address| address.uri());
    matches!(uri, Ok(Ok(Uri::Sip(uri))) if settings.is_us(&uri.host, uri.port).is_some())
}

fn new_token<'m>(
    answer: &Answer<'_, 'm>,
    status: u16,
    early: Life,
    opened: Option<Flow>,
    env: &Env<'_>,
) -> Option<NewToken<'m>> {
    let Answer { message: response, said: DialogFields { call_id, from_tag, to_tag, .. } } =
        *answer;
    if from_tag.is_empty() || to_tag.is_empty() {
        return None;
    }
    let key = &env.keys.token;
    let given = DialogId { call_id, local_tag: from_tag, remote_tag: to_tag };
    // The elements above the entry of this server are the downstream proxies, the last one first.
    let mut behind: SmallVec<[&[u8]; 4]> = SmallVec::new();
    let (old, token, sender) = response.elements(HeaderName::RecordRoute).find_map(|element| {
        let own = own_token(element, &given, key);
        if own.is_none() {
            behind.push(element);
        }
        own
    })?;
    let flow = sender.onward;
    let contact = response.elements(HeaderName::Contact).next();
    let end = End {
        target: TargetHash::of_contact(key, contact, flow.is_some()),
        routes: routes_hash(key, behind.iter().rev().copied()),
        flow,
        carrier: opened.filter(|_| flow.is_none()),
        scope: sender.scope,
    };
    let life = if status < 200 { early } else { token.life };
    let token = Token::new(env.now, life, end, sender.identity, None);
    let id = DialogId { call_id, local_tag: to_tag, remote_tag: from_tag };
    Some(NewToken { old, new: token.text(key, &id), end })
}

/// Returns the token that this server wrote into `element` of a request, with its text and the data
/// on the sender of the request.
fn own_token<'m>(
    element: &'m [u8],
    given: &DialogId<'_>,
    key: &Key,
) -> Option<(&'m [u8], Token, Sender)> {
    let Ok(Uri::Sip(uri)) = NameAddr::parse(HeaderName::RecordRoute, element).ok()?.uri() else {
        return None;
    };
    let user = uri.user?;
    // Some phones escape characters that need no escape (RFC 3261 section 19.1.4).
    let token = Token::parse(key, given, &sip::uri::unescape(user))?;
    Some((user, token, token.sender?))
}
