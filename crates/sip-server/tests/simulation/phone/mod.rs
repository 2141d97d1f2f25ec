//! A phone: the transactions of a user agent, and what is built on them.
//!
//! It follows RFC 3261 to the letter where the server could notice: it sends again what is not
//! answered, acknowledges each 2xx, ends the dialogs that it has no use for, and answers what comes
//! twice as it did before.

mod callee;
mod caller;
mod dialog;
mod registration;

pub(crate) use callee::{Leg, LegEnd};
pub(crate) use caller::{Call, CallPlan, Outcome};
pub(crate) use registration::Registration;

use crate::wire::{self, Draft};
use sip::digest::{Challenge, Ha1Set, Request};
use sip::header::HeaderName;
use sip::transaction::{ClientTransaction, Kind, ServerTransaction, State, Timeout, Timers};
use sip::{Instant, Message, Method};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use test_support::Random;

pub(crate) const DOMAIN: &str = "example.com";
pub(crate) const PASSWORD: &str = "secret";

pub(crate) struct Phone {
    pub(crate) user: String,
    /// Where the network sees it.
    pub(crate) address: SocketAddr,
    /// Where it believes to be: another address behind a NAT.
    inside: SocketAddr,
    pub(crate) on_stream: bool,
    /// The open stream.
    pub(crate) stream: Option<u64>,
    /// Switched off it hears nothing and says nothing.
    pub(crate) is_on: bool,
    pub(crate) registration: Registration,
    pub(crate) calls: BTreeMap<String, Call>,
    pub(crate) legs: Vec<Leg>,
    /// Messages sent, and the status of the answer once there is one; 0 for silence.
    pub(crate) messages: Vec<Option<u16>>,
    /// What is to be sent.
    pub(crate) outbox: Vec<Vec<u8>>,
    random: Random,
    timers: Timers,
    clients: BTreeMap<String, Client>,
    served: BTreeMap<String, Served>,
    /// The latest challenge, and how often it was answered.
    challenge: Option<(Vec<u8>, u32)>,
}

/// A client transaction.
struct Client {
    machine: ClientTransaction,
    request: Vec<u8>,
    ack: Option<Vec<u8>>,
    purpose: Purpose,
}

/// What a request was sent for.
#[derive(Clone, Debug)]
enum Purpose {
    Register,
    /// The INVITE of the call with this Call-ID.
    Invite(String),
    Cancel,
    /// The BYE of a dialog of the call with this Call-ID, by the own tag and the peer's.
    Bye {
        call_id: String,
        own_tag: String,
        peer_tag: String,
    },
    Message(usize),
}

/// A server transaction.
struct Served {
    machine: ServerTransaction,
    response: Vec<u8>,
}

impl Phone {
    pub(crate) fn new(
        user: String,
        address: SocketAddr,
        inside: SocketAddr,
        on_stream: bool,
        registration: Registration,
        seed: u64,
    ) -> Self {
        Self {
            user,
            address,
            inside,
            on_stream,
            stream: None,
            is_on: true,
            registration,
            calls: BTreeMap::new(),
            legs: Vec::new(),
            messages: Vec::new(),
            outbox: Vec::new(),
            random: Random::new(seed),
            timers: Timers::default(),
            clients: BTreeMap::new(),
            served: BTreeMap::new(),
            challenge: None,
        }
    }

    /// The URI at which it wants to be reached.
    pub(crate) fn contact(&self) -> String {
        let transport = if self.on_stream { ";transport=tcp" } else { "" };
        format!("sip:{}@{}{transport}", self.user, self.inside)
    }

    pub(crate) fn address_of_record(&self) -> String {
        format!("{}@{DOMAIN}", self.user)
    }

