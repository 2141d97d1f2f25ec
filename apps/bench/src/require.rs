//! The criteria of a measurement: `--require 'success>=100%,srd.p99<50ms'`.

use crate::metrics::{self, Bands};
use crate::record::{Criterion, Delay, Histogram, Run};
use std::fmt;
use std::str::FromStr;

/// The criteria for every run, in the given order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Requirements(Vec<Requirement>);

/// A figure and its bound.
#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    text: String,
    metric: Metric,
    comparison: Comparison,
    /// The bound in the unit of the metric; for delays, in microseconds.
    bound: f64,
}

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Metric {
    Success,
    Ira,
    Ser,
    Seer,
    Isa,
    Scr,
    Achieved,
    Cpu,
    Coefficient,
    Retransmitted,
    TimedOut,
    Lost,
    Unexpected,
    Late,
    MediaLoss,
    MediaJitter,
    MediaDelta,
    MediaDelay,
    MediaMos,
    Of(Delay, Statistic),
}

/// A statistic of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Statistic {
    Min,
    Mean,
    Percentile(f64),
    Max,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Below,
    AtMost,
    Above,
    AtLeast,
    Equal,
}

/// The units of a metric. The first is the output unit. The factor of each converts to the unit of
/// the metric.
type Units = &'static [(&'static str, f64)];

const PERCENT: Units = &[("%", 1.0), ("", 1.0)];
const RATE: Units = &[("/s", 1.0), ("", 1.0)];
const NUMBER: Units = &[("", 1.0)];
const TIME: Units = &[("us", 1.0), ("µs", 1.0), ("ms", 1e3), ("s", 1e6)];

/// An error in the criteria.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RequireError {
    /// This part is not of the form `METRIC<VALUE`.
    Form(String),
    /// The metric is unknown.
    Metric(String),
    /// The statistic of a delay is unknown.
    Statistic(String),
    /// The value is not a number in one of these units.
    Value(String, String, Units),
}

impl fmt::Display for RequireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(text) => write!(
                f,
                "requirement '{text}': expected METRIC, one of < <= > >= =, and a value, such as \
                 success>=100% or srd.p99<50ms"
            ),
            Self::Metric(name) => {
                let plain: Vec<_> = Metric::PLAIN.iter().map(|(name, _)| *name).collect();
                let delays = Delay::ALL.map(Delay::name).join(", ");
                write!(
                    f,
                    "there is no metric '{name}': expected one of {}, or one of the delays \
                     {delays} with a statistic, such as srd.p99",
                    plain.join(", ")
                )
            }
            Self::Statistic(name) => {
                let all = Statistic::ALL.map(|(name, _)| name).join(", ");
                write!(
                    f,
                    "'{name}' names no statistic of the delay: expected one of {all} after a dot"
                )
            }
            Self::Value(name, value, units) => {
                let is_optional = units.iter().any(|(unit, _)| unit.is_empty());
                let units: Vec<_> =
                    units.iter().map(|(unit, _)| *unit).filter(|unit| !unit.is_empty()).collect();
                write!(f, "'{value}' is not a value of {name}: expected a number")?;
                match (units.join(", "), is_optional) {
                    (units, _) if units.is_empty() => Ok(()),
                    (units, true) => write!(f, ", {units} may follow"),
                    (units, false) => write!(f, " followed by one of {units}"),
                }
            }
        }
    }
}

impl std::error::Error for RequireError {}

