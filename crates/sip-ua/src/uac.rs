//! The user agent client (RFC 3261 section 8.1): a request is located, sent, retransmitted, sent to
//! the next location, and sent with credentials, until its final response.

use crate::client_transaction::{Cancel, Client, ClientId, Owner, RequestResult, Sent, State};
use crate::config::AccountId;
use crate::core::{Core, contact, via};
use crate::draft::{Draft, SESSION};
use crate::event::{CallId, Event, Failure, Ticket};
use crate::token::Token;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use sip::dialog::Dialog;
use sip::locate::{Destination, Host};
use sip::transaction::TimerAction;
use sip::{Encode, Flow, HeaderName, Instant, Location, Message, Method, Transport, Uri};

/// The maximum length of a request over UDP in bytes, with an unknown path MTU (RFC 3261 section
/// 18.1.1).
const MAX_DATAGRAM: usize = 1300;
/// The maximum number of stored peers that do not accept TCP.
const MAX_WITHOUT_TCP: usize = 64;

/// The reason why a URI has no destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DestinationError {
    /// It is not a SIP URI.
    Uri,
    /// Its host is neither an address nor a valid name.
    Host,
    /// Its transport is unknown.
    Transport,
}

impl fmt::Display for DestinationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uri => "expected a SIP URI",
            Self::Host => "the host is neither an address nor a name",
            Self::Transport => "the transport is unknown",
        })
    }
}

impl core::error::Error for DestinationError {}

/// Returns the destination to locate for requests to `uri` (RFC 3263 section 4).
///
/// # Errors
/// [`DestinationError`] if it is not a SIP URI, or names an unknown transport.
pub fn destination(uri: &[u8]) -> Result<Destination, DestinationError> {
    let Ok(Uri::Sip(uri)) = Uri::parse(uri) else { return Err(DestinationError::Uri) };
    let maddr = uri.params.value("maddr").and_then(|host| Host::parse(host).ok());
    let host = match (maddr, uri.host) {
        (Some(host), _) => host,
        (None, sip::Host::Ip(address)) => Host::Ip(address),
        (None, sip::Host::Name(name)) => Host::parse(name).map_err(|_| DestinationError::Host)?,
    };
    let transport = match uri.transport() {
        Some(None) => return Err(DestinationError::Transport),
        Some(known) => known,
        None => None,
    };
    Ok(Destination { host, port: uri.port, transport, sips: uri.secure })
}

/// Splits the SIP URI `uri` into the part without header fields, which a request URI must not have,
/// and the header fields (RFC 3261 section 19.1.1). `None` if it is not a SIP URI.
pub(crate) fn split_headers(uri: &[u8]) -> Option<(&[u8], &[u8])> {
    let Ok(Uri::Sip(parsed)) = Uri::parse(uri) else { return None };
    // The `?` in front of them is removed. A user part may contain one, too.
    let address = uri.get(..uri.len() - parsed.headers.len())?;
    Some((address.strip_suffix(b"?").unwrap_or(address), parsed.headers))
}

/// Returns the Subject line for the header fields of a URI, if they contain one (RFC 3261 section
/// 19.1.5).
pub(crate) fn subject_line(headers: &[u8]) -> Option<Vec<u8>> {
    let mut fields = headers.split(|byte| *byte == b'&');
    let value = fields.find_map(|field| {
        let (name, value) = field.split_at_checked(b"Subject=".len())?;
        name.eq_ignore_ascii_case(b"Subject=").then_some(value)
    })?;
    let value = sip::uri::unescape(value);
    if value.is_empty() || value.iter().any(u8::is_ascii_control) {
        return None;
    }
    Some([b"Subject: ", &value[..], b"\r\n"].concat())
}

/// Returns the token in the branch of a local request, and true for a CANCEL. `bytes` may be only
/// the beginning of the request: the network returns at most some hundred bytes of an undelivered
/// datagram.
pub(crate) fn branch_of(bytes: &[u8]) -> Option<(u64, bool)> {
    const BEFORE: &[u8] = b";branch=z9hG4bK";
    let at = bytes.windows(BEFORE.len()).position(|window| window == BEFORE)? + BEFORE.len();
    let token = Token::parse(bytes.get(at..at + 16)?)?;
    Some((token.0, bytes.starts_with(b"CANCEL ")))
}

