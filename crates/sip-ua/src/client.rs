//! Our requests: located, sent, sent again, sent elsewhere, with credentials, until there is an
//! answer.

use crate::config::AccountId;
use crate::core::{Core, contact};
use crate::credentials;
use crate::event::{CallId, Event, Failure, Location, MessageId, Ticket};
use crate::token::Token;
use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use sip::dialog::Dialog;
use sip::locate::{Destination, Host};
use sip::transaction::{ClientTransaction, Kind, Timeout};
use sip::{Emit, Flow, HeaderName, Instant, Message, Method, Uri, digest};

/// Challenges that are answered for one request: of the registrar or proxy, and one more should the
/// nonce be stale.
const MAX_CHALLENGES: u8 = 2;

/// One of our requests, however often it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientId(u64);

/// Who is told what comes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Registration(AccountId),
    Call(CallId),
    Message(MessageId),
    /// Nobody: what comes of a CANCEL comes of its INVITE.
    Nobody,
}

/// What a request says, whichever way it goes.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) dialog: Dialog,
    pub(crate) method: Method<'static>,
    pub(crate) cseq: u32,
    /// Whose request it is, with whose credentials.
    pub(crate) account: Option<AccountId>,
    /// What stands behind our contact in angle brackets; `None` for a request without a Contact.
    pub(crate) contact: Option<Vec<u8>>,
    /// Further header field lines, whole.
    pub(crate) lines: Vec<u8>,
    /// The body, and what it is.
    pub(crate) body: Vec<u8>,
    pub(crate) body_type: Cow<'static, str>,
}

/// What most bodies are.
pub(crate) const SESSION_TYPE: Cow<'static, str> = Cow::Borrowed("application/sdp");

/// A request on its way.
struct Client {
    draft: Draft,
    owner: Owner,
    /// Ways to try when this one fails.
    others: VecDeque<Flow>,
    /// Lines with credentials.
    authorization: Vec<u8>,
    challenges: u8,
    /// Whether somebody else has said where it goes: credentials are given then to where the
    /// account is registered, and to nobody else.
    is_redirected: bool,
    state: State,
}

enum State {
    /// It is being found out where it goes.
    Locating(Ticket),
    Sent(Sent),
}

struct Sent {
    flow: Flow,
    branch: u64,
    bytes: Vec<u8>,
    machine: ClientTransaction,
    /// The ACK of a final response that was none of 2xx, to be sent again with it.
    ack: Vec<u8>,
    /// Whether there was a provisional response: only then may it be cancelled (RFC 3261 section
    /// 9.1).
    is_proceeding: bool,
    /// Whether one was more than 100, which each proxy on the way may send.
    is_passed_on: bool,
    cancel: Cancel,
    /// Its owner has heard that nobody answers. A 2xx that comes until then all the same is ended.
    given_up: Option<Instant>,
}

/// Whether a request is to be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cancel {
    No,
    /// As soon as there is a provisional response.
    Wanted,
    /// It was sent; by then there has to be an end.
    Sent(Instant),
}

/// All requests on their way.
#[derive(Default)]
pub(crate) struct Clients {
    all: BTreeMap<ClientId, Client>,
    /// By what stands in the branch; a CANCEL has that of its INVITE.
    by_branch: BTreeMap<(u64, bool), ClientId>,
    /// Requests to URIs that lead nowhere.
    unlocatable: Vec<Ticket>,
    count: u64,
}

/// What has come of a request.
pub(crate) struct Heard<'m> {
    pub(crate) owner: Owner,
    /// Which request it was.
    pub(crate) id: ClientId,
    pub(crate) method: Method<'static>,
    /// The way that it went, where it went any.
    pub(crate) flow: Option<Flow>,
    pub(crate) what: Result<&'m Message<'m>, Failure>,
}

/// What a response that refuses says.
pub(crate) fn refusal(response: &Message<'_>) -> Failure {
    let (status, reason) = match response.start_line() {
        sip::StartLine::Response { status, reason } => (status, reason),
        sip::StartLine::Request { .. } => (0, &b""[..]),
    };
    Failure::Refused { status, reason: String::from_utf8_lossy(reason).into_owned() }
}

