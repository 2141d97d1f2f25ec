//! The rates of the generators of calls.

use crate::seeds::generators::{Generator, Point};
use crate::series::{Series, Value};

/// Returns a figure of a point.
type Figure = fn(&Point) -> f64;

/// The derivations by name.
const FIGURES: [(&str, Figure); 2] = [
    ("scenario-rate", |point| point.succeeded as f64 / point.seconds),
    ("scenario-cost", |point| point.cpu_us),
];

/// Returns the derivation with this name, if there is one. A value with failed calls is marked.
pub(super) fn derivation(name: &str) -> Option<impl Fn(&[Generator]) -> Vec<Series> + use<>> {
    let (_, value) = FIGURES.iter().find(|(known, _)| *known == name)?;
    Some(move |generators: &[Generator]| {
        let series = |generator: &Generator| {
            let values = generator.points.iter().map(|point| Value {
                is_doubtful: point.failed > 0,
                ..Value::at(point.offered, value(point))
            });
            Series { name: generator.name.clone(), values: values.collect() }
        };
        generators.iter().map(series).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_achieved_rate_is_that_of_calls_that_succeeded() {
        let point = Point {
            offered: 100.0,
            seconds: 4.0,
            succeeded: 200,
            cpu_us: 30.0,
            ..Point::default()
        };
        let failed = Point { offered: 200.0, failed: 1, ..point };
        let all = [Generator { name: "SIPp".to_owned(), points: vec![point, failed] }];
        let rates = derivation("scenario-rate").unwrap()(&all);
        assert_eq!(rates[0].values[0], Value::at(100.0, 50.0));
        assert!(rates[0].values[1].is_doubtful);
        let costs = derivation("scenario-cost").unwrap()(&all);
        assert_eq!(costs[0].values[0].value, 30.0);
        assert!(derivation("scenario").is_none());
    }
}
