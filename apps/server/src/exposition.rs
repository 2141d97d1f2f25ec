//! The writer of Prometheus' text format, version 0.0.4.

use sip_server::histogram::Distribution;
use std::fmt::{Display, Write};

/// The media type of the format.
pub(crate) const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The name and value of each label.
pub(crate) type Labels<'l> = &'l [(&'l str, &'l str)];

/// The metrics so far.
#[derive(Debug, Default)]
pub(crate) struct Exposition(String);

impl Exposition {
    /// Adds a counter without labels. The name without its ending `_total`.
    pub(crate) fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.counters(name, help, [(&[][..], value)]);
    }

    /// Adds a counter with a sample for each set of labels. The name without its ending `_total`.
    pub(crate) fn counters<'l, V: Display>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'l>, V)>,
    ) {
        self.family(&format!("{name}_total"), "counter", help, samples);
    }

    /// Adds a gauge without labels.
    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.gauges(name, help, [(&[][..], value)]);
    }

    /// Adds a gauge with a sample for each set of labels.
    pub(crate) fn gauges<'l, V: Display>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'l>, V)>,
    ) {
        self.family(name, "gauge", help, samples);
    }

    /// Adds a histogram with a distribution for each set of labels. `unit` observed values make one
    /// of the unit of the metric.
    pub(crate) fn histograms<'l, 'd>(
        &mut self,
        name: &str,
        help: &str,
        unit: u32,
        distributions: impl IntoIterator<Item = (Labels<'l>, &'d Distribution)>,
    ) {
        self.head(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        let in_units = |value: u64| value as f64 / f64::from(unit);
        for (labels, Distribution { bounds, counts, sum }) in distributions {
            let mut total = 0;
            for (place, count) in counts.iter().enumerate() {
                total += count;
                let bound = bounds.get(place).map(|bound| in_units(*bound).to_string());
                let bound = bound.as_deref().unwrap_or("+Inf");
                self.sample(&bucket, labels.iter().chain([&("le", bound)]), total);
            }
            self.sample(&format!("{name}_sum"), labels.iter(), in_units(*sum));
            self.sample(&format!("{name}_count"), labels.iter(), total);
        }
    }

    /// The text.
    pub(crate) fn into_text(self) -> String {
        self.0
    }

    fn family<'l, V: Display>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'l>, V)>,
    ) {
        self.head(name, kind, help);
        for (labels, value) in samples {
            self.sample(name, labels.iter(), value);
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample<'l>(
        &mut self,
        name: &str,
        labels: impl Iterator<Item = &'l (&'l str, &'l str)>,
        value: impl Display,
    ) {
        self.0.push_str(name);
        let mut before = '{';
        for (label, text) in labels {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{before}{label}=\"{text}\"");
            before = ',';
        }
        if before == ',' {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_server::histogram::Histogram;

    #[test]
    fn counters_and_gauges_have_help_type_and_labels() {
        let mut text = Exposition::default();
        text.counter("a_things", "Things.", 3_u64);
        text.gauges("a_state", "A\\B\nC", [(&[("x", "1"), ("y", "a\"\\\n")][..], 0.5)]);
        assert_eq!(
            text.into_text(),
            "# HELP a_things_total Things.\n# TYPE a_things_total counter\na_things_total 3\n\
             # HELP a_state A\\\\B\\nC\n# TYPE a_state gauge\n\
             a_state{x=\"1\",y=\"a\\\"\\\\\\n\"} 0.5\n"
        );
    }

    #[test]
    fn histograms_are_cumulative_and_in_their_unit() {
        let histogram = Histogram::new(&[500, 1_000_000]);
        for value in [500, 501, 3_000_000] {
            histogram.observe(value);
        }
        let mut text = Exposition::default();
        let read = histogram.read();
        text.histograms("d_seconds", "D.", 1_000_000, [(&[("r", "ok")][..], &read)]);
        assert_eq!(
            text.into_text(),
            "# HELP d_seconds D.\n# TYPE d_seconds histogram\n\
             d_seconds_bucket{r=\"ok\",le=\"0.0005\"} 1\n\
             d_seconds_bucket{r=\"ok\",le=\"1\"} 2\n\
             d_seconds_bucket{r=\"ok\",le=\"+Inf\"} 3\n\
             d_seconds_sum{r=\"ok\"} 3.001001\nd_seconds_count{r=\"ok\"} 3\n"
        );
    }
}
