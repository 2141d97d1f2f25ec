//! A registry with its owner, the DNS and the servers of a provider, by a simulated clock.

use barebell_trunk::{
    AccountConfig, Event, Location, Notice, Password, Registry, TrunkConfig, TrunkReport,
};
use sip::locate::{Destination, Host};
use sip::{Duration, Flow, HeaderName, Instant, Message, Method, Transport};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use test_support::{Random, flow};

/// The start of the simulated time.
pub(crate) const START: Instant = Instant::from_micros(1_700_000_000_000_000);

/// The behaviour of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// It answers, and registers those that prove the password.
    Works,
    /// It does not answer.
    Silent,
    /// The proxy cannot reach it.
    Unreachable,
    /// It answers 503 to all requests.
    Overloaded,
    /// It answers OPTIONS, and 503 to REGISTER.
    RefusesRegister,
    /// It answers 403 to REGISTER.
    Forbids,
}

pub(crate) const MOODS: [Mood; 6] = [
    Mood::Works,
    Mood::Silent,
    Mood::Unreachable,
    Mood::Overloaded,
    Mood::RefusesRegister,
    Mood::Forbids,
];

/// A response under way.
struct Mail {
    at: Instant,
    number: u8,
    flow: Flow,
    bytes: Vec<u8>,
}

/// A request that a server received.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) at: Instant,
    pub(crate) server: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) registry: Registry,
    /// The servers, in the order of the DNS.
    pub(crate) dns: Vec<SocketAddr>,
    pub(crate) moods: BTreeMap<SocketAddr, Mood>,
    /// The bindings of each server: contacts by address-of-record.
    pub(crate) bindings: BTreeMap<(SocketAddr, String), String>,
    pub(crate) requests: Vec<Request>,
    pub(crate) notices: Vec<Notice>,
    /// The least duration that the servers register for.
    pub(crate) min_expires: u64,
    mail: Vec<Mail>,
    pub(crate) random: Random,
}

/// The server with this number.
pub(crate) fn server(number: u8) -> SocketAddr {
    ([203, 0, 113, number], 5060).into()
}

pub(crate) fn location(remote: SocketAddr) -> Location {
    let local = Some(([192, 0, 2, 7], 5060).into());
    Location { transport: Transport::Udp, remote, local }
}

/// A trunk with these accounts.
pub(crate) fn trunk(name: &str, accounts: &[&str]) -> TrunkConfig {
    let account = |user: &&str| AccountConfig {
        uri: format!("sip:{user}@provider.example"),
        user: (*user).to_owned(),
        auth_name: format!("login-{user}"),
        password: Some(Password::new("secret")),
    };
    let host = Host::Name("provider.example".into());
    TrunkConfig {
        name: name.into(),
        destination: Destination { host, port: None, transport: None, sips: false },
        uri: "sip:provider.example".into(),
        proxy: None,
        accounts: accounts.iter().map(account).collect(),
        registers: !accounts.is_empty(),
        expires: Duration::from_secs(600),
        probe: Some(Duration::from_secs(30)),
    }
}

/// The user part of the URI in a header field.
fn user_of(message: &[u8], name: HeaderName) -> String {
    let value = flow::value(message, name);
    let start = value.find("sip:").expect("a URI") + 4;
    value[start..].split('@').next().unwrap_or_default().to_owned()
}

impl World {
    pub(crate) fn new(seed: u64, servers: u8) -> Self {
        let mut own = [1; 32];
        own[..8].copy_from_slice(&seed.to_le_bytes());
        let dns: Vec<SocketAddr> = (1..=servers).map(server).collect();
        Self {
            now: START,
            registry: Registry::new("Barebell", &[7; 32], &own),
            moods: dns.iter().map(|server| (*server, Mood::Works)).collect(),
            dns,
            bindings: BTreeMap::new(),
            requests: Vec::new(),
            notices: Vec::new(),
            min_expires: 60,
            mail: Vec::new(),
            random: Random::new(seed),
        }
    }

    pub(crate) fn configure(&mut self, trunks: &[TrunkConfig]) {
        self.registry.configure(self.now, trunks.to_vec());
        self.drain();
    }

    pub(crate) fn set(&mut self, number: u8, mood: Mood) {
        self.moods.insert(server(number), mood);
    }

