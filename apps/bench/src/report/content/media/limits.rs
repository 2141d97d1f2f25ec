//! The table of limits by criterion, as Table 1 of the source.

use super::super::basis::{Report, is_whole};
use super::super::limits::DELAY_LIMIT_US;
use super::steps::{self, Steps};
use crate::metrics;
use crate::record::{Delay, Media, Run};
use crate::report::document::Table;
use crate::report::format;
use crate::report::groups::{Group, percentile};

/// A criterion: true for a step that is within the limit; `None` if that is not known.
type Criterion = fn(&Group<'_>) -> Option<bool>;

/// The criteria, in the order of the columns. All but the first limit the last step before it
/// fails; the processors are used up at the first step at their maximum.
const CRITERIA: [Criterion; 4] = [
    |group| Some(group.median(metrics::busy)? <= metrics::USED_UP),
    |group| {
        let is_quick = |delay| {
            let median = group.median(|run| percentile(run, delay, 50.0));
            median.map(|us| us <= DELAY_LIMIT_US)
        };
        let delays = [Delay::Rrd, Delay::Srd].into_iter().filter_map(is_quick);
        delays.reduce(|one, other| one && other)
    },
    |group| {
        let late = |run: &Run| metrics::max_packet_delay(run).map(|us| us as f64);
        Some(group.median(late)? <= metrics::MAX_PACKET_DELAY_US as f64)
    },
    |group| Some(is_whole(group)),
];

/// Returns the table of the limits.
pub(super) fn table(report: &Report<'_>, groups: &[(Group<'_>, &Media)]) -> Table {
    let mut table = Table::new(
        "Limits by criterion, in simultaneous calls",
        &[
            "System",
            "Media",
            "#Processors used up at",
            "#RRD and SRD",
            "#Jitter and maximum packet delay",
            "#No failed call",
            "#Total",
        ],
    );
    for steps in steps::of(report, groups) {
        if let Some(cells) = row(report, &steps) {
            table.row(cells);
        }
    }
    table
}

/// The place of a limit among the steps of a system.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// No step tells anything.
    Unknown,
    /// No step exceeds the limit; the highest.
    Above(u64),
    /// The step that exceeds it, and the step before.
    At(u64, Option<u64>),
}

fn place(steps: &[(u64, Option<bool>)]) -> Place {
    let mut before = None;
    for (calls, is_within) in steps {
        match is_within {
            Some(true) => before = Some(*calls),
            Some(false) => return Place::At(*calls, before),
            None => {}
        }
    }
    before.map_or(Place::Unknown, Place::Above)
}

fn row(report: &Report<'_>, steps: &Steps<'_, '_>) -> Option<Vec<String>> {
    let (first, media) = steps.steps.first()?;
    let valid = || steps.steps.iter().filter(|(group, _)| !group.is_doubtful());
    let places = CRITERIA.map(|criterion| {
        let steps: Vec<_> = valid().map(|(group, media)| (media.calls, criterion(group))).collect();
        place(&steps)
    });
    let last = |before: Option<u64>, calls: u64| match before {
        Some(before) => format::count(before),
        None => format!("below {}", format::count(calls)),
    };
    let mut cells = vec![report.label(first), media.kind()];
    cells.extend(places.iter().enumerate().map(|(index, place)| match *place {
        Place::Unknown => format::NONE.to_owned(),
        Place::Above(calls) => format!("above {}", format::count(calls)),
        Place::At(calls, _) if index == 0 => format::count(calls),
        Place::At(calls, before) => last(before, calls),
    }));
    // At the first step at the maximum of the processors the calls still stand.
    let total = valid().map(|(group, media)| {
        let is_within = CRITERIA[1..].iter().all(|criterion| criterion(group) != Some(false));
        (media.calls, Some(is_within))
    });
    let total = place(&total.collect::<Vec<_>>());
    let used_up = match places[0] {
        Place::At(calls, _) => calls,
        _ => u64::MAX,
    };
    cells.push(match total {
        Place::Unknown => format::NONE.to_owned(),
        Place::Above(_) if used_up < u64::MAX => format::count(used_up),
        Place::Above(calls) => format!("above {}", format::count(calls)),
        Place::At(calls, before) => last(before.map(|before| before.min(used_up)), calls),
    });
    Some(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_between_two_steps() {
        let within = |values: &[Option<bool>]| {
            let steps = values.iter().zip(1..).map(|(value, index)| (index * 60, *value));
            place(&steps.collect::<Vec<_>>())
        };
        assert_eq!(within(&[Some(true), Some(true)]), Place::Above(120));
        // A step beyond the first failure does not count.
        assert_eq!(within(&[Some(true), Some(false), Some(true)]), Place::At(120, Some(60)));
        assert_eq!(within(&[Some(false), Some(true)]), Place::At(60, None));
        assert_eq!(within(&[None, Some(true), None, Some(false)]), Place::At(240, Some(120)));
        assert_eq!(within(&[None, None]), Place::Unknown);
    }
}
