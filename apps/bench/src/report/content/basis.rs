//! The common input and the common wording of all sections.

use crate::curve;
use crate::metrics;
use crate::record::{Delay, Kind, Media, Record};
use crate::report::chart::Look;
use crate::report::document::Section;
use crate::report::format;
use crate::report::groups::{self, Group, Subject};

/// The common input of all sections.
pub(super) struct Report<'a> {
    pub(super) records: &'a [Record],
    pub(super) subjects: Vec<Subject<'a>>,
}

impl<'a> Report<'a> {
    /// Returns the groups of the runs of records of these kinds.
    pub(super) fn groups(&self, kinds: &[Kind]) -> Vec<Group<'a>> {
        groups::groups(&self.subjects, kinds)
    }

    pub(super) fn label(&self, group: &Group<'_>) -> String {
        self.subjects[group.subject].label.clone()
    }

    pub(super) fn look(&self, group: &Group<'_>) -> Look {
        self.subjects[group.subject].look
    }

    pub(super) fn kind(&self, group: &Group<'_>) -> Kind {
        self.subjects[group.subject].record.kind
    }

    /// Returns the load of a group in words, without the operation.
    pub(super) fn load(&self, group: &Group<'_>) -> String {
        match self.kind(group) {
            Kind::Burst => format!("{} users", format::count(group.load.users)),
            Kind::Qos => match groups::state(group.runs[0]) {
                "" => format!("{} users", format::count(group.load.users)),
                state => format!("{} users, {state}", format::count(group.load.users)),
            },
            Kind::Media => group.runs[0].label.clone(),
            _ => format!("{} operations/s", format::figure(group.load.rate)),
        }
    }

    /// Returns the three cells that identify a group.
    pub(super) fn name_cells(&self, group: &Group<'_>) -> Vec<String> {
        vec![self.label(group), group.operation(), self.load(group)]
    }

    /// Returns the weight of the load of a group, for the order among others of its kind.
    pub(super) fn weight(&self, group: &Group<'_>) -> f64 {
        match self.kind(group) {
            Kind::Burst | Kind::Qos => group.load.users as f64,
            _ => group.load.rate,
        }
    }

    /// Returns the groups that are shown in detail. Of a curve, a search, bursts and numbers of
    /// users it is one per system and operation: the heaviest load without a failure, or the
    /// lightest of all if every load had failures.
    pub(super) fn featured(&self) -> Vec<Group<'a>> {
        let mut featured = self.groups(&[Kind::Run, Kind::Compare]);
        let mut steps = self.groups(&[
            Kind::Sweep,
            Kind::Proxy,
            Kind::Limit,
            Kind::Burst,
            Kind::Qos,
            Kind::Media,
        ]);
        while let Some(first) = steps.first() {
            let (subject, operation) = (first.subject, first.operation());
            let state = groups::state(first.runs[0]);
            let media = media_of(first);
            let belongs = |group: &Group<'_>| {
                group.subject == subject
                    && group.operation() == operation
                    && (self.kind(group) != Kind::Qos || groups::state(group.runs[0]) == state)
                    && media_of(group) == media
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

/// Returns the codecs and the protection of a group of calls with media.
fn media_of(group: &Group<'_>) -> Option<String> {
    group.runs[0].media.as_deref().map(Media::kind)
}

/// Returns true if all operations succeeded in each run that the figures are computed from.
pub(super) fn is_whole(group: &Group<'_>) -> bool {
    group.used().into_iter().all(curve::is_whole)
}

/// Returns the RFC 6076 delay of the operation, if it occurred, else that of the response.
pub(super) fn request_delay(group: &Group<'_>) -> Delay {
    curve::request_delay(group.runs.iter().copied())
}

/// Returns the full name of a delay.
pub(super) fn delay_name(delay: Delay) -> &'static str {
    let defined = metrics::DEFINITIONS.iter().find(|definition| definition.name == delay.name());
    defined.map_or(delay.name(), |definition| definition.title)
}

pub(super) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Run => "SIP load",
        Kind::Sweep => "SIP load at rising rates",
        Kind::Limit => "Highest SIP rate without a failure",
        Kind::Burst => "Registration bursts",
        Kind::Qos => "Parallel SIP users",
        Kind::Proxy => "SIP proxy at rising call rates",
        Kind::Compare => "SIP servers compared",
        Kind::Media => "Simultaneous calls with media",
    }
}

/// Returns the section, unless it is empty.
pub(super) fn unless_empty(section: Section) -> Option<Section> {
    (!section.blocks.is_empty()).then_some(section)
}
