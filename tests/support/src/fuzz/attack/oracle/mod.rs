//! What may be sent, by a model of its own: it knows what came in and what went out, and nothing of
//! the engine.

mod bindings;
mod dialogs;
mod places;
mod proofs;
mod received;

use super::draft::{branch, cseq, method, request_uri, tag_of, text, uri_of, value};
use super::parties::{SERVER, address, answers};
use bindings::Bindings;
use dialogs::Dialogs;
use places::{Place, is_nobodys, nearness};
use proofs::Proofs;
use received::{Names, Proof, Received};
use sip::digest::Challenge;
use sip::{HeaderName, Instant, Message, Transport};
use sip_server::Flow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

/// A request that went out.
struct Sent {
    /// The number of the request that it was made of.
    serial: usize,
    uri: String,
    flow: Flow,
}

/// What the engine is told, while it acts on it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause<'a> {
    /// The request of this number.
    Request(usize),
    Response(&'a [u8]),
    /// Time, the DNS, a failure.
    Other,
}

/// On what ground a request goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ground {
    Credentials,
    Binding,
    Dialog,
    /// It is the ACK or CANCEL of a request that went there.
    Companion,
}

/// Somebody who may give a name of ours in From within a call.
#[derive(PartialEq, Eq)]
enum Bearer {
    /// Who proved it, by his tag.
    Prover { call_id: String, tag: String, user: String },
    /// Who was called by it, by the tag of the other end.
    Called { call_id: String, caller_tag: String, user: String },
}

pub(super) struct Oracle {
    requests: Vec<Received>,
    /// By branch, in the order in which they went.
    sent: HashMap<String, Vec<Sent>>,
    bindings: Bindings,
    dialogs: Dialogs,
    proofs: Proofs,
    names: Names,
    bearers: Vec<Bearer>,
    /// Bytes for a request to a host.
    spent: HashMap<(usize, IpAddr), usize>,
    /// By host that requests came from: bytes that came for them, and bytes of responses that went
    /// there.
    returned: HashMap<IpAddr, (usize, usize)>,
    /// What only the server and one of the honest may know.
    secrets: Vec<String>,
    /// What happened, in short.
    story: Vec<String>,
    /// How often there was which ground, and what else shows that much was tried.
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

    /// The number for the next new request.
    pub(super) fn next_serial(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn note(&mut self, what: String) {
        self.story.push(what);
    }

    pub(super) fn count(&mut self, what: &str) {
        *self.tally.entry(what.into()).or_default() += 1;
    }

    /// Credentials that an honest phone sends by way of the server.
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

    /// The request of number `serial`, or one of a number that it does not know, comes in.
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
        // One of the same transaction may come from elsewhere; responses go to where the first came
        // from.
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
            self.count("challenges of others");
        }
    }

    /// The engine sends `bytes`.
    pub(super) fn goes(&mut self, cause: Cause<'_>, flow: Flow, bytes: &[u8], now: Instant) {
        let line = bytes.split(|&byte| byte == b'\r').next().unwrap_or_default();
        self.note(format!("-> {flow} {}", text(line)));
        let Ok(message) = Message::parse(bytes) else {
            self.violation("what is sent is a message", flow, bytes, None)
        };
        if let Some(secret) = self.secrets.iter().find(|secret| holds(bytes, secret)) {
            let rule = format!("credentials for this realm go to nobody else ({secret})");
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
            // One that cannot be delivered goes out once more.
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

    /// Responses go to hosts that requests came from, and to those of them that never showed that
    /// they are there, no more than three times what came for them.
    fn give_back(&mut self, flow: Flow, bytes: &[u8]) {
        let host = flow.remote.ip();
        let Some((came, went)) = self.returned.get_mut(&host) else {
            self.violation("responses go to who asked", flow, bytes, None)
        };
        *went += bytes.len();
        if flow.transport == Transport::Udp && !answers(host) && *went > 3 * *came {
            let rule = format!(
                "to who never answered go back three times what came at most: {went} for {came}"
            );
            self.violation(&rule, flow, bytes, None);
        }
    }

    fn registered(&mut self, serial: usize, flow: Flow, answer: &Message<'_>, now: Instant) {
        let proof = self.prove(serial, HeaderName::Authorization, HeaderName::To);
        let Some(proof) = proof else {
            let rule = "only the user himself changes his bindings";
            self.violation(rule, flow, answer.as_bytes(), Some(serial))
        };
        self.proofs.spend(&proof, serial);
        self.bindings.note(proof.user, &self.requests[serial], answer, now);
        self.count("registered");
    }

    /// A response that came went back, as `sent`.
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
            self.violation("nothing is sent to the server itself", flow, bytes, serial);
        }
        if is_nobodys(flow.remote) {
            self.violation("nothing is sent to nobody", flow, bytes, serial);
        }
        let Some(serial) = known.or(serial).filter(|&serial| serial < self.requests.len()) else {
            self.violation("what is sent was asked for", flow, bytes, None)
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

    /// Whether the request of number `serial` may go on as `message`.
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
        // Within a dialog nobody looks at them.
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
                "requests go to our users, within dialogs, and where users of ours send them";
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
        // Whom the request is for; To says what its sender likes.
        if let Some(asked) = ours(Some(request_uri(&request))) {
            let (call_id, caller_tag) = (call_id.clone(), from_tag.clone());
            bearers.push(Bearer::Called { call_id, caller_tag, user: text(&asked.user) });
        }
        self.bearers.extend(bearers);
        // Nobody can be asked for credentials for these; where they go is judged all the same.
        let is_beyond_asking = matches!(&*self.requests[serial].method, "ACK" | "CANCEL");
        if let Some(user) = claimed.filter(|_| !is_user && !is_beyond_asking) {
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
                let rule = format!("only {user} gives that name in From");
                self.violation(&rule, flow, message.as_bytes(), Some(serial));
            }
        }
        let what = format!("{ground:?} {}", self.requests[serial].method);
        self.count(&what);
        self.dialogs.note_request(&self.requests[serial], now);
    }

    /// Whether the request is the ACK or CANCEL of another that went out on `flow`, and says so
    /// rightly.
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

    /// The credentials in `name`, if they are good and of the user whose name stands in `whose`.
    fn prove(&mut self, serial: usize, name: HeaderName, whose: HeaderName) -> Option<Proof> {
        let received = &mut self.requests[serial];
        if received.proof.is_none() {
            let uri = uri_of(&received.message(), whose).and_then(|uri| Place::of(&uri));
            let claimed = uri.filter(Place::is_in_domain).map(|uri| uri.user);
            // Nobody can be asked for any with these.
            let is_asked = !matches!(&*received.method, "ACK" | "CANCEL");
            let proof = self.proofs.find(name, claimed.as_deref(), serial, received);
            received.proof = Some(proof.filter(|_| is_asked));
        }
        received.proof.clone().flatten()
    }

    /// Hosts that never answered get no more than three times what came.
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
                "to a host that never answered go three times what came at most: {spent} for {came}"
            );
            self.violation(&rule, flow, bytes, Some(serial));
        }
        self.count("sent to who never answered");
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

/// Whether a value names this realm, by the most generous reading.
fn is_of_realm(value: &[u8]) -> bool {
    let is_noise = |byte: &&u8| !b" \t\r\n\"\\".contains(byte);
    let plain: Vec<u8> = value.iter().filter(is_noise).map(u8::to_ascii_lowercase).collect();
    holds(&plain, "realm=example.com")
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Enough of a message to know it by.
fn shown(bytes: &[u8]) -> String {
    text(&bytes[..bytes.len().min(2500)])
}
