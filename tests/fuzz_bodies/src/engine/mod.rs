//! The complete engine with any sequence of events.

mod input;
mod script;

use input::Input;
use parking_lot::RawMutex;
use script::{Memory, PASSWORD, USERS};
use sip::digest::{Algorithm, Ha1Set};
use sip::stream::{Frame, Framer};
use sip::transaction::Timers;
use sip::{Duration, HeaderName, Instant, Message, Method, Transport};
use sip_server::config::{
    Authentication, Config, Domain, Limits, Listener, Mode, Network, Registrar, State,
};
use sip_server::{
    Connection, Event, Flow, Location, Output, Server, Ticket, Worker, journal_record as record,
};
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

const MAX_TRANSACTIONS: usize = 4;
const MAX_REGISTERED: usize = 3;
const MAX_CONTACTS: usize = 3;
const MAX_EXPIRES: Duration = Duration::from_secs(600);
const HOUR: Duration = Duration::from_secs(3600);
const SECRET: [u8; 32] = [7; 32];

/// The numbers of open connections, also across restarts, so that every binding stays usable.
const CONNECTIONS: Range<u64> = 1..5;

/// The number of stored messages of each kind.
const KEPT: usize = 12;

/// Runs the events that `bytes` encode through an engine with small limits, then an hour of
/// silence, and returns the counters of the engine.
///
/// # Panics
/// The engine panics or violates an invariant.
pub fn engine(bytes: &[u8]) -> HashMap<&'static str, u64> {
    let mut machine = Machine::new(bytes);
    for _ in 0..300 {
        if machine.input.0.is_empty() {
            break;
        }
        machine.step();
    }
    machine.silence();
    machine.counted
}

type Sent = (Flow, Vec<u8>);

struct Machine<'b> {
    input: Input<'b>,
    config: Config,
    server: Arc<Server<RawMutex>>,
    worker: Worker<RawMutex>,
    now: Instant,
    out: Output,
    /// All bytes ever written to storage.
    journal: Vec<u8>,
    /// The counters before the last restart.
    counted: HashMap<&'static str, u64>,
    /// The number of messages sent since the start.
    sent: u64,
    received: VecDeque<Sent>,
    requests: VecDeque<Sent>,
    responses: VecDeque<Sent>,
    tickets: Vec<Ticket>,
    /// The sources of requests.
    sources: HashSet<IpAddr>,
    memory: Memory,
    /// True if a user was authenticated or no authentication is required, so that requests may be
    /// forwarded.
    is_open: bool,
}

impl<'b> Machine<'b> {
    fn new(bytes: &'b [u8]) -> Self {
        let mut input = Input(bytes);
        let config = config(&mut input);
        let (server, worker) = start(&config);
        let is_open = !config.authentication.required;
        Self {
            input,
            config,
            server,
            worker,
            now: Instant::from_micros(1_000_000_000_000),
            out: Output::default(),
            journal: Vec::new(),
            counted: HashMap::new(),
            sent: 0,
            received: VecDeque::new(),
            requests: VecDeque::new(),
            responses: VecDeque::new(),
            tickets: Vec::new(),
            sources: HashSet::new(),
            memory: Memory::default(),
            is_open,
        }
    }

