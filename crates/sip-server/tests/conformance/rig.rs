//! A server with a simulated clock. A message goes in from an address, and the resulting output is
//! returned.

use barebell_sip_server::config::{Domain, KeepAlive, Listener, Network};
use barebell_sip_server::journal_record::Record;
use barebell_sip_server::relay::{CallReport, Calls};
use barebell_sip_server::{
    Config, Connection, Event, Flow, JoinedCalls, Output, Payers, Server, Ticket, Trunks,
    WatchedCalls, Worker,
};
use parking_lot::RawMutex;
use sip::digest::{Algorithm, Challenge, Credentials, DigestInput, Ha1Set};
use sip::message::Response;
use sip::{Duration, HeaderName, Instant, Location, Message, Transport};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The server's own address for IPv4.
pub(crate) const SERVER: &str = "203.0.113.1:5060";
/// The server's own address for IPv6.
pub(crate) const SERVER_V6: &str = "[2001:db8::10]:5060";

/// The addresses of phones.
pub(crate) const ALICE: &str = "198.51.100.10:5060";
pub(crate) const BOB: &str = "198.51.100.20:5060";
pub(crate) const STRANGER: &str = "192.0.2.99:5060";

/// A server, a worker of it, and a clock.
pub(crate) struct Rig {
    pub(crate) server: Arc<Server<RawMutex>>,
    worker: Worker<RawMutex>,
    pub(crate) now: Instant,
    out: Output,
    /// The connections that have been opened.
    connections: HashSet<Connection>,
}

/// A message that the server sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) flow: Flow,
    pub(crate) bytes: Vec<u8>,
    pub(crate) payers: Payers,
}

/// The output of the server for one event.
#[derive(Debug)]
pub(crate) struct Reaction {
    pub(crate) sent: Vec<Sent>,
    pub(crate) journal: Vec<u8>,
    pub(crate) events: Vec<Event>,
}

/// The configuration of a server without authentication.
pub(crate) fn open_config() -> Config {
    let mut config = closed_config();
    config.authentication.required = false;
    config.limits.trusted = ["0.0.0.0", "::"]
        .map(|address| Network { address: address.parse().unwrap(), prefix: 0 })
        .to_vec();
    config
}

/// The configuration of a server with authentication, which is the default.
pub(crate) fn closed_config() -> Config {
    let domain = |name: &str, aliases: &[&str]| Domain {
        name: name.into(),
        aliases: aliases.iter().map(|&alias| alias.into()).collect(),
    };
    let listener =
        |transport, address: &str| Listener { transport, address: address.parse().unwrap() };
    Config {
        listeners: vec![
            listener(Transport::Udp, SERVER),
            listener(Transport::Tcp, SERVER),
            listener(Transport::Udp, SERVER_V6),
            listener(Transport::Tcp, SERVER_V6),
        ],
        domains: vec![
            domain("example.com", &["203.0.113.1", "2001:db8::10"]),
            domain("example.org", &[]),
        ],
        ..Config::default()
    }
}

/// The flow of datagrams from `remote`.
pub(crate) fn udp(remote: &str) -> Flow {
    let remote: SocketAddr = remote.parse().unwrap();
    let local = if remote.is_ipv4() { SERVER } else { SERVER_V6 }.parse().unwrap();
    Flow { transport: Transport::Udp, local, remote, connection: None }
}

/// The flow of connection `number` from `remote`.
pub(crate) fn tcp(remote: &str, number: u64) -> Flow {
    let connection = Some(Connection(NonZeroU64::new(number).unwrap()));
    Flow { transport: Transport::Tcp, connection, ..udp(remote) }
}

impl Rig {
    pub(crate) fn new(config: Config) -> Self {
        Self::of(Server::new(config, &[7; 32]))
    }

    /// Creates a server with alice, bob and carol, which relays media by `relay`.
    pub(crate) fn relaying(config: Config, relay: Arc<dyn Calls>) -> Self {
        let server = Server::new(config, &[7; 32]);
        server.set_relay(relay);
        let rig = Self::of(server);
        ["alice", "bob", "carol"].into_iter().for_each(|name| rig.add_user(name));
        rig
    }

