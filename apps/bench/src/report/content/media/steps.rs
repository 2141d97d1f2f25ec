//! The figures over the number of calls, and normalised to the case without transcoding: Figures 7
//! to 14 of the source.

use super::super::basis::Report;
use super::figures::{FIGURES, names};
use crate::record::{Media, Run};
use crate::report::chart::{Axis, Chart, Line, Look, Scale};
use crate::report::document::{Section, Table};
use crate::report::format;
use crate::report::groups::Group;

/// The loads of one system with one pair of codecs and one protection, by rising calls.
pub(super) struct Steps<'g, 'a> {
    pub(super) name: String,
    pub(super) steps: Vec<&'g (Group<'a>, &'a Media)>,
}

/// Returns the loads by system and media.
pub(super) fn of<'g, 'a>(
    report: &Report<'_>,
    groups: &'g [(Group<'a>, &'a Media)],
) -> Vec<Steps<'g, 'a>> {
    let mut all: Vec<Steps<'g, 'a>> = Vec::new();
    for step in groups {
        let name = format!("{}, {}", report.label(&step.0), step.1.kind());
        match all.iter_mut().find(|steps| steps.name == name) {
            Some(steps) => steps.steps.push(step),
            None => all.push(Steps { name, steps: vec![step] }),
        }
    }
    for steps in &mut all {
        steps.steps.sort_by_key(|(_, media)| media.calls);
    }
    all
}

fn is_transcoded(media: &Media) -> bool {
    media.codecs[0] != media.codecs[1]
}

/// Adds the charts: the figures of calls without transcoding, if there are any, with a line for
/// each system, codec and protection; then those of the others, normalised, in charts of each
/// system.
pub(super) fn charts(report: &Report<'_>, groups: &[(Group<'_>, &Media)], section: &mut Section) {
    let all = of(report, groups);
    let (transcoded, plain): (Vec<_>, Vec<_>) =
        all.iter().partition(|steps| steps.steps.iter().any(|(_, media)| is_transcoded(media)));
    let shown = if plain.is_empty() { &transcoded } else { &plain };
    for (title, unit, value) in FIGURES {
        section.chart(chart(title, unit, shown, &|(group, _)| group.median(value)));
    }
    let mut systems: Vec<String> = Vec::new();
    for (group, _) in transcoded.iter().flat_map(|steps| &steps.steps) {
        let label = report.label(group);
        if !systems.contains(&label) {
            systems.push(label);
        }
    }
    for system in systems {
        let own = |steps: &&&Steps<'_, '_>| {
            steps.steps.iter().any(|(group, _)| report.label(group) == system)
        };
        let own: Vec<_> = transcoded.iter().filter(own).copied().collect();
        for (title, _, value) in FIGURES {
            let title = format!("{title}, normalised: {system}");
            let unit = "% of the case without transcoding";
            let percent = |step: &Step<'_>| Some(100.0 * ratio(groups, step, value)?);
            section.chart(chart(&title, unit, &own, &percent));
        }
    }
}

/// Returns the chart of a value over the calls.
fn chart(title: &str, unit: &str, all: &[&Steps<'_, '_>], value: &Value<'_>) -> Chart {
    let calls = Axis::new("simultaneous calls", Scale::Linear);
    let mut chart = Chart::new(title, calls, Axis::new(unit, Scale::Linear));
    for (index, Steps { name, steps }) in all.iter().enumerate() {
        let points = |is_doubtful: bool| -> Vec<(f64, f64)> {
            let steps = steps.iter().filter(|(group, _)| group.is_doubtful() == is_doubtful);
            steps.filter_map(|step| Some((step.1.calls as f64, value(step)?))).collect()
        };
        let mut line = Line::marked(name.clone(), Look::Number(index), points(false));
        line.doubtful = points(true);
        chart.line(line);
    }
    chart
}

/// A load with its media.
type Step<'a> = (Group<'a>, &'a Media);

/// The value of a step.
type Value<'f> = dyn Fn(&Step<'_>) -> Option<f64> + 'f;

/// Returns as many calls of the same system with the caller's codec at both ends.
fn base<'g, 'a>(
    groups: &'g [(Group<'a>, &'a Media)],
    (group, media): &(Group<'_>, &Media),
) -> Option<&'g Group<'a>> {
    let base = groups.iter().find(|(other, of)| {
        other.subject == group.subject
            && of.calls == media.calls
            && of.protection == media.protection
            && of.codecs.iter().all(|codec| *codec == media.codecs[0])
    });
    base.map(|(group, _)| group)
}

/// Returns the ratio of a figure of transcoded calls to that of the base.
fn ratio(
    groups: &[(Group<'_>, &Media)],
    step: &(Group<'_>, &Media),
    value: fn(&Run) -> Option<f64>,
) -> Option<f64> {
    let base = base(groups, step).filter(|_| is_transcoded(step.1))?;
    let (own, base) = (step.0.median(value)?, base.median(value)?);
    (base > 0.0).then(|| own / base)
}

/// Returns the figures of transcoded calls as ratios to those of as many calls that are not
/// transcoded.
pub(super) fn normalised(report: &Report<'_>, groups: &[(Group<'_>, &Media)]) -> Table {
    let mut table = Table::new(
        "Normalised to the same number of calls with the caller's codec at both ends",
        &["System", "Media", "#Calls", "#CPU", "#RRD", "#SRD", "#Mean jitter", "#Max. delta"],
    );
    for step in groups.iter().filter(|(_, media)| is_transcoded(media)) {
        let Some(base) = base(groups, step) else { continue };
        let mut cells = names(report, &step.0, step.1);
        cells.extend(FIGURES.iter().map(|(.., value)| format::maybe(ratio(groups, step, *value))));
        table.row_doubtful(step.0.is_doubtful() || base.is_doubtful(), cells);
    }
    table
}