    /// Lets the time pass.
    pub(crate) fn pass(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        self.drain();
        loop {
            let mail = self.mail.iter().map(|mail| mail.at).min();
            let next = mail.into_iter().chain(self.registry.next_timer()).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            if mail.is_some_and(|at| at <= self.now) {
                let now = self.now;
                let due = self.mail.extract_if(.., |mail| mail.at <= now).collect::<Vec<_>>();
                for Mail { number, flow, bytes, .. } in due {
                    self.registry.receive(self.now, number, &flow, &bytes);
                }
            } else {
                self.registry.on_timer(self.now);
                let left = self.registry.next_timer();
                assert!(left.is_none_or(|next| next > self.now), "a timer that is due has run");
            }
            self.drain();
        }
        self.now = end;
    }

    fn drain(&mut self) {
        loop {
            if let Some(event) = self.registry.poll_event() {
                match event {
                    Event::Locate { ticket, .. } => {
                        let locations: Vec<_> = self.dns.iter().copied().map(location).collect();
                        self.registry.located(self.now, ticket, &locations);
                    }
                    Event::Changed(notice) => {
                        assert!(!notice.text.contains(char::is_control), "{notice}");
                        self.notices.push(notice);
                    }
                    _ => {}
                }
            } else if let Some(transmit) = self.registry.poll_transmit() {
                let Some(sip::Endpoint::Trunk(number)) = transmit.flow.endpoint() else {
                    panic!("the flow leads to the proxy: {:?}", transmit.flow)
                };
                self.serve(number, transmit.flow, &transmit.bytes);
            } else {
                return;
            }
        }
    }

    /// The proxy and the server at the other end of `flow` process a request.
    fn serve(&mut self, number: u8, flow: Flow, bytes: &[u8]) {
        let at = flow.remote;
        let request = Message::parse(bytes).expect("the registry sends messages");
        request.validate_request().expect("the registry sends good requests");
        self.requests.push(Request { at: self.now, server: at, bytes: bytes.to_vec() });
        let is_register = request.method() == Some(Method::Register);
        let (status, lines) = match self.moods[&at] {
            Mood::Silent => return,
            Mood::Unreachable => (430, String::new()),
            Mood::Overloaded => (503, String::new()),
            Mood::RefusesRegister if is_register => (503, String::new()),
            Mood::Forbids if is_register => (403, String::new()),
            _ if is_register => self.register(at, bytes),
            _ => (200, String::new()),
        };
        let answer = flow::response(bytes, flow.local, status, "there", &lines, "");
        let delay = Duration::from_millis(1 + self.random.below(200));
        self.mail.push(Mail { at: self.now + delay, number, flow, bytes: answer });
    }

    fn register(&mut self, at: SocketAddr, bytes: &[u8]) -> (u16, String) {
        let authorization = flow::value(bytes, HeaderName::Authorization);
        if authorization.is_empty() {
            let challenge = format!("Digest realm=\"{at}\",nonce=\"{}\"", self.now.as_micros());
            return (401, format!("WWW-Authenticate: {challenge}\r\n"));
        }
        assert!(authorization.contains("username=\"login-"), "{authorization}");
        let contact = flow::value(bytes, HeaderName::Contact);
        let expires: u64 = flow::value(bytes, HeaderName::Expires).parse().expect("a number");
        if expires > 0 && expires < self.min_expires {
            return (423, format!("Min-Expires: {}\r\n", self.min_expires));
        }
        let key = (at, user_of(bytes, HeaderName::To));
        match expires {
            0 => drop(self.bindings.remove(&key)),
            _ => drop(self.bindings.insert(key, user_of(bytes, HeaderName::Contact))),
        }
        (200, format!("Contact: {contact};expires={expires}\r\n"))
    }

    pub(crate) fn report(&self) -> TrunkReport {
        self.registry.reports(self.now).remove(0)
    }

    /// The target of the first trunk, if it is usable.
    pub(crate) fn target(&self) -> Option<SocketAddr> {
        let view = self.registry.views(self.now).remove(0);
        view.target.map(|target| target.remote)
    }

    /// The texts of the notices since the last call.
    pub(crate) fn told(&mut self) -> String {
        self.notices.drain(..).map(|notice| notice.text + "\n").collect()
    }

    /// The number of requests of a method to a server from `since` on.
    pub(crate) fn count(&self, number: u8, method: &str, since: Instant) -> usize {
        let of = self.requests.iter().filter(|it| it.server == server(number) && it.at >= since);
        of.filter(|it| it.bytes.starts_with(method.as_bytes())).count()
    }
}
