//! Dialogs: what the two ends of a call or a subscription know of each other (RFC 3261 section 12).
//!
//! A dialog here is a small value. It holds no message and no timer; its owner finds the dialog
//! that a message belongs to, asks here whether a request is in order, and lets the dialog write
//! the beginning of its own requests. One INVITE can make several dialogs, one for each tag that
//! answers it.

use crate::emit::Emit;
use crate::header::{CSeq, HeaderError, HeaderName, NameAddr};
use crate::message::{Message, Writer};
use crate::method::Method;
use crate::uri::Uri;
use alloc::vec::Vec;
use core::fmt;

/// Hops that our requests may take (RFC 3261 section 8.1.1.6).
const MAX_FORWARDS: u32 = 70;

/// How far a dialog is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing has come from the other end. A request may make a dialog of it; those of REGISTER
    /// and OPTIONS never do.
    Initial,
    /// There was a provisional response.
    Early,
    /// There was a 2xx.
    Confirmed,
}

/// What tells a dialog from all others (RFC 3261 section 12), as this end sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DialogId<'a> {
    /// Call-ID.
    pub call_id: &'a [u8],
    /// The tag of this end.
    pub local_tag: &'a [u8],
    /// The tag of the other end; empty where it has none.
    pub remote_tag: &'a [u8],
}

impl<'a> DialogId<'a> {
    /// The dialog that a request which came in belongs to, or a response that came to a request of
    /// ours: From and To are the other way round.
    ///
    /// # Errors
    /// [`HeaderError`] where Call-ID, From or To is missing or malformed.
    pub fn of(message: &Message<'a>) -> Result<Self, HeaderError> {
        let tag = |name| -> Result<&'a [u8], HeaderError> {
            Ok(NameAddr::parse(name, required(message, name)?)?.tag().unwrap_or_default())
        };
        let (from, to) = (tag(HeaderName::From)?, tag(HeaderName::To)?);
        let (local_tag, remote_tag) = match message.status() {
            Some(_) => (from, to),
            None => (to, from),
        };
        Ok(Self { call_id: required(message, HeaderName::CallId)?, local_tag, remote_tag })
    }
}

/// Why a message makes no dialog, or is not taken within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DialogError {
    /// A header field is missing or malformed: a request gets a 400.
    Header(HeaderError),
    /// The response is a 100 or refuses the request.
    Status(u16),
    /// The request is older than one that came before: it gets a 500 (RFC 3261 section 12.2.2).
    OutOfOrder,
}

impl DialogError {
    /// The status to refuse a request with.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::OutOfOrder => 500,
            Self::Header(_) | Self::Status(_) => 400,
        }
    }
}

impl From<HeaderError> for DialogError {
    fn from(error: HeaderError) -> Self {
        Self::Header(error)
    }
}

impl fmt::Display for DialogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(error) => error.fmt(f),
            Self::Status(status) => write!(f, "a response {status} makes no dialog"),
            Self::OutOfOrder => f.write_str("the request is older than one that came before"),
        }
    }
}

impl core::error::Error for DialogError {}

/// One end's view of a dialog, or of what may become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialog {
    state: State,
    call_id: Vec<u8>,
    /// From and To of requests that this end sends.
    local: Vec<u8>,
    remote: Vec<u8>,
    local_cseq: u32,
    /// The highest that has come.
    remote_cseq: Option<u32>,
    target: Vec<u8>,
    routes: Vec<Vec<u8>>,
}

impl Dialog {
    /// What may become a dialog: its requests go to `target`, from `local` to `remote`, both
    /// addresses without a tag, such as `<sip:alice@example.com>`. `call_id` and `local_tag` must
    /// be like no others.
    #[must_use]
    pub fn new(
        call_id: impl Emit,
        local: impl Emit,
        local_tag: impl Emit,
        remote: impl Emit,
        target: impl Emit,
    ) -> Self {
        Self {
            state: State::Initial,
            call_id: written(call_id),
            local: written((local, ";tag=", local_tag)),
            remote: written(remote),
            local_cseq: 0,
            remote_cseq: None,
            target: written(target),
            routes: Vec::new(),
        }
    }

    /// The dialog that `request` makes, which came in, when it is answered with `local_tag` in To
    /// (RFC 3261 section 12.1.1). A request that has a tag in To keeps it: a NOTIFY may come before
    /// the response to the SUBSCRIBE that asked for it (RFC 6665 section 4.4.1).
    ///
    /// # Errors
    /// [`DialogError::Header`] where Call-ID, From, To, CSeq or Contact is missing, or one of them
    /// or Record-Route is malformed.
    pub fn of_request(request: &Message<'_>, local_tag: &[u8]) -> Result<Self, DialogError> {
        let to = required(request, HeaderName::To)?;
        let has_tag = NameAddr::parse(HeaderName::To, to)?.tag().is_some();
        let target = contact_of(request)?.ok_or(missing(HeaderName::Contact))?;
        let from = required(request, HeaderName::From)?;
        NameAddr::parse(HeaderName::From, from)?;
        Ok(Self {
            state: State::Early,
            call_id: required(request, HeaderName::CallId)?.to_vec(),
            local: match has_tag {
                true => to.to_vec(),
                false => written((to, ";tag=", local_tag)),
            },
            remote: from.to_vec(),
            local_cseq: 0,
            remote_cseq: Some(CSeq::parse(required(request, HeaderName::CSeq)?)?.number),
            target: target.to_vec(),
            routes: record_routes(request)?,
        })
    }

