//! Single loads, side by side if there are several.

use super::basis::{Report, unless_empty};
use crate::record::Kind;
use crate::report::document::Section;

/// Returns the section of the loads of `run` commands, if there are any.
pub(super) fn section(report: &Report<'_>) -> Option<Section> {
    let mut section = Section::new(
        "run",
        "The load and its results",
        "An operation counts in the second when it was due; what was offered and did not succeed was \
         refused, timed out, was lost, or could not be sent.",
    );
    let groups = report.groups(&[Kind::Run]);
    section.table(super::compare::outcome(report, &groups));
    if groups.len() > 1 {
        super::compare::loads_side_by_side(report, &groups, &mut section);
    }
    unless_empty(section)
}
