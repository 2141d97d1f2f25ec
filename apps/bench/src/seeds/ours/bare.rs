//! The calls of the bare machine with other servers and phones.

use crate::seeds::bare::{Call, STAGES};
use crate::series::{Series, Value, named};

/// The figures by the names of derivations, with true for calls through NATs.
const FIGURES: [(&str, bool); 2] = [("bare-lan", false), ("bare-nats", true)];

/// The name of the derivation of the times of steps.
const STEPS: &str = "bare-srtp";

/// The series: the names, and whether they are with authentication and with SRTP.
const SERIES: [(&str, bool, bool); 4] = [
    ("here, neither", false, false),
    ("here, authentication", true, false),
    ("here, SRTP", false, true),
    ("here, both", true, true),
];

/// Returns the derivation with this name, if there is one.
pub(super) fn derivation(name: &str) -> Option<impl Fn(&[Call]) -> Vec<Series> + use<>> {
    let through_nats = FIGURES.iter().find(|(known, _)| *known == name).map(|(_, nats)| *nats);
    if through_nats.is_none() && name != STEPS {
        return None;
    }
    Some(move |calls: &[Call]| {
        through_nats.map_or_else(|| steps(calls), |nats| stages(calls, nats))
    })
}

/// Returns the times of the steps, the mean of all calls that have them.
fn steps(calls: &[Call]) -> Vec<Series> {
    let mut all: Vec<(&str, Vec<f64>)> = Vec::new();
    for (name, time) in calls.iter().flat_map(|call| &call.steps) {
        match all.iter_mut().find(|(known, _)| known == name) {
            Some((_, times)) => times.push(*time),
            None => all.push((name, vec![*time])),
        }
    }
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    vec![named("here", all.iter().map(|(name, times)| (*name, mean(times))))]
}

/// Returns the number of stages that succeeded by server and phones. A value with a failed stage is
/// marked.
fn stages(calls: &[Call], through_nats: bool) -> Vec<Series> {
    let series = |(name, authentication, srtp): (&str, bool, bool)| {
        let is_it = |call: &&Call| {
            let kind = (call.through_nats, call.authentication, call.srtp);
            kind == (through_nats, authentication, srtp)
        };
        let values = calls.iter().filter(is_it).map(|call| {
            let name = format!("{}: {} to {}", call.server, call.caller, call.callee);
            let stages = call.stages();
            Value { is_doubtful: stages < STAGES, ..Value::of(name, stages as f64) }
        });
        Series { name: name.to_owned(), values: values.collect() }
    };
    SERIES.map(series).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_step_is_the_mean_of_its_calls() {
        let call = |times: &[(&str, f64)]| Call {
            steps: times.iter().map(|(name, time)| ((*name).to_owned(), *time)).collect(),
            ..Call::default()
        };
        let calls =
            [call(&[("header", 10.0), ("replay", 3.0)]), call(&[]), call(&[("header", 20.0)])];
        let derive = derivation("bare-srtp").expect("the derivation");
        let expected = named("here", [("header", 15.0), ("replay", 3.0)]);
        assert_eq!(derive(&calls), [expected]);
    }
}
