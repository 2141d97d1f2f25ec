//! The rules for sent messages: a model that sees input and output, and nothing of the engine.

mod bindings;
mod dialogs;
mod places;
mod proofs;
mod received;

use super::draft::{branch, cseq, method, request_uri, tag_of, text, uri_of, value};
use super::parties::{SERVER, address, answers};
use bindings::Bindings;
use dialogs::Dialogs;
use places::{Place, is_invalid, nearness};
use proofs::Proofs;
use received::{Names, Proof, Received};
use sip::digest::Challenge;
use sip::{HeaderName, Instant, Message, Transport};
use sip_server::Flow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

/// A forwarded request.
struct Sent {
    /// The serial number of the original request.
    serial: usize,
    uri: String,
    flow: Flow,
}

/// The event that the engine is processing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause<'a> {
    /// The request with this serial number.
    Request(usize),
    Response(&'a [u8]),
    /// A timer, a DNS answer, or a failure.
    Other,
}

/// The authorization of a forwarded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ground {
    Credentials,
    Binding,
    Dialog,
    /// An ACK or CANCEL of a request that was forwarded there.
    Companion,
}

/// A party that may use a local user's name in From within a call.
#[derive(PartialEq, Eq)]
enum Bearer {
    /// The user authenticated with this From tag.
    Prover { call_id: String, tag: String, user: String },
    /// The user was called under this name; the tag is that of the caller.
    Called { call_id: String, caller_tag: String, user: String },
}

pub(super) struct Oracle {
    requests: Vec<Received>,
    /// Forwarded requests by branch, in order.
    sent: HashMap<String, Vec<Sent>>,
    bindings: Bindings,
    dialogs: Dialogs,
    proofs: Proofs,
    names: Names,
    bearers: Vec<Bearer>,
    /// The bytes sent to a host for a request.
    spent: HashMap<(usize, IpAddr), usize>,
    /// Bytes received from each host, and bytes of responses sent to it.
    returned: HashMap<IpAddr, (usize, usize)>,
    /// Credentials known only to the server and an honest user.
    secrets: Vec<String>,
    /// A short log of the events.
    story: Vec<String>,
    /// Counters of each authorization and of other evidence of coverage.
    pub(super) tally: BTreeMap<String, u64>,
}

impl Oracle {
    pub(super) fn new(is_stateless: bool) -> Self {
        Self {
            requests: Vec::new(),
            sent: HashMap::new(),
            bindings: Bindings::default(),
            dialogs: Dialogs::new(is_stateless),
            proofs: Proofs::default(),
            names: Names::default(),
            bearers: Vec::new(),
            spent: HashMap::new(),
            returned: HashMap::new(),
            secrets: Vec::new(),
            story: Vec::new(),
            tally: BTreeMap::new(),
        }
    }

