//! The result of a scenario as text.

use super::counts::Counts;
use super::run::Outcome;
use crate::record::{Histogram, tells};
use std::fmt::{self, Write as _};

/// The percentiles in the tables.
const PERCENTS: [f64; 4] = [50.0, 90.0, 99.0, 99.9];

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { started, succeeded, failed, peak, .. } = &self.counts;
        let verb = if self.is_server { "received" } else { "started" };
        writeln!(
            f,
            "{}: {started} calls {verb}, {succeeded} succeeded, {failed} failed, in {:.1} s; at most {peak} \
             at once",
            if self.scenario.is_empty() { &self.file } else { &self.scenario },
            self.seconds
        )?;
        let steps = [row("step", ["messages", "retransmitted", "timed out", "unexpected"])];
        let rows = self.counts.steps.iter().filter_map(|step| {
            let label = step.label.as_ref()?;
            let figures = [step.count, step.retransmitted, step.timed_out, step.unexpected];
            let mut text = row(label, figures.map(|figure| figure.to_string()));
            if step.is_spaced {
                text.push('\n');
            }
            Some(text)
        });
        writeln!(f)?;
        for line in steps.into_iter().chain(rows) {
            writeln!(f, "{line}")?;
        }
        let times = self
            .counts
            .response_times
            .iter()
            .map(|(name, time)| (format!("response time {name}"), time));
        let length = ("call length".to_owned(), &self.counts.call_length);
        let times: Vec<_> = times.chain([length]).filter(|(_, time)| !time.is_empty()).collect();
        if !times.is_empty() {
            writeln!(
                f,
                "\n{:<28}{:>10}{:>10}{:>10}{:>10}{:>10}",
                "ms", "50 %", "90 %", "99 %", "99.9 %", "maximum"
            )?;
            for (name, time) in times {
                writeln!(f, "{name:<28}{}", percentiles(time))?;
            }
        }
        for (name, count) in self.remarks() {
            writeln!(f, "{name}: {count}")?;
        }
        Ok(())
    }
}

impl Outcome {
    /// Returns the counts that are not zero, by name.
    pub(crate) fn remarks(&self) -> Vec<(String, u64)> {
        let counts = &self.counts;
        let causes = counts
            .causes
            .iter()
            .map(|(cause, &count)| (format!("failed, {}", cause.words()), count));
        let unexpected = counts.unexpected.iter();
        let unexpected = unexpected.map(|(name, &count)| (format!("unexpected {name}"), count));
        let counters = counts.counters.iter();
        let counters = counters.map(|(name, &count)| (format!("counter {name}"), count));
        let others = [
            ("calls not started, with as many in progress as allowed", counts.held_back),
            ("messages of no call", counts.out_of_call),
            ("messages of calls that had ended", counts.late),
            ("requests answered without the scenario", counts.answered),
            ("data that is no SIP message", counts.malformed),
            ("messages dropped on purpose", counts.steps.iter().map(|step| step.lost).sum()),
            ("RTP packets sent", self.media.sent),
            ("RTP packets received", self.media.received),
            ("RTP packets sent back", self.media.echoed),
            ("recordings not sent, without an address of the peer", self.media.unaddressed),
            ("messages that could not be sent", self.unsent),
            ("datagrams that the kernel dropped", self.dropped),
        ];
        let others = others.map(|(name, count)| (name.to_owned(), count));
        causes
            .chain(unexpected)
            .chain(counters)
            .chain(others)
            .filter(|&(_, count)| count > 0)
            .collect()
    }
}

fn row(label: &str, cells: [impl fmt::Display; 4]) -> String {
    let mut text = format!("{label:<28}");
    for cell in cells {
        // A text takes everything.
        let _ = write!(text, "{cell:>15}");
    }
    text
}

/// Returns percentiles and maximum in milliseconds; a percentile without an event beyond it is a
/// dash.
pub(crate) fn percentiles(time: &Histogram) -> String {
    let mut text = String::new();
    for cell in cells(time) {
        let _ = write!(text, "{cell:>10}");
    }
    text
}

/// Returns the cells of [`percentiles`].
pub(crate) fn cells(time: &Histogram) -> Vec<String> {
    let millis = |micros: u64| format!("{:.3}", micros as f64 / 1e3);
    let percents = PERCENTS.map(|percent| match tells(time.count(), percent) {
        true => millis(time.percentile(percent)),
        false => "-".to_owned(),
    });
    percents.into_iter().chain([millis(time.max())]).collect()
}