    /// The dialog that `response` makes, which came to a request of this end's (RFC 3261 section
    /// 12.1.2). Each tag that answers makes one of its own. A response without a good Contact leads
    /// to the URI in To.
    ///
    /// # Errors
    /// [`DialogError::Status`] for a 100 and what is not below 300, [`DialogError::Header`] where
    /// Call-ID, From, To or CSeq is missing, or one of them or Record-Route is malformed.
    pub fn of_response(response: &Message<'_>) -> Result<Self, DialogError> {
        let state = match response.status() {
            Some(101..200) => State::Early,
            Some(200..300) => State::Confirmed,
            status => return Err(DialogError::Status(status.unwrap_or_default())),
        };
        let (from, to) =
            (required(response, HeaderName::From)?, required(response, HeaderName::To)?);
        NameAddr::parse(HeaderName::From, from)?;
        let answerer = good_address(HeaderName::To, to)?;
        let target = contact_of(response).ok().flatten().unwrap_or(answerer.uri_bytes);
        let mut routes = record_routes(response)?;
        routes.reverse();
        Ok(Self {
            state,
            call_id: required(response, HeaderName::CallId)?.to_vec(),
            local: from.to_vec(),
            remote: to.to_vec(),
            local_cseq: CSeq::parse(required(response, HeaderName::CSeq)?)?.number,
            remote_cseq: None,
            target: target.to_vec(),
            routes,
        })
    }

    /// The 2xx `response` has come for this dialog. That of the INVITE which made it has the route
    /// set (RFC 3261 section 13.2.2.4); later ones only say where the other end is now.
    ///
    /// # Errors
    /// As of [`Dialog::of_response`].
    pub fn confirm_by(&mut self, response: &Message<'_>) -> Result<(), DialogError> {
        let confirmed = Self::of_response(response)?;
        if self.state != State::Confirmed {
            self.state = State::Confirmed;
            self.routes = confirmed.routes;
        }
        self.refresh_target(response);
        Ok(())
    }

    /// This end has sent a 2xx.
    pub const fn confirm(&mut self) {
        self.state = State::Confirmed;
    }

