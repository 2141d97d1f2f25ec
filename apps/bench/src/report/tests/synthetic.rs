//! Records of every kind in the form of the commands, from a model of servers: a queue with a
//! capacity in operations per second.

use crate::record::*;
use sip::Duration;
use std::collections::BTreeMap;

/// A model of a server.
#[derive(Clone, Copy)]
pub(super) struct Server {
    pub(super) name: &'static str,
    /// The capacity in operations per second.
    pub(super) capacity: f64,
    /// CPU time per operation, in microseconds.
    pub(super) cost: f64,
    /// Memory in MiB.
    pub(super) memory: u64,
}

pub(super) const SERVERS: [Server; 3] = [
    Server { name: "barebell", capacity: 42_000.0, cost: 7.8, memory: 11 },
    Server { name: "kamailio", capacity: 26_000.0, cost: 21.4, memory: 96 },
    Server { name: "opensips", capacity: 19_000.0, cost: 27.9, memory: 120 },
];

/// A repeatable sequence of numbers between 0 and 1.
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a factor around 1.
    fn around(&mut self, width: f64) -> f64 {
        1.0 + width * (self.next() + self.next() - 1.0)
    }
}

pub(super) fn load(operation: Operation, rate: f64) -> Load {
    Load {
        operation,
        authentication: false,
        transport: "udp".to_owned(),
        arrivals: "poisson".to_owned(),
        rate,
        users: 10_000,
        sockets: 64,
        workers: 2,
        hold: 0.0,
    }
}