    /// Sets the calls of the owner's B2BUA.
    pub(crate) fn join(&mut self, calls: Arc<dyn JoinedCalls>) {
        self.server.set_joined_calls(calls);
        self.renew_worker();
    }

    /// Takes a worker with the properties of the server that were set since.
    pub(crate) fn renew_worker(&mut self) {
        self.worker = self.server.worker();
    }

    /// Sets the trunks of the owner.
    pub(crate) fn set_trunks(&mut self, trunks: Arc<dyn Trunks>) {
        self.server.set_trunks(trunks);
        self.worker = self.server.worker();
    }

    /// Sets the calls of users, as the owner has them.
    pub(crate) fn watch(&mut self, calls: Arc<dyn WatchedCalls>) {
        self.server.set_watched_calls(calls);
        self.worker = self.server.worker();
    }

    fn of(server: Server<RawMutex>) -> Self {
        let server = Arc::new(server);
        let worker = server.worker();
        let now = Instant::from_micros(1_700_000_000_000_000);
        Self { server, worker, now, out: Output::default(), connections: HashSet::new() }
    }

    /// Creates a server without authentication.
    pub(crate) fn open() -> Self {
        Self::new(open_config())
    }

    /// Creates a server with authentication, with alice, bob and carol. Their passwords are their
    /// names.
    pub(crate) fn closed() -> Self {
        Self::closed_with(closed_config())
    }

    pub(crate) fn closed_with(config: Config) -> Self {
        let rig = Self::new(config);
        ["alice", "bob", "carol"].into_iter().for_each(|name| rig.add_user(name));
        rig
    }

    /// Adds `name@example.com`, with the name as the password.
    pub(crate) fn add_user(&self, name: &str) {
        let ha1 = Ha1Set::new(name.as_bytes(), b"example.com", name.as_bytes());
        self.server.add_user(format!("{name}@example.com").as_bytes(), ha1);
    }

    /// Removes a user. Returns false if there is no such user.
    pub(crate) fn remove_user(&mut self, address_of_record: &str) -> bool {
        self.server.remove_user(address_of_record.as_bytes(), &mut self.out)
    }

    /// Restores a stored record.
    pub(crate) fn restore(&self, record: &Record<'_>) {
        self.server.restore(record, self.now);
    }

    /// Receives a message. The connection of `flow` is opened if necessary.
    pub(crate) fn receive(&mut self, flow: &Flow, bytes: &[u8]) -> Reaction {
        if let Some(connection) = flow.connection
            && !flow.is_internal()
            && self.connections.insert(connection)
        {
            self.server.connection_opened(connection);
        }
        self.worker.receive(self.now, flow, bytes, &mut self.out);
        self.take()
    }

    /// Receives a request of unknown length on a stream.
    pub(crate) fn refuse_unframed(&mut self, flow: &Flow, head: &[u8]) -> Reaction {
        self.worker.refuse_unframed(self.now, flow, head, &mut self.out);
        self.take()
    }

    pub(crate) fn send(&mut self, flow: &Flow, draft: &Draft) -> Reaction {
        self.receive(flow, &draft.bytes(flow))
    }

    /// Sends `draft` while storage fails.
    pub(crate) fn send_unstored(&mut self, flow: &Flow, draft: &Draft) {
        self.worker.receive(self.now, flow, &draft.bytes(flow), &mut self.out);
        assert!(self.out.transmits.iter().all(|transmit| transmit.is_promise));
        self.worker.unstored(&mut self.out);
        self.take();
    }

    /// Sends `draft`. If it is challenged, sends it again with the credentials of `user`. The
    /// password is the name.
    pub(crate) fn send_as(&mut self, user: &str, flow: &Flow, draft: &Draft) -> Reaction {
        let reaction = self.send(flow, draft);
        let challenged = reaction.sent.iter().find(|sent| matches!(sent.status(), 401 | 407));
        let Some(challenged) = challenged.cloned() else { return reaction };
        let next = draft.next().answering(&challenged, user, user);
        self.send(flow, &next)
    }

    /// Registers `contact` for `user@example.com` for an hour and expects success.
    pub(crate) fn register(&mut self, user: &str, flow: &Flow, contact: &str) {
        let draft = Draft::register(user).and("Contact", contact).and("Expires", "3600");
        let reaction = self.send_as(user, flow, &draft);
        assert_eq!(reaction.status(), 200, "{user} at {contact}");
    }

