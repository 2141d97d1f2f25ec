//! Our figures: what a record has of a figure of the sources.

mod bare;
mod generators;
mod latency;
mod media;
mod phones;
mod qos;
mod rival;
mod srtp;

use super::bare::Call as BareCall;
use super::generators::Generator;
use super::phones::Call;
use super::profile::Function;
use super::runs::{
    Criterion, cpu, delays, has_processors_left, is_quick, limits, median_ms, median_of, over,
    steps_of, systems,
};
use super::source::Figure;
use super::srtp_steps::Costs;
use crate::curve::is_whole;
use crate::metrics;
use crate::record::{Delay, Operation, Record, Run};
use crate::report::FloodLine;
use crate::series::{Series, Value, named};
use latency::{bands, coefficient};
use qos::{Loss, lost, moment, totals};
use srtp::{ahead, flood, model, plus_alone, plus_ratios, srtp_steps, without_srtp};
use std::collections::BTreeMap;

/// The content of a file of results.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    Record(Box<Record>),
    Flood(Vec<FloodLine>),
    Srtp(Box<Costs>),
    Phones(Vec<Call>),
    Bare(Vec<BareCall>),
    Functions(Vec<Function>),
    Generators(Vec<Generator>),
}

/// The results that are there, by the name of the record.
pub(crate) type Results = BTreeMap<String, Found>;

/// The derivation of a figure of a record of runs; of several records those that are there, in
/// order.
type Derivation = fn(&[&Record]) -> Vec<Series>;

/// A figure of a run.
type OfRun = fn(&Run) -> Option<f64>;

/// The derivation of a figure from the costs of SRTP.
type OfCosts = fn(&Costs, &Figure) -> Vec<Series>;

/// The names of the data file for derivations.
const DERIVATIONS: [(&str, Derivation); 33] = [
    ("throughput", |all| {
        first(all, |record| {
            over(record, |run| run.load.rate, |_| true, |run| Some(metrics::achieved_rate(run)))
        })
    }),
    ("sustainable", sustainable),
    ("bands", bands),
    ("coefficient", coefficient),
    ("steps", |all| first(all, steps)),
    ("handler", |all| {
        first(all, |record| {
            over(record, |run| run.load.rate, |_| true, |run| run.steps.get("handler")?.mean_us())
        })
    }),
    ("total", |all| first(all, |record| over(record, |run| run.load.rate, |_| true, total))),
    ("frame-to-frame", |all| {
        first(all, |record| {
            over(
                record,
                |run| run.load.rate,
                |_| true,
                |run| {
                    // Two messages of a registration with authentication.
                    run.steps.get("total")?.mean_us().map(|us| 2.0 * us)
                },
            )
        })
    }),
    ("registration", |all| first(all, |record| moment(record, Delay::Rrd, false))),
    ("invite", |all| first(all, |record| moment(record, Delay::Invite, false))),
    ("setup", |all| first(all, |record| moment(record, Delay::Setup, false))),
    ("registration-busy", |all| first(all, |record| moment(record, Delay::Rrd, true))),
    ("invite-busy", |all| first(all, |record| moment(record, Delay::Invite, true))),
    ("setup-busy", |all| first(all, |record| moment(record, Delay::Setup, true))),
    ("lost-registrations", |all| first(all, |record| lost(record, Loss::Registrations, false))),
    ("lost-invites", |all| first(all, |record| lost(record, Loss::Invites, false))),
    ("lost-calls", |all| first(all, |record| lost(record, Loss::Calls, false))),
    ("lost-registrations-busy", |all| first(all, |record| lost(record, Loss::Registrations, true))),
    ("lost-invites-busy", |all| first(all, |record| lost(record, Loss::Invites, true))),
    ("lost-calls-busy", |all| first(all, |record| lost(record, Loss::Calls, true))),
    ("totals", |all| first(all, totals)),
    ("proxy-cpu", |all| first(all, |record| over(record, |run| run.load.rate, |_| true, cpu))),
    ("proxy-delays", |all| first(all, |record| delays(record, |run| run.load.rate, |_| true))),
    ("proxy-limits", |all| first(all, proxy_limits)),
    ("burst-success", |all| {
        first(all, |record| burst(record, |run| metrics::success(&run.counts)))
    }),
    ("burst-timeouts", |all| {
        first(all, |record| burst(record, |run| Some(run.counts.timed_out as f64)))
    }),
    ("burst-retransmissions", |all| {
        first(all, |record| burst(record, |run| Some(run.counts.retransmitted as f64)))
    }),
    ("burst-rrd", |all| first(all, |record| burst(record, |run| median_ms(run, Delay::Rrd)))),
    ("burst-calls", |all| {
        first(all, |record| {
            let called = |run: &Run| run.load.operation == Operation::Invite;
            over(record, beside, called, |run| metrics::success(&run.counts))
        })
    }),
    ("media-cpu", |all| first(all, |record| media::plain(record, cpu))),
    ("media-delays", |all| first(all, media::delays)),
    ("media-jitter", |all| first(all, media::jitter)),
    ("media-limits", |all| first(all, media::limits)),
];