    fn step(&mut self) {
        let flow = |input: &mut Input<'_>| input.pick(&script::flows());
        match self.input.below(32) {
            0 => {
                let (flow, length) = (flow(&mut self.input), self.input.number() % 2000);
                let mut bytes = self.input.bytes(length).to_vec();
                if length % 4 == 0 {
                    // A STUN request.
                    bytes.resize(12, 0);
                    bytes.splice(..0, [0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42]);
                }
                self.receive(flow, bytes);
            }
            1..=6 => {
                let flow = flow(&mut self.input);
                let bytes = script::register(&flow, &mut self.memory, &mut self.input);
                self.receive(flow, bytes);
            }
            7..=12 => {
                let flow = flow(&mut self.input);
                let bytes = script::request(&flow, &mut self.memory, &mut self.input);
                self.receive(flow, bytes);
            }
            13..=17 => {
                let Some((flow, request)) = pick_late(&mut self.input, &self.requests) else {
                    return;
                };
                if let Some(bytes) = script::response(&request, &flow, &mut self.input) {
                    self.receive(flow, bytes);
                }
            }
            number @ 18..=20 => {
                let Some((flow, request)) = pick_late(&mut self.input, &self.received) else {
                    return;
                };
                let method = if number == 18 { "CANCEL" } else { "ACK" };
                let answer = pick_late(&mut self.input, &self.responses).map(|(_, bytes)| bytes);
                let bytes = script::companion(method, &request, answer.as_deref(), &mut self.input);
                if let Some(bytes) = bytes {
                    self.receive(flow, bytes);
                }
            }
            number @ 21..=22 => {
                let from = if number == 21 { &self.responses } else { &self.requests };
                let Some((flow, message)) = pick_late(&mut self.input, from) else { return };
                if let Some(bytes) = script::in_dialog(&message, &flow, &mut self.input) {
                    self.receive(flow, bytes);
                }
            }
            23 => {
                // A retransmission, or a forwarded request that loops back.
                let again = if self.input.chance(160) { &self.received } else { &self.requests };
                if let Some((flow, bytes)) = pick_late(&mut self.input, again) {
                    self.receive(flow, bytes);
                }
            }
            24 => {
                let step =
                    self.input.pick(&[1, 100_000, 500_000, 4_000_000, 32_000_000, 200_000_000]);
                self.now += Duration::from_micros(step);
            }
            25 | 26 => self.run_next_timer(),
            27 => self.locate(),
            28 => {
                let lost = if self.input.chance(128) { &self.responses } else { &self.requests };
                if let Some((flow, bytes)) = pick_late(&mut self.input, lost) {
                    self.worker.undeliverable(self.now, &flow, &bytes, &mut self.out);
                    self.settle("undeliverable");
                }
            }
            29 if self.input.chance(80) => self.restart(),
            29 => self.run_next_timer(),
            30 => {
                let flow = flow(&mut self.input);
                let bytes = script::request(&flow, &mut self.memory, &mut self.input);
                self.sources.insert(flow.remote.ip());
                self.worker.refuse_unframed(self.now, &flow, &bytes, &mut self.out);
                self.settle("refuse_unframed");
            }
            _ => self.manage(),
        }
    }

    fn receive(&mut self, mut flow: Flow, bytes: Vec<u8>) {
        if flow.transport.is_stream() && flow.connection.is_none() {
            flow.connection = NonZeroU64::new(4).map(Connection);
        }
        self.sources.insert(flow.remote.ip());
        let waited = if self.input.chance(16) {
            self.config.limits.max_wait.times(self.input.pick(&[1, 2, 10]))
        } else {
            Duration::ZERO
        };
        self.worker.note_wait(flow.transport, self.now, waited);
        self.worker.receive_late(self.now, waited, &flow, &bytes, &mut self.out);
        let most = 2 * self.config.limits.max_forks + 6;
        assert!(self.out.transmits.len() <= most, "a message causes more than {most} others");
        keep(&mut self.received, (flow, bytes));
        self.settle("receive");
    }

    fn locate(&mut self) {
        if self.tickets.is_empty() {
            return;
        }
        let ticket = self.tickets.swap_remove(self.input.below(self.tickets.len()));
        let places = ["192.0.2.10:5060", "192.0.2.12:40001", "[2001:db8::6]:5062", "0.0.0.0:1"];
        let mut locations = Vec::new();
        for _ in 0..self.input.below(4) {
            let flow = self.input.pick(&script::flows());
            locations.push(Location {
                transport: self.input.pick(&[Transport::Udp, Transport::Tcp, Transport::Tls]),
                remote: self.input.pick(&places).parse().expect("a valid address"),
                local: self.input.chance(80).then_some(flow.local),
            });
        }
        self.worker.located(self.now, ticket, &locations, &mut self.out);
        self.settle("located");
    }

