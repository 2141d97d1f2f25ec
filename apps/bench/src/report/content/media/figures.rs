//! The figures of calls with media, and the cells that name a load.

use super::super::basis::Report;
use crate::metrics::processors;
use crate::record::{Delay, Histogram, Media, Run};
use crate::report::format;
use crate::report::groups::{Group, percentile};

/// A figure over the number of calls: the title of its chart, the unit, and the value of a run.
pub(super) type Figure = (&'static str, &'static str, fn(&Run) -> Option<f64>);

/// The figures that are drawn over the calls, and normalised to the case without transcoding.
pub(super) const FIGURES: [Figure; 5] = [
    ("CPU of the system under test", "processors busy", processors),
    ("Registration request delay (RRD), median", "ms", |run| {
        percentile(run, Delay::Rrd, 50.0).map(|us| us / 1000.0)
    }),
    ("Session request delay (SRD), median", "ms", |run| {
        percentile(run, Delay::Srd, 50.0).map(|us| us / 1000.0)
    }),
    ("Mean jitter", "ms", |run| mean(&run.media.as_ref()?.figures.echo.jitter)),
    ("Maximum packet delay (delta)", "ms", |run| {
        longest(&run.media.as_ref()?.figures.echo.max_delta)
    }),
];

/// Returns the mean in milliseconds.
pub(super) fn mean(times: &Histogram) -> Option<f64> {
    (!times.is_empty()).then(|| times.mean() / 1000.0)
}

/// Returns the longest time in milliseconds.
pub(super) fn longest(times: &Histogram) -> Option<f64> {
    (!times.is_empty()).then(|| times.max() as f64 / 1000.0)
}

/// Returns a percentile in milliseconds.
pub(super) fn at(times: &Histogram, percent: f64) -> Option<f64> {
    times.told(percent).map(|us| us as f64 / 1000.0)
}

/// The identifying cells of a row.
pub(super) fn names(report: &Report<'_>, group: &Group<'_>, media: &Media) -> Vec<String> {
    vec![report.label(group), media.kind(), format::count(media.calls)]
}