/// The derivations of figures that are normalised to calls without transcoding.
const NORMALISED: [(&str, OfRun); 5] = [
    ("media-cpu-normalised", cpu),
    ("media-rrd-normalised", |run| median_ms(run, Delay::Rrd)),
    ("media-srd-normalised", |run| median_ms(run, Delay::Srd)),
    ("media-jitter-normalised", media::mean_jitter),
    ("media-delay-normalised", media::packet_delay),
];

/// The derivations of figures of the costs of SRTP.
const SRTP: [(&str, OfCosts); 10] = [
    ("sha1-model", |costs, _| model(costs)),
    ("srtp-steps", srtp_steps),
    ("sequence-ahead", |costs, _| ahead(costs)),
    ("plus-without-srtp", |costs, _| without_srtp(costs)),
    ("plus-time", |costs, _| {
        vec![named("here", plus_alone(costs).map(|(name, ns)| (name, ns / 1e3)))]
    }),
    ("plus-overhead", |costs, _| {
        plus_ratios(
            costs,
            |scheme, srtp| 100.0 * scheme / srtp,
            |scheme, srtp| 100.0 * (scheme.unprotect / srtp.unprotect - 1.0),
        )
    }),
    ("plus-speedup", |costs, _| {
        plus_ratios(costs, |scheme, srtp| srtp / scheme, |scheme, srtp| srtp.refuse / scheme.refuse)
    }),
    ("sha1-block", |costs, _| vec![named("here", [("this machine", costs.sha1[0] / 1e3)])]),
    ("aes-block", |costs, _| {
        let [short, middle, long] = costs.aes.map(|ns| ns / 1e3);
        vec![named("here", [("128 bits", short), ("192 bits", middle), ("256 bits", long)])]
    }),
    ("sequence-keys", |costs, _| {
        let one = costs.sequence.get(&160).copied().unwrap_or(f64::NAN);
        let values = costs.sequence.iter().map(|(&bits, ns)| Value::at(bits as f64, ns / one));
        vec![Series { name: "here".to_owned(), values: values.collect() }]
    }),
];

/// Returns true if a derivation has this name.
#[cfg(test)]
pub(crate) fn knows(name: &str) -> bool {
    let known = DERIVATIONS.iter().map(|(known, _)| *known);
    let known = known.chain(NORMALISED.iter().map(|(known, _)| *known));
    known
        .chain(SRTP.iter().map(|(known, _)| *known))
        .chain(["flood", "rival-steps"])
        .any(|known| known == name)
        || phones::derivation(name).is_some()
        || bare::derivation(name).is_some()
        || generators::derivation(name).is_some()
}

/// Returns our series of a figure that have values; none if its records are not there.
pub(crate) fn series(figure: &Figure, results: &Results) -> Vec<Series> {
    let all = derive(figure, results);
    all.into_iter().filter(|series| !series.values.is_empty()).collect()
}

