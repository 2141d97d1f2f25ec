//! A stranger and a malicious user attack the engine with all that they learn, while other users
//! make calls. An independent model decides for each message that the engine sends whether it is
//! allowed.

mod draft;
mod known;
mod oracle;
mod parties;
mod phone;
mod script;
mod step;

pub use step::Step;

use draft::Draft;
use known::Known;
use oracle::{Cause, Oracle};
use parking_lot::RawMutex;
use parties::{DOMAIN, HONEST, SERVER, USERS, address, is_attackers};
use phone::{Action, Phone};
use sip::digest::Ha1Set;
use sip::locate::Host;
use sip::{Duration, Instant, Transport};
use sip_server::config::{Config, Domain, Limits, Listener, State};
use sip_server::{
    Connection, Event, Flow, Location, Output, Server, Ticket, Worker, journal_record as record,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

const SECRET: [u8; 32] = [7; 32];
/// The numbers of open connections, also across restarts.
const CONNECTIONS: Range<u64> = 1..21;
/// The maximum number of steps of a script.
const MOST_STEPS: usize = 48;
/// The maximum number of messages per step, which ends exchanges between phones.
const MOST_MESSAGES: usize = 60;

/// The time steps in microseconds: retransmissions, timer B, timer C, and the expiry of nonces, of
/// bindings, of tokens.
const SPANS: [u64; 8] =
    [600_000, 1, 4_000_000, 33_000_000, 190_000_000, 301_000_000, 3_601_000_000, 86_402_000_000];

/// Runs the script that `bytes` encode, and returns counters of the observed cases.
///
/// # Panics
/// The engine sends a message that is not allowed. The panic message contains the history.
pub fn attack(bytes: &[u8]) -> BTreeMap<String, u64> {
    let (&setting, script) = bytes.split_first().unwrap_or((&0, &[]));
    let mut machine = Machine::new(setting);
    for step in Step::read(script, MOST_STEPS) {
        machine.step(&step);
    }
    for _ in 0..8 {
        machine.pass(SPANS[2]);
    }
    machine.finish()
}

struct Machine {
    config: Config,
    server: Arc<Server<RawMutex>>,
    worker: Worker<RawMutex>,
    now: Instant,
    out: Output,
    journal: Vec<u8>,
    oracle: Oracle,
    phones: Vec<Phone>,
    known: Known,
    tickets: Vec<(Ticket, String)>,
    /// Received messages with their serial numbers.
    received: Vec<(Flow, Vec<u8>, Option<usize>)>,
    /// The messages sent last.
    sent: VecDeque<(Flow, Vec<u8>)>,
    /// Messages in transit to honest phones.
    on_the_way: VecDeque<(usize, Vec<u8>)>,
    /// The number of messages received in this step.
    came: usize,
    counters: BTreeMap<&'static str, u64>,
}

impl Machine {
    /// Creates the engine with all phones registered. `setting` selects transactions, the
    /// registration of bob, and whether phones only ring.
    fn new(setting: u8) -> Self {
        let config = config(setting & 1 == 1);
        let (server, worker) = start(&config);
        let mut machine = Self {
            oracle: Oracle::new(config.state == State::Stateless),
            config,
            server,
            worker,
            now: Instant::from_micros(1_700_000_000_000_000),
            out: Output::default(),
            journal: Vec::new(),
            phones: HONEST.iter().map(Phone::new).collect(),
            known: Known::default(),
            tickets: Vec::new(),
            received: Vec::new(),
            sent: VecDeque::new(),
            on_the_way: VecDeque::new(),
            came: 0,
            counters: BTreeMap::new(),
        };
        for at in 0..machine.phones.len() {
            machine.phones[at].only_rings = setting & 2 == 2;
            let register = machine.phones[at].register();
            machine.act(at, register);
        }
        machine.step(&script::first_registration(setting >> 2));
        machine
    }

    fn step(&mut self, step: &Step) {
        self.came = 0;
        match step.what {
            0..=5 => self.attack(step),
            6..=8 => {
                if let Some((flow, answer)) = script::answer(step, &self.known) {
                    self.receive(flow, answer, None, false);
                }
            }
            9 | 10 => self.use_phone(step),
            11 => self.pass(SPANS[usize::from(step.extra) % SPANS.len()]),
            12 => self.locate(step),
            13 => self.fail(step),
            14 => self.repeat(step),
            _ => self.lure(step),
        }
        self.talk();
    }

    /// Sends a request of the attackers. If the step uses bob's credentials, it is repeated after a
    /// challenge.
    fn attack(&mut self, step: &Step) {
        let (flow, draft) = script::request(step, &mut self.known);
        self.send(flow, &draft, script::is_forged(step));
        if script::proves(step)
            && let Some((name, challenge)) = self.known.challenge(Some(&flow))
        {
            let (name, challenge) = (name, challenge.to_owned());
            let number = self.known.next();
            let via = draft.value("Via").replacen("branch=", "branch=z9hG4bKp", 1);
            let via = via.replacen("z9hG4bKpz9hG4bK", &format!("z9hG4bKp{number}"), 1);
            let proved =
                draft.clone().with("Via", via).proving("bob", name, &challenge, number, None);
            self.send(flow, &proved, script::is_forged(step));
        }
        self.known.last = Some((flow, draft));
    }

    fn send(&mut self, flow: Flow, draft: &Draft, is_forged: bool) {
        let serial = self.oracle.next_serial();
        self.receive(flow, draft.bytes(serial), Some(serial), is_forged);
    }

    fn use_phone(&mut self, step: &Step) {
        let at = usize::from(step.source) % self.phones.len();
        let method = script::wanted_method(step);
        let phone = &mut self.phones[at];
        let action = match (method, step.base) {
            ("REGISTER", _) => Some(phone.register()),
            ("ACK" | "CANCEL" | "PRACK", 0) => None,
            (_, 0) => Some(phone.begin(method, &script::wanted(step))),
            (_, back) => phone.go_on(method, back - 1),
        };
        if let Some(action) = action {
            self.act(at, action);
        }
    }

    fn act(&mut self, at: usize, action: Action) {
        let flow = self.phones[at].honest.flow();
        match action {
            Action::Request(draft, secret) => {
                if let Some(secret) = secret {
                    self.oracle.keep_secret(secret);
                }
                self.send(flow, &draft, false);
            }
            Action::Response(bytes) => self.receive(flow, bytes, None, false),
        }
        self.talk();
    }

    /// Lets phones process their messages until none is left.
    fn talk(&mut self) {
        while let Some((at, bytes)) = self.on_the_way.pop_front() {
            if self.came > MOST_MESSAGES {
                self.on_the_way.clear();
                return;
            }
            for action in self.phones[at].receive(&bytes) {
                self.act(at, action);
            }
        }
    }

    fn receive(&mut self, flow: Flow, bytes: Vec<u8>, serial: Option<usize>, is_forged: bool) {
        self.came += 1;
        self.oracle.comes(flow, &bytes, serial, is_forged, self.now);
        self.worker.receive(self.now, &flow, &bytes, &mut self.out);
        let cause = serial.map_or(Cause::Response(&bytes), Cause::Request);
        self.settle(cause);
        self.received.push((flow, bytes, serial));
    }

    /// Advances the time, timer by timer.
    fn pass(&mut self, micros: u64) {
        let end = self.now + Duration::from_micros(micros);
        for _ in 0..400 {
            let Some(next) = self.worker.next_timer().filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            self.worker.on_timer(self.now, &mut self.out);
            self.settle(Cause::Other);
        }
        self.now = end;
    }

    /// Answers one of the last DNS queries.
    fn locate(&mut self, step: &Step) {
        let Some(last) = self.tickets.len().checked_sub(1) else { return };
        let (ticket, host) = self.tickets.swap_remove(last - usize::from(step.base) % (last + 1));
        let places =
            ["192.0.2.7:5060", "192.0.2.99:5060", "127.0.0.1:5070", "10.0.0.9:5060", SERVER];
        let remotes: Vec<SocketAddr> = [step.uri, step.routes]
            .iter()
            .take(1 + usize::from(step.extra % 2))
            .map(|choice| address(places[usize::from(*choice) % places.len()]))
            .collect();
        let transport = if step.via & 1 == 0 { Transport::Udp } else { Transport::Tcp };
        let location = |&remote| Location { transport, remote, local: None };
        let locations: Vec<_> = remotes.iter().map(location).collect();
        self.oracle.located(&host, &remotes);
        self.worker.located(self.now, ticket, &locations, &mut self.out);
        self.settle(Cause::Other);
    }

    /// Reports a sent message as undeliverable, or restarts the server from its journal.
    fn fail(&mut self, step: &Step) {
        if step.source % 4 == 3 {
            return self.restart();
        }
        let Some(last) = self.sent.len().checked_sub(1) else { return };
        let (flow, bytes) = self.sent[last - usize::from(step.base) % (last + 1)].clone();
        self.oracle.note(format!("undeliverable to {flow}"));
        self.worker.undeliverable(self.now, &flow, &bytes, &mut self.out);
        self.settle(Cause::Other);
    }

    fn restart(&mut self) {
        self.count();
        // The duration of a restart.
        self.pass(1_000_000);
        (self.server, self.worker) = start(&self.config);
        for record in record::read(&self.journal) {
            self.server.restore(&record.expect("the journal is intact"), self.now);
        }
        self.server.forget_nonces_before(self.now);
        self.tickets.clear();
        self.oracle.restart(self.now);
    }

    /// Repeats a received message, possibly from another source.
    fn repeat(&mut self, step: &Step) {
        let Some(last) = self.received.len().checked_sub(1) else { return };
        let (flow, bytes, serial) =
            self.received[last - usize::from(step.base) % (last + 1)].clone();
        let (is_request, is_elsewhere) = (serial.is_some(), step.source != 0);
        if !is_elsewhere {
            return self.receive(flow, bytes, serial, false);
        }
        // From another source it is a different request, with its own serial number.
        let flow = script::source(step);
        let bytes = match serial {
            Some(serial) => renumbered(&bytes, serial, self.oracle.next_serial()),
            None => bytes,
        };
        let serial = is_request.then(|| self.oracle.next_serial());
        self.receive(flow, bytes, serial, script::is_forged(step));
    }

    fn lure(&mut self, step: &Step) {
        let Some((_, challenge)) = self.known.challenge(None) else { return };
        let (challenge, (uri, method)) = (challenge.to_owned(), script::lure(step));
        let count = self.known.next();
        let lured = draft::answer("alice", &challenge, method, &uri, 0, count);
        self.known.lured.extend(lured);
    }

    /// Checks the output of the engine, and delivers it.
    fn settle(&mut self, cause: Cause<'_>) {
        let out = std::mem::take(&mut self.out);
        self.journal.extend_from_slice(&out.journal);
        for transmit in &out.transmits {
            let bytes = &out.bytes[transmit.range.clone()];
            self.oracle.goes(cause, transmit.flow, bytes, self.now);
            self.deliver(transmit.flow, bytes);
        }
        for event in out.events {
            if let Event::Locate { destination, ticket, .. } = event {
                let host = match destination.host {
                    Host::Name(name) => name,
                    Host::Ip(ip) => ip.to_string(),
                };
                self.tickets.push((ticket, host));
            }
        }
    }

    fn deliver(&mut self, flow: Flow, bytes: &[u8]) {
        if self.sent.len() == 16 {
            self.sent.pop_front();
        }
        self.sent.push_back((flow, bytes.to_vec()));
        let phone = self.phones.iter().position(|phone| phone.honest.is_at(flow.remote));
        if let Some(at) = phone {
            self.on_the_way.push_back((at, bytes.to_vec()));
        } else if is_attackers(flow.remote.ip()) {
            // Answers come from the destination of the message.
            let mut flow = flow;
            if flow.transport.is_stream() {
                flow.connection = flow.connection.or(NonZeroU64::new(20).map(Connection));
            }
            self.known.learn(flow, bytes);
        }
    }

    fn count(&mut self) {
        for (name, count) in self.server.counters() {
            *self.counters.entry(name).or_default() += count;
        }
    }

    fn finish(mut self) -> BTreeMap<String, u64> {
        self.count();
        let counters = self.counters.into_iter().map(|(name, count)| (name.into(), count));
        let mut tally = self.oracle.tally;
        tally.extend(counters);
        tally
    }
}

/// The request with another serial number.
fn renumbered(bytes: &[u8], old: usize, new: usize) -> Vec<u8> {
    let text = String::from_utf8_lossy(bytes);
    let line = |number| format!("{}: {number}\r\n", draft::SERIAL);
    text.replacen(&line(old), &line(new), 1).into_bytes()
}

fn config(is_stateless: bool) -> Config {
    let listener = |transport| Listener { transport, address: address(SERVER) };
    Config {
        state: if is_stateless { State::Stateless } else { State::Stateful },
        listeners: vec![listener(Transport::Udp), listener(Transport::Tcp)],
        domains: vec![Domain { name: DOMAIN.into(), aliases: vec!["203.0.113.1".into()] }],
        // No trusted networks and no rate limits.
        limits: Limits {
            trusted: Vec::new(),
            source_rate: 0,
            foreign_rate: 0,
            user_rate: 0,
            ban_failures: 0,
            ..Limits::default()
        },
        ..Config::default()
    }
}

fn start(config: &Config) -> (Arc<Server<RawMutex>>, Worker<RawMutex>) {
    let server = Arc::new(Server::new(config.clone(), &SECRET));
    for user in USERS {
        let ha1 = Ha1Set::new(user.as_bytes(), DOMAIN.as_bytes(), user.as_bytes());
        server.add_user(format!("{user}@{DOMAIN}").as_bytes(), ha1);
    }
    CONNECTIONS.filter_map(NonZeroU64::new).map(Connection).for_each(|connection| {
        server.connection_opened(connection);
    });
    let worker = server.worker();
    (server, worker)
}