/// Returns a run of this load.
pub(super) fn run(server: Server, load: Load, repeat: u32, seconds: u32) -> Run {
    let weight = match load.operation {
        Operation::Invite => 3.1,
        Operation::InviteNotFound | Operation::InviteRedirect => 1.2,
        _ => 1.0,
    } * if load.authentication { 1.7 } else { 1.0 };
    let mut chance = Chance::new(load.rate as u64 + u64::from(repeat) * 77 + server.memory);
    let capacity = server.capacity / weight;
    let use_of = (load.rate / capacity).min(0.995);
    let share = (capacity / load.rate).min(1.0);
    let offered = (load.rate * f64::from(seconds)).round() as u64;
    let succeeded = (offered as f64 * share) as u64;
    let failed = offered - succeeded;

    let mut response = Histogram::default();
    let mean = server.cost * 12.0 * weight / (1.0 - use_of);
    for _ in 0..succeeded.min(20_000) {
        let tail = if chance.next() < 0.004 { 9.0 } else { 1.0 };
        let micros = 45.0 + mean * tail * -chance.next().max(1e-9).ln();
        response.record(Duration::from_micros(micros as u64));
    }
    let mut from_schedule = response.clone();
    from_schedule.record(Duration::from_micros(response.max() * 3));
    let mut delays =
        BTreeMap::from([(Delay::Response, response.clone()), (Delay::FromSchedule, from_schedule)]);
    let method = match load.operation {
        Operation::Register | Operation::RegisterUpdate | Operation::RegisterLogout => {
            delays.insert(Delay::Rrd, response.clone());
            "REGISTER"
        }
        Operation::Invite => {
            for delay in [Delay::Srd, Delay::Sdd, Delay::Invite, Delay::Setup] {
                delays.insert(delay, response.clone());
            }
            "INVITE"
        }
        Operation::InviteNotFound | Operation::InviteRedirect => {
            delays.insert(Delay::SrdFailed, response.clone());
            "INVITE"
        }
        Operation::Options => "OPTIONS",
    };
    let status = match load.operation {
        Operation::InviteNotFound => 404,
        Operation::InviteRedirect => 302,
        _ => 200,
    };
    let mut statuses = BTreeMap::from([(status, succeeded)]);
    if failed > 0 {
        statuses.extend([(503, failed / 3), (0, failed - failed / 3)]);
    }
    let series = (-2..=i64::from(seconds)).map(|at| {
        let rate = load.rate * if at < 0 { 0.5 } else { 1.0 } * chance.around(0.02);
        let slow = chance.around(0.2);
        Second {
            at,
            measured: (0..i64::from(seconds)).contains(&at),
            offered: rate as u64,
            succeeded: (rate * share) as u64,
            failed: (rate * (1.0 - share)) as u64,
            retransmitted: (rate * (1.0 - share) * 3.0) as u64,
            in_flight: (rate * mean / 1e6 * slow) as u64,
            p50_us: Some((response.percentile(50.0) as f64 * slow) as u64),
            p99_us: tells((rate * share) as u64, 99.0)
                .then(|| (response.percentile(99.0) as f64 * slow * chance.around(0.3)) as u64),
            max_us: (response.max() as f64 * slow) as u64,
        }
    });
    let series: Vec<Second> = series.collect();
    let cost = server.cost * weight * chance.around(0.04);
    let busy = (succeeded as f64 * cost) as u64;
    let usage = |part: f64| Usage {
        cpu_user_us: (busy as f64 * 0.45 * part) as u64,
        cpu_system_us: (busy as f64 * 0.55 * part) as u64,
        context_switches: (succeeded as f64 * 0.4 * part) as u64,
        udp_drops: (failed as f64 * part) as u64,
        received_bytes: (succeeded as f64 * 520.0 * part) as u64,
        sent_bytes: (succeeded as f64 * 480.0 * part) as u64,
    };
    let memory = server.memory << 20;
    let samples = (-1..=i64::from(seconds)).map(|at| Sample {
        seconds: Some(1.0),
        at: at as f64,
        usage: usage(chance.around(0.05) / f64::from(seconds)),
        memory: memory + (at.max(0) as u64) * 40_000,
    });
    let samples: Vec<Sample> = samples.collect();
    Run {
        system: server.name.to_owned(),
        label: String::new(),
        repeat,
        started: 1_718_000_000 + u64::from(repeat) * 60,
        seconds: f64::from(seconds),
        loaded: None,
        down: None,
        doubts: Vec::new(),
        counts: Counts {
            offered,
            started: offered,
            succeeded,
            refused: failed / 3,
            timed_out: failed - failed / 3,
            sent: offered + failed * 3,
            received: succeeded,
            retransmitted: failed * 3,
            finals: BTreeMap::from([(method.to_owned(), statuses)]),
            completed_calls: if load.operation == Operation::Invite { succeeded } else { 0 },
            ..Counts::default()
        },
        delays,
        series,
        generator: Generator {
            cpu_user_us: offered * 2,
            cpu_system_us: offered * 3,
            operations: succeeded,
            lag: {
                let mut lag = Histogram::default();
                (0..1000)
                    .for_each(|_| lag.record(Duration::from_micros((chance.next() * 90.0) as u64)));
                lag
            },
            drops: 0,
            unsent: 0,
            ceiling: Some(Ceiling { rate: 148_000.0, cpu_us: 4.4 }),
            shares: Vec::new(),
        },
        watch: Some(Watch {
            source: "pid 4711".to_owned(),
            total: usage(1.0),
            operations: succeeded,
            memory: memory + (1 << 20),
            memory_max: memory + (2 << 20),
            memory_before: memory,
            cores: 2,
            others: Some(0.02),
            samples,
        }),
        media: None,
        dropped: BTreeMap::new(),
        captured: BTreeMap::new(),
        steps: BTreeMap::from([(
            "handler".to_owned(),
            Step { count: 1000, nanoseconds: 2_500_000 },
        )]),
        load,
    }
}

