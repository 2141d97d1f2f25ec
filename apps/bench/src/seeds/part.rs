//! The parts of `seeds`: which commands make the records of the figures.

use super::bare::{self, Equipment};
use super::generators::Rates;
use super::softphone::{Installed, Kind};
use std::path::PathBuf;

/// A part: a group of figures that the same kind of measurement makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    Throughput,
    Latency,
    Inside,
    Srtp,
    Flood,
    Qos,
    Proxy,
    Burst,
    B2bua,
    Scenario,
    Phone,
    Bare,
}

/// The extent of a measurement, and the installed systems.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// True for the load of the sources, false for a short form.
    pub(crate) is_full: bool,
    /// The servers, the systems that transcode, the phones, the profiler, and SIPp.
    pub(crate) servers: Vec<String>,
    pub(crate) transcoders: Vec<String>,
    pub(crate) phones: Installed,
    /// The bare machine, if it can be started.
    pub(crate) bare: Option<Equipment>,
    pub(crate) profiler: Option<PathBuf>,
    pub(crate) sipp: Option<PathBuf>,
    /// True if network namespaces can be made, and interfaces captured.
    pub(crate) is_root: bool,
}

/// The measurement of one record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Job {
    /// The name of the record, without its suffix.
    pub(crate) record: String,
    pub(crate) work: Work,
    /// The expected time in seconds.
    pub(crate) seconds: u64,
}

/// The work of a [`Job`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Work {
    /// A command of this program, with these arguments.
    Command(Vec<String>),
    /// A command of this program under a profiler: the functions of a server are a further record
    /// with the name of [`Job::functions`].
    Profiled {
        profiler: PathBuf,
        words: Vec<String>,
        /// The name of the processes of the server.
        process: String,
    },
    /// The costs of the steps of SRTP, within this program.
    Srtp {
        /// The rounds; the costs are their medians.
        rounds: usize,
    },
    /// The rates of the generators of calls: of this program, and of SIPp.
    Generators(Rates),
    /// Calls between phones, within this program.
    Phones {
        phones: Installed,
        /// The length of the calls.
        seconds: u64,
    },
    /// Calls with the images without an operating system, within this program.
    Matrix(Equipment),
    /// A command of this program on the server without an operating system, in a network of both.
    /// The profile of the server is appended with `--sut`.
    Bare { equipment: Equipment, words: Vec<String> },
}

impl Scope {
    /// Returns the value of the form.
    fn choose<T>(&self, full: T, short: T) -> T {
        if self.is_full { full } else { short }
    }
}

impl Job {
    /// Returns the name of the record of functions.
    pub(crate) fn functions(&self) -> String {
        format!("{}-functions", self.record)
    }
}

/// The operations of throughput and latency.
const OPERATIONS: [&str; 6] = [
    "register",
    "register-update",
    "register-logout",
    "invite",
    "invite-not-found",
    "invite-redirect",
];

/// The calls a second of the generators: that of the source, and rising ones.
const RATES: [u32; 8] = [220, 500, 1000, 2000, 4000, 6000, 8000, 12_000];
const SHORT_RATES: [u32; 5] = [220, 1000, 2000, 4000, 8000];

impl Part {
    /// All parts, in the order of their measurement.
    pub(crate) const ALL: [Self; 12] = [
        Self::Throughput,
        Self::Latency,
        Self::Inside,
        Self::Srtp,
        Self::Flood,
        Self::Qos,
        Self::Proxy,
        Self::Burst,
        Self::B2bua,
        Self::Scenario,
        Self::Phone,
        Self::Bare,
    ];

