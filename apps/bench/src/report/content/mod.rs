//! What a report says, from the records.

mod bursts;
mod compare;
mod curves;
mod details;
mod limits;
mod overview;
mod run;
mod time;

use super::chart::Look;
use super::document::{Document, Section};
use super::groups::{self, Group, Subject};
use super::words;
use crate::metrics;
use crate::record::{Delay, Kind, Operation, Record};

/// The report of these records.
pub(super) fn document(records: &[Record]) -> Document {
    let subjects = groups::subjects(records);
    let report = Report { records, subjects };
    let mut sections = overview::sections(&report);
    sections.extend(
        [
            run::section(&report),
            compare::section(&report),
            limits::search(&report),
            curves::section(&report),
            bursts::bursts(&report),
            bursts::users(&report),
            limits::table(&report),
            limits::findings(&report),
            time::distribution(&report),
            time::course(&report),
            details::sip(&report),
            details::bands(&report),
            details::failures(&report),
            details::resources(&report),
            details::steps(&report),
            details::generator(&report),
            details::runs(&report),
        ]
        .into_iter()
        .flatten(),
    );
    sections.push(details::definitions());
    Document { title: title(&report), sections }
}

/// What all sections are made from.
struct Report<'a> {
    records: &'a [Record],
    subjects: Vec<Subject<'a>>,
}

impl<'a> Report<'a> {
    /// The groups of the runs of records of these kinds.
    fn groups(&self, kinds: &[Kind]) -> Vec<Group<'a>> {
        groups::groups(&self.subjects, kinds)
    }

    fn label(&self, group: &Group<'_>) -> String {
        self.subjects[group.subject].label.clone()
    }

    fn look(&self, group: &Group<'_>) -> Look {
        self.subjects[group.subject].look
    }

    fn kind(&self, group: &Group<'_>) -> Kind {
        self.subjects[group.subject].record.kind
    }

    /// The load of a group in words, but for the operation.
    fn load(&self, group: &Group<'_>) -> String {
        match self.kind(group) {
            Kind::Burst => format!("{} users", words::count(group.load.users)),
            Kind::Qos => match groups::state(group.runs[0]) {
                "" => format!("{} users", words::count(group.load.users)),
                state => format!("{} users, {state}", words::count(group.load.users)),
            },
            _ => format!("{}/s", words::figure(group.load.rate)),
        }
    }

    /// The three cells that tell a group from others.
    fn name_cells(&self, group: &Group<'_>) -> Vec<String> {
        vec![self.label(group), group.operation(), self.load(group)]
    }

    /// How heavy the load of a group is, compared with others of its kind.
    fn weight(&self, group: &Group<'_>) -> f64 {
        match self.kind(group) {
            Kind::Burst | Kind::Qos => group.load.users as f64,
            _ => group.load.rate,
        }
    }

    /// The groups whose details are told. Of a curve, a search, bursts and numbers of users it is
    /// one for each system and operation: the heaviest load that was carried without a failure, or
    /// the lightest of all if there is none.
    fn featured(&self) -> Vec<Group<'a>> {
        let mut featured = self.groups(&[Kind::Run, Kind::Compare]);
        let mut steps =
            self.groups(&[Kind::Sweep, Kind::Proxy, Kind::Limit, Kind::Burst, Kind::Qos]);
        while let Some(first) = steps.first() {
            let (subject, operation) = (first.subject, first.operation());
            let state = groups::state(first.runs[0]);
            let belongs = |group: &Group<'_>| {
                group.subject == subject
                    && group.operation() == operation
                    && (self.kind(group) != Kind::Qos || groups::state(group.runs[0]) == state)
            };
            let (mut same, rest) = steps.into_iter().partition::<Vec<_>, _>(belongs);
            steps = rest;
            same.sort_by(|a, b| self.weight(a).total_cmp(&self.weight(b)));
            let best = same.iter().rposition(|group| !group.is_doubtful() && is_whole(group));
            featured.push(same.swap_remove(best.unwrap_or(0)));
        }
        featured
    }
}

/// Whether all operations of all runs that count succeeded.
fn is_whole(group: &Group<'_>) -> bool {
    group
        .used()
        .iter()
        .all(|run| run.counts.offered > 0 && run.counts.succeeded >= run.counts.offered)
}

/// The delay that RFC 6076 has for an operation, if it was seen; otherwise that of the response.
fn request_delay(group: &Group<'_>) -> Delay {
    let own = match group.load.operation {
        Operation::Register | Operation::RegisterUpdate | Operation::RegisterLogout => Delay::Rrd,
        Operation::Invite => Delay::Srd,
        Operation::InviteNotFound | Operation::InviteRedirect => Delay::SrdFailed,
        Operation::Options => Delay::Response,
    };
    let seen =
        group.runs.iter().any(|run| run.delays.get(&own).is_some_and(|delays| !delays.is_empty()));
    if seen { own } else { Delay::Response }
}

/// The name of a delay in full.
fn delay_name(delay: Delay) -> &'static str {
    let defined = metrics::DEFINITIONS.iter().find(|definition| definition.name == delay.name());
    defined.map_or(delay.name(), |definition| definition.title)
}

fn title(report: &Report<'_>) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for record in report.records {
        if !kinds.contains(&kind_name(record.kind)) {
            kinds.push(kind_name(record.kind));
        }
    }
    let kinds = if kinds.is_empty() { "Report".to_owned() } else { kinds.join(", ") };
    let names: Vec<String> = report.subjects.iter().map(|subject| subject.label.clone()).collect();
    if names.is_empty() { kinds } else { format!("{kinds}: {}", words::list(&names)) }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Run => "SIP load",
        Kind::Sweep => "SIP load at rising rates",
        Kind::Limit => "Highest SIP rate without a failure",
        Kind::Burst => "Registration bursts",
        Kind::Qos => "Parallel SIP users",
        Kind::Proxy => "SIP proxy at rising call rates",
        Kind::Compare => "SIP servers compared",
    }
}

/// The section, if it says anything.
fn unless_empty(section: Section) -> Option<Section> {
    (!section.blocks.is_empty()).then_some(section)
}