/// What is to be located for requests to `uri` (RFC 3263 section 4); `None` where it is no SIP URI,
/// or names a transport that is not known.
#[must_use]
pub fn destination(uri: &[u8]) -> Option<Destination> {
    let Ok(Uri::Sip(uri)) = Uri::parse(uri) else { return None };
    let maddr = uri.params.value("maddr").and_then(Host::parse);
    let host = match (maddr, uri.host) {
        (Some(host), _) => host,
        (None, sip::Host::Ip(address)) => Host::Ip(address),
        (None, sip::Host::Name(name)) => Host::parse(name)?,
    };
    let transport = match uri.transport() {
        Some(None) => return None,
        Some(known) => known,
        None => None,
    };
    Some(Destination { host, port: uri.port, transport, sips: uri.secure })
}

impl Sent {
    /// Whether its owner has heard all that there was to hear, but for further 2xx.
    fn only_waits(&self) -> bool {
        self.machine.only_waits() || self.given_up.is_some()
    }
}

/// What stands in the branch of one of our requests, and whether that is a CANCEL. Only its
/// beginning may be there: the network gives back no more than some hundred bytes of what it could
/// not deliver.
fn branch_of(bytes: &[u8]) -> Option<(u64, bool)> {
    const BEFORE: &[u8] = b";branch=z9hG4bK";
    let at = bytes.windows(BEFORE.len()).position(|window| window == BEFORE)? + BEFORE.len();
    let token = Token::parse(bytes.get(at..at + 16)?)?;
    Some((token.0, bytes.starts_with(b"CANCEL ")))
}

impl Clients {
    /// Whether a request waits for its answer.
    pub(crate) fn is_waiting(&self) -> bool {
        let is_waiting = |client: &Client| match &client.state {
            State::Locating(_) => true,
            State::Sent(sent) => !sent.only_waits(),
        };
        self.all.values().any(is_waiting)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}

impl Core {
    /// Sends a request on `flow`, or where its dialog leads.
    pub(crate) fn request(
        &mut self,
        draft: Draft,
        owner: Owner,
        flow: Option<Flow>,
        now: Instant,
    ) -> ClientId {
        self.clients.count += 1;
        let id = ClientId(self.clients.count);
        let ticket = self.new_ticket();
        let destination = destination(draft.dialog.next_hop());
        let client = Client {
            draft,
            owner,
            others: VecDeque::new(),
            authorization: Vec::new(),
            challenges: 0,
            is_redirected: false,
            state: State::Locating(ticket),
        };
        self.clients.all.insert(id, client);
        match (flow, destination) {
            (Some(flow), _) => self.transmit(id, flow, now),
            (None, Some(destination)) => self.tell(Event::Locate { ticket, destination }),
            // Its owner hears of it as of a name that is not found.
            (None, None) => self.clients.unlocatable.push(ticket),
        }
        id
    }

    /// Says of a request that somebody else has said where it goes.
    pub(crate) fn mark_redirected(&mut self, id: ClientId) {
        if let Some(client) = self.clients.all.get_mut(&id) {
            client.is_redirected = true;
        }
    }