/// The treatment of a request that may exceed a datagram (RFC 3261 section 18.1.1).
pub(crate) enum Oversize {
    /// It does not exceed one.
    No,
    /// It goes by TCP.
    Tcp,
    /// The peer does not accept TCP. The request goes by UDP, shortened if possible.
    Shorten,
}

impl Core {
    /// Returns the treatment of a request of `length` bytes on `flow`.
    pub(crate) fn oversize(&self, flow: &Flow, length: usize) -> Oversize {
        if flow.transport != Transport::Udp || length <= MAX_DATAGRAM {
            Oversize::No
        } else if self.without_tcp.contains(&flow.remote) {
            Oversize::Shorten
        } else {
            Oversize::Tcp
        }
    }

    /// Records that a peer does not accept TCP.
    pub(crate) fn note_without_tcp(&mut self, peer: SocketAddr) {
        if self.without_tcp.len() >= MAX_WITHOUT_TCP {
            self.without_tcp.clear();
        }
        self.without_tcp.insert(peer);
    }

    /// Sends a request on `flow`, or to the location of its next hop.
    pub(crate) fn request(
        &mut self,
        draft: Draft,
        owner: Owner,
        flow: Option<Flow>,
        now: Instant,
    ) -> ClientId {
        let destination = match flow {
            Some(_) => None,
            None => destination(draft.dialog.next_hop()).ok(),
        };
        let Some(destination) = destination else {
            let id = self.clients.insert(draft, owner, State::Unlocatable);
            if let Some(flow) = flow {
                self.transmit(id, flow, now);
            }
            return id;
        };
        let ticket = self.new_ticket();
        self.tell(Event::Locate { ticket, destination });
        self.clients.insert(draft, owner, State::Locating(ticket))
    }

    /// Marks a request with a target that another party has chosen.
    pub(crate) fn mark_redirected(&mut self, id: ClientId) {
        if let Some(client) = self.clients.all.get_mut(id) {
            client.is_redirected = true;
        }
    }