    /// The name on the command line and in the data file.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
            Self::Inside => "inside",
            Self::Srtp => "srtp",
            Self::Flood => "flood",
            Self::Qos => "qos",
            Self::Proxy => "proxy",
            Self::Burst => "burst",
            Self::B2bua => "b2bua",
            Self::Scenario => "scenario",
            Self::Phone => "phone",
            Self::Bare => "bare",
        }
    }

    /// The needed programs and rights.
    pub(crate) const fn needs(self) -> &'static str {
        match self {
            Self::Throughput | Self::Latency | Self::Proxy | Self::Burst => "a server",
            Self::Inside => "barebell; perf and kamailio for the steps of a rival",
            Self::Srtp | Self::Flood => "nothing",
            Self::Scenario => "nothing; SIPp beside it",
            Self::Qos => {
                "a server; root for the link of 100 Mbit/s, without it only an idle network"
            }
            Self::Phone => {
                "barebell-phone, and root for a capture; baresip, linphone and Twinkle beside it"
            }
            Self::Bare => {
                "the images of ./image build server and phone, QEMU, and root; nftables, \
                 barebell-phone, linphone, baresip and kamailio beside them"
            }
            Self::B2bua => "barebell, or kamailio with rtpengine or baresip",
        }
    }

    /// Returns the names of its records.
    pub(crate) fn records(self) -> Vec<String> {
        let every = Scope {
            is_full: false,
            servers: vec!["barebell".to_owned(), "kamailio".to_owned()],
            transcoders: vec!["barebell-relay".to_owned()],
            phones: Installed(vec![(Kind::Barebell, PathBuf::new())]),
            bare: Some(Equipment { phone: Some(PathBuf::new()), ..Equipment::default() }),
            profiler: Some(PathBuf::new()),
            sipp: Some(PathBuf::new()),
            is_root: true,
        };
        let jobs = self.jobs(&every);
        let is_profiled = |job: &&Job| matches!(job.work, Work::Profiled { .. });
        let functions = jobs.iter().filter(is_profiled).map(Job::functions);
        let names: Vec<String> = functions.collect();
        jobs.into_iter().map(|job| job.record).chain(names).collect()
    }

    /// Returns the measurements of the part; none if no system is installed.
    pub(crate) fn jobs(self, scope: &Scope) -> Vec<Job> {
        let count = scope.servers.len() as u64;
        let servers: String = scope.servers.iter().map(|name| format!(" --sut {name}")).collect();
        let has_barebell = scope.servers.iter().any(|name| name == "barebell");
        let needs_server = !matches!(
            self,
            Self::Srtp | Self::Flood | Self::B2bua | Self::Scenario | Self::Phone | Self::Bare
        );
        if count == 0 && needs_server {
            return Vec::new();
        }
        match self {
            Self::Throughput | Self::Latency => [false, true]
                .into_iter()
                .flat_map(|auth| OPERATIONS.map(|operation| (operation, auth)))
                .map(|(operation, auth)| {
                    let users = if operation == "invite" { 5000 } else { 10_000 };
                    let (many, few) = if operation == "invite" {
                        ("50,60,70,80,90,100", "50,75,100")
                    } else {
                        ("10,100,200,300,400,500,600,700,800,900,1000", "10,250,500,750,1000")
                    };
                    let rates = scope.choose(many, few);
                    let time = scope.choose(
                        "--duration 10s --repeats 3",
                        "--duration 1s --warmup 300ms --tail 100ms --settle 0",
                    );
                    let (auth, suffix) = if auth { (" --auth", "-auth") } else { ("", "") };
                    let steps = rates.split(',').count() as u64;
                    let loads = steps * count;
                    let seconds = scope.choose(6 + 36 * loads, 3 + 13 * loads / 10);
                    let record = format!("throughput-{operation}{suffix}");
                    let line = format!(
                        "sweep{servers} --operation {operation}{auth} --rates {rates} --users {users} {time}"
                    );
                    job(record, &line, seconds)
                })
                .collect(),
            Self::Inside if has_barebell => {
                let time = scope.choose("--duration 10s --repeats 3", "--duration 2s");
                let line = format!(
                    "sweep --sut barebell --operation register --auth --timings --rates 100..800 --steps 8 {time}"
                );
                let mut jobs = vec![job("inside".to_owned(), &line, scope.choose(300, 35))];
                let has_rival = scope.servers.iter().any(|name| name == "kamailio");
                if let Some(profiler) = scope.profiler.as_ref().filter(|_| has_rival) {
                    // The same highest rate, long enough for many samples.
                    let line = "sweep --sut kamailio --operation register --auth --rates 400,800 --duration 15s";
                    let work = Work::Profiled {
                        profiler: profiler.clone(),
                        words: words(line),
                        process: "kamailio".to_owned(),
                    };
                    jobs.push(Job { record: "inside-rival".to_owned(), work, seconds: 35 });
                }
                jobs
            }
            Self::Inside => Vec::new(),
            Self::Srtp => {
                let work = Work::Srtp { rounds: scope.choose(101, 15) };
                vec![Job { record: "srtp".to_owned(), work, seconds: scope.choose(10, 2) }]
            }
            Self::Flood => {
                let line = scope.choose("srtp --repeats 5", "srtp --rates 50000,100000,200000,400000 --repeats 1");
                vec![job("flood".to_owned(), line, scope.choose(400, 30))]
            }
            Self::Qos => {
                // A session is lost after 20 times T1 without a message, beside its holding time.
                let time = scope.choose(
                    "--repeats-of-step 10 --hold 5s",
                    "--repeats-of-step 1 --hold 1s --t1 200ms",
                );
                let more = if scope.is_root { " --busy --capture" } else { "" };
                let line = format!("qos{servers} --callers 1..1000 --no-bye {time}{more}");
                vec![job("qos".to_owned(), &line, scope.choose(2600, 100) * count)]
            }
            Self::Proxy => [4, 16]
                .into_iter()
                .map(|listeners| {
                    let steps = scope.choose(
                        "--rates 200..2000 --steps 10 --users 60000",
                        "--rates 400,600,1000,1600 --call 2s --middle 6s",
                    );
                    let line = format!(
                        "proxy{servers} --sut-workers {listeners} {steps} --all-steps"
                    );
                    job(format!("proxy-{listeners}"), &line, scope.choose(6700, 75) * count)
                })
                .collect(),
            Self::Burst => {
                let scale = scope.choose("1", "0.04");
                let existing = "--existing 100000";
                let line = format!(
                    "burst{servers} {existing} --registrations 640,1280,3200,6400 --scale {scale}"
                );
                let calls = format!(
                    "burst{servers} {existing} --registrations 640,3200 --calls 20 --scale {scale}"
                );
                let scale = scope.choose("1", "0.02");
                let rise = format!(
                    "burst{servers} {existing} --registrations 640,3200 --rise 10m --scale {scale}"
                );
                vec![
                    job("burst".to_owned(), &line, scope.choose(3700, 142) * count),
                    job("burst-calls".to_owned(), &calls, scope.choose(1900, 75) * count),
                    job("burst-rise".to_owned(), &rise, scope.choose(1900, 40) * count),
                ]
            }
            Self::Scenario => {
                let rates = scope.choose(&RATES[..], &SHORT_RATES);
                let sipp = scope.sipp.clone();
                let plan = Rates { sipp, rates, seconds: scope.choose(10, 2) };
                // A second more for the start, and the calls that are sent again.
                let seconds = 2 * rates.len() as u64 * u64::from(plan.seconds + 1);
                vec![Job { record: "scenario".to_owned(), work: Work::Generators(plan), seconds }]
            }
            Self::Phone => {
                // 10,000 packets, as in the source.
                let seconds = scope.choose(203, 22);
                if !scope.is_root || scope.phones.program(Kind::Barebell).is_none() {
                    return Vec::new();
                }
                let work = Work::Phones { phones: scope.phones.clone(), seconds };
                vec![Job { record: "phone".to_owned(), work, seconds: seconds + 8 }]
            }
            Self::Bare => {
                let Some(equipment) = scope.bare.as_ref().filter(|_| scope.is_root) else {
                    return Vec::new();
                };
                let time = scope.choose("--duration 10s --repeats 3", "--duration 2s");
                let line = format!(
                    "sweep --operation register --auth --timings --rates 100..800 --steps 8 \
                     --users 1000 {time}"
                );
                let work = Work::Bare { equipment: equipment.clone(), words: words(&line) };
                let seconds = scope.choose(300, 35);
                vec![
                    Job { record: "bare-inside".to_owned(), work, seconds },
                    Job {
                        record: "bare".to_owned(),
                        work: Work::Matrix(equipment.clone()),
                        seconds: 8 * bare::count(equipment),
                    },
                ]
            }
            Self::B2bua => {
                let count = scope.transcoders.len() as u64;
                let systems: String =
                    scope.transcoders.iter().map(|name| format!(" --sut {name}")).collect();
                let load = scope.choose(
                    "--calls 60,120,180,240,300,360,420,480,540,600,660 --audio 60s --duration 60s",
                    "--calls 60,180,300 --audio 5s --duration 5s",
                );
                let codecs = "--codecs PCMU,PCMU --codecs PCMU,PCMA --codecs PCMU,G.726-32 --codecs PCMU,GSM";
                let line = format!("media{systems} --auth {codecs} {load}");
                let jobs = vec![job("b2bua".to_owned(), &line, scope.choose(8500, 290) * count)];
                if count == 0 { Vec::new() } else { jobs }
            }
        }
    }
}

