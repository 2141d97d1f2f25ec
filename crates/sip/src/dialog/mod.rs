//! Dialogs of calls and subscriptions (RFC 3261 section 12).
//!
//! A dialog is a small value without messages and timers. Its owner finds the dialog of a message,
//! checks requests with [`Dialog::check_cseq`], and starts its own requests with
//! [`Dialog::request`].
//! One INVITE can create several dialogs, one for each To tag of the responses.
//! answers it.

use crate::encode::Encode;
use crate::header::{CSeq, HeaderError, HeaderName, NameAddr};
use crate::message::{Message, Writer};
use crate::method::Method;
use crate::uri::Uri;
use alloc::vec::Vec;
use core::fmt;

/// The Max-Forwards value of requests (RFC 3261 section 8.1.1.6).
const MAX_FORWARDS: u32 = 70;

/// The state of a dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Before the first response. A request may create a dialog; REGISTER and OPTIONS never do.
    Initial,
    /// After a provisional response.
    Early,
    /// After a 2xx.
    Confirmed,
}

/// The dialog ID (RFC 3261 section 12), from the view of the local end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DialogId<'a> {
    /// Call-ID.
    pub call_id: &'a [u8],
    /// The tag of the local end.
    pub local_tag: &'a [u8],
    /// The tag of the remote end; empty if it has none.
    pub remote_tag: &'a [u8],
}

impl<'a> DialogId<'a> {
    /// The dialog ID of a received request, or of a received response. From and To are swapped
    /// between them.
    ///
    /// # Errors
    /// [`HeaderError`] if Call-ID, From or To is missing or malformed.
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

/// The reason why a message creates no dialog, or is rejected within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DialogError {
    /// A header field is missing or malformed. A request gets a 400.
    Header(HeaderError),
    /// The response is a 100 or a final response other than 2xx.
    Status(u16),
    /// The request is older than the last one. It gets a 500 (RFC 3261 section 12.2.2).
    OutOfOrder,
}

impl DialogError {
    /// The status code of the response that rejects the request.
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
            Self::Status(status) => write!(f, "a {status} response creates no dialog"),
            Self::OutOfOrder => f.write_str("the request is older than a previous one"),
        }
    }
}

impl core::error::Error for DialogError {}

/// The local view of a dialog, or of a dialog that a request may create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialog {
    state: State,
    call_id: Vec<u8>,
    /// From and To of sent requests.
    local: Vec<u8>,
    remote: Vec<u8>,
    local_cseq: u32,
    /// The highest sequence number received.
    remote_cseq: Option<u32>,
    target: Vec<u8>,
    routes: Vec<Vec<u8>>,
    /// The Max-Forwards of requests.
    max_forwards: u32,
}