fn derive(figure: &Figure, results: &Results) -> Vec<Series> {
    let Some(measure) = figure.measure.as_deref() else { return Vec::new() };
    let found = || figure.records.iter().filter_map(|name| results.get(name));
    let records: Vec<&Record> = found()
        .filter_map(|found| match found {
            Found::Record(record) => Some(&**record),
            _ => None,
        })
        .collect();
    if measure == "rival-steps" {
        let functions = found().find_map(|found| match found {
            Found::Functions(functions) => Some(functions),
            _ => None,
        });
        return match (&records[..], functions) {
            ([ours, rival], Some(functions)) => rival::ratios(ours, rival, functions),
            _ => Vec::new(),
        };
    }
    if let Some((_, derive)) = DERIVATIONS.iter().find(|(name, _)| *name == measure) {
        return derive(&records);
    }
    if let Some((_, value)) = NORMALISED.iter().find(|(name, _)| *name == measure) {
        return first(&records, |record| media::normalised(record, *value));
    }
    found()
        .flat_map(|found| match found {
            Found::Flood(lines) if measure == "flood" => flood(lines),
            Found::Srtp(costs) => {
                let derive = SRTP.iter().find(|(name, _)| *name == measure);
                derive.map(|(_, derive)| derive(costs, figure)).unwrap_or_default()
            }
            Found::Phones(calls) => {
                phones::derivation(measure).map(|derive| derive(calls)).unwrap_or_default()
            }
            Found::Bare(calls) => {
                bare::derivation(measure).map(|derive| derive(calls)).unwrap_or_default()
            }
            Found::Generators(all) => {
                generators::derivation(measure).map(|derive| derive(all)).unwrap_or_default()
            }
            _ => Vec::new(),
        })
        .collect()
}

fn first(records: &[&Record], derive: impl Fn(&Record) -> Vec<Series>) -> Vec<Series> {
    records.first().map(|record| derive(record)).unwrap_or_default()
}

/// Returns, for each system, the highest rate of each record at which all operations succeeded, and
/// at all rates below.
fn sustainable(records: &[&Record]) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for record in records {
        for system in systems(record) {
            let steps = steps_of(record, system, |run| run.load.rate, |_| true);
            let passed = steps.iter().take_while(|(_, runs)| runs.iter().all(|run| is_whole(run)));
            let Some((rate, runs)) = passed.last() else { continue };
            let is_doubtful = runs.iter().all(|run| !run.is_valid());
            let value = Value { is_doubtful, ..Value::of(runs[0].load.operation.name(), *rate) };
            match all.iter_mut().find(|series| series.name == system) {
                Some(series) => series.values.push(value),
                None => all.push(Series { name: system.to_owned(), values: vec![value] }),
            }
        }
    }
    all
}

/// The steps of the source by those of the server.
const STEPS: [(&str, &str); 5] = [
    ("FindUser", "find-user"),
    ("ParseSIPHeaders", "parse-headers"),
    ("AddUser", "add-user"),
    ("AuthenticateUser", "authenticate-user"),
    ("FormatSIPResponse", "format-response"),
];

/// Returns the times of the steps at the highest rate, by that of the parser.
fn steps(record: &Record) -> Vec<Series> {
    let of_system = |system: &str| {
        let steps = steps_of(record, system, |run| run.load.rate, |_| true);
        let (_, runs) = steps.last()?;
        let time = |step: &str| median_of(runs, |run| run.steps.get(step)?.mean_us());
        let (parser, _) = time("parse-headers")?;
        let values = STEPS.iter().filter_map(|(name, step)| {
            let (us, is_doubtful) = time(step)?;
            Some(Value { is_doubtful, ..Value::of(*name, us / parser) })
        });
        let name = format!("{system} (ParseSIPHeaders: {parser:.2} us)");
        Some(Series { name, values: values.collect() })
    };
    systems(record).filter_map(of_system).collect()
}

/// Returns the number of registrations beside a load of calls, which its label begins with.
fn beside(run: &Run) -> f64 {
    let (_, rest) = run.label.split_once("beside ").unwrap_or_default();
    let number = rest.split(' ').next().and_then(|number| number.parse().ok());
    number.unwrap_or_default()
}

/// Returns the total time of a registration: of all its messages, from the arrival in the kernel to
/// the reply.
fn total(run: &Run) -> Option<f64> {
    let messages = if run.load.authentication { 2.0 } else { 1.0 };
    Some(messages * run.steps.get("total")?.mean_us()?)
}

fn burst(record: &Record, y: impl Fn(&Run) -> Option<f64>) -> Vec<Series> {
    let is_registration = |run: &Run| run.load.operation == Operation::Register;
    over(record, |run| run.load.users as f64, is_registration, y)
}

fn proxy_limits(record: &Record) -> Vec<Series> {
    const CRITERIA: [Criterion; 3] = [
        ("CPU", has_processors_left),
        ("RRD and SRD", is_quick),
        ("errors", |run| Some(is_whole(run))),
    ];
    systems(record)
        .map(|system| {
            let steps = steps_of(record, system, |run| run.load.rate, |_| true);
            limits(system, &steps, &CRITERIA)
        })
        .collect()
}