impl Statistic {
    const ALL: [(&'static str, Self); 9] = [
        ("min", Self::Min),
        ("mean", Self::Mean),
        ("p50", Self::Percentile(50.0)),
        ("p90", Self::Percentile(90.0)),
        ("p95", Self::Percentile(95.0)),
        ("p99", Self::Percentile(99.0)),
        ("p99.9", Self::Percentile(99.9)),
        ("p99.99", Self::Percentile(99.99)),
        ("max", Self::Max),
    ];

    fn of(self, histogram: &Histogram) -> f64 {
        match self {
            Self::Min => histogram.min() as f64,
            Self::Mean => histogram.mean(),
            Self::Percentile(percent) => histogram.percentile(percent) as f64,
            Self::Max => histogram.max() as f64,
        }
    }
}

impl Metric {
    /// All metrics other than delays.
    const PLAIN: [(&'static str, Self); 19] = [
        ("success", Self::Success),
        ("ira", Self::Ira),
        ("ser", Self::Ser),
        ("seer", Self::Seer),
        ("isa", Self::Isa),
        ("scr", Self::Scr),
        ("achieved", Self::Achieved),
        ("cpu", Self::Cpu),
        ("coefficient", Self::Coefficient),
        ("retransmitted", Self::Retransmitted),
        ("timed_out", Self::TimedOut),
        ("lost", Self::Lost),
        ("unexpected", Self::Unexpected),
        ("late", Self::Late),
        ("media_loss", Self::MediaLoss),
        ("media_jitter", Self::MediaJitter),
        ("media_delta", Self::MediaDelta),
        ("media_delay", Self::MediaDelay),
        ("media_mos", Self::MediaMos),
    ];

    fn parse(name: &str) -> Result<Self, RequireError> {
        let (first, rest) = match name.split_once('.') {
            Some((first, rest)) => (first, Some(rest)),
            None => (name, None),
        };
        if let Some(delay) = Delay::ALL.into_iter().find(|delay| delay.name() == first) {
            let found = Statistic::ALL.into_iter().find(|(known, _)| Some(*known) == rest);
            let (_, statistic) = found.ok_or_else(|| RequireError::Statistic(name.to_owned()))?;
            return Ok(Self::Of(delay, statistic));
        }
        let found = Self::PLAIN.into_iter().find(|(known, _)| *known == name);
        Ok(found.ok_or_else(|| RequireError::Metric(name.to_owned()))?.1)
    }

    const fn units(self) -> Units {
        match self {
            Self::Success
            | Self::Ira
            | Self::Ser
            | Self::Seer
            | Self::Isa
            | Self::Scr
            | Self::MediaLoss => PERCENT,
            Self::Achieved => RATE,
            Self::Cpu | Self::MediaJitter | Self::MediaDelta | Self::MediaDelay | Self::Of(..) => {
                TIME
            }
            Self::Coefficient
            | Self::MediaMos
            | Self::Retransmitted
            | Self::TimedOut
            | Self::Lost
            | Self::Unexpected
            | Self::Late => NUMBER,
        }
    }

    /// Returns the value in `run`; `None` if it was not measured.
    fn value(self, run: &Run) -> Option<f64> {
        let counts = &run.counts;
        let delay = |delay| run.delays.get(&delay).filter(|histogram| !histogram.is_empty());
        match self {
            Self::Success => metrics::success(counts),
            Self::Ira => metrics::ira(counts),
            Self::Ser => metrics::ser(counts),
            Self::Seer => metrics::seer(counts),
            Self::Isa => metrics::isa(counts),
            Self::Scr => metrics::scr(counts),
            Self::Achieved => Some(metrics::achieved_rate(run)),
            Self::Cpu => metrics::cpu_per_operation(run),
            Self::Coefficient => Bands::of_run(run).map(|bands| bands.coefficient()),
            Self::Retransmitted => Some(counts.retransmitted as f64),
            Self::TimedOut => Some(counts.timed_out as f64),
            Self::Lost => Some(counts.lost as f64),
            Self::Unexpected => Some(counts.unexpected as f64),
            Self::Late => Some(counts.late as f64),
            Self::MediaLoss => metrics::media_loss(run),
            Self::MediaJitter => metrics::media_jitter(run),
            Self::MediaDelta => metrics::media_delta(run),
            Self::MediaDelay => metrics::media_delay(run),
            Self::MediaMos => metrics::media_mos(run),
            Self::Of(of, statistic) => delay(of).map(|histogram| statistic.of(histogram)),
        }
    }

    /// Formats `value` with its unit.
    fn tell(self, value: f64) -> String {
        match self.units() {
            TIME if value >= 1e6 => format!("{:.3} s", value / 1e6),
            TIME if value >= 1e3 => format!("{:.3} ms", value / 1e3),
            TIME => format!("{value:.1} us"),
            // A share below 100 % must not be rounded to it.
            PERCENT if value < 100.0 => format!("{} %", (value * 1e4).floor() / 1e4),
            PERCENT => format!("{value} %"),
            RATE => format!("{value:.1}/s"),
            _ => format!("{}", (value * 1e6).round() / 1e6),
        }
    }
}

impl Comparison {
    /// Longer ones first, since `<=` begins with `<`.
    const ALL: [(&'static str, Self); 5] = [
        ("<=", Self::AtMost),
        (">=", Self::AtLeast),
        ("<", Self::Below),
        (">", Self::Above),
        ("=", Self::Equal),
    ];

    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Below => value < bound,
            Self::AtMost => value <= bound,
            Self::Above => value > bound,
            Self::AtLeast => value >= bound,
            Self::Equal => value == bound,
        }
    }

    /// Returns the distance of `value` on the wrong side of the bound; higher is worse.
    fn badness(self, value: f64, bound: f64) -> f64 {
        match self {
            Self::Below | Self::AtMost => value - bound,
            Self::Above | Self::AtLeast => bound - value,
            Self::Equal => (value - bound).abs(),
        }
    }
}

impl FromStr for Requirement {
    type Err = RequireError;

