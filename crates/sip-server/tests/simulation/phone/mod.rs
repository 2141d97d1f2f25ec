//! A phone: the transactions of a user agent, and the functions above them.
//!
//! It follows RFC 3261 strictly wherever the server could notice: it retransmits requests,
//! acknowledges each 2xx, ends unwanted dialogs, and repeats its response to a retransmitted
//! request.

mod callee;
mod caller;
mod registration;
mod session;

pub(crate) use callee::{Leg, LegEnd};
pub(crate) use caller::{Call, CallPlan, Outcome};
pub(crate) use registration::Registration;

use crate::wire;
use crate::world::SERVER;
use sip::dialog::Dialog;
use sip::digest::{Challenge, DigestInput, Ha1Set};
use sip::header::HeaderName;
use sip::transaction::{
    ClientTransaction, ServerTransaction, State, TimerAction, Timers, TransactionKind,
};
use sip::{Encode, Instant, Message, Method};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use test_support::Random;
use test_support::rig::{End, Outgoing, Peer, Way};

pub(crate) const DOMAIN: &str = "example.com";
pub(crate) const PASSWORD: &str = "secret";

pub(crate) struct Phone {
    pub(crate) user: String,
    /// The external address.
    pub(crate) address: SocketAddr,
    /// Its own address, which is another one behind a NAT.
    inside: SocketAddr,
    pub(crate) on_stream: bool,
    /// The open stream.
    stream: Option<u64>,
    /// A phone that is off neither receives nor sends.
    pub(crate) is_on: bool,
    pub(crate) registration: Registration,
    pub(crate) calls: BTreeMap<String, Call>,
    pub(crate) legs: Vec<Leg>,
    /// Messages sent, with the status of the response once there is one, 0 for a timeout.
    pub(crate) messages: Vec<Option<u16>>,
    /// The messages to send.
    outbox: VecDeque<Vec<u8>>,
    random: Random,
    timers: Timers,
    clients: BTreeMap<String, Client>,
    served: BTreeMap<String, Served>,
    /// The latest challenge, and the number of answers to it.
    challenge: Option<(Vec<u8>, u32)>,
}

/// A client transaction.
struct Client {
    machine: ClientTransaction,
    request: Vec<u8>,
    ack: Option<Vec<u8>>,
    purpose: Purpose,
}

