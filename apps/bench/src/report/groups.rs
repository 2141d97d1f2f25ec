//! The grouping of runs: the repeats of one load on one system.

use super::chart::Look;
use super::format;
use crate::analysis::Spread;
use crate::record::{Delay, Histogram, Kind, Load, Record, Run, System};

/// A system of a record, with a label that is unique in the report.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    /// The label.
    pub(super) label: String,
    /// The record.
    pub(super) record: &'a Record,
    /// The description of the system; `None` if only runs name it.
    pub(super) system: Option<&'a System>,
    /// The style of its lines and bars.
    pub(super) look: Look,
    name: &'a str,
}

/// The runs of one load on one system, in chronological order.
#[derive(Debug)]
pub(super) struct Group<'a> {
    /// The index of the system in the subjects.
    pub(super) subject: usize,
    /// The load.
    pub(super) load: &'a Load,
    /// All runs of the group.
    pub(super) runs: Vec<&'a Run>,
}

impl Subject<'_> {
    /// Returns true if `name` is the name of this system in its record.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name == name
    }

    /// Returns true if a run of its record is on this system.
    pub(super) fn is_of(&self, run: &Run) -> bool {
        self.is_named(&run.system)
    }
}

/// Returns the systems of all records.
pub(super) fn subjects(records: &[Record]) -> Vec<Subject<'_>> {
    let mut subjects: Vec<Subject<'_>> = Vec::new();
    for record in records {
        let begin = subjects.len();
        let told = record.systems.iter().map(|system| (system.name.as_str(), Some(system)));
        let of_runs = record.runs.iter().map(|run| (run.system.as_str(), None));
        for (name, system) in told.chain(of_runs) {
            if subjects[begin..].iter().all(|subject| subject.name != name) {
                let look = Look::Number(subjects.len());
                let label = name.to_owned();
                subjects.push(Subject { label, record, system, look, name });
            }
        }
    }
    let names: Vec<&str> = subjects.iter().map(|subject| subject.name).collect();
    for (index, subject) in subjects.iter_mut().enumerate() {
        let same = |names: &[&str]| names.iter().filter(|name| **name == subject.name).count();
        if same(&names) > 1 {
            subject.label = format!("{} ({})", subject.name, same(&names[..index]) + 1);
        }
    }
    subjects
}

/// Returns the groups of the runs of records of these kinds, by subject, in chronological order.
pub(super) fn groups<'a>(subjects: &[Subject<'a>], kinds: &[Kind]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (index, subject) in subjects.iter().enumerate() {
        if !kinds.contains(&subject.record.kind) {
            continue;
        }
        let begin = groups.len();
        for run in subject.record.runs.iter().filter(|run| subject.is_of(run)) {
            let same = |group: &&mut Group<'_>| match subject.record.kind {
                // The rate of a simultaneous start is a result and not a parameter.
                Kind::Burst | Kind::Qos => {
                    operation(group.load) == operation(&run.load)
                        && group.load.users == run.load.users
                        && state(group.runs[0]) == state(run)
                }
                Kind::Media => group.runs[0].label == run.label,
                _ => *group.load == run.load,
            };
            match groups[begin..].iter_mut().find(same) {
                Some(group) => group.runs.push(run),
                None => groups.push(Group { subject: index, load: &run.load, runs: vec![run] }),
            }
        }
    }
    groups
}