    /// Performs an operation of the administrator.
    fn manage(&mut self) {
        let (user, domain) = self.input.pick(&USERS);
        let address = format!("{user}@{domain}");
        match self.input.below(8) {
            7 => {
                for connection in CONNECTIONS.filter_map(NonZeroU64::new).map(Connection) {
                    if self.input.chance(100) {
                        self.worker.connection_ended(self.now, connection, &mut self.out);
                        self.server.connection_opened(connection);
                    }
                }
            }
            0 => drop(self.server.remove_user(address.as_bytes(), &mut self.out)),
            1 if self.input.chance(60) => self.server.drain(),
            2..=4 => {
                self.config = config(&mut self.input);
                self.is_open |= !self.config.authentication.required;
                self.server.configure(self.config.clone());
            }
            _ => add_user(&self.server, user, domain),
        }
        self.settle("manage");
    }

    /// Advances to the next timer and runs it.
    fn run_next_timer(&mut self) {
        if let Some(next) = self.worker.next_timer() {
            self.now = self.now.max(next);
        }
        self.worker.on_timer(self.now, &mut self.out);
        let next = self.worker.next_timer();
        assert!(next.is_none_or(|next| next > self.now), "a fired timer is still due");
        self.settle("on_timer");
    }

    /// Checks the output of the engine and takes it.
    fn settle(&mut self, event: &str) {
        let out = std::mem::take(&mut self.out);
        self.sent += out.transmits.len() as u64;
        self.journal.extend_from_slice(&out.journal);
        let counters: HashMap<_, _> = self.server.counters().into_iter().collect();
        // Only workers count sent messages.
        assert_eq!(counters["sent"], self.sent, "{event}: sent messages are counted");
        self.is_open |= counters["authenticated"] > 0;
        assert!(
            self.is_open || counters["forwarded"] == 0,
            "{event}: forwarded without authentication"
        );
        for transmit in &out.transmits {
            self.check_sent(event, transmit.flow, &out.bytes[transmit.range.clone()]);
        }
        for event in out.events {
            match event {
                Event::Locate { ticket, .. } => self.tickets.push(ticket),
                Event::CallEnded(_) | Event::Call(_) | Event::Registered(_) => {}
                Event::Wake(wake) => self.tickets.push(wake.ticket),
                Event::Notice(notice) => {
                    let line = notice.to_string();
                    assert!(line.len() < 400 && !line.contains(char::is_control), "{line:?}");
                }
                _ => {}
            }
        }
        assert!(self.server.transactions() <= MAX_TRANSACTIONS);
        assert!(self.server.unanswered() <= self.server.transactions());
        assert!(self.server.registered() <= MAX_REGISTERED);
        self.check_bindings();
    }

    fn check_sent(&mut self, event: &str, flow: Flow, bytes: &[u8]) {
        let text = || format!("{event} to {flow}: {}", shown(bytes));
        if stun::is_stun(bytes) {
            assert!(!flow.transport.is_stream(), "STUN on a stream, {}", text());
            let has_asked = self.sources.contains(&flow.remote.ip());
            return assert!(has_asked, "response without a request, {}", text());
        }
        let Ok(message) = Message::parse(bytes) else {
            panic!("sent bytes that are not a message, {}", text())
        };
        assert_eq!(
            message.as_bytes().len(),
            bytes.len(),
            "the message is shorter than the bytes, {}",
            text()
        );
        let frame = Framer::default().next(bytes);
        assert_eq!(
            frame,
            Ok(Frame::Message(bytes.len())),
            "not a valid frame on a stream, {}",
            text()
        );
        assert!(!flow.local.ip().is_unspecified() && flow.local.port() == 5060, "{}", text());
        let remote = flow.remote;
        assert!(!remote.ip().is_unspecified() && remote.port() != 0, "{}", text());
        let sent = (flow, bytes.to_vec());
        if let Some(status) = message.status() {
            assert!(self.sources.contains(&remote.ip()), "response without a request, {}", text());
            let which = match status {
                401 => Some((0, HeaderName::WwwAuthenticate)),
                407 => Some((1, HeaderName::ProxyAuthenticate)),
                _ => None,
            };
            if let Some((which, name)) = which {
                self.memory.challenges[which] = message.values(name).map(<[u8]>::to_vec).collect();
            }
            keep(&mut self.responses, sent);
        } else {
            let checked = message.validate_request();
            // An ACK has the To of the response, which the peer has chosen.
            let is_ack = message.method() == Some(Method::Ack);
            assert!(is_ack || checked.is_ok(), "sent a faulty request {checked:?}, {}", text());
            if !is_ack {
                keep(&mut self.requests, sent);
            }
        }
    }