    /// Answers to [`Event::Locate`]: the request goes to the first place.
    pub(crate) fn on_located(
        &mut self,
        ticket: Ticket,
        locations: &[Location],
        now: Instant,
    ) -> Option<Heard<'static>> {
        let is_meant =
            |client: &Client| matches!(client.state, State::Locating(of) if of == ticket);
        let (&id, client) = self.clients.all.iter_mut().find(|(_, client)| is_meant(client))?;
        let flow = |location: &Location| Flow {
            transport: location.transport,
            local: location.local,
            remote: location.remote,
            connection: None,
        };
        client.others = locations.iter().map(flow).collect();
        if matches!(client.owner, Owner::Registration(_)) {
            // A few at most: a name has no more addresses than a message of the DNS.
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

    /// Writes the request for `flow` and sends it, as a transaction of its own.
    fn transmit(&mut self, id: ClientId, flow: Flow, now: Instant) {
        let branch = self.tokens.next();
        let timers = self.config.timers;
        let Some(client) = self.clients.all.get(&id) else { return };
        let user = self.contact_user(client.draft.account);
        let Client { draft, authorization, .. } = client;
        let via = (
            ("SIP/2.0/", flow.transport.via_name(), " ", flow.local),
            ";rport;branch=z9hG4bK",
            branch,
        );
        let mut bytes = Vec::new();
        let contact = draft
            .contact
            .as_ref()
            .map(|params| ("Contact: ", contact(&user, &flow), params, "\r\n"));
        draft
            .dialog
            .request(draft.method, draft.cseq, via, &mut bytes)
            .lines(contact)
            .lines((authorization, &draft.lines))
            .field(HeaderName::UserAgent, &self.config.user_agent)
            .body(&draft.body_type, &draft.body);
        let kind = if draft.method == Method::Invite { Kind::Invite } else { Kind::NonInvite };
        let sent = Sent {
            flow,
            branch: branch.0,
            machine: ClientTransaction::new(kind, flow.transport.is_stream(), &timers, now),
            bytes: bytes.clone(),
            ack: Vec::new(),
            is_proceeding: false,
            is_passed_on: false,
            cancel: Cancel::No,
            given_up: None,
        };
        self.clients.by_branch.insert((sent.branch, false), id);
        if let Some(client) = self.clients.all.get_mut(&id)
            && let State::Sent(before) = core::mem::replace(&mut client.state, State::Sent(sent))
        {
            self.clients.by_branch.remove(&(before.branch, false));
        }
        self.send(flow, bytes);
    }

    /// A response has come. What is left for the owner of its request, if anything.
    pub(crate) fn on_response<'m>(
        &mut self,
        response: &'m Message<'m>,
        now: Instant,
    ) -> Option<Heard<'m>> {
        let status = response.status()?;
        let (branch, method) = sip::transaction::client_key(response)?;
        let token = Token::parse(branch.get(sip::header::MAGIC_COOKIE.len()..)?)?;
        let is_cancel = method == Method::Cancel;
        let &id = self.clients.by_branch.get(&(token.0, is_cancel))?;
        let timers = self.config.timers;
        let client = self.clients.all.get_mut(&id)?;
        let State::Sent(sent) = &mut client.state else { return None };
        if is_cancel || client.draft.method != method {
            if is_cancel {
                let _ = sent.machine.on_response(status, &timers, now);
            }
            return None;
        }
        let (flow, owner) = (sent.flow, client.owner);
        if sent.given_up.is_some() {
            let is_late = method == Method::Invite && (200..300).contains(&status);
            return is_late.then_some(Heard {
                owner: Owner::Nobody,
                id,
                method: Method::Invite,
                flow: Some(flow),
                what: Ok(response),
            });
        }
        let action = sent.machine.on_response(status, &timers, now);
        if action.send_ack {
            if sent.ack.is_empty() {
                let mut ack = Vec::new();
                if let Ok(request) = Message::parse(&sent.bytes) {
                    request.write_ack(response, &mut ack);
                }
                sent.ack = ack;
            }
            let ack = sent.ack.clone();
            self.send(flow, ack);
        }
        if !action.pass_up {
            return None;
        }
        if status < 200 {
            self.on_provisional(id, status, now);
        }
        if matches!(status, 401 | 407) {
            return match self.answer_challenge(id, response, now) {
                Ok(()) => None,
                Err(failure) => Some(Heard {
                    owner,
                    id,
                    method: self.method_of(id)?,
                    flow: Some(flow),
                    what: Err(failure),
                }),
            };
        }
        if status == 503 && self.try_next(id, now) {
            return None;
        }
        let method = self.method_of(id)?;
        if action.ended {
            self.forget(id);
        }
        Some(Heard { owner, id, method, flow: Some(flow), what: Ok(response) })
    }

