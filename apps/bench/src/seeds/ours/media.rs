//! The figures of calls with media.

use crate::curve::is_whole;
use crate::metrics;
use crate::record::{Record, Run};
use crate::seeds::runs::{
    Criterion, delays as delays_over, has_processors_left, is_quick, limits as limits_of,
    median_of, over, steps_of, systems,
};
use crate::series::{Series, Value};

fn calls(run: &Run) -> f64 {
    run.media.as_ref().map_or(f64::NAN, |media| media.calls as f64)
}

/// Returns true if both ends of the calls have one codec.
fn is_plain(run: &Run) -> bool {
    run.media.as_ref().is_some_and(|media| media.codecs[0] == media.codecs[1])
}

/// Returns true if a call was set up: a server that refuses all has no figures of calls.
fn has_calls(run: &Run) -> bool {
    run.counts.succeeded > 0
}

/// Returns true if a call without transcoding was set up.
fn has_plain_calls(run: &Run) -> bool {
    is_plain(run) && has_calls(run)
}

/// Returns the mean jitter of the streams that came back, in milliseconds.
pub(super) fn mean_jitter(run: &Run) -> Option<f64> {
    let jitter = &run.media.as_ref()?.figures.echo.jitter;
    (!jitter.is_empty()).then(|| jitter.mean() / 1e3)
}

/// Returns the longest time between two packets of a stream, in milliseconds.
pub(super) fn packet_delay(run: &Run) -> Option<f64> {
    let delta = &run.media.as_ref()?.figures.echo.max_delta;
    (!delta.is_empty()).then(|| delta.max() as f64 / 1e3)
}

/// Returns a figure of the calls without transcoding.
pub(super) fn plain(record: &Record, y: impl Fn(&Run) -> Option<f64>) -> Vec<Series> {
    over(record, calls, has_plain_calls, y)
}

pub(super) fn delays(record: &Record) -> Vec<Series> {
    delays_over(record, calls, has_plain_calls)
}

/// Returns mean jitter and maximum packet delay of the calls without transcoding.
pub(super) fn jitter(record: &Record) -> Vec<Series> {
    let of = |name: &str, y: fn(&Run) -> Option<f64>| {
        let mut series = plain(record, y);
        series.iter_mut().for_each(|series| series.name += &format!(", {name}"));
        series
    };
    [of("mean jitter", mean_jitter), of("maximum packet delay", packet_delay)].concat()
}

/// Returns a figure of the calls of each pair of codecs over that of the calls without transcoding.
pub(super) fn normalised(record: &Record, y: impl Fn(&Run) -> Option<f64>) -> Vec<Series> {
    let codec = |run: &Run| run.media.as_ref().map(|media| media.codecs[1].clone());
    let mut codecs: Vec<String> = Vec::new();
    for codec in record.runs.iter().filter(|run| !is_plain(run)).filter_map(codec) {
        if !codecs.contains(&codec) {
            codecs.push(codec);
        }
    }
    let mut all = Vec::new();
    for system in systems(record) {
        let base = steps_of(record, system, calls, has_plain_calls);
        for name in &codecs {
            let is_it =
                |run: &Run| !is_plain(run) && has_calls(run) && codec(run).as_ref() == Some(name);
            let steps = steps_of(record, system, calls, is_it);
            let values = steps.iter().filter_map(|(calls, runs)| {
                let (_, plain) = base.iter().find(|(known, _)| known == calls)?;
                let ((value, is_doubtful), (plain, is_base_doubtful)) =
                    (median_of(runs, &y)?, median_of(plain, &y)?);
                let is_doubtful = is_doubtful || is_base_doubtful;
                Some(Value { is_doubtful, ..Value::at(*calls, value / plain) })
            });
            let values: Vec<Value> = values.filter(|value| value.value.is_finite()).collect();
            if !values.is_empty() {
                all.push(Series { name: format!("{system}, {name}"), values });
            }
        }
    }
    all
}

pub(super) fn limits(record: &Record) -> Vec<Series> {
    const CRITERIA: [Criterion; 4] = [
        ("CPU", has_processors_left),
        ("RRD and SRD", is_quick),
        ("jitter and packet delay", |run| {
            metrics::max_packet_delay(run).map(|us| us <= metrics::MAX_PACKET_DELAY_US)
        }),
        ("errors", |run| Some(is_whole(run))),
    ];
    systems(record)
        .map(|system| limits_of(system, &steps_of(record, system, calls, is_plain), &CRITERIA))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::run;
    use crate::record::{Kind, Machine, Media, System};
    use crate::series::Key;

    #[test]
    fn refused_calls_have_no_figures() {
        let calls = |codec: &str, calls: u64, succeeded: u64| {
            let mut run = run();
            let codecs = ["PCMU".to_owned(), codec.to_owned()];
            run.media = Some(Box::new(Media { codecs, calls, ..Media::default() }));
            (run.counts.offered, run.counts.succeeded) = (calls, succeeded);
            run
        };
        let record = Record {
            format: 1,
            tool: String::new(),
            kind: Kind::Media,
            command: Vec::new(),
            started: 0,
            machine: Machine::default(),
            agents: Vec::new(),
            systems: vec![System { name: "barebell".to_owned(), ..System::default() }],
            runs: vec![
                calls("PCMU", 60, 60),
                calls("GSM", 60, 60),
                calls("G.726-32", 60, 0),
                calls("PCMU", 180, 0),
                calls("GSM", 180, 180),
            ],
            findings: Vec::new(),
            trouble: String::new(),
            criteria: Vec::new(),
        };
        let figures = normalised(&record, |run| Some(run.counts.offered as f64));
        let [gsm] = &figures[..] else { panic!("{figures:?}") };
        assert_eq!((&gsm.name[..], gsm.values.len()), ("barebell, GSM", 1));
        assert_eq!(plain(&record, |_| Some(1.0))[0].values.len(), 1);
        // The limit is that of all calls.
        let limits = limits(&record);
        let errors =
            limits[0].values.iter().find(|value| value.key == Key::Name("errors".to_owned()));
        assert_eq!(errors.map(|value| value.value), Some(60.0));
    }
}