/// The purpose of a request.
#[derive(Clone, Debug)]
enum Purpose {
    Register,
    /// The INVITE of the call with this Call-ID.
    Invite(String),
    Cancel,
    /// The BYE of a dialog.
    Bye(Dialog),
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
            outbox: VecDeque::new(),
            random: Random::new(seed),
            timers: Timers::default(),
            clients: BTreeMap::new(),
            served: BTreeMap::new(),
            challenge: None,
        }
    }

    /// The contact URI.
    pub(crate) fn contact(&self) -> String {
        let transport = if self.on_stream { ";transport=tcp" } else { "" };
        format!("sip:{}@{}{transport}", self.user, self.inside)
    }

    pub(crate) fn address_of_record(&self) -> String {
        format!("{}@{DOMAIN}", self.user)
    }

    /// True if all transactions have ended.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.clients.is_empty() && self.served.is_empty()
    }

    /// Switches the phone off.
    pub(crate) fn power_off(&mut self) {
        self.is_on = false;
        self.clients.clear();
        self.served.clear();
        self.registration.forget();
        self.calls.values_mut().for_each(Call::power_off);
        self.legs.iter_mut().for_each(Leg::power_off);
        self.messages.iter_mut().for_each(|status| *status = status.or(Some(0)));
    }

    /// Sends a MESSAGE to a user.
    pub(crate) fn send_message(&mut self, now: Instant, user: &str) {
        let number = self.messages.len();
        self.messages.push(None);
        let call_id = self.token("message");
        let mut requests = self.begin(&call_id, user);
        self.send_request(now, &mut requests, Method::Message, "", Purpose::Message(number));
    }

    /// The common fields of requests to a user outside of dialogs.
    fn begin(&mut self, call_id: &str, user: &str) -> Dialog {
        let (tag, uri) = (self.token("t"), ("sip:", user, "@", DOMAIN));
        let from = ("<sip:", self.address_of_record(), ">");
        Dialog::new(call_id, from, tag, ("<", uri, ">"), uri)
    }

    fn via<'v>(&self, branch: &'v str) -> impl Encode + use<'v> {
        let transport = if self.on_stream { "TCP" } else { "UDP" };
        ("SIP/2.0/", transport, " ", self.inside, ";rport;branch=", branch)
    }

    /// Starts a client transaction with the next request of `dialog`, with further `lines`, and
    /// with credentials if there is a challenge to answer. Returns its key.
    fn send_request(
        &mut self,
        now: Instant,
        dialog: &mut Dialog,
        method: Method<'static>,
        lines: &str,
        purpose: Purpose,
    ) -> String {
        let branch = self.token("z9hG4bKb");
        let credentials = self.credentials(method, dialog.request_uri());
        let (cseq, mut request) = (dialog.next_cseq(), Vec::new());
        dialog
            .request(method, cseq, self.via(&branch), &mut request)
            .lines((lines, credentials))
            .end();
        let kind = if method == Method::Invite {
            TransactionKind::Invite
        } else {
            TransactionKind::NonInvite
        };
        self.start_client(now, kind, request, purpose)
    }

    fn start_client(
        &mut self,
        now: Instant,
        kind: TransactionKind,
        request: Vec<u8>,
        purpose: Purpose,
    ) -> String {
        let machine = ClientTransaction::new(kind, self.on_stream, &self.timers, now);
        let key = wire::key(&Message::parse(&request).expect("an own request"), false);
        self.outbox.push_back(request.clone());
        self.clients.insert(key.clone(), Client { machine, request, ack: None, purpose });
        key
    }

    /// Returns a unique text.
    fn token(&mut self, start: &str) -> String {
        format!("{start}{:016x}", self.random.number())
    }

    fn credentials(&mut self, method: Method<'_>, uri: &[u8]) -> Option<String> {
        let cnonce = self.token("");
        let (challenge, count) = self.challenge.as_mut()?;
        *count += 1;
        let challenge = Challenge::parse(challenge).ok()??;
        let user = self.user.as_bytes();
        let secrets = Ha1Set::new(user, challenge.realm, PASSWORD.as_bytes());
        let request = DigestInput { method: method.as_bytes(), uri, body: b"" };
        let ha1 = secrets.get(challenge.algorithm);
        let mut value = Vec::new();
        challenge.credentials_for(user, ha1, &request, cnonce.as_bytes(), *count).write(&mut value);
        let is_register = method == Method::Register;
        let name = if is_register { "Authorization" } else { "Proxy-Authorization" };
        Some(format!("{name}: {}\r\n", wire::text(&value)))
    }

    /// Stores the challenge of a 401 or 407.
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
            let ack = client.ack.get_or_insert_with(|| {
                let invite = Message::parse(&client.request).expect("an own request");
                let mut ack = Vec::new();
                invite.write_ack(response, &mut ack);
                ack
            });
            self.outbox.push_back(ack.clone());
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
            Purpose::Bye(dialog) if status >= 200 => self.on_bye_over(&dialog),
            Purpose::Bye(_) => {}
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
                        self.outbox.push_back(served.response.clone());
                    }
                    return;
                }
                let kind = if method == Method::Invite {
                    TransactionKind::Invite
                } else {
                    TransactionKind::NonInvite
                };
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

    /// Answers a CANCEL and the INVITE that it cancels (RFC 3261 section 9.2).
    fn on_cancel(&mut self, now: Instant, cancel: &Message<'_>) {
        let invite = wire::key(cancel, true);
        let key = wire::key(cancel, false);
        let status = if self.served.contains_key(&invite) { 200 } else { 481 };
        if !self.served.contains_key(&key) {
            let machine = ServerTransaction::new(TransactionKind::NonInvite, self.on_stream);
            self.served.insert(key.clone(), Served { machine, response: Vec::new() });
            self.answer(now, &key, cancel, status);
            self.on_invite_cancelled(now, &invite);
        } else if let Some(served) = self.served.get(&key) {
            self.outbox.push_back(served.response.clone());
        }
    }

    fn answer(&mut self, now: Instant, key: &str, request: &Message<'_>, status: u16) {
        let response = wire::response(request.as_bytes(), status, "answer", "");
        self.respond(now, key, status, response);
    }

    /// Sends a response through its transaction.
    fn respond(&mut self, now: Instant, key: &str, status: u16, response: Vec<u8>) {
        let Some(served) = self.served.get_mut(key) else { return };
        if served.machine.on_response(status, &self.timers, now) {
            self.outbox.push_back(response.clone());
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
                    TimerAction::Retransmit => self.outbox.push_back(client.request.clone()),
                    TimerAction::TimedOut => silent.push(client.purpose.clone()),
                    TimerAction::Terminated => {}
                    TimerAction::None => break,
                }
            }
        }
        self.clients.retain(|_, client| client.machine.state() != State::Terminated);
        for purpose in silent {
            match purpose {
                Purpose::Register => self.registration.retry(now),
                Purpose::Invite(call_id) => self.on_invite_timeout(&call_id),
                Purpose::Cancel => {}
                Purpose::Bye(dialog) => self.on_bye_over(&dialog),
                Purpose::Message(number) => self.messages[number] = Some(0),
            }
        }
    }

    fn poll_served(&mut self, now: Instant) {
        for served in self.served.values_mut() {
            loop {
                match served.machine.poll(&self.timers, now) {
                    TimerAction::Retransmit => self.outbox.push_back(served.response.clone()),
                    TimerAction::TimedOut | TimerAction::Terminated => {}
                    TimerAction::None => break,
                }
            }
        }
        self.served.retain(|_, served| served.machine.state() != State::Terminated);
    }
}