    fn method_of(&self, id: ClientId) -> Option<Method<'static>> {
        self.clients.all.get(&id).map(|client| client.draft.method)
    }

    fn on_provisional(&mut self, id: ClientId, status: u16, now: Instant) {
        let Some(client) = self.clients.all.get_mut(&id) else { return };
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
        let mut nonce_text = Vec::new();
        cnonce.emit(&mut nonce_text);
        let Some(client) = self.clients.all.get_mut(&id) else { return Ok(()) };
        let State::Sent(sent) = &client.state else { return Ok(()) };
        let (flow, is_taken_back) = (sent.flow, sent.cancel != Cancel::No);
        let account = client.draft.account.and_then(|id| self.config.accounts.get(id.0));
        // A proxy before the account's own server says 100, and passes the request on to that,
        // which then asks.
        let has_proxy = account.is_some_and(|account| account.proxy.is_some());
        let may_be_hop = has_proxy && client.challenges == 0 && !sent.is_passed_on;
        let is_passed_on = sent.is_proceeding && !may_be_hop;
        let realm = account.and_then(|account| account.realm.as_deref()).map(str::as_bytes);
        let request = digest::Request {
            method: client.draft.method.as_bytes(),
            uri: client.draft.dialog.request_uri(),
            body: &client.draft.body,
        };
        let refused = |realm: &[u8]| Failure::Unauthorized {
            realm: String::from_utf8_lossy(realm).into_owned(),
        };
        let (line, realm) = credentials::answer(account, realm, response, &request, &nonce_text)
            .map_err(|none| refused(&none.realm))?;
        let is_new_realm = account.is_none_or(|account| account.realm.is_none());
        // A realm is a name that anybody may say: who is called instead could pass on a challenge
        // of the account's own server, and log in there as us by our answer.
        let is_own = self.proxies.contains(&flow.remote.ip().to_canonical());
        if client.is_redirected && (is_new_realm || !is_own) {
            return Err(refused(&realm));
        }
        // What comes after a provisional response is not of our proxy, which has passed the request
        // on, but of whoever is behind it: an answer would let him log in as us (RFC 3261 section
        // 22.3 leaves that open).
        if client.challenges == MAX_CHALLENGES || is_passed_on || is_taken_back {
            return Err(refused(&realm));
        }
        client.challenges += 1;
        client.authorization = line;
        client.draft.cseq = client.draft.dialog.next_cseq().max(client.draft.cseq + 1);
        client.draft.dialog.skip_cseq(client.draft.cseq);
        let account = client.draft.account;
        if let Some(account) = account.and_then(|id| self.config.accounts.get_mut(id.0)) {
            account.realm.get_or_insert_with(|| String::from_utf8_lossy(&realm).into_owned());
        }
        self.transmit(id, flow, now);
        Ok(())
    }

    /// Sends the request to the next place, if there is one.
    fn try_next(&mut self, id: ClientId, now: Instant) -> bool {
        let Some(client) = self.clients.all.get_mut(&id) else { return false };
        if matches!(&client.state, State::Sent(sent) if sent.cancel != Cancel::No) {
            return false;
        }
        let Some(flow) = client.others.pop_front() else { return false };
        self.transmit(id, flow, now);
        true
    }

    /// Takes back the INVITE of `call`, which has had no final response. False where nothing is to
    /// come of it any more.
    pub(crate) fn cancel(&mut self, call: CallId, now: Instant) -> bool {
        let is_meant = |client: &Client| {
            client.owner == Owner::Call(call)
                && client.draft.method == Method::Invite
                && !matches!(&client.state, State::Sent(sent) if sent.only_waits())
        };
        let found = self.clients.all.iter_mut().find(|(_, client)| is_meant(client));
        let Some((&id, client)) = found else { return false };
        match &mut client.state {
            State::Locating(_) => {
                self.forget(id);
                return false;
            }
            State::Sent(sent) if sent.is_proceeding => self.send_cancel(id, now),
            State::Sent(sent) => sent.cancel = Cancel::Wanted,
        }
        true
    }

    fn send_cancel(&mut self, id: ClientId, now: Instant) {
        let give_up = now + self.config.timers.t1.times(64);
        let Some(client) = self.clients.all.get_mut(&id) else { return };
        let State::Sent(sent) = &mut client.state else { return };
        if matches!(sent.cancel, Cancel::Sent(_)) {
            return;
        }
        sent.cancel = Cancel::Sent(give_up);
        let mut bytes = Vec::new();
        if let Ok(request) = Message::parse(&sent.bytes) {
            request.write_cancel(b"", &mut bytes);
        }
        let (flow, branch) = (sent.flow, sent.branch);
        self.send_companion(flow, branch, bytes, now);
    }

    /// Sends a CANCEL, as a transaction of its own.
    fn send_companion(&mut self, flow: Flow, branch: u64, bytes: Vec<u8>, now: Instant) {
        let timers = self.config.timers;
        self.clients.count += 1;
        let id = ClientId(self.clients.count);
        let machine =
            ClientTransaction::new(Kind::NonInvite, flow.transport.is_stream(), &timers, now);
        let sent = Sent {
            flow,
            branch,
            bytes: bytes.clone(),
            machine,
            ack: Vec::new(),
            is_proceeding: false,
            is_passed_on: false,
            cancel: Cancel::No,
            given_up: None,
        };
        let client = Client {
            draft: Draft {
                dialog: Dialog::new("", "", "", "", ""),
                method: Method::Cancel,
                cseq: 0,
                account: None,
                contact: None,
                lines: Vec::new(),
                body: Vec::new(),
                body_type: SESSION_TYPE,
            },
            owner: Owner::Nobody,
            others: VecDeque::new(),
            authorization: Vec::new(),
            challenges: 0,
            is_redirected: false,
            state: State::Sent(sent),
        };
        self.clients.all.insert(id, client);
        self.clients.by_branch.insert((branch, true), id);
        self.send(flow, bytes);
    }

    /// A request or an ACK could not be sent on `flow`.
    pub(crate) fn on_undeliverable(
        &mut self,
        bytes: &[u8],
        now: Instant,
    ) -> Option<Heard<'static>> {
        let (branch, is_cancel) = branch_of(bytes)?;
        let &id = self.clients.by_branch.get(&(branch, is_cancel))?;
        let client = self.clients.all.get_mut(&id)?;
        let State::Sent(sent) = &mut client.state else { return None };
        if !sent.machine.on_transport_error() || self.try_next(id, now) {
            return None;
        }
        self.give_up(id, Failure::Unreachable)
    }

    /// What is due: requests go again, or elsewhere, or have failed.
    pub(crate) fn poll_clients(&mut self, now: Instant) -> Vec<Heard<'static>> {
        let timers = self.config.timers;
        let ids: Vec<ClientId> = self.clients.all.keys().copied().collect();
        let mut heard = Vec::new();
        for id in ids {
            heard.extend(self.poll_client(id, &timers, now));
        }
        for ticket in core::mem::take(&mut self.clients.unlocatable) {
            heard.extend(self.on_located(ticket, &[], now));
        }
        heard
    }

    fn poll_client(
        &mut self,
        id: ClientId,
        timers: &sip::transaction::Timers,
        now: Instant,
    ) -> Option<Heard<'static>> {
        loop {
            let client = self.clients.all.get_mut(&id)?;
            let State::Sent(sent) = &mut client.state else { return None };
            if let Some(end) = sent.given_up {
                if end <= now {
                    self.forget(id);
                }
                return None;
            }
            if let Cancel::Sent(give_up) = sent.cancel
                && give_up <= now
                && !sent.machine.only_waits()
            {
                return self.give_up_waiting(id, now);
            }
            match sent.machine.poll(timers, now) {
                Timeout::None => return None,
                Timeout::Retransmit => {
                    let (flow, bytes) = (sent.flow, sent.bytes.clone());
                    self.send(flow, bytes);
                }
                Timeout::TimedOut => {
                    if self.try_next(id, now) {
                        return None;
                    }
                    return self.give_up_waiting(id, now);
                }
                Timeout::Terminated => {
                    self.forget(id);
                    return None;
                }
            }
        }
    }

    /// Nobody has answered. An INVITE stays for as long again: a 2xx that comes late is
    /// acknowledged and ended, or the other end would stand there in a call.
    fn give_up_waiting(&mut self, id: ClientId, now: Instant) -> Option<Heard<'static>> {
        let until = now + self.config.timers.t1.times(64);
        let client = self.clients.all.get_mut(&id)?;
        match &mut client.state {
            State::Sent(sent) if client.draft.method == Method::Invite => {
                sent.given_up = Some(until);
                Some(Heard {
                    owner: client.owner,
                    id,
                    method: Method::Invite,
                    flow: Some(sent.flow),
                    what: Err(Failure::TimedOut),
                })
            }
            _ => self.give_up(id, Failure::TimedOut),
        }
    }

    fn give_up(&mut self, id: ClientId, failure: Failure) -> Option<Heard<'static>> {
        let client = self.forget(id)?;
        let flow = match client.state {
            State::Sent(sent) => Some(sent.flow),
            State::Locating(_) => None,
        };
        let method = client.draft.method;
        Some(Heard { owner: client.owner, id, method, flow, what: Err(failure) })
    }

    fn forget(&mut self, id: ClientId) -> Option<Client> {
        let client = self.clients.all.remove(&id)?;
        if let State::Sent(sent) = &client.state {
            let key = (sent.branch, client.draft.method == Method::Cancel);
            if self.clients.by_branch.get(&key) == Some(&id) {
                self.clients.by_branch.remove(&key);
            }
        }
        Some(client)
    }

    pub(crate) fn next_client_timer(&self) -> Option<Instant> {
        if !self.clients.unlocatable.is_empty() {
            return Some(Instant::ZERO);
        }
        let next = |client: &Client| match &client.state {
            State::Sent(sent) => {
                let cancel = match sent.cancel {
                    _ if sent.given_up.is_some() => return sent.given_up,
                    Cancel::Sent(give_up) if !sent.machine.only_waits() => Some(give_up),
                    _ => None,
                };
                [sent.machine.next_timer(), cancel].into_iter().flatten().min()
            }
            State::Locating(_) => None,
        };
        self.clients.all.values().filter_map(next).min()
    }
}
