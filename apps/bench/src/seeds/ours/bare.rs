//! The calls of the bare machine with other servers and phones.

use crate::seeds::bare::{Call, STAGES};
use crate::series::{Series, Value};

/// The figures by the names of derivations, with true for calls through NATs.
const FIGURES: [(&str, bool); 2] = [("bare-lan", false), ("bare-nats", true)];

/// The series: the names, and whether they are with authentication and with SRTP.
const SERIES: [(&str, bool, bool); 4] = [
    ("here, neither", false, false),
    ("here, authentication", true, false),
    ("here, SRTP", false, true),
    ("here, both", true, true),
];

/// Returns the derivation with this name, if there is one.
pub(super) fn derivation(name: &str) -> Option<impl Fn(&[Call]) -> Vec<Series> + use<>> {
    let (_, through_nats) = FIGURES.iter().find(|(known, _)| *known == name)?;
    Some(move |calls: &[Call]| stages(calls, *through_nats))
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
