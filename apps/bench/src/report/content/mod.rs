//! The content of a report, from the records.

mod basis;
mod bursts;
mod compare;
mod curves;
mod details;
mod limits;
mod media;
mod overview;
mod run;
mod time;

use super::document::{Block, Document, Section};
use super::{format, groups};
use crate::record::Record;
use basis::{Report, kind_name};

/// Returns the report of these records.
pub(super) fn document(records: &[Record]) -> Document {
    let subjects = groups::subjects(records);
    let report = Report { records, subjects };
    let mut sections = vec![overview::verdict_section(&report)];
    sections.extend(
        [
            overview::conclusions(&report),
            run::section(&report),
            media::section(&report),
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
    lift_chart(&mut sections);
    sections.push(overview::setup(&report));
    sections.push(details::definitions());
    Document { title: title(&report), sections }
}

/// Moves the first chart to the verdict at the top.
fn lift_chart(sections: &mut [Section]) {
    let Some((verdict, others)) = sections.split_first_mut() else { return };
    let is_chart = |block: &Block| matches!(block, Block::Chart(_));
    let found = others.iter_mut().find_map(|section| {
        // A section whose only content is the chart keeps it.
        let place = section.blocks.iter().position(is_chart)?;
        (section.blocks.len() > 1).then(|| section.blocks.remove(place))
    });
    verdict.blocks.extend(found);
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
    if names.is_empty() { kinds } else { format!("{kinds}: {}", format::list(&names)) }
}
