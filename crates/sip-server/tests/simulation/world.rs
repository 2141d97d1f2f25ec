//! Phones, network and server, and what they are put through.

use crate::host::Host;
use crate::phone::{CallPlan, DOMAIN, PASSWORD, Phone, Registration};
use crate::{Net, Wake, check, instant, since_start};
use sip::Transport;
use sip::digest::Ha1Set;
use sip_server::Config;
use sip_server::config::{Domain, Listener};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use test_support::Random;
use test_support::network::{Event, Link, Network};

const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 5060);
const USERS: u64 = 40;
/// Users who have no phone.
const ABSENT: u64 = 3;
const CALLS: u64 = 160;
const MESSAGES: u64 = 60;

/// How long things are done to the phones and the server.
const ACTION: Duration = Duration::from_secs(900);
/// How long after that the last call is over: timer C, the last CANCEL, the last BYE.
const CALM_DOWN: Duration = Duration::from_secs(700);

/// Something that is done.
#[derive(Clone, Debug)]
enum Step {
    Call { caller: usize, callee: String, plan: CallPlan },
    Message { sender: usize, receiver: String },
    LogOut(usize),
    PowerOff(usize),
    BreakStream(usize),
    Kill { for_millis: u64 },
}

/// How large the server's tables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tables {
    Ample,
    TooSmall,
}

pub(crate) struct World {
    pub(crate) net: Net,
    pub(crate) host: Host,
    pub(crate) phones: Vec<Phone>,
    /// Nothing but the network does harm.
    pub(crate) is_calm: bool,
    pub(crate) tables: Tables,
    addresses: BTreeMap<SocketAddr, usize>,
    alarms: Vec<Option<Duration>>,
    steps: Vec<Step>,
    /// Messages with this in them are shown as they arrive.
    trace: Option<String>,
}

impl World {
    pub(crate) fn new(seed: u64, tables: Tables) -> Self {
        let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(77));
        let loss = *random.pick(&[0, 20, 100, 200]);
        let link = Link {
            loss,
            duplication: loss / 2,
            delay: Duration::from_millis(1),
            jitter: Duration::from_millis(*random.pick(&[1, 30, 300, 900])),
        };
        let is_calm = random.chance(500) && tables == Tables::Ample;
        let mut world = Self {
            net: Network::new(random.number(), link),
            host: host(tables),
            phones: phones(&mut random),
            is_calm,
            tables,
            addresses: BTreeMap::new(),
            alarms: Vec::new(),
            steps: Vec::new(),
            trace: std::env::var("BAREBELL_SIMULATION_TRACE").ok(),
        };
        for (number, phone) in world.phones.iter().enumerate() {
            world.addresses.insert(phone.address, number);
            world.alarms.push(None);
        }
        world.plan(&mut random);
        world
    }

    fn plan(&mut self, random: &mut Random) {
        let phones = self.phones.len() as u64;
        let mut at = |net: &mut Net, random: &mut Random, step: Step| {
            let when = random.duration(Duration::from_secs(5), ACTION);
            net.wake_at(when, Wake::Step(self.steps.len()));
            self.steps.push(step);
        };
        let anybody = |random: &mut Random| format!("u{}", random.below(USERS + ABSENT + 1));
        for _ in 0..CALLS {
            let millis = match random.below(10) {
                0 => random.below(3000),
                1..=3 => random.below(30_000),
                _ => 300_000,
            };
            let plan = CallPlan {
                patience: sip::Duration::from_millis(millis),
                talk: sip::Duration::from_millis(random.below(60_000)),
            };
            let caller = random.below(phones) as usize;
            let callee = anybody(random);
            at(&mut self.net, random, Step::Call { caller, callee, plan });
        }
        for _ in 0..MESSAGES {
            let sender = random.below(phones) as usize;
            let receiver = anybody(random);
            at(&mut self.net, random, Step::Message { sender, receiver });
        }
        for _ in 0..5 {
            let phone = random.below(phones) as usize;
            at(&mut self.net, random, Step::LogOut(phone));
        }
        if self.is_calm {
            return;
        }
        for _ in 0..random.below(4) {
            let for_millis = random.below(4000);
            at(&mut self.net, random, Step::Kill { for_millis });
        }
        for _ in 0..12 {
            let phone = random.below(phones) as usize;
            at(&mut self.net, random, Step::BreakStream(phone));
        }
        for _ in 0..3 {
            let phone = random.below(phones) as usize;
            at(&mut self.net, random, Step::PowerOff(phone));
        }
    }

    /// Whether a message may come twice, be it that the network doubles it or that the answer takes
    /// longer than T1.
    pub(crate) fn has_copies(&self) -> bool {
        self.net.link.loss > 0 || self.net.link.jitter.as_millis() > 200
    }

    /// Runs to the very end, and looks on the way whether all is as it should be.
    pub(crate) fn run(&mut self) {
        for number in 0..self.phones.len() {
            self.after_phone(number);
        }
        while self.net.next_time().is_some_and(|next| next < ACTION + CALM_DOWN) {
            self.step();
        }
        check::bindings(self);
        check::calls(self);
        check::transactions(self);
        // From now on nobody refreshes, so that all bindings end.
        self.phones.iter_mut().for_each(Phone::power_off);
        while self.net.next_time().is_some() {
            self.step();
        }
        check::rest(self);
    }

    fn step(&mut self) {
        match self.net.next_event() {
            Some(Event::Datagram { from, to, bytes }) => self.deliver(from, to, None, &bytes),
            Some(Event::Stream { stream, from, to, bytes }) => {
                self.deliver(from, to, Some(stream), &bytes);
            }
            Some(Event::Closed { stream, to }) => {
                if to == self.host.address {
                    self.host.closed(&mut self.net, stream);
                } else if let Some(&number) = self.addresses.get(&to) {
                    self.phones[number].on_closed(instant(self.net.now()), stream);
                    self.after_phone(number);
                }
            }
            Some(Event::Wake(wake)) => self.wake(wake),
            None => {}
        }
    }

    fn deliver(&mut self, from: SocketAddr, to: SocketAddr, stream: Option<u64>, bytes: &[u8]) {
        let text = crate::wire::text(bytes);
        if self.trace.as_ref().is_some_and(|trace| text.contains(trace)) {
            let line = text.lines().next().unwrap_or_default();
            let tail = text.lines().find(|line| line.starts_with("CSeq")).unwrap_or_default();
            println!("{:.6} {from} -> {to} {line} ({tail})", self.net.now().as_secs_f64());
        }
        if to == self.host.address {
            self.host.receive(&mut self.net, from, stream, bytes);
        } else {
            let number = self.addresses[&to];
            self.phones[number].receive(instant(self.net.now()), bytes);
            self.after_phone(number);
        }
    }

    fn wake(&mut self, wake: Wake) {
        let now = self.net.now();
        match wake {
            Wake::Phone(number) if self.alarms[number].is_some_and(|alarm| alarm <= now) => {
                self.alarms[number] = None;
                self.phones[number].on_timer(instant(now));
                self.after_phone(number);
            }
            Wake::Phone(_) => {}
            Wake::Server => self.host.on_alarm(&mut self.net),
            Wake::Flush { worker, life } => self.host.flush(&mut self.net, worker, life),
            Wake::PowerOn => {
                self.host.start(&mut self.net);
                check::bindings(self);
            }
            Wake::Step(number) => self.act(self.steps[number].clone()),
        }
    }

    fn act(&mut self, step: Step) {
        let now = instant(self.net.now());
        check::bindings(self);
        let number = match step {
            Step::Call { caller, callee, plan } => {
                if self.phones[caller].is_on {
                    self.phones[caller].call(now, &callee, plan);
                }
                caller
            }
            Step::Message { sender, receiver } => {
                if self.phones[sender].is_on {
                    self.phones[sender].send_message(now, &receiver);
                }
                sender
            }
            Step::LogOut(number) => {
                self.phones[number].registration.end(now);
                number
            }
            Step::PowerOff(number) => {
                self.phones[number].power_off();
                number
            }
            Step::BreakStream(number) => {
                if let Some(stream) = self.phones[number].stream {
                    self.net.close(stream);
                }
                number
            }
            Step::Kill { for_millis } => {
                self.host.kill(&mut self.net);
                let back = self.net.now() + Duration::from_millis(for_millis);
                self.net.wake_at(back, Wake::PowerOn);
                return;
            }
        };
        self.after_phone(number);
    }

    /// Sends what a phone has to send, and sets its alarm.
    fn after_phone(&mut self, number: usize) {
        let server = self.host.address;
        let phone = &mut self.phones[number];
        for bytes in std::mem::take(&mut phone.outbox) {
            if !phone.on_stream {
                self.net.send(phone.address, server, &bytes);
                continue;
            }
            let stream = match phone.stream {
                Some(stream) => stream,
                None => *phone.stream.insert(self.net.open(phone.address, server)),
            };
            // Where it is broken the phone will hear of it.
            let _ = self.net.write(stream, phone.address, &bytes);
        }
        if let Some(next) = phone.next_timer() {
            let next = since_start(next);
            if self.alarms[number].is_none_or(|alarm| next < alarm) {
                self.alarms[number] = Some(next);
                self.net.wake_at(next, Wake::Phone(number));
            }
        }
    }
}

