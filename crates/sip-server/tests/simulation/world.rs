//! Phones, network and server, and the steps of the simulation.

use crate::check;
use crate::host::Host;
use crate::phone::{CallPlan, DOMAIN, PASSWORD, Phone, Registration};
use barebell_sip_server::Config;
use barebell_sip_server::config::{Domain, Listener};
use sip::Transport;
use sip::digest::Ha1Set;
use std::time::Duration;
use test_support::Random;
use test_support::network::Link;
use test_support::rig::{End, Nodes, Simulation, instant};

pub(crate) const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 5060);
const USERS: u64 = 40;
/// The number of users without a phone.
const ABSENT: u64 = 3;
const CALLS: u64 = 160;
const MESSAGES: u64 = 60;

/// The period of actions on the phones and the server.
const ACTION: Duration = Duration::from_secs(900);
/// The time after that until the last call has ended: timer C, the last CANCEL, the last BYE.
const CALM_DOWN: Duration = Duration::from_secs(700);

/// An action of the simulation.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Call {
        caller: usize,
        callee: String,
        plan: CallPlan,
    },
    Message {
        sender: usize,
        receiver: String,
    },
    LogOut(usize),
    PowerOff(usize),
    BreakStream(usize),
    Kill {
        for_millis: u64,
    },
    /// The power comes back.
    PowerOn,
}

/// The server and the phones, in this order.
pub(crate) struct Parties {
    pub(crate) host: Host,
    pub(crate) phones: Vec<Phone>,
}

const HOST: usize = 0;

/// The number of the phone at this index in the rig.
pub(crate) const fn number_of(phone: usize) -> usize {
    HOST + 1 + phone
}

impl Nodes for Parties {
    fn end(&mut self, number: usize) -> &mut dyn End {
        match number.checked_sub(number_of(0)) {
            None => &mut self.host,
            Some(phone) => &mut self.phones[phone],
        }
    }
}

/// The size of the tables of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tables {
    Ample,
    TooSmall,
}

pub(crate) struct World {
    pub(crate) rig: Simulation<Step>,
    pub(crate) ends: Parties,
    /// True if only the network causes disturbances.
    pub(crate) is_calm: bool,
    pub(crate) tables: Tables,
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
        let mut rig = Simulation::new(random.number(), link);
        rig.shown = std::env::var("BAREBELL_SIMULATION_TRACE").ok();
        let ends = Parties { phones: phones(&mut random), host: host(tables, random.number()) };
        rig.attach(SERVER.into());
        for phone in &ends.phones {
            rig.attach(phone.address);
        }
        let mut world = Self { rig, ends, is_calm, tables };
        world.plan(&mut random);
        world
    }

    fn plan(&mut self, random: &mut Random) {
        let phones = self.ends.phones.len() as u64;
        let mut at = |random: &mut Random, step| {
            self.rig.plan(random.duration(Duration::from_secs(5), ACTION), step);
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
            at(random, Step::Call { caller, callee, plan });
        }
        for _ in 0..MESSAGES {
            let sender = random.below(phones) as usize;
            let receiver = anybody(random);
            at(random, Step::Message { sender, receiver });
        }
        for _ in 0..5 {
            let phone = random.below(phones) as usize;
            at(random, Step::LogOut(phone));
        }
        if self.is_calm {
            return;
        }
        for _ in 0..random.below(4) {
            let for_millis = random.below(4000);
            at(random, Step::Kill { for_millis });
        }
        for _ in 0..12 {
            let phone = random.below(phones) as usize;
            at(random, Step::BreakStream(phone));
        }
        for _ in 0..3 {
            let phone = random.below(phones) as usize;
            at(random, Step::PowerOff(phone));
        }
    }

    /// True if a message may arrive twice, because the network duplicates it or the response takes
    /// longer than T1.
    pub(crate) fn has_copies(&self) -> bool {
        let link = self.rig.link();
        link.loss > 0 || link.jitter.as_millis() > 200
    }

    /// Runs to the end, and checks the invariants on the way.
    pub(crate) fn run(&mut self) {
        for number in 0..self.ends.phones.len() {
            self.rig.after(&mut self.ends, number_of(number));
        }
        while let Some(step) = self.rig.next(&mut self.ends, ACTION + CALM_DOWN) {
            self.act(step);
        }
        check::bindings(self);
        check::calls(self);
        check::transactions(self);
        // From now on there is no refresh, so all bindings expire.
        self.ends.phones.iter_mut().for_each(Phone::power_off);
        assert!(self.rig.next(&mut self.ends, Duration::MAX).is_none(), "all steps are done");
        check::rest(self);
    }

    fn act(&mut self, step: Step) {
        let now = self.rig.now();
        check::bindings(self);
        let Self { rig, ends: Parties { host, phones }, .. } = self;
        let number = match step {
            Step::Call { caller, callee, plan } => {
                if phones[caller].is_on {
                    phones[caller].call(now, &callee, plan);
                }
                number_of(caller)
            }
            Step::Message { sender, receiver } => {
                if phones[sender].is_on {
                    phones[sender].send_message(now, &receiver);
                }
                number_of(sender)
            }
            Step::LogOut(phone) => {
                phones[phone].registration.end(now);
                number_of(phone)
            }
            Step::PowerOff(phone) => {
                phones[phone].power_off();
                number_of(phone)
            }
            Step::BreakStream(phone) => {
                rig.cut(number_of(phone));
                number_of(phone)
            }
            Step::Kill { for_millis } => {
                host.kill();
                rig.cut(HOST);
                rig.plan_in(Duration::from_millis(for_millis), Step::PowerOn);
                HOST
            }
            Step::PowerOn => {
                host.start(now);
                rig.cut(HOST);
                HOST
            }
        };
        self.rig.after(&mut self.ends, number);
        check::bindings(self);
    }
}

fn host(tables: Tables, seed: u64) -> Host {
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
    Host::new(address, config, users, seed)
}

/// Creates one, two or three phones for each user: with a public address, behind a NAT, or on a
/// stream.
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
            let user = format!("u{user}");
            let registration = Registration::new(&user, number, lifetime, instant(first));
            phones.push(Phone::new(
                user,
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