    fn check_bindings(&self) {
        let mut count = 0;
        let mut by_user: HashMap<Vec<u8>, usize> = HashMap::new();
        self.server.for_each_binding(self.now, &mut |binding| {
            count += 1;
            *by_user.entry(binding.address_of_record.to_vec()).or_default() += 1;
            assert!(binding.expires > self.now && binding.expires <= self.now + MAX_EXPIRES);
            assert!(binding.q <= 1000);
        });
        assert!(count <= self.server.bindings() && by_user.len() <= self.server.registered());
        assert!(by_user.values().all(|&count| count <= MAX_CONTACTS));
    }

    /// Restarts the server from its storage.
    fn restart(&mut self) {
        let before = bindings(&self.server, self.now);
        for (name, count) in self.server.counters() {
            *self.counted.entry(name).or_default() += count;
        }
        (self.server, self.worker) = start(&self.config);
        self.sent = 0;
        self.tickets.clear();
        for record in record::read(&self.journal) {
            self.server.restore(&record.expect("the journal is intact"), self.now);
        }
        assert_eq!(bindings(&self.server, self.now), before, "bindings lost across a restart");
        assert_eq!(self.server.bindings(), before.len());
        self.settle("restart");
    }

    /// Runs until all transactions and bindings have ended.
    fn silence(&mut self) {
        let end = self.now + HOUR;
        for ticket in std::mem::take(&mut self.tickets) {
            self.worker.located(self.now, ticket, &[], &mut self.out);
        }
        self.settle("located");
        let mut runs = 0;
        while self.worker.next_timer().is_some_and(|next| next <= end) {
            self.run_next_timer();
            runs += 1;
            assert!(runs < 10_000, "timers do not end");
        }
        // The next target may have to be located.
        if !self.tickets.is_empty() {
            return self.silence();
        }
        assert_eq!(self.server.transactions(), 0, "transactions remain");
        assert_eq!(self.worker.next_timer(), None, "timers remain");
        assert_eq!((self.server.bindings(), self.server.registered()), (0, 0));
        self.restart();
    }
}