fn job(record: String, line: &str, seconds: u64) -> Job {
    Job { record, work: Work::Command(words(line)), seconds }
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::Parser as _;

    #[test]
    fn the_commands_of_all_parts_are_valid_in_both_forms() {
        for is_full in [false, true] {
            let scope = Scope {
                is_full,
                servers: vec!["barebell".to_owned(), "kamailio".to_owned()],
                transcoders: vec!["barebell-relay".to_owned(), "baresip".to_owned()],
                phones: Installed::default(),
                bare: Some(Equipment::default()),
                profiler: Some("perf".into()),
                sipp: Some("sipp".into()),
                is_root: true,
            };
            for job in Part::ALL.into_iter().flat_map(|part| part.jobs(&scope)) {
                let (Work::Command(words)
                | Work::Profiled { words, .. }
                | Work::Bare { words, .. }) = &job.work
                else {
                    continue;
                };
                let system = matches!(job.work, Work::Bare { .. }).then_some(["--sut", "a.toml"]);
                let words = words.iter().map(String::as_str).chain(system.into_iter().flatten());
                let words = std::iter::once("barebell-bench").chain(words);
                if let Err(error) = Cli::try_parse_from(words) {
                    panic!("{}: {error}", job.record);
                }
            }
        }
    }

    #[test]
    fn the_short_form_takes_less_than_45_minutes() {
        let scope = Scope {
            is_full: false,
            servers: vec!["barebell".to_owned(), "kamailio".to_owned()],
            transcoders: ["barebell-relay", "rtpengine", "baresip"].map(str::to_owned).to_vec(),
            phones: Installed(Kind::ALL.map(|kind| (kind, PathBuf::new())).to_vec()),
            bare: Some(Equipment {
                phone: Some(PathBuf::new()),
                phones: Installed(Kind::ALL.map(|kind| (kind, PathBuf::new())).to_vec()),
                has_rival: true,
                has_nat: true,
                ..Equipment::default()
            }),
            profiler: Some(PathBuf::new()),
            sipp: Some(PathBuf::new()),
            is_root: true,
        };
        let parts = Part::ALL.into_iter().filter(|part| *part != Part::Latency);
        let seconds: u64 = parts.flat_map(|part| part.jobs(&scope)).map(|job| job.seconds).sum();
        assert!(seconds < 45 * 60, "{seconds} s");
    }
}