    pub(crate) fn located(&mut self, ticket: Ticket, locations: &[Location]) -> Reaction {
        self.worker.located(self.now, ticket, locations, &mut self.out);
        self.take()
    }

    /// Tries to continue with the request that waits for a phone with `ticket`.
    pub(crate) fn woken(&mut self, ticket: Ticket) -> Result<Reaction, Ticket> {
        self.worker.woken(self.now, ticket, &mut self.out)?;
        Ok(self.take())
    }

    /// Returns true if the request of `ticket` waits for its phone.
    pub(crate) fn is_waiting(&self, ticket: &Ticket) -> bool {
        self.worker.is_waiting(ticket)
    }

    /// Reports that the phone of `ticket` was not woken.
    pub(crate) fn not_woken(&mut self, ticket: Ticket) -> Reaction {
        self.worker.not_woken(self.now, ticket, &mut self.out);
        self.take()
    }

    /// Sends a keep-alive to the phone at `contact` on `flow`.
    pub(crate) fn keep_alive(&mut self, flow: &Flow, contact: &str, kind: KeepAlive) -> Reaction {
        self.worker.keep_alive(self.now, flow, contact.as_bytes(), kind, &mut self.out);
        self.take()
    }

    /// Reports a message of the server as undeliverable.
    pub(crate) fn undeliverable(&mut self, flow: &Flow, bytes: &[u8]) -> Reaction {
        self.worker.undeliverable(self.now, flow, bytes, &mut self.out);
        self.take()
    }

    /// Ends a relayed call.
    pub(crate) fn hang_up(&mut self, call: &CallReport, reason: &str) -> Reaction {
        self.worker.hang_up(self.now, call, reason, &mut self.out);
        self.take()
    }

    /// Ends the relayed `call`, which is over by the limits of the relay.
    pub(crate) fn expire(&mut self, call: CallReport) -> Reaction {
        self.worker.expire(self.now, call, &mut self.out);
        self.take()
    }

    /// Ends the connection of `flow`.
    pub(crate) fn end(&mut self, flow: &Flow) -> Reaction {
        let connection = flow.connection.expect("a flow with a connection");
        self.worker.connection_ended(self.now, connection, &mut self.out);
        self.take()
    }

    /// Advances the clock and runs the timers that are due.
    pub(crate) fn wait(&mut self, span: Duration) -> Reaction {
        self.now += span;
        self.worker.on_timer(self.now, &mut self.out);
        self.take()
    }

    /// The value of a counter.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let counters = self.server.counters();
        let found = counters.iter().find(|(found, _)| *found == name);
        found.unwrap_or_else(|| panic!("no counter {name}")).1
    }

    /// The contacts of `address_of_record`, in the order of the listing.
    pub(crate) fn contacts(&self, address_of_record: &str) -> Vec<String> {
        let mut contacts = Vec::new();
        self.server.for_each_binding(self.now, &mut |view| {
            if view.address_of_record == address_of_record.as_bytes() {
                contacts.push(text(view.contact));
            }
        });
        contacts
    }

    fn take(&mut self) -> Reaction {
        let Output { bytes, transmits, journal, events, .. } = &mut self.out;
        let sent = transmits
            .drain(..)
            .map(|transmit| Sent {
                flow: transmit.flow,
                bytes: bytes[transmit.range.clone()].to_vec(),
                payers: transmit.payers,
            })
            .collect();
        let reaction =
            Reaction { sent, journal: core::mem::take(journal), events: core::mem::take(events) };
        self.out.clear();
        reaction
    }
}

impl Reaction {
    /// The responses sent, except 100.
    pub(crate) fn responses(&self) -> impl Iterator<Item = &Sent> {
        self.sent.iter().filter(|sent| sent.status() > 100)
    }