    /// How far it is.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// What tells it from others.
    #[must_use]
    pub fn id(&self) -> DialogId<'_> {
        let tag = |name, value| {
            let address = NameAddr::parse(name, value).ok();
            address.and_then(|address| address.tag()).unwrap_or_default()
        };
        DialogId {
            call_id: &self.call_id,
            local_tag: tag(HeaderName::From, &self.local),
            remote_tag: tag(HeaderName::To, &self.remote),
        }
    }

    /// The address of this end, with its tag, as in From of its requests.
    #[must_use]
    pub fn local(&self) -> &[u8] {
        &self.local
    }

    /// The address of the other end, with its tag if it has one.
    #[must_use]
    pub fn remote(&self) -> &[u8] {
        &self.remote
    }

    /// The remote target: the URI where the other end is to be reached.
    #[must_use]
    pub fn target(&self) -> &[u8] {
        &self.target
    }

    /// Sets the request URI of requests that begin something: after a redirection (RFC 3261 section
    /// 8.1.3.4).
    pub fn set_target(&mut self, target: impl Emit) {
        self.target.clear();
        target.emit(&mut self.target);
    }

    /// The route set, in the order of the Route header field.
    #[must_use]
    pub fn routes(&self) -> &[Vec<u8>] {
        &self.routes
    }

    /// Sets a route for what begins a dialog: an outbound proxy (RFC 3261 section 8.1.2), or a
    /// service route (RFC 3608). The dialog that comes of the response has its own.
    pub fn set_routes(&mut self, routes: impl IntoIterator<Item: Emit>) {
        self.routes = routes.into_iter().map(written).collect();
    }

    /// The URI that requests are sent to: the first route, or without one the target (RFC 3261
    /// section 8.1.2).
    #[must_use]
    pub fn next_hop(&self) -> &[u8] {
        let first = self.routes.first().map(|route| uri_of_route(route));
        first.unwrap_or(&self.target)
    }

    /// The request URI of requests: the target, or a first route that knows no other way (RFC 3261
    /// section 12.2.1.1). The header fields that a Contact may have in its URI are left out, since
    /// none may be here (section 19.1.1).
    #[must_use]
    pub fn request_uri(&self) -> &[u8] {
        let uri = self.strict_route().unwrap_or(&self.target);
        match Uri::parse(uri) {
            Ok(Uri::Sip(sip)) if !sip.headers.is_empty() => {
                uri.get(..uri.len() - sip.headers.len() - 1).unwrap_or(uri)
            }
            _ => uri,
        }
    }

    /// The first route, where it has no `lr`: then it is the request URI, and the target is the
    /// last route.
    fn strict_route(&self) -> Option<&[u8]> {
        self.routes.first().map(|route| uri_of_route(route)).filter(|uri| !is_loose(uri))
    }

    /// The number of the last request that this end has sent, 0 before the first. The ACK of an
    /// INVITE and its CANCEL have that of the INVITE.
    #[must_use]
    pub const fn local_cseq(&self) -> u32 {
        self.local_cseq
    }

    /// The number for the next request.
    pub const fn next_cseq(&mut self) -> u32 {
        self.local_cseq += 1;
        self.local_cseq
    }

    /// Makes the next request have a number above `cseq`: after a restart, or of requests that were
    /// sent by others for this end.
    pub fn skip_cseq(&mut self, cseq: u32) {
        self.local_cseq = self.local_cseq.max(cseq);
    }

    /// Takes note of a request that came in within the dialog (RFC 3261 section 12.2.2).
    ///
    /// # Errors
    /// [`DialogError::OutOfOrder`] where a later one has come, [`DialogError::Header`] where CSeq
    /// is missing or malformed. ACK and CANCEL have the number of their INVITE and are in order.
    pub fn receive(&mut self, request: &Message<'_>) -> Result<(), DialogError> {
        let cseq = CSeq::parse(required(request, HeaderName::CSeq)?)?;
        if matches!(cseq.method, Method::Ack | Method::Cancel) {
            return Ok(());
        }
        if self.remote_cseq.is_some_and(|highest| cseq.number < highest) {
            return Err(DialogError::OutOfOrder);
        }
        self.remote_cseq = Some(cseq.number);
        Ok(())
    }

    /// The other end is where the Contact of `message` says from now on: of a request that
    /// refreshes the target (INVITE, UPDATE, SUBSCRIBE, NOTIFY, REFER) and is accepted, or of a 2xx
    /// to one (RFC 3261 section 12.2.1.2). Without a Contact it stays where it is.
    pub fn refresh_target(&mut self, message: &Message<'_>) {
        if let Ok(Some(target)) = contact_of(message) {
            self.target.clear();
            self.target.extend_from_slice(target);
        }
    }

    /// Begins a request with its start line, `via` and all that the dialog says (RFC
    /// 3261 section 12.2.1.1): Max-Forwards, Route, From, To, Call-ID and CSeq.
    pub fn request<'o>(
        &self,
        method: Method<'_>,
        cseq: u32,
        via: impl Emit,
        out: &'o mut Vec<u8>,
    ) -> Writer<'o> {
        let strict = self.strict_route();
        let writer = Writer::request(out, method, self.request_uri())
            .field(HeaderName::Via, via)
            .field(HeaderName::MaxForwards, MAX_FORWARDS)
            .each(HeaderName::Route, self.routes.iter().skip(usize::from(strict.is_some())))
            .each(HeaderName::Route, strict.map(|_| ("<", &self.target, ">")));
        writer
            .field(HeaderName::From, &self.local)
            .field(HeaderName::To, &self.remote)
            .field(HeaderName::CallId, &self.call_id)
            .field(HeaderName::CSeq, CSeq { number: cseq, method })
    }
}

fn written(value: impl Emit) -> Vec<u8> {
    let mut out = Vec::new();
    value.emit(&mut out);
    out
}

const fn missing(name: HeaderName) -> HeaderError {
    HeaderError { name, expected: "in the message" }
}

fn required<'a>(message: &Message<'a>, name: HeaderName) -> Result<&'a [u8], HeaderError> {
    message.value(name).ok_or(missing(name))
}

/// The URI of the first Contact.
fn contact_of<'a>(message: &Message<'a>) -> Result<Option<&'a [u8]>, HeaderError> {
    message
        .elements(HeaderName::Contact)
        .next()
        .map(|element| good_address(HeaderName::Contact, element))
        .transpose()
        .map(|contact| contact.map(|contact| contact.uri_bytes))
}

fn record_routes(message: &Message<'_>) -> Result<Vec<Vec<u8>>, HeaderError> {
    let elements = message.elements(HeaderName::RecordRoute);
    elements
        .map(|element| good_address(HeaderName::RecordRoute, element).map(|_| element.to_vec()))
        .collect()
}

/// An address whose URI can be a request URI.
fn good_address(name: HeaderName, element: &[u8]) -> Result<NameAddr<'_>, HeaderError> {
    let address = NameAddr::parse(name, element)?;
    match address.uri() {
        Ok(_) => Ok(address),
        Err(_) => Err(HeaderError { name, expected: "an address with a URI" }),
    }
}

/// The URI in a Route element.
fn uri_of_route(element: &[u8]) -> &[u8] {
    NameAddr::parse(HeaderName::Route, element).map_or(element, |route| route.uri_bytes)
}

fn is_loose(uri: &[u8]) -> bool {
    matches!(Uri::parse(uri), Ok(Uri::Sip(uri)) if uri.is_loose())
}

#[cfg(test)]
mod tests;