/// Returns a record with these systems, without runs.
pub(super) fn record(kind: Kind, servers: &[Server]) -> Record {
    let systems = servers.iter().map(|server| System {
        name: server.name.to_owned(),
        version: Some("1.2.3".to_owned()),
        target: "udp:127.0.0.1:17060".to_owned(),
        command: Some(vec![server.name.to_owned(), "--config".to_owned(), "bench.conf".to_owned()]),
        ready: Some(0.25),
        remarks: vec!["UDP only, locations in memory.".to_owned(), "2 workers.".to_owned()],
    });
    let command = format!("{kind:?}").to_lowercase();
    Record {
        format: FORMAT,
        tool: "barebell-bench 0.1.0".to_owned(),
        kind,
        command: vec![
            "barebell-bench".to_owned(),
            command,
            "--require".to_owned(),
            "success>=100%".to_owned(),
        ],
        started: 1_718_000_000,
        agents: Vec::new(),
        machine: Machine {
            host: "lab".to_owned(),
            cpu: "AMD EPYC 7B13".to_owned(),
            cores: 2,
            memory: 8 << 30,
            system: "Debian GNU/Linux 12, Linux 6.1.0".to_owned(),
        },
        systems: systems.collect(),
        runs: Vec::new(),
        findings: Vec::new(),
        trouble: String::new(),
        criteria: Vec::new(),
    }
}

/// Returns a record of every kind, with all that a report can show.
pub(super) fn all() -> Vec<Record> {
    vec![
        single(),
        compared(),
        swept(Kind::Sweep),
        swept(Kind::Proxy),
        limit(),
        burst(),
        qos(),
        media(),
    ]
}

/// Returns calls with media: two pairs of codecs and two numbers of calls.
pub(super) fn media() -> Record {
    let mut record = record(Kind::Media, &SERVERS[..1]);
    for callee in ["PCMU", "GSM"] {
        for calls in [100, 200] {
            let mut run = run(SERVERS[0], load(Operation::Invite, 5.0), 0, 30);
            run.label = format!("PCMU to {callee}, {calls} calls");
            let times = |micros: u64| {
                let mut times = Histogram::default();
                (0..200).for_each(|at| times.record(Duration::from_micros(micros + at)));
                times
            };
            let streams = Streams {
                streams: calls,
                expected: calls * 1500,
                received: calls * 1500 - 7,
                delta: times(19_900),
                jitter: times(calls),
                max_jitter: times(3 * calls),
                max_delta: times(21_000 + calls),
                delay: times(900),
                mos_sum: 4.0 * calls as f64,
                mos_min: 3.5,
                mos_count: calls,
                ..Streams::default()
            };
            run.media = Some(Box::new(Media {
                codecs: ["PCMU".to_owned(), callee.to_owned()],
                protection: "off".to_owned(),
                calls,
                audio: 60.0,
                held: calls as f64,
                figures: MediaFigures {
                    forward: Some(streams.clone()),
                    echo: streams,
                    observed: Some(Observed {
                        at: vec![0.0, 0.02, 0.04],
                        delta_us: vec![0, 20_000, 20_100],
                        jitter_us: vec![0, 1, 7],
                        delay_us: vec![None, Some(900), Some(950)],
                        expected: 3,
                        received: 3,
                        mos: 4.4,
                        ..Observed::default()
                    }),
                    ..MediaFigures::default()
                },
                headroom: Some(Headroom { calls, is_enough: true, ..Headroom::default() }),
                ..Media::default()
            }));
            record.runs.push(run);
        }
    }
    record
}

/// Returns one load on one server.
pub(super) fn single() -> Record {
    let mut record = record(Kind::Run, &SERVERS[..1]);
    record.runs.push(run(SERVERS[0], load(Operation::Register, 5_000.0), 0, 30));
    record.criteria = vec![
        Criterion { text: "success>=100%".to_owned(), held: true, seen: "100 %".to_owned() },
        Criterion { text: "rrd.p99<50ms".to_owned(), held: true, seen: "0.62 ms".to_owned() },
    ];
    record
}

/// Returns the same load on three servers, with an outlier and an invalid run.
pub(super) fn compared() -> Record {
    let mut record = record(Kind::Compare, &SERVERS);
    for operation in Operation::ALL {
        for authentication in [false, true] {
            if authentication && operation == Operation::Options {
                continue;
            }
            for repeat in 0..6 {
                for server in SERVERS {
                    let load = Load { authentication, ..load(operation, 2_000.0) };
                    record.runs.push(run(server, load, repeat, 5));
                }
            }
        }
    }
    let outlier = record.runs[4].watch.as_mut().unwrap();
    outlier.total.cpu_user_us *= 4;
    record.runs[9].doubts = vec!["the generator was 14 ms behind its schedule (p99)".to_owned()];
    record
}