impl<'a> Group<'a> {
    /// Returns the runs for the figures: the valid ones, or all if no run is valid.
    pub(super) fn used(&self) -> Vec<&'a Run> {
        let valid: Vec<&Run> = self.runs.iter().copied().filter(|run| run.is_valid()).collect();
        if valid.is_empty() { self.runs.clone() } else { valid }
    }

    /// Returns true if no run is valid, so that the figures do not show the system.
    pub(super) fn is_doubtful(&self) -> bool {
        self.runs.iter().all(|run| !run.is_valid())
    }

    /// Returns the values of the runs for the figures; runs without a value are skipped.
    pub(super) fn values(&self, value: impl Fn(&Run) -> Option<f64>) -> Vec<f64> {
        self.used().into_iter().filter_map(value).filter(|value| value.is_finite()).collect()
    }

    /// Returns median and spread of a value over the repeats.
    pub(super) fn spread(&self, value: impl Fn(&Run) -> Option<f64>) -> Option<Spread> {
        Spread::of(&self.values(value))
    }

    /// Returns the median of a value over the repeats.
    pub(super) fn median(&self, value: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
        self.spread(value).map(|spread| spread.median)
    }

    /// Returns the delays of all repeats for the figures.
    pub(super) fn pooled(&self, delay: Delay) -> Pooled {
        Pooled::of(self.used().into_iter().filter_map(|run| run.delays.get(&delay)))
    }

    /// Returns the operation of the load in words, with its qualifiers.
    pub(super) fn operation(&self) -> String {
        operation(self.load)
    }

    /// Returns the number of valid repeats, such as `3` or `2 of 3`.
    pub(super) fn repeats(&self) -> String {
        let valid = self.runs.iter().filter(|run| run.is_valid()).count();
        if valid == self.runs.len() {
            format::count(valid as u64)
        } else {
            format!("{valid} of {} valid", self.runs.len())
        }
    }
}

/// Returns the operation of a load, with its qualifiers.
pub(super) fn operation(load: &Load) -> String {
    let authentication = if load.authentication { ", authenticated" } else { "" };
    let transport =
        if load.transport == "udp" { String::new() } else { format!(", {}", load.transport) };
    format!("{}{authentication}{transport}", load.operation.name())
}

/// Returns the state of the network, such as `busy link`, from the label of a run of parallel
/// users, where it follows the number of users; empty if it is missing.
pub(super) fn state(run: &Run) -> &str {
    run.label.split_once(", ").map_or("", |(_, state)| state)
}

/// Returns a short description of a run.
pub(super) fn run_name(run: &Run) -> String {
    let label = if run.label.is_empty() { String::new() } else { format!(", {}", run.label) };
    format!(
        "{}, {} at {} operations/s{label}, repeat {}",
        run.system,
        operation(&run.load),
        format::figure(run.load.rate),
        u64::from(run.repeat) + 1
    )
}

/// Returns a percentile of a delay of a run in microseconds; `None` if the delay did not occur, or
/// too rarely.
pub(super) fn percentile(run: &Run, delay: Delay, percent: f64) -> Option<f64> {
    run.delays.get(&delay)?.told(percent).map(|us| us as f64)
}

/// The delays of several histograms.
#[derive(Debug)]
pub(super) struct Pooled(Histogram);

impl Pooled {
    /// Returns the merged delays.
    pub(super) fn of<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> Self {
        let mut all = Histogram::default();
        histograms.for_each(|one| all.merge(one));
        Self(all)
    }

    /// Returns the number of delays.
    pub(super) fn count(&self) -> u64 {
        self.0.count()
    }

    /// Returns the mean in microseconds.
    pub(super) fn mean(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.mean())
    }

    /// Returns the shortest delay in microseconds.
    pub(super) fn min(&self) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.min())
    }

    /// Returns the longest delay in microseconds.
    pub(super) fn max(&self) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.max())
    }

    /// Returns the delay in microseconds that `percent` of the events did not exceed, if there are
    /// enough events.
    pub(super) fn percentile(&self, percent: f64) -> Option<u64> {
        self.0.told(percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip::Duration;

    #[test]
    fn pooled_delays_have_the_percentiles_of_one_histogram() {
        let mut halves = [Histogram::default(), Histogram::default()];
        let mut whole = Histogram::default();
        for micros in 1..=1000u64 {
            halves[usize::from(micros > 300)].record(Duration::from_micros(micros));
            whole.record(Duration::from_micros(micros));
        }
        let pooled = Pooled::of(halves.iter());
        assert_eq!(pooled.count(), 1000);
        for percent in [1.0, 50.0, 90.0, 99.0, 99.9] {
            assert_eq!(pooled.percentile(percent), Some(whole.percentile(percent)), "{percent}");
        }
        assert_eq!((pooled.min(), pooled.max(), pooled.mean()), (Some(1), Some(1000), Some(500.5)));
        assert_eq!(Pooled::of([].into_iter()).percentile(50.0), None);
    }
}