    fn from_str(text: &str) -> Result<Self, RequireError> {
        let wrong = || RequireError::Form(text.to_owned());
        let at = text.find(['<', '>', '=']).ok_or_else(wrong)?;
        let (name, rest) = (text[..at].trim(), &text[at..]);
        let found = Comparison::ALL.into_iter().find(|(sign, _)| rest.starts_with(sign));
        let (sign, comparison) = found.ok_or_else(wrong)?;
        let value = rest[sign.len()..].trim();
        if name.is_empty() || value.is_empty() {
            return Err(wrong());
        }
        let metric = Metric::parse(name)?;
        let units = metric.units();
        let wrong = || RequireError::Value(name.to_owned(), value.to_owned(), units);
        let end = value.find(|c: char| !c.is_ascii_digit() && !"+-.".contains(c));
        let (number, unit) = value.split_at(end.unwrap_or(value.len()));
        let (_, size) =
            units.iter().find(|(known, _)| *known == unit.trim_start()).ok_or_else(wrong)?;
        let number: f64 =
            number.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(wrong)?;
        Ok(Self { text: text.to_owned(), metric, comparison, bound: number * size })
    }
}

impl FromStr for Requirements {
    type Err = RequireError;

    /// Parses criteria, separated by commas.
    fn from_str(text: &str) -> Result<Self, RequireError> {
        text.split(',').map(|part| part.trim().parse()).collect::<Result<_, _>>().map(Self)
    }
}

impl Requirement {
    fn check(&self, runs: &[Run]) -> Criterion {
        let values: Vec<Option<f64>> = runs.iter().map(|run| self.metric.value(run)).collect();
        let held = !runs.is_empty()
            && values
                .iter()
                .all(|value| value.is_some_and(|value| self.comparison.holds(value, self.bound)));
        Criterion { text: self.text.clone(), held, seen: self.seen(runs, &values) }
    }