    /// The requests sent.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &Sent> {
        self.sent.iter().filter(|sent| sent.status() == 0)
    }

    /// Returns the only message, which is a response.
    #[track_caller]
    pub(crate) fn response(&self) -> &Sent {
        assert_eq!(self.sent.len(), 1, "one response is expected: {self:#?}");
        assert_ne!(self.sent[0].status(), 0, "a response is expected: {self:#?}");
        &self.sent[0]
    }

    /// The status of the only message, which is a response.
    #[track_caller]
    pub(crate) fn status(&self) -> u16 {
        self.response().status()
    }

    /// The only request that was sent, without any response but 100.
    #[track_caller]
    pub(crate) fn forwarded(&self) -> &Sent {
        let mut requests = self.requests();
        let (first, second) = (requests.next(), requests.next());
        assert!(self.responses().next().is_none(), "no response is expected: {self:#?}");
        assert!(second.is_none(), "one request is expected: {self:#?}");
        first.unwrap_or_else(|| panic!("a request is expected: {self:#?}"))
    }

    /// True if there is no output.
    pub(crate) fn is_silent(&self) -> bool {
        self.sent.is_empty() && self.journal.is_empty() && self.events.is_empty()
    }

    /// The destination and the ticket of the only lookup that was requested.
    #[track_caller]
    pub(crate) fn wants_location(&self) -> (sip::locate::Destination, Ticket) {
        let wanted: Vec<_> = self
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Locate { destination, ticket, .. } => Some((destination, ticket)),
                _ => None,
            })
            .collect();
        match &wanted[..] {
            [(destination, ticket)] => ((*destination).clone(), (*ticket).clone()),
            other => panic!("one location is expected to be wanted: {other:?}"),
        }
    }
}

impl Sent {
    #[track_caller]
    pub(crate) fn message(&self) -> Message<'_> {
        Message::parse(&self.bytes).expect("the server sends messages that can be parsed")
    }

    /// The status code, 0 for a request.
    pub(crate) fn status(&self) -> u16 {
        self.message().status().unwrap_or(0)
    }

    pub(crate) fn request_uri(&self) -> String {
        match self.message().start_line() {
            sip::StartLine::Request { uri, .. } => text(uri),
            sip::StartLine::Response { .. } => panic!("not a request: {self:?}"),
        }
    }

    pub(crate) fn reason(&self) -> String {
        match self.message().start_line() {
            sip::StartLine::Response { reason, .. } => text(reason),
            sip::StartLine::Request { .. } => panic!("not a response: {self:?}"),
        }
    }

    /// The values of all header fields called `name`, with comma-separated ones split.
    pub(crate) fn values(&self, name: HeaderName) -> Vec<String> {
        self.message().elements(name).map(text).collect()
    }

    /// The value of the first header field called `name`, empty if there is no such field.
    pub(crate) fn value(&self, name: HeaderName) -> String {
        self.message().value(name).map(text).unwrap_or_default()
    }

    /// The response of a phone with the tag `tag` to this request, with `fields` as further lines.
    pub(crate) fn answer(&self, status: u16, tag: &str, fields: &str) -> Vec<u8> {
        let mut out = Vec::new();
        Response {
            request: &self.message(),
            source: self.flow.local,
            status,
            reason: sip::message::reason_phrase(status),
            to_tag: Some(tag.as_bytes()),
        }
        .write(&mut out, |out| out.extend_from_slice(fields.as_bytes()));
        out
    }
}

/// A request to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) method: String,
    pub(crate) uri: String,
    branch: String,
    cseq: u32,
    fields: Vec<(String, String)>,
    body: String,
}

/// Returns a unique number.
pub(crate) fn serial() -> u32 {
    static SERIAL: AtomicU32 = AtomicU32::new(1);
    SERIAL.fetch_add(1, Ordering::Relaxed)
}

impl Draft {
    /// A request to `uri` from alice, with a unique Call-ID and branch.
    pub(crate) fn new(method: &str, uri: &str) -> Self {
        let number = serial();
        let draft = Self {
            method: method.into(),
            uri: uri.into(),
            branch: format!("z9hG4bK-{number}"),
            cseq: 1,
            fields: Vec::new(),
            body: String::new(),
        };
        draft
            .and("Max-Forwards", "70")
            .and("From", "<sip:alice@example.com>;tag=alice-tag")
            .and("To", &format!("<{uri}>"))
            .and("Call-ID", &format!("call-{number}"))
    }

    /// A REGISTER for `user@example.com`, without Contact.
    pub(crate) fn register(user: &str) -> Self {
        let address = format!("<sip:{user}@example.com>");
        Self::new("REGISTER", "sip:example.com")
            .with("From", &format!("{address};tag=r"))
            .with("To", &address)
    }