impl End for Phone {
    /// Handles a message from the server.
    fn receive(&mut self, now: Instant, _: Peer, bytes: &[u8]) {
        if !self.is_on {
            return;
        }
        let message = Message::parse(bytes).expect("the server sends messages");
        assert_eq!(message.framing_fault(), None, "{}", bytes.escape_ascii());
        match message.method() {
            None => self.on_response(now, &message),
            Some(_) => {
                message.validate_request().expect("the server sends good requests");
                self.on_request(now, &message);
            }
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        if !self.is_on {
            return None;
        }
        let clients = self.clients.values().filter_map(|client| client.machine.next_timer());
        let served = self.served.values().filter_map(|served| served.machine.next_timer());
        let calls = self.calls.values().filter_map(Call::next_timer);
        let legs = self.legs.iter().filter_map(Leg::next_timer);
        clients.chain(served).chain(self.registration.next_timer()).chain(calls).chain(legs).min()
    }

    fn on_timer(&mut self, now: Instant) {
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

    fn next_output(&mut self) -> Option<Outgoing> {
        let bytes = self.outbox.pop_front()?;
        let way = match self.stream {
            _ if !self.on_stream => Way::Datagram,
            // If the stream is broken, the phone will be notified.
            Some(stream) => Way::Stream(stream),
            None => Way::NewStream,
        };
        Some(Outgoing { to: SERVER.into(), way, bytes })
    }

    fn stream_opened(&mut self, stream: u64) {
        self.stream = Some(stream);
    }

    /// Registers again on a new stream.
    fn stream_closed(&mut self, now: Instant, stream: u64) {
        if self.stream == Some(stream) {
            self.stream = None;
            self.registration.granted = None;
            self.registration.hurry(now);
        }
    }
}