    /// Describes the worst value, its run if there are several, and the number of runs without a
    /// value.
    fn seen(&self, runs: &[Run], values: &[Option<f64>]) -> String {
        let badness = |value| self.comparison.badness(value, self.bound);
        let measured = runs.iter().zip(values).filter_map(|(run, value)| Some((run, (*value)?)));
        let worst = measured.max_by(|(_, a), (_, b)| badness(*a).total_cmp(&badness(*b)));
        let missing = values.iter().filter(|value| value.is_none()).count();
        match worst {
            None if runs.is_empty() => "there was no run".to_owned(),
            None => "not measured".to_owned(),
            Some((_, value)) if runs.len() == 1 => self.metric.tell(value),
            Some((run, value)) => {
                let mut seen = format!("{} ({}", self.metric.tell(value), run.system);
                if !run.label.is_empty() {
                    seen += &format!(", {}", run.label);
                }
                seen += &format!(", repeat {})", run.repeat + 1);
                if missing > 0 {
                    seen += &format!("; not measured in {missing} of {} runs", runs.len());
                }
                seen
            }
        }
    }
}

impl Requirements {
    /// Evaluates each criterion over all `runs`. It does not hold if there are no runs, or a run
    /// has no value.
    pub(crate) fn check(&self, runs: &[Run]) -> Vec<Criterion> {
        self.0.iter().map(|requirement| requirement.check(runs)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::run;
    use crate::record::{Media, MediaFigures, Streams, Usage, Watch};
    use sip::Duration;

    fn measured() -> Run {
        let mut run = run();
        let counts = &mut run.counts;
        counts.offered = 1000;
        counts.succeeded = 999;
        counts.retransmitted = 4;
        counts.completed_calls = 500;
        counts.finals.insert("INVITE".to_owned(), [(200, 999), (486, 1)].into());
        let srd = run.delays.entry(Delay::Srd).or_default();
        for millis in 1..=100 {
            srd.record(Duration::from_millis(millis));
        }
        let total = Usage { cpu_user_us: 9990, ..Usage::default() };
        run.watch = Some(Watch { total, operations: run.counts.succeeded, ..Watch::default() });
        let mut echo = Streams {
            expected: 1000,
            received: 990,
            mos_sum: 8.0,
            mos_min: 3.9,
            mos_count: 2,
            ..Streams::default()
        };
        [2, 4].into_iter().for_each(|millis| echo.jitter.record(Duration::from_millis(millis)));
        [21, 80]
            .into_iter()
            .for_each(|millis| echo.max_delta.record(Duration::from_millis(millis)));
        (1..=100).for_each(|millis| echo.delay.record(Duration::from_millis(millis)));
        let figures = MediaFigures { echo, ..MediaFigures::default() };
        run.media = Some(Box::new(Media { figures, ..Media::default() }));
        run
    }

    fn check(text: &str, runs: &[Run]) -> Criterion {
        let requirements: Requirements = text.parse().unwrap();
        let mut criteria = requirements.check(runs);
        assert_eq!(criteria.len(), 1);
        assert_eq!(criteria[0].text, text);
        criteria.remove(0)
    }

    #[test]
    fn requirements_are_checked_against_measured_values() {
        for (text, held, seen) in [
            ("success>=100%", false, "99.9 %"),
            ("success>=99.9", true, "99.9 %"),
            ("success = 99.9 %", true, "99.9 %"),
            ("ser>99.8%", true, "99.9 %"),
            ("seer=100%", true, "100 %"),
            ("isa<=0%", true, "0 %"),
            ("scr>50%", false, "50 %"),
            ("achieved>=999/s", true, "999.0/s"),
            ("cpu<=10us", true, "10.0 us"),
            ("cpu<0.009ms", false, "10.0 us"),
            ("retransmitted<4", false, "4"),
            ("timed_out=0", true, "0"),
            ("srd.p99<50ms", false, "99.007 ms"),
            ("srd.p50<=0.1s", true, "50.015 ms"),
            ("srd.p99.9<101000us", true, "100.000 ms"),
            ("srd.min>0µs", true, "1.000 ms"),
            ("media_loss<=1%", true, "1 %"),
            ("media_jitter<3ms", false, "3.000 ms"),
            ("media_delta<90ms", true, "80.000 ms"),
            ("media_delay<99ms", false, "99.007 ms"),
            ("media_mos>=4", false, "3.9"),
        ] {
            let criterion = check(text, &[measured()]);
            assert_eq!((criterion.held, criterion.seen.as_str()), (held, seen), "{text}");
        }
    }

    #[test]
    fn a_requirement_of_an_unmeasured_value_does_not_hold() {
        for text in [
            "media_loss<=100%",
            "ira<=100%",
            "rrd.p99<1s",
            "cpu<1s",
            "coefficient>-2",
            "success>=0%",
        ] {
            let criterion = check(text, &[run()]);
            assert_eq!(
                (criterion.held, criterion.seen.as_str()),
                (false, "not measured"),
                "{text}"
            );
        }
        let none = check("lost=0", &[]);
        assert_eq!((none.held, none.seen.as_str()), (false, "there was no run"));
    }

    #[test]
    fn the_worst_of_several_runs_is_told() {
        let mut bad = measured();
        bad.counts.succeeded = 900;
        bad.label = "step 2".to_owned();
        bad.repeat = 1;
        let runs = [measured(), bad, run()];
        let criterion = check("success>=95%", &runs);
        assert!(!criterion.held);
        assert_eq!(
            criterion.seen,
            "90 % (barebell, step 2, repeat 2); not measured in 1 of 3 runs"
        );
        assert!(!check("success>=80%", &runs).held);
        assert!(check("success>=80%", &runs[..2]).held);
        assert_eq!(check("retransmitted<9", &runs[..2]).seen, "4 (barebell, step 2, repeat 2)");
    }

    #[test]
    fn a_share_just_below_100_is_not_printed_as_100() {
        let mut run = measured();
        run.counts.offered = 10_000_000;
        run.counts.succeeded = 9_999_999;
        assert_eq!(check("success>=100%", &[run]).seen, "99.9999 %");
    }

    #[test]
    fn several_are_read_in_order() {
        let requirements: Requirements = "success>=100%, srd.p99<50ms".parse().unwrap();
        let texts: Vec<_> =
            requirements.check(&[]).into_iter().map(|criterion| criterion.text).collect();
        assert_eq!(texts, ["success>=100%", "srd.p99<50ms"]);
    }

    #[test]
    fn invalid_requirements_are_refused_with_the_expected_form() {
        for (text, expected) in [
            ("", "expected METRIC"),
            ("success", "expected METRIC"),
            ("success>=", "expected METRIC"),
            (">=3", "expected METRIC"),
            ("success>=100%,", "expected METRIC"),
            ("sucess>=1%", "one of success, ira"),
            ("srd<1s", "min, mean, p50"),
            ("srd.p98<1s", "min, mean, p50"),
            ("srd.p99<50", "followed by one of us, µs, ms, s"),
            ("srd.p99<50min", "followed by one of"),
            ("success>=all", "expected a number, % may follow"),
            ("success>=1e3%", "expected a number"),
            ("success>=5ms", "expected a number, % may follow"),
            ("lost<1.2.3", "expected a number"),
            ("lost<=>1", "expected a number"),
        ] {
            let error = text.parse::<Requirements>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