    /// The serial number of the next new request.
    pub(super) fn next_serial(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn note(&mut self, what: String) {
        self.story.push(what);
    }

    pub(super) fn count(&mut self, what: &str) {
        *self.tally.entry(what.into()).or_default() += 1;
    }

    /// Records the credentials that an honest phone sends through the server.
    pub(super) fn keep_secret(&mut self, response: String) {
        self.secrets.push(response);
    }

    pub(super) fn restart(&mut self, now: Instant) {
        self.proofs.restart(now);
        self.note("restart".into());
    }

    pub(super) fn located(&mut self, host: &str, places: &[SocketAddr]) {
        self.note(format!("{host} is at {places:?}"));
        self.names.0.entry(host.to_ascii_lowercase()).or_default().extend(places);
    }

    /// Records an incoming request with the serial number `serial`, or a new one.
    pub(super) fn comes(
        &mut self,
        flow: Flow,
        bytes: &[u8],
        serial: Option<usize>,
        is_forged: bool,
        now: Instant,
    ) {
        let line = bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
        let forged = if is_forged { "forged " } else { "" };
        self.note(format!("<- {forged}{flow} {:?} {}", serial, text(line)));
        let Some(serial) = serial else {
            return self.response_comes(bytes);
        };
        // A request of the same transaction may come from another source. Responses go to the
        // source of the first one.
        let branch_of = |bytes: &[u8]| Message::parse(bytes).map(|it| branch(&it)).ok();
        let same = |known: &&Received| branch_of(&known.bytes) == branch_of(bytes);
        let mut hosts: HashSet<IpAddr> =
            self.requests.iter().filter(same).map(|known| known.flow.remote.ip()).collect();
        hosts.insert(flow.remote.ip());
        for host in hosts {
            self.returned.entry(host).or_default().0 += bytes.len();
        }
        if serial < self.requests.len() {
            self.requests[serial].came.push(now);
            return;
        }
        let method = Message::parse(bytes).map(|message| method(&message)).unwrap_or_default();
        self.requests.push(Received {
            flow,
            bytes: bytes.to_vec(),
            method,
            came: vec![now],
            answered: None,
            proof: None,
        });
    }

    fn response_comes(&mut self, bytes: &[u8]) {
        let Ok(response) = Message::parse(bytes) else { return };
        if let Some(sent) = self.sent.get(&branch(&response)).and_then(|all| all.first()) {
            let host = self.requests[sent.serial].flow.remote.ip();
            self.returned.entry(host).or_default().0 += bytes.len();
        }
        let names = [HeaderName::WwwAuthenticate, HeaderName::ProxyAuthenticate];
        if response.fields_of(&names).any(|field| is_of_realm(field.value)) {
            self.count("foreign challenges");
        }
    }

    /// Checks `bytes` that the engine sends.
    pub(super) fn goes(&mut self, cause: Cause<'_>, flow: Flow, bytes: &[u8], now: Instant) {
        let line = bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
        self.note(format!("-> {flow} {}", text(line)));
        let Ok(message) = Message::parse(bytes) else {
            self.violation("sent bytes are a message", flow, bytes, None)
        };
        if let Some(secret) = self.secrets.iter().find(|secret| holds(bytes, secret)) {
            let rule = format!("credentials for this realm are not disclosed ({secret})");
            self.violation(&rule, flow, bytes, None);
        }
        match message.status() {
            Some(status) => self.response_goes(cause, status, flow, &message, now),
            None => self.request_goes(flow, &message, now),
        }
    }

    fn response_goes(
        &mut self,
        cause: Cause<'_>,
        status: u16,
        flow: Flow,
        message: &Message<'_>,
        now: Instant,
    ) {
        self.give_back(flow, message.as_bytes());
        let names = [HeaderName::WwwAuthenticate, HeaderName::ProxyAuthenticate];
        for field in message.fields_of(&names) {
            if !is_of_realm(field.value) {
                continue;
            }
            let challenge = Challenge::parse(field.value).ok().flatten();
            // An undeliverable response is sent again.
            let is_own = cause == Cause::Other
                && challenge
                    .as_ref()
                    .is_some_and(|challenge| self.proofs.is_of(challenge.nonce, flow.remote.ip()));
            if !is_own && !matches!(cause, Cause::Request(_)) {
                let rule = "a challenge of this realm is made by this server";
                self.violation(rule, flow, message.as_bytes(), None);
            }
            if let Some(challenge) = challenge {
                self.proofs.issue(challenge.nonce, flow.remote.ip(), now);
            }
        }
        if status >= 200 {
            let key = (branch(message), value(message, HeaderName::CallId), cseq(message));
            for request in &mut self.requests {
                let of = request.message();
                if (branch(&of), value(&of, HeaderName::CallId), cseq(&of)) == key {
                    request.answered.get_or_insert(now);
                }
            }
        }
        match cause {
            Cause::Request(serial) if self.requests[serial].method == "REGISTER" => {
                let uri = Place::of(&request_uri(&self.requests[serial].message()));
                if status == 200 && uri.is_some_and(|uri| uri.is_ours()) {
                    self.registered(serial, flow, message, now);
                }
            }
            Cause::Response(received) => self.passed_back(received, message, now),
            _ => {}
        }
    }

    /// Responses go only to sources of requests. A host that never answered gets at most three
    /// times the bytes that it sent.
    fn give_back(&mut self, flow: Flow, bytes: &[u8]) {
        let host = flow.remote.ip();
        let Some((came, went)) = self.returned.get_mut(&host) else {
            self.violation("responses go to the source of a request", flow, bytes, None)
        };
        *went += bytes.len();
        if flow.transport == Transport::Udp && !answers(host) && *went > 3 * *came {
            let rule = format!(
                "a host that never answered gets at most three times the bytes received: {went} for {came}"
            );
            self.violation(&rule, flow, bytes, None);
        }
    }

    fn registered(&mut self, serial: usize, flow: Flow, answer: &Message<'_>, now: Instant) {
        let proof = self.prove(serial, HeaderName::Authorization, HeaderName::To);
        let Some(proof) = proof else {
            let rule = "only an authenticated user changes the user's bindings";
            self.violation(rule, flow, answer.as_bytes(), Some(serial))
        };
        self.proofs.spend(&proof, serial);
        self.bindings.note(proof.user, &self.requests[serial], answer, now);
        self.count("registered");
    }

    /// Records a received response that was forwarded as `sent`.
    fn passed_back(&mut self, received: &[u8], sent: &Message<'_>, now: Instant) {
        let Ok(response) = Message::parse(received) else { return };
        let is_it = value(&response, HeaderName::CallId) == value(sent, HeaderName::CallId)
            && response.status() == sent.status();
        let Some(all) = self.sent.get(&branch(&response)).filter(|_| is_it) else { return };
        let (_, of) = cseq(&response);
        self.dialogs.confirm(&response, &of, now);
        for sent in all {
            if self.requests[sent.serial].method == of {
                self.dialogs.note_response(&response, &of, sent.flow, sent.serial, now);
            }
        }
        self.count("passed back");
    }

    fn request_goes(&mut self, flow: Flow, message: &Message<'_>, now: Instant) {
        let bytes = message.as_bytes();
        let serial =
            message.fields().find(|field| field.raw_name() == super::draft::SERIAL.as_bytes());
        let serial: Option<usize> = serial.and_then(|field| text(field.value).parse().ok());
        let (own_branch, uri) = (branch(message), request_uri(message));
        let known = self.sent.get(&own_branch).and_then(|all| {
            let is_it = |sent: &&Sent| {
                (sent.flow, &sent.uri) == (flow, &uri)
                    && serial.is_none_or(|serial| serial == sent.serial)
            };
            all.iter().find(is_it).map(|sent| sent.serial)
        });
        let own = address(SERVER);
        if flow.remote == own {
            self.violation("no request is sent to the server itself", flow, bytes, serial);
        }
        if is_invalid(flow.remote) {
            self.violation("no request is sent to an invalid address", flow, bytes, serial);
        }
        let Some(serial) = known.or(serial).filter(|&serial| serial < self.requests.len()) else {
            self.violation("every sent request has an original", flow, bytes, None)
        };
        for name in [HeaderName::Authorization, HeaderName::ProxyAuthorization] {
            if message.values(name).any(is_of_realm) {
                let rule = "credentials for this realm are not passed on";
                self.violation(rule, flow, bytes, Some(serial));
            }
        }
        if known.is_none() {
            self.judge(serial, flow, message, now);
            self.sent.entry(own_branch).or_default().push(Sent { serial, uri, flow });
        }
        self.spend(serial, flow, bytes);
    }

    /// Checks that the request `serial` may be forwarded as `message`.
    fn judge(&mut self, serial: usize, flow: Flow, message: &Message<'_>, now: Instant) {
        let proof = self.prove(serial, HeaderName::ProxyAuthorization, HeaderName::From);
        let received = &self.requests[serial];
        let request = received.message();
        let place = Place::of(&request_uri(message));
        let reached = place
            .as_ref()
            .and_then(|place| self.bindings.find(place, &flow, &received.came, &self.names))
            .map(str::to_owned);
        let from = uri_of(&request, HeaderName::From).and_then(|uri| Place::of(&uri));
        let from = from.filter(|from| from.is_in_domain() && !from.user.is_empty());
        let claimed = from.map(|from| text(&from.user));
        let is_user = proof.is_some();
        let is_led = self.dialogs.lead(received, &flow, &self.requests, &self.names);
        // Within a dialog credentials are not checked.
        if let Some(proof) = proof.filter(|_| !is_led) {
            self.proofs.spend(&proof, serial);
        }
        let is_near = nearness(flow.remote.ip()) <= nearness(received.flow.remote.ip());
        let ground = if is_user && is_near {
            Ground::Credentials
        } else if reached.is_some() {
            Ground::Binding
        } else if is_led {
            Ground::Dialog
        } else if self.follows(serial, flow) {
            Ground::Companion
        } else {
            let rule =
                "requests go to local users, within dialogs, and where local users send them";
            self.violation(rule, flow, message.as_bytes(), Some(serial))
        };
        let call_id = value(&request, HeaderName::CallId);
        let from_tag = tag_of(&request, HeaderName::From).unwrap_or_default();
        let to_tag = tag_of(&request, HeaderName::To).unwrap_or_default();
        let mut bearers = Vec::new();
        if let (Some(user), true) = (&claimed, is_user) {
            let (call_id, tag) = (call_id.clone(), from_tag.clone());
            bearers.push(Bearer::Prover { call_id, tag, user: user.clone() });
        }
        let ours =
            |uri: Option<String>| uri.and_then(|uri| Place::of(&uri)).filter(Place::is_in_domain);
        // The Request-URI names the called user; the sender chooses To freely.
        if let Some(asked) = ours(Some(request_uri(&request))) {
            let (call_id, caller_tag) = (call_id.clone(), from_tag.clone());
            bearers.push(Bearer::Called { call_id, caller_tag, user: text(&asked.user) });
        }
        self.bearers.extend(bearers);
        // Credentials cannot be requested for these methods. Their destination is checked anyway.
        let cannot_be_challenged = matches!(&*self.requests[serial].method, "ACK" | "CANCEL");
        if let Some(user) = claimed.filter(|_| !is_user && !cannot_be_challenged) {
            let is_bearer = self.bearers.contains(&Bearer::Prover {
                call_id: call_id.clone(),
                tag: from_tag,
                user: user.clone(),
            }) || self.bearers.contains(&Bearer::Called {
                call_id,
                caller_tag: to_tag,
                user: user.clone(),
            });
            if !is_bearer {
                let rule = format!("only {user} may use that name in From");
                self.violation(&rule, flow, message.as_bytes(), Some(serial));
            }
        }
        let what = format!("{ground:?} {}", self.requests[serial].method);
        self.count(&what);
        self.dialogs.note_request(&self.requests[serial], now);
    }

    /// Returns true if the request is a correct ACK or CANCEL of another one that was forwarded on
    /// `flow`.
    fn follows(&self, serial: usize, flow: Flow) -> bool {
        let received = &self.requests[serial];
        if !matches!(&*received.method, "ACK" | "CANCEL") {
            return false;
        }
        let names = [HeaderName::Via, HeaderName::CallId, HeaderName::From, HeaderName::Route];
        let key =
            |message: &Message<'_>| (request_uri(message), names.map(|name| value(message, name)));
        let wanted = key(&received.message());
        let went = |sent: &Sent| {
            let request = &self.requests[sent.serial];
            (sent.flow.transport, sent.flow.remote) == (flow.transport, flow.remote)
                && request.method == "INVITE"
                && key(&request.message()) == wanted
        };
        self.sent.values().flatten().any(went)
    }

    /// The credentials in `name`, if they are valid for the user in the header field `whose`.
    fn prove(&mut self, serial: usize, name: HeaderName, whose: HeaderName) -> Option<Proof> {
        let received = &mut self.requests[serial];
        if received.proof.is_none() {
            let uri = uri_of(&received.message(), whose).and_then(|uri| Place::of(&uri));
            let claimed = uri.filter(Place::is_in_domain).map(|uri| uri.user);
            // Credentials cannot be requested for these methods.
            let is_asked = !matches!(&*received.method, "ACK" | "CANCEL");
            let proof = self.proofs.find(name, claimed.as_deref(), serial, received);
            received.proof = Some(proof.filter(|_| is_asked));
        }
        received.proof.clone().flatten()
    }

    /// A host that never answered gets at most three times the bytes received.
    fn spend(&mut self, serial: usize, flow: Flow, bytes: &[u8]) {
        let host = flow.remote.ip();
        if flow.transport != Transport::Udp || answers(host) {
            return;
        }
        let spent = self.spent.entry((serial, host)).or_default();
        *spent += bytes.len();
        let (spent, received) = (*spent, &self.requests[serial]);
        let came = received.bytes.len() * received.came.len();
        if spent > 3 * came {
            let rule = format!(
                "a host that never answered gets at most three times the bytes received: {spent} for {came}"
            );
            self.violation(&rule, flow, bytes, Some(serial));
        }
        self.count("sent to a host that never answered");
    }

    fn violation(&self, rule: &str, flow: Flow, bytes: &[u8], serial: Option<usize>) -> ! {
        let cause = serial.and_then(|serial| self.requests.get(serial)).map(|received| {
            format!("\nfor what came from {}:\n{}", received.flow, shown(&received.bytes))
        });
        let from = self.story.len().saturating_sub(60);
        panic!(
            "RULE BROKEN: {rule}\nsent to {flow}:\n{}{}\nbefore:\n{}",
            shown(bytes),
            cause.unwrap_or_default(),
            self.story[from..].join("\n")
        );
    }
}

/// Returns true if a value contains this realm in the most lenient reading.
fn is_of_realm(value: &[u8]) -> bool {
    let is_noise = |byte: &&u8| !b" \t\r\n\"\\".contains(byte);
    let plain: Vec<u8> = value.iter().filter(is_noise).map(u8::to_ascii_lowercase).collect();
    holds(&plain, "realm=example.com")
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// The beginning of a message, for the panic message.
fn shown(bytes: &[u8]) -> String {
    text(&bytes[..bytes.len().min(2500)])
}