impl Dialog {
    /// Creates the state of a request that may create a dialog. The request is sent to `target`,
    /// from `local` to `remote`, both addresses without a tag, such as `<sip:alice@example.com>`.
    /// `call_id` and `local_tag` must be globally unique.
    #[must_use]
    pub fn new(
        call_id: impl Encode,
        local: impl Encode,
        local_tag: impl Encode,
        remote: impl Encode,
        target: impl Encode,
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
            max_forwards: MAX_FORWARDS,
        }
    }

    /// Creates the dialog of the received request `request`, answered with `local_tag` in To (RFC
    /// 3261 section 12.1.1). A request with a tag in To keeps it: a NOTIFY may arrive before the
    /// response to its SUBSCRIBE (RFC 6665 section 4.4.1).
    ///
    /// # Errors
    /// [`DialogError::Header`] if Call-ID, From, To, CSeq or Contact is missing, or one of them or
    /// Record-Route is malformed.
    pub fn from_request(request: &Message<'_>, local_tag: &[u8]) -> Result<Self, DialogError> {
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
            max_forwards: MAX_FORWARDS,
        })
    }

    /// Creates the dialog of a received response (RFC 3261 section 12.1.2). Each To tag creates a
    /// separate dialog. If the response has no valid Contact, the URI in To is the remote target.
    ///
    /// # Errors
    /// [`DialogError::Status`] for a 100 and for a status of 300 or above, [`DialogError::Header`]
    /// if Call-ID, From, To or CSeq is missing, or one of them or Record-Route is malformed.
    pub fn from_response(response: &Message<'_>) -> Result<Self, DialogError> {
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
            max_forwards: MAX_FORWARDS,
        })
    }

    /// Updates the dialog with the received 2xx `response`. The 2xx of the INVITE that created the
    /// dialog sets the route set (RFC 3261 section 13.2.2.4). Later ones only refresh the remote
    /// target.
    ///
    /// # Errors
    /// The errors of [`Dialog::from_response`].
    pub fn on_success_received(&mut self, response: &Message<'_>) -> Result<(), DialogError> {
        let confirmed = Self::from_response(response)?;
        if self.state != State::Confirmed {
            self.state = State::Confirmed;
            self.routes = confirmed.routes;
        }
        self.refresh_target(response);
        Ok(())
    }

    /// Confirms the dialog after the local end has sent a 2xx.
    pub const fn on_success_sent(&mut self) {
        self.state = State::Confirmed;
    }

    /// The state of the dialog.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// The dialog ID.
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

    /// The local address with its tag, as in From of sent requests.
    #[must_use]
    pub fn local(&self) -> &[u8] {
        &self.local
    }

    /// The remote address, with its tag if it has one.
    #[must_use]
    pub fn remote(&self) -> &[u8] {
        &self.remote
    }

    /// The remote target.
    #[must_use]
    pub fn remote_target(&self) -> &[u8] {
        &self.target
    }

    /// Sets the remote target of an initial request, after a redirection (RFC 3261 section
    /// 8.1.3.4).
    pub fn set_target(&mut self, target: impl Encode) {
        self.target.clear();
        target.encode(&mut self.target);
    }

    /// The route set, in the order of the Route header field.
    #[must_use]
    pub fn route_set(&self) -> &[Vec<u8>] {
        &self.routes
    }

    /// Sets the Max-Forwards of a request that continues another one. It is 70 otherwise.
    pub const fn set_max_forwards(&mut self, max_forwards: u32) {
        self.max_forwards = max_forwards;
    }

    /// Sets the route of an initial request: an outbound proxy (RFC 3261 section 8.1.2), or a
    /// service route (RFC 3608). The dialog created by the response has a route set of its own.
    pub fn set_routes(&mut self, routes: impl IntoIterator<Item: Encode>) {
        self.routes = routes.into_iter().map(written).collect();
    }

    /// The URI to which requests are sent: the first route, or the remote target without a route
    /// set (RFC 3261 section 8.1.2).
    #[must_use]
    pub fn next_hop(&self) -> &[u8] {
        let first = self.routes.first().map(|route| uri_of_route(route));
        first.unwrap_or(&self.target)
    }

    /// The Request-URI of requests: the remote target, or the first route if it is a strict router
    /// (RFC 3261 section 12.2.1.1). Header fields in the URI of a Contact are removed, as section
    /// 19.1.1 requires.
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

    /// The first route, if it has no `lr` parameter. It is then the Request-URI, and the target is
    /// the last route.
    fn strict_route(&self) -> Option<&[u8]> {
        self.routes.first().map(|route| uri_of_route(route)).filter(|uri| !is_loose(uri))
    }

    /// The sequence number of the last sent request, 0 before the first. ACK and CANCEL of an
    /// INVITE use the number of the INVITE.
    #[must_use]
    pub const fn local_cseq(&self) -> u32 {
        self.local_cseq
    }

    /// Increments and returns the sequence number, for the next request.
    pub const fn next_cseq(&mut self) -> u32 {
        self.local_cseq += 1;
        self.local_cseq
    }

    /// Raises the sequence number above `cseq`: after a restart, or after requests that another
    /// element has sent for this end.
    pub fn raise_local_cseq(&mut self, cseq: u32) {
        self.local_cseq = self.local_cseq.max(cseq);
    }

    /// Checks a request received within the dialog and records its sequence number (RFC 3261
    /// section 12.2.2). ACK and CANCEL have the number of their INVITE and are always in order.
    ///
    /// # Errors
    /// [`DialogError::OutOfOrder`] after a request with a higher number, [`DialogError::Header`] if
    /// CSeq is missing or malformed.
    pub fn check_cseq(&mut self, request: &Message<'_>) -> Result<(), DialogError> {
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

    /// Sets the remote target to the Contact of `message`: an accepted target refresh request
    /// (INVITE, UPDATE, SUBSCRIBE, NOTIFY, REFER), or a 2xx to one (RFC 3261 section 12.2.1.2).
    /// Without a Contact the target is unchanged.
    pub fn refresh_target(&mut self, message: &Message<'_>) {
        if let Ok(Some(target)) = contact_of(message) {
            self.target.clear();
            self.target.extend_from_slice(target);
        }
    }

    /// Starts a request with its start line, `via` and the header fields of the dialog (RFC 3261
    /// section 12.2.1.1): Max-Forwards, Route, From, To, Call-ID and CSeq.
    pub fn request<'o>(
        &self,
        method: Method<'_>,
        cseq: u32,
        via: impl Encode,
        out: &'o mut Vec<u8>,
    ) -> Writer<'o> {
        let strict = self.strict_route();
        let writer = Writer::request(out, method, self.request_uri())
            .field(HeaderName::Via, via)
            .field(HeaderName::MaxForwards, self.max_forwards)
            .each(HeaderName::Route, self.routes.iter().skip(usize::from(strict.is_some())))
            .each(HeaderName::Route, strict.map(|_| ("<", &self.target, ">")));
        writer
            .field(HeaderName::From, &self.local)
            .field(HeaderName::To, &self.remote)
            .field(HeaderName::CallId, &self.call_id)
            .field(HeaderName::CSeq, CSeq { number: cseq, method })
    }
}

fn written(value: impl Encode) -> Vec<u8> {
    let mut out = Vec::new();
    value.encode(&mut out);
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

/// Parses an address with a URI that can be a Request-URI.
fn good_address(name: HeaderName, element: &[u8]) -> Result<NameAddr<'_>, HeaderError> {
    let address = NameAddr::parse(name, element)?;
    match address.uri() {
        Ok(_) => Ok(address),
        Err(_) => Err(HeaderError { name, expected: "an address with a URI" }),
    }
}

fn uri_of_route(element: &[u8]) -> &[u8] {
    NameAddr::parse(HeaderName::Route, element).map_or(element, |route| route.uri_bytes)
}

fn is_loose(uri: &[u8]) -> bool {
    matches!(Uri::parse(uri), Ok(Uri::Sip(uri)) if uri.is_loose())
}

#[cfg(test)]
mod tests;
