//! Bands of latencies, and the coefficient.

use crate::metrics::Bands;
use crate::record::{Delay, Histogram, Record};
use crate::seeds::runs::{steps_of, systems};
use crate::series::{Series, Value};

/// The bands of latencies in milliseconds.
pub(super) const BANDS: [&str; 6] =
    ["0 to 30 ms", "31 to 60", "61 to 90", "91 to 120", "121 to 150", "more"];

/// Returns the bands of the runs of each system at the highest rate of each record.
pub(super) fn all_bands(records: &[&Record]) -> Vec<(String, Bands, bool)> {
    let mut all = Vec::new();
    for record in records {
        for system in systems(record) {
            let steps = steps_of(record, system, |run| run.load.rate, |_| true);
            let Some((_, runs)) = steps.last() else { continue };
            let mut merged = Histogram::default();
            for run in runs {
                let delay = |delay| run.delays.get(&delay);
                if let Some(delays) = delay(Delay::Latency).or_else(|| delay(Delay::Response)) {
                    merged.merge(delays);
                }
            }
            let Some(bands) = Bands::of(&merged) else { continue };
            let auth = if runs[0].load.authentication { ", with authentication" } else { "" };
            let is_doubtful = runs.iter().any(|run| !run.is_valid());
            all.push((format!("{system}{auth}"), bands, is_doubtful));
        }
    }
    all
}

/// Returns a series of each band, with the share of each system.
pub(super) fn bands(records: &[&Record]) -> Vec<Series> {
    let all = all_bands(records);
    let series = BANDS.iter().enumerate().map(|(band, name)| Series {
        name: (*name).to_owned(),
        values: all
            .iter()
            .map(|(system, bands, is_doubtful)| Value {
                is_doubtful: *is_doubtful,
                ..Value::of(system.clone(), 100.0 * bands.shares[band])
            })
            .collect(),
    });
    if all.is_empty() { Vec::new() } else { series.collect() }
}

pub(super) fn coefficient(records: &[&Record]) -> Vec<Series> {
    let all = all_bands(records);
    let values = all.into_iter().map(|(system, bands, is_doubtful)| Value {
        is_doubtful,
        ..Value::of(system, bands.coefficient())
    });
    vec![Series { name: "here".to_owned(), values: values.collect() }]
}