    /// Processes an answer to [`Event::Locate`]: sends the request to the first location.
    pub(crate) fn on_located(
        &mut self,
        ticket: Ticket,
        locations: &[Location],
        now: Instant,
    ) -> Option<RequestResult<'static>> {
        let id = self.clients.of_ticket(ticket)?;
        let client = self.clients.all.get_mut(id)?;
        client.others = locations.iter().filter_map(Location::flow).collect();
        if matches!(client.owner, Owner::Registration(_)) {
            // Their number is bounded: a DNS message holds few addresses of a name.
            self.proxies
                .extend(locations.iter().map(|location| location.remote.ip().to_canonical()));
        }
        match client.others.pop_front() {
            Some(flow) => {
                self.transmit(id, flow, now);
                None
            }
            None => self.give_up(id, Failure::NotLocated),
        }
    }

    /// Writes a request. Its Via is that of `flow`, its Contact that of the flow `chosen`.
    fn write(
        &self,
        client: &Client,
        flow: &Flow,
        chosen: &Flow,
        branch: Token,
        body: &[u8],
    ) -> Vec<u8> {
        let user = self.contact_user(client.draft.account);
        let Client { draft, authorization, .. } = client;
        let mut bytes = Vec::new();
        let uri = draft.dialog.remote_target();
        let contact = draft.contact.as_ref().map(|params| {
            ("Contact: ", self.own_contact(draft, &user, chosen, uri), params, "\r\n")
        });
        draft
            .dialog
            .request(draft.method, draft.cseq, via(flow, branch), &mut bytes)
            .lines(contact)
            .lines((authorization, &draft.lines))
            .field(HeaderName::UserAgent, &self.config.user_agent)
            .body(&draft.body_type, body);
        bytes
    }

    /// The local contact of `draft` on `flow`, in angle brackets. That of a registration has the
    /// parameters of the push notification service.
    #[cfg(feature = "push")]
    fn own_contact(&self, draft: &Draft, user: &[u8], flow: &Flow, uri: &[u8]) -> Vec<u8> {
        let mut own = Vec::new();
        contact(user, flow, uri).encode(&mut own);
        if draft.method == Method::Register && own.pop_if(|last| *last == b'>').is_some() {
            own.extend_from_slice(self.config.push.as_bytes());
            own.push(b'>');
        }
        own
    }

    /// The local contact on `flow`, in angle brackets.
    #[cfg(not(feature = "push"))]
    fn own_contact<'a>(
        &self,
        _: &Draft,
        user: &'a [u8],
        flow: &Flow,
        uri: &[u8],
    ) -> impl Encode + use<'a> {
        contact(user, flow, uri)
    }

    /// Writes the request for `flow` and sends it in a new transaction. A request that exceeds a
    /// datagram goes by TCP, or shortened by UDP if TCP is refused (RFC 3261 section 18.1.1).
    fn transmit(&mut self, id: ClientId, chosen: Flow, now: Instant) {
        let branch = self.tokens.next();
        let timers = self.config.timers;
        let Some(client) = self.clients.all.get(id) else { return };
        let draft = &client.draft;
        let mut flow = chosen;
        let mut bytes = self.write(client, &flow, &chosen, branch, &draft.body);
        let oversize = self.oversize(&flow, bytes.len());
        match (&oversize, self.shorten) {
            (Oversize::Tcp, _) => {
                flow.transport = Transport::Tcp;
                bytes = self.write(client, &flow, &chosen, branch, &draft.body);
            }
            (Oversize::Shorten, Some(shorten)) if draft.body_type == SESSION => {
                bytes = self.write(client, &flow, &chosen, branch, &shorten(&draft.body));
            }
            _ => {}
        }
        let mut sent = Sent::new(flow, branch.0, draft.method, bytes.clone(), &timers, now);
        sent.is_promoted = matches!(oversize, Oversize::Tcp);
        self.clients.start(id, sent);
        self.send(flow, bytes);
    }

    /// Processes a response. Returns the result for the owner of the request, if any.
    pub(crate) fn on_response<'m>(
        &mut self,
        response: &'m Message<'m>,
        now: Instant,
    ) -> Option<RequestResult<'m>> {
        let status = response.status()?;
        let (branch, method) = sip::transaction::client_key(response)?;
        let token = Token::parse(branch.get(sip::header::MAGIC_COOKIE.len()..)?)?;
        let is_cancel = method == Method::Cancel;
        let id = self.clients.of_branch(token.0, is_cancel)?;
        let timers = self.config.timers;
        let client = self.clients.all.get_mut(id)?;
        let State::Sent(sent) = &mut client.state else { return None };
        if is_cancel || client.draft.method != method {
            if is_cancel && sent.machine.on_response(status, &timers, now).ended {
                self.clients.remove(id);
            }
            return None;
        }
        let (flow, owner) = (sent.chosen_flow(), client.owner);
        if sent.given_up.is_some() {
            let is_late = method == Method::Invite && (200..300).contains(&status);
            return is_late.then_some(RequestResult {
                owner: Owner::None,
                id,
                method: Method::Invite,
                flow: Some(flow),
                outcome: Ok(response),
            });
        }
        let action = sent.machine.on_response(status, &timers, now);
        if action.send_ack {
            if sent.ack.is_none() {
                let mut ack = Vec::new();
                if let Ok(request) = Message::parse(&sent.bytes) {
                    request.write_ack(response, &mut ack);
                }
                sent.ack = Some(Box::new((sent.flow, ack)));
            }
            self.repeat_ack(id);
        }
        if !action.pass_up {
            return None;
        }
        if status < 200 {
            self.on_provisional(id, status, now);
        }
        let client = self.clients.all.get_mut(id)?;
        // The owner passes the others on.
        let is_answered = !self.config.passes || client.draft.account.is_some();
        if matches!(status, 401 | 407) && is_answered {
            return match self.answer_challenge(id, response, now) {
                Ok(()) => None,
                Err(failure) => {
                    let method = self.clients.method_of(id)?;
                    if action.ended {
                        self.clients.remove(id);
                    }
                    let (flow, outcome) = (Some(flow), Err(failure));
                    Some(RequestResult { owner, id, method, flow, outcome })
                }
            };
        }
        if status == 503 && self.try_next(id, now) {
            return None;
        }
        let method = self.clients.method_of(id)?;
        if action.ended {
            self.clients.remove(id);
        } else if let Some(client) = self.clients.all.get_mut(id) {
            client.drop_request();
        }
        Some(RequestResult { owner, id, method, flow: Some(flow), outcome: Ok(response) })
    }

    fn on_provisional(&mut self, id: ClientId, status: u16, now: Instant) {
        let Some(client) = self.clients.all.get_mut(id) else { return };
        let State::Sent(sent) = &mut client.state else { return };
        sent.is_proceeding = true;
        sent.is_passed_on |= status > 100;
        if sent.cancel == Cancel::Wanted {
            self.send_cancel(id, now);
        }
    }

    /// Sends the request again with credentials.
    fn answer_challenge(
        &mut self,
        id: ClientId,
        response: &Message<'_>,
        now: Instant,
    ) -> Result<(), Failure> {
        let cnonce = self.tokens.next();
        let Some(client) = self.clients.all.get_mut(id) else { return Ok(()) };
        let State::Sent(sent) = &client.state else { return Ok(()) };
        let flow = sent.chosen_flow();
        let is_own = self.proxies.contains(&flow.remote.ip().to_canonical());
        client.authorize(&mut self.config, response, is_own, cnonce)?;
        self.transmit(id, flow, now);
        Ok(())
    }

    /// Sends the request to the next location. Returns false without a further location.
    fn try_next(&mut self, id: ClientId, now: Instant) -> bool {
        let Some(client) = self.clients.all.get_mut(id) else { return false };
        if matches!(&client.state, State::Sent(sent) if sent.cancel != Cancel::No) {
            return false;
        }
        let Some(flow) = client.others.pop_front() else { return false };
        self.transmit(id, flow, now);
        true
    }

    /// Cancels the INVITE of `call`, which has no final response yet, with the header field lines
    /// `lines`. Returns false if no response is expected any more.
    pub(crate) fn cancel(&mut self, call: CallId, lines: &[u8], now: Instant) -> bool {
        let pending = self.clients.pending_invite(call);
        pending.is_some_and(|id| self.cancel_request(id, lines, now))
    }

    /// Cancels an INVITE without a final response. Otherwise like [`Core::cancel`].
    pub(crate) fn cancel_request(&mut self, id: ClientId, lines: &[u8], now: Instant) -> bool {
        let Some(client) = self.clients.all.get_mut(id) else { return false };
        match &mut client.state {
            State::Locating(_) | State::Unlocatable => {
                self.clients.remove(id);
                return false;
            }
            State::Sent(sent) => {
                client.cancel_lines = lines.to_vec();
                match sent.is_proceeding {
                    true => self.send_cancel(id, now),
                    false => sent.cancel = Cancel::Wanted,
                }
            }
        }
        true
    }

    fn send_cancel(&mut self, id: ClientId, now: Instant) {
        let give_up = now + self.config.timers.t1.times(64);
        let Some(client) = self.clients.all.get_mut(id) else { return };
        let Client { state: State::Sent(sent), cancel_lines, .. } = client else { return };
        if matches!(sent.cancel, Cancel::Sent(_)) {
            return;
        }
        sent.cancel = Cancel::Sent(give_up);
        let mut bytes = Vec::new();
        if let Ok(request) = Message::parse(&sent.bytes) {
            request.write_cancel(cancel_lines, &mut bytes);
        }
        let (flow, branch) = (sent.flow, sent.branch);
        self.send_companion(flow, branch, bytes, now);
    }

    /// Sends a CANCEL in a transaction of its own.
    fn send_companion(&mut self, flow: Flow, branch: u64, bytes: Vec<u8>, now: Instant) {
        let method = Method::Cancel;
        let sent = Sent::new(flow, branch, method, bytes.clone(), &self.config.timers, now);
        let mut nowhere = Dialog::new("", "", "", "", "");
        let draft = Draft::within(None, &mut nowhere, method, Vec::new());
        self.clients.insert(draft, Owner::None, State::Sent(sent));
        self.send(flow, bytes);
    }

    /// Processes the delivery failure of a request, with the reason `failure`.
    pub(crate) fn on_undeliverable(
        &mut self,
        bytes: &[u8],
        failure: Failure,
        now: Instant,
    ) -> Option<RequestResult<'static>> {
        // The ACK of a failure response has the branch of its INVITE. That response has been
        // handled, and the call may continue at the target of a redirection.
        if bytes.starts_with(b"ACK ") {
            return None;
        }
        let (branch, is_cancel) = branch_of(bytes)?;
        let id = self.clients.of_branch(branch, is_cancel)?;
        let client = self.clients.all.get_mut(id)?;
        let State::Sent(sent) = &mut client.state else { return None };
        if !sent.machine.on_transport_error() {
            return None;
        }
        if sent.is_promoted && sent.cancel == Cancel::No {
            let chosen = sent.chosen_flow();
            self.note_without_tcp(chosen.remote);
            self.transmit(id, chosen, now);
            return None;
        }
        if self.try_next(id, now) {
            return None;
        }
        self.give_up(id, failure)
    }

    /// Processes the due timer of a request: it is retransmitted, sent to the next location, or has
    /// failed.
    pub(crate) fn poll_client(
        &mut self,
        id: ClientId,
        now: Instant,
    ) -> Option<RequestResult<'static>> {
        let timers = self.config.timers;
        loop {
            let sent = match &mut self.clients.all.take_due(id)?.state {
                State::Locating(_) => return None,
                State::Unlocatable => return self.give_up(id, Failure::NotLocated),
                State::Sent(sent) => sent,
            };
            if let Some(end) = sent.given_up {
                if end <= now {
                    self.clients.remove(id);
                }
                return None;
            }
            if let Cancel::Sent(give_up) = sent.cancel
                && give_up <= now
                && !sent.machine.only_waits()
            {
                return self.give_up_waiting(id, Failure::cancelled(), now);
            }
            match sent.machine.poll(&timers, now) {
                TimerAction::None => return None,
                TimerAction::Retransmit => {
                    let (flow, bytes) = (sent.flow, sent.bytes.clone());
                    self.send(flow, bytes);
                }
                TimerAction::TimedOut => {
                    if self.try_next(id, now) {
                        return None;
                    }
                    return self.give_up_waiting(id, Failure::TimedOut, now);
                }
                TimerAction::Terminated => {
                    self.clients.remove(id);
                    return None;
                }
            }
        }
    }

    /// Processes a timeout without a final response, which is the failure `failure`. An INVITE
    /// stays for as long again: a late 2xx is acknowledged and ended by BYE, so that the other end
    /// does not stay in a call.
    fn give_up_waiting(
        &mut self,
        id: ClientId,
        failure: Failure,
        now: Instant,
    ) -> Option<RequestResult<'static>> {
        let until = now + self.config.timers.t1.times(64);
        let client = self.clients.all.get_mut(id)?;
        match &mut client.state {
            State::Sent(sent) if client.draft.method == Method::Invite => {
                sent.given_up = Some(until);
                let flow = Some(sent.chosen_flow());
                client.drop_request();
                Some(RequestResult {
                    owner: client.owner,
                    id,
                    method: Method::Invite,
                    flow,
                    outcome: Err(failure),
                })
            }
            _ => self.give_up(id, failure),
        }
    }

    fn give_up(&mut self, id: ClientId, failure: Failure) -> Option<RequestResult<'static>> {
        let client = self.clients.remove(id)?;
        let flow = match client.state {
            State::Sent(sent) => Some(sent.chosen_flow()),
            State::Locating(_) | State::Unlocatable => None,
        };
        let method = client.draft.method;
        Some(RequestResult { owner: client.owner, id, method, flow, outcome: Err(failure) })
    }

    /// Returns the start of a dialog with `uri`, from `account` or without an account.
    pub(crate) fn dialog_to(
        &mut self,
        account: Option<AccountId>,
        uri: &str,
        routes: &[Vec<u8>],
    ) -> Option<Dialog> {
        let parsed = Uri::parse(uri.as_bytes()).ok()?;
        parsed.as_sip()?;
        let (call_id, tag) = (self.tokens.next(), self.tokens.next());
        let settings = account.map(|id| self.config.accounts.get(id.0));
        let mut local = Vec::new();
        match settings {
            Some(settings) => {
                let settings = settings?;
                let name = settings.display_name.as_str();
                let display = (!name.is_empty()).then_some((sip::param::Quoted(name), " "));
                (display, "<", settings.uri.as_str(), ">").encode(&mut local);
            }
            None if let Some(from) = &self.config.from => {
                ("<", from.as_str(), ">").encode(&mut local);
            }
            None => {
                let user = self.contact_user(None);
                ("<sip:", &user, "@anonymous.invalid>").encode(&mut local);
            }
        }
        let mut dialog = Dialog::new(call_id, &local, tag, ("<", uri, ">"), uri);
        let proxy = settings.flatten().and_then(|settings| settings.proxy.as_ref());
        let proxy = proxy.map(|proxy| {
            let mut route = Vec::new();
            ("<", proxy.as_str(), ">").encode(&mut route);
            route
        });
        dialog.set_routes(proxy.iter().chain(routes));
        Some(dialog)
    }
}