fn host(tables: Tables) -> Host {
    let address = SERVER.into();
    let listener = |transport| Listener { transport, address };
    let mut config = Config {
        listeners: vec![listener(Transport::Udp), listener(Transport::Tcp)],
        domains: vec![Domain { name: DOMAIN.into(), aliases: vec!["192.0.2.1".into()] }],
        ..Config::default()
    };
    if tables == Tables::TooSmall {
        config.limits.max_transactions = 3;
        config.limits.max_registered = USERS as usize - 5;
        config.limits.max_forks = 1;
        config.limits.max_sources = 16;
        config.registrar.max_contacts = 2;
        config.authentication.max_nonces = 32;
    }
    let users = (0..USERS + ABSENT)
        .map(|number| {
            let user = format!("u{number}");
            let ha1 = Ha1Set::new(user.as_bytes(), DOMAIN.as_bytes(), PASSWORD.as_bytes());
            (format!("{user}@{DOMAIN}"), ha1)
        })
        .collect();
    Host::new(address, config, users)
}

/// A user has one, two or three phones: with a public address, behind a NAT, or on a stream.
fn phones(random: &mut Random) -> Vec<Phone> {
    let mut phones = Vec::new();
    for user in 0..USERS {
        for _ in 0..*random.pick(&[1, 1, 1, 2, 3]) {
            let number = phones.len() as u16;
            let public = [203, 0, 113, number as u8 + 1];
            let (address, inside, on_stream) = match random.below(4) {
                0 | 1 => ((public, 5060), (public, 5060), false),
                2 => (
                    ([198, 51, 100, 7], 10_000 + number),
                    ([192, 168, 1, number as u8], 5060),
                    false,
                ),
                _ => ((public, 50_000 + number), (public, 5060), true),
            };
            let first = random.duration(Duration::ZERO, Duration::from_secs(20));
            let lifetime = 60 + random.below(600);
            let registration =
                Registration::new(format!("register{number}"), lifetime, instant(first));
            phones.push(Phone::new(
                format!("u{user}"),
                address.into(),
                inside.into(),
                on_stream,
                registration,
                random.number(),
            ));
        }
    }
    phones
}