fn config(input: &mut Input<'_>) -> Config {
    let listener = |transport, address: &str| Listener {
        transport,
        address: address.parse().expect("a valid address"),
    };
    let domain = |name: &str, aliases: &[&str]| Domain {
        name: name.into(),
        aliases: aliases.iter().map(|&alias| alias.into()).collect(),
    };
    let network = |address: &str, prefix| Network {
        address: address.parse().expect("a valid address"),
        prefix,
    };
    Config {
        mode: match input.below(16) {
            14 => Mode::Redirect,
            15 => Mode::Registrar,
            _ => Mode::Proxy,
        },
        state: input.pick(&[State::Stateful, State::Stateful, State::Stateful, State::Stateless]),
        listeners: vec![
            listener(Transport::Udp, "0.0.0.0:5060"),
            listener(Transport::Tcp, "0.0.0.0:5060"),
            listener(Transport::Udp, "[::]:5060"),
            listener(Transport::Tcp, "[::]:5060"),
        ],
        domains: vec![
            domain("example.com", &["198.51.100.1", "127.0.0.1", "2001:db8::1"]),
            domain("example.org", &[]),
        ],
        timers: Timers::default(),
        registrar: Registrar {
            max_expires: MAX_EXPIRES,
            max_contacts: MAX_CONTACTS,
            ..Registrar::default()
        },
        authentication: Authentication {
            required: !input.chance(60),
            algorithms: Algorithm::ALL.to_vec(),
            max_nonces: 16,
            ..Authentication::default()
        },
        record_route: !input.chance(60),
        limits: Limits {
            max_registered: MAX_REGISTERED,
            max_transactions: MAX_TRANSACTIONS,
            max_forks: 1 + input.below(4),
            trusted: vec![network("192.0.2.0", 24), network("127.0.0.0", 8)],
            source_rate: 4,
            source_burst: 8,
            foreign_rate: 1,
            user_rate: 1,
            max_transaction_bytes: 1 << 15,
            ban_failures: 2,
            max_sources: 16,
            ..Limits::default()
        },
        ..Config::default()
    }
}

fn start(config: &Config) -> (Arc<Server<RawMutex>>, Worker<RawMutex>) {
    let server = Arc::new(Server::new(config.clone(), &SECRET));
    for (user, domain) in USERS {
        add_user(&server, user, domain);
    }
    CONNECTIONS.filter_map(NonZeroU64::new).map(Connection).for_each(|connection| {
        server.connection_opened(connection);
    });
    let limits = relay::Limits { calls: 1, ..relay::Limits::default() };
    server.set_relay(Arc::new(relay::Relay::<RawMutex, _>::new(Numbered, limits)));
    let worker = server.worker();
    (server, worker)
}

/// A host of a relay without sockets.
struct Numbered;

struct NumberedPorts;

impl relay::Ports for NumberedPorts {
    fn rtp(&self) -> [u16; 2] {
        [20_000, 20_002]
    }
}

impl relay::Host<RawMutex> for Numbered {
    type Ports = NumberedPorts;

    fn open(
        &self,
        _: &Arc<relay::Stream<RawMutex>>,
        _: [IpAddr; 2],
    ) -> Result<NumberedPorts, relay::NoPort> {
        Ok(NumberedPorts)
    }

    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

fn add_user(server: &Server<RawMutex>, user: &str, domain: &str) {
    let ha1 = Ha1Set::new(user.as_bytes(), domain.as_bytes(), PASSWORD);
    server.add_user(format!("{user}@{domain}").as_bytes(), ha1);
}

/// The beginning of a message, for the panic message.
fn shown(bytes: &[u8]) -> String {
    format!("{} bytes: {}", bytes.len(), bytes[..bytes.len().min(1500)].escape_ascii())
}

/// A stored message, usually a recent one.
fn pick_late(input: &mut Input<'_>, kept: &VecDeque<Sent>) -> Option<Sent> {
    let back = input.below(16).saturating_sub(4).min(kept.len().saturating_sub(1));
    kept.get(kept.len().checked_sub(1 + back)?).cloned()
}

fn keep(kept: &mut VecDeque<Sent>, message: Sent) {
    if kept.len() == KEPT {
        kept.pop_front();
    }
    kept.push_back(message);
}

type Bound = (Vec<u8>, Vec<u8>, String, SocketAddr, u64, u16);

fn bindings(server: &Server<RawMutex>, now: Instant) -> Vec<Bound> {
    let mut all = Vec::new();
    server.for_each_binding(now, &mut |binding| {
        let flow = format!("{:?}", binding.flow);
        all.push((
            binding.address_of_record.to_vec(),
            binding.contact.to_vec(),
            flow,
            binding.flow.remote,
            binding.expires.as_micros(),
            binding.q,
        ));
    });
    all.sort();
    all
}