    /// An INVITE from alice to `uri`, with her Contact.
    pub(crate) fn invite(uri: &str) -> Self {
        Self::new("INVITE", uri).and("Contact", &format!("<sip:alice@{ALICE}>"))
    }

    /// Changes the first header field called `name`, or adds it.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        match self.fields.iter_mut().find(|(found, _)| found == name) {
            Some(field) => field.1 = value.into(),
            None => self.fields.push((name.into(), value.into())),
        }
        self
    }

    /// Adds a header field.
    pub(crate) fn and(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.into(), value.into()));
        self
    }

    /// Removes the header fields called `name`.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.fields.retain(|(found, _)| found != name);
        self
    }

    /// Changes the method.
    pub(crate) fn with_method(self, method: &str) -> Self {
        Self { method: method.into(), ..self }
    }

    /// Changes the request URI.
    pub(crate) fn with_uri(self, uri: &str) -> Self {
        Self { uri: uri.into(), ..self }
    }

    pub(crate) fn with_body(mut self, body: &str) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn with_cseq(mut self, cseq: u32) -> Self {
        self.cseq = cseq;
        self
    }

    /// The next request of the same call: another transaction, with the CSeq incremented.
    pub(crate) fn next(&self) -> Self {
        let mut next = self.clone();
        next.branch = format!("z9hG4bK-{}", serial());
        next.cseq += 1;
        next
    }

    /// Adds credentials of `user` for the first challenge of `response`.
    pub(crate) fn answering(self, response: &Sent, user: &str, password: &str) -> Self {
        self.with_credentials(response, None, user, password, 1, |_| {})
    }

    /// Adds credentials of `user` for the challenge of `response` with `algorithm`, or the first
    /// one, after `change` has changed them.
    pub(crate) fn with_credentials(
        self,
        response: &Sent,
        algorithm: Option<Algorithm>,
        user: &str,
        password: &str,
        count: u32,
        change: impl FnOnce(&mut Credentials<'_>),
    ) -> Self {
        let is_proxy = response.status() == 407;
        let (asks, answers) = if is_proxy {
            (HeaderName::ProxyAuthenticate, "Proxy-Authorization")
        } else {
            (HeaderName::WwwAuthenticate, "Authorization")
        };
        let message = response.message();
        let challenge = message
            .values(asks)
            .map(|value| Challenge::parse(value).unwrap().unwrap())
            .find(|challenge| algorithm.is_none_or(|wanted| wanted == challenge.algorithm))
            .expect("a challenge with the algorithm");
        let ha1 = Ha1Set::new(user.as_bytes(), challenge.realm, password.as_bytes());
        let (method, uri, body) = (self.method.clone(), self.uri.clone(), self.body.clone());
        let request =
            DigestInput { method: method.as_bytes(), uri: uri.as_bytes(), body: body.as_bytes() };
        let secret = ha1.get(challenge.algorithm);
        let mut credentials =
            challenge.credentials_for(user.as_bytes(), secret, &request, b"0a4f", count);
        change(&mut credentials);
        let mut value = Vec::new();
        credentials.write(&mut value);
        self.with(answers, &text(&value))
    }

    /// The request in the form sent on `flow`.
    pub(crate) fn bytes(&self, flow: &Flow) -> Vec<u8> {
        let Self { method, uri, branch, cseq, fields, body } = self;
        let transport = flow.transport.via_name();
        let mut text = format!("{method} {uri} SIP/2.0\r\n");
        if !fields.iter().any(|(name, _)| name == "Via") {
            let remote = flow.remote;
            text += &format!("Via: SIP/2.0/{transport} {remote};branch={branch}\r\n");
        }
        for (name, value) in fields {
            text += &format!("{name}: {value}\r\n");
        }
        if !fields.iter().any(|(name, _)| name == "CSeq") {
            text += &format!("CSeq: {cseq} {method}\r\n");
        }
        text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        text.into_bytes()
    }
}

/// `bytes` as text, with invalid UTF-8 replaced.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The ACK of the non-2xx `response` to `invite`.
pub(crate) fn ack_of(invite: &Draft, response: &Sent) -> Draft {
    let to = response.value(HeaderName::To);
    invite.clone().with_method("ACK").with("To", &to).with_body("")
}