/// Returns rising rates on three servers, with the last steps beyond the ceiling of the generator.
pub(super) fn swept(kind: Kind) -> Record {
    let mut record = record(kind, &SERVERS);
    let operation = if kind == Kind::Proxy { Operation::Invite } else { Operation::Register };
    let steps = if kind == Kind::Proxy { 1_500.0 } else { 4_000.0 };
    for repeat in 0..3 {
        for step in 1..=12 {
            for server in SERVERS {
                let mut load = load(operation, steps * f64::from(step));
                if kind == Kind::Proxy {
                    load.hold = 10.0;
                    load.arrivals = "steps".to_owned();
                }
                let mut run = run(server, load, repeat, 10);
                run.label = format!("step {step}");
                if step == 12 {
                    run.doubts = vec!["the generator reached only 94 % of the rate".to_owned()];
                }
                record.runs.push(run);
            }
        }
    }
    record.criteria = vec![Criterion {
        text: "success>=100%".to_owned(),
        held: false,
        seen: "54.9 %".to_owned(),
    }];
    record
}

/// Returns a search for the highest rate on two servers.
pub(super) fn limit() -> Record {
    let mut record = record(Kind::Limit, &SERVERS[..2]);
    for server in &SERVERS[..2] {
        let (mut low, mut high, mut rate) = (0.0, f64::INFINITY, 2_000.0);
        for _ in 1..=11 {
            let mut run = run(*server, load(Operation::Register, rate), 0, 5);
            run.label = "search".to_owned();
            if run.counts.succeeded == run.counts.offered {
                low = rate;
            } else {
                high = rate;
            }
            rate = if high.is_finite() { f64::midpoint(low, high).round() } else { rate * 2.0 };
            record.runs.push(run);
        }
        for repeat in 0..3 {
            let mut run = run(*server, load(Operation::Register, low), repeat, 10);
            run.label = "confirmation".to_owned();
            record.runs.push(run);
        }
        record.findings.push(Finding {
            system: server.name.to_owned(),
            name: "sustainable rate of register".to_owned(),
            value: low,
            unit: "1/s".to_owned(),
            remark: "3 of 3 repeats".to_owned(),
        });
    }
    record
}

/// Returns registrations in bursts on two servers.
pub(super) fn burst() -> Record {
    let mut record = record(Kind::Burst, &SERVERS[..2]);
    for server in &SERVERS[..2] {
        for users in [100u32, 200, 400, 800, 1600, 3200, 6400] {
            let mut load = load(Operation::Register, f64::from(users) * 11.0);
            load.arrivals =
                "5 bursts within 5000 ms, again every 60000 ms, 10000 ms after an error".to_owned();
            load.users = u64::from(users);
            record.runs.push(run(*server, load, 0, 5));
        }
    }
    record
}

/// Returns parallel users on one server, with the network idle and busy.
pub(super) fn qos() -> Record {
    let mut record = record(Kind::Qos, &SERVERS[..1]);
    for (state, factor) in [("", 1.0), (", busy link", 3.0)] {
        for users in [1u32, 10, 50, 100, 200, 300, 500, 700, 1000] {
            for operation in [Operation::Register, Operation::Invite] {
                for repeat in 0..3 {
                    let rate = f64::from(users) * 8.0 * factor + f64::from(repeat);
                    let mut load = load(operation, rate);
                    load.arrivals = "all at once".to_owned();
                    load.users = u64::from(users);
                    load.sockets = u64::from(users);
                    let mut run = run(SERVERS[0], load, repeat, 1);
                    run.label = format!("{users} users{state}");
                    record.runs.push(run);
                }
            }
        }
    }
    record
}