    /// Whether all transactions are over.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.clients.is_empty() && self.served.is_empty()
    }

    /// A message from the server.
    pub(crate) fn receive(&mut self, now: Instant, bytes: &[u8]) {
        if !self.is_on {
            return;
        }
        let message = Message::parse(bytes).expect("the server sends messages");
        assert_eq!(message.flaw(), None, "{}", bytes.escape_ascii());
        match message.method() {
            None => self.on_response(now, &message),
            Some(_) => {
                message.check().expect("the server sends good requests");
                self.on_request(now, &message);
            }
        }
    }

    /// The stream is closed: it opens another one, and says where it is.
    pub(crate) fn on_closed(&mut self, now: Instant, stream: u64) {
        if self.stream == Some(stream) {
            self.stream = None;
            self.registration.granted = None;
            self.registration.hurry(now);
        }
    }

    /// Hears and says nothing from now on.
    pub(crate) fn power_off(&mut self) {
        self.is_on = false;
        self.clients.clear();
        self.served.clear();
        self.registration.forget();
        self.calls.values_mut().for_each(Call::power_off);
        self.legs.iter_mut().for_each(Leg::power_off);
        self.messages.iter_mut().for_each(|status| *status = status.or(Some(0)));
    }

    pub(crate) fn on_timer(&mut self, now: Instant) {
        if !self.is_on {
            return;
        }
        self.poll_clients(now);
        self.poll_served(now);
        if self.registration.is_due(now) {
            self.register(now);
        }
        self.poll_calls(now);
        self.poll_legs(now);
    }

    pub(crate) fn next_timer(&self) -> Option<Instant> {
        if !self.is_on {
            return None;
        }
        let clients = self.clients.values().filter_map(|client| client.machine.next_timer());
        let served = self.served.values().filter_map(|served| served.machine.next_timer());
        let calls = self.calls.values().filter_map(Call::next_timer);
        let legs = self.legs.iter().filter_map(Leg::next_timer);
        clients.chain(served).chain(self.registration.next_timer()).chain(calls).chain(legs).min()
    }

    /// Sends a MESSAGE to a user.
    pub(crate) fn send_message(&mut self, now: Instant, user: &str) {
        let number = self.messages.len();
        self.messages.push(None);
        let (from, to) = (self.from(), format!("<sip:{user}@{DOMAIN}>"));
        let draft = Draft {
            method: "MESSAGE",
            uri: &format!("sip:{user}@{DOMAIN}"),
            from: &from,
            to: &to,
            call_id: &self.token("message"),
            cseq: 1,
            routes: &[],
            lines: "",
        };
        self.send_request(now, &draft, Purpose::Message(number));
    }

    /// Starts a client transaction, with credentials if there is a challenge to answer. Returns its
    /// key.
    fn send_request(&mut self, now: Instant, draft: &Draft<'_>, purpose: Purpose) -> String {
        let branch = format!("z9hG4bK{}", self.token("b"));
        let transport = if self.on_stream { "TCP" } else { "UDP" };
        let via = format!("SIP/2.0/{transport} {};rport;branch={branch}", self.inside);
        let credentials = self.credentials(draft.method, draft.uri).unwrap_or_default();
        let lines = format!("{}{credentials}", draft.lines);
        let request = Draft { lines: &lines, ..*draft }.write(&via);
        let kind = if draft.method == "INVITE" { Kind::Invite } else { Kind::NonInvite };
        let machine = ClientTransaction::new(kind, self.on_stream, &self.timers, now);
        let key = format!("{branch} {}", draft.method);
        self.outbox.push(request.clone());
        self.clients.insert(key.clone(), Client { machine, request, ack: None, purpose });
        key
    }

    /// A value of From with a new tag.
    fn from(&mut self) -> String {
        let tag = self.token("t");
        format!("<sip:{}@{DOMAIN}>;tag={tag}", self.user)
    }

    /// A text that nobody had before.
    fn token(&mut self, start: &str) -> String {
        format!("{start}{:016x}", self.random.number())
    }

    fn credentials(&mut self, method: &str, uri: &str) -> Option<String> {
        let cnonce = self.token("");
        let (challenge, count) = self.challenge.as_mut()?;
        *count += 1;
        let challenge = Challenge::parse(challenge).ok()??;
        let user = self.user.as_bytes();
        let secrets = Ha1Set::new(user, challenge.realm, PASSWORD.as_bytes());
        let request = Request { method: method.as_bytes(), uri: uri.as_bytes(), body: b"" };
        let ha1 = secrets.get(challenge.algorithm);
        let mut value = Vec::new();
        challenge.answer(user, ha1, &request, cnonce.as_bytes(), *count).write(&mut value);
        let name = if method == "REGISTER" { "Authorization" } else { "Proxy-Authorization" };
        Some(format!("{name}: {}\r\n", wire::text(&value)))
    }

    /// Keeps the challenge of a 401 or 407.
    fn take_challenge(&mut self, response: &Message<'_>) {
        let name = match response.status() {
            Some(401) => HeaderName::WwwAuthenticate,
            _ => HeaderName::ProxyAuthenticate,
        };
        let challenges: Vec<&[u8]> = response.values(name).collect();
        assert!(!challenges.is_empty(), "a challenge without {name}");
        self.challenge = Some((self.random.pick(&challenges).to_vec(), 0));
    }

    fn on_response(&mut self, now: Instant, response: &Message<'_>) {
        let key = wire::key(response, false);
        let status = response.status().expect("a response");
        let vias = response.elements(HeaderName::Via).count();
        assert_eq!(vias, 1, "a response comes with the Via of the phone alone");
        let Some(client) = self.clients.get_mut(&key) else { return };
        let action = client.machine.on_response(status, &self.timers, now);
        if action.send_ack {
            let to = wire::value(response, HeaderName::To);
            let ack =
                client.ack.get_or_insert_with(|| wire::companion("ACK", &client.request, Some(to)));
            self.outbox.push(ack.clone());
        }
        let purpose = client.purpose.clone();
        if client.machine.state() == State::Terminated {
            self.clients.remove(&key);
        }
        if !action.pass_up {
            return;
        }
        if matches!(status, 401 | 407) {
            self.take_challenge(response);
        }
        match purpose {
            Purpose::Register => self.on_register_response(now, &key, response),
            Purpose::Invite(call_id) => self.on_invite_response(now, &call_id, &key, response),
            Purpose::Cancel => {}
            Purpose::Bye { call_id, own_tag, peer_tag } if status >= 200 => {
                self.on_bye_over(&call_id, &own_tag, &peer_tag);
            }
            Purpose::Bye { .. } => {}
            Purpose::Message(number) if status >= 200 => self.messages[number] = Some(status),
            Purpose::Message(_) => {}
        }
    }

    fn on_request(&mut self, now: Instant, request: &Message<'_>) {
        match request.method().expect("a request") {
            Method::Ack => {
                if let Some(served) = self.served.get_mut(&wire::key(request, true)) {
                    let _ = served.machine.on_ack(&self.timers, now);
                }
                self.on_ack(request, now);
            }
            Method::Cancel => self.on_cancel(now, request),
            method => {
                let key = wire::key(request, false);
                if let Some(served) = self.served.get(&key) {
                    let again = served.machine.on_request_retransmission();
                    if again && !served.response.is_empty() {
                        self.outbox.push(served.response.clone());
                    }
                    return;
                }
                let kind = if method == Method::Invite { Kind::Invite } else { Kind::NonInvite };
                let machine = ServerTransaction::new(kind, self.on_stream);
                self.served.insert(key.clone(), Served { machine, response: Vec::new() });
                match method {
                    Method::Invite => self.on_invite(now, &key, request),
                    Method::Bye => {
                        let known = self.on_bye(request);
                        self.answer(now, &key, request, if known { 200 } else { 481 });
                    }
                    _ => self.answer(now, &key, request, 200),
                }
            }
        }
    }

    /// A CANCEL is answered, and so is the INVITE that it is for (RFC 3261 section 9.2).
    fn on_cancel(&mut self, now: Instant, cancel: &Message<'_>) {
        let invite = wire::key(cancel, true);
        let key = wire::key(cancel, false);
        let status = if self.served.contains_key(&invite) { 200 } else { 481 };
        if !self.served.contains_key(&key) {
            let machine = ServerTransaction::new(Kind::NonInvite, self.on_stream);
            self.served.insert(key.clone(), Served { machine, response: Vec::new() });
            self.answer(now, &key, cancel, status);
            self.on_invite_cancelled(now, &invite);
        } else if let Some(served) = self.served.get(&key) {
            self.outbox.push(served.response.clone());
        }
    }

    fn answer(&mut self, now: Instant, key: &str, request: &Message<'_>, status: u16) {
        let response = wire::response(request.as_bytes(), status, Some("answer"), "");
        self.respond(now, key, status, response);
    }

    /// Sends a response through its transaction.
    fn respond(&mut self, now: Instant, key: &str, status: u16, response: Vec<u8>) {
        let Some(served) = self.served.get_mut(key) else { return };
        if served.machine.on_response(status, &self.timers, now) {
            self.outbox.push(response.clone());
            served.response = response;
        }
        if served.machine.state() == State::Terminated {
            self.served.remove(key);
        }
    }

    fn poll_clients(&mut self, now: Instant) {
        let mut silent = Vec::new();
        for client in self.clients.values_mut() {
            loop {
                match client.machine.poll(&self.timers, now) {
                    Timeout::Retransmit => self.outbox.push(client.request.clone()),
                    Timeout::TimedOut => silent.push(client.purpose.clone()),
                    Timeout::Terminated => {}
                    Timeout::None => break,
                }
            }
        }
        self.clients.retain(|_, client| client.machine.state() != State::Terminated);
        for purpose in silent {
            match purpose {
                Purpose::Register => self.registration.retry(now),
                Purpose::Invite(call_id) => self.on_invite_timeout(&call_id),
                Purpose::Cancel => {}
                Purpose::Bye { call_id, own_tag, peer_tag } => {
                    self.on_bye_over(&call_id, &own_tag, &peer_tag);
                }
                Purpose::Message(number) => self.messages[number] = Some(0),
            }
        }
    }

    fn poll_served(&mut self, now: Instant) {
        for served in self.served.values_mut() {
            loop {
                match served.machine.poll(&self.timers, now) {
                    Timeout::Retransmit => self.outbox.push(served.response.clone()),
                    Timeout::TimedOut | Timeout::Terminated => {}
                    Timeout::None => break,
                }
            }
        }
        self.served.retain(|_, served| served.machine.state() != State::Terminated);
    }
}
