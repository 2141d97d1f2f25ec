//! The content of a chart, and its axes.

use super::format;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// A chart: lines over numbers, or horizontal bars with names.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    /// The title.
    pub(super) title: String,
    /// The horizontal axis.
    pub(super) x: Axis,
    /// The vertical axis; of a bar chart, only its title is used.
    pub(super) y: Axis,
    /// The lines.
    pub(super) lines: Vec<Line>,
    /// The groups of bars from the top, each with its name.
    pub(super) bars: Vec<(String, Vec<Bar>)>,
    /// True if the bars of a group are parts of one bar.
    pub(super) is_stacked: bool,
    /// Highlighted values.
    pub(super) marks: Vec<Mark>,
}

/// An axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// The quantity with its unit.
    pub(super) title: String,
    /// The scale.
    pub(super) scale: Scale,
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// Linear, from zero.
    Linear,
    /// Linear, from the smallest value: for time.
    Span,
    /// Logarithmic.
    Log,
    /// Percentiles from 0, logarithmic in the distance from 100: the distance from 90 to 99 equals
    /// that from 99 to 99.9.
    Percentile,
}

/// The style of a line. Colour, dashes and marker shape belong together, so that colour is never
/// the only difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// One of the compared systems or figures.
    Number(usize),
    /// An ideal or reference value.
    Reference,
}

/// A line.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// The label; empty if another line with the same look has it.
    pub(super) label: String,
    /// The style.
    pub(super) look: Look,
    /// Its points.
    pub(super) points: Vec<(f64, f64)>,
    /// Points with a marker.
    pub(super) markers: Vec<(f64, f64)>,
    /// Points of invalid results.
    pub(super) doubtful: Vec<(f64, f64)>,
    /// The intervals of values: at `.0` from `.1` to `.2`.
    pub(super) intervals: Vec<(f64, f64, f64)>,
}

/// A bar.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    /// The label.
    pub(super) label: String,
    /// The style.
    pub(super) look: Look,
    /// The length.
    pub(super) value: f64,
    /// The interval of the value.
    pub(super) interval: Option<(f64, f64)>,
    /// True if the result is invalid.
    pub(super) doubtful: bool,
}

/// A highlighted value.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    /// The place.
    pub(super) place: Place,
    /// The label.
    pub(super) label: String,
}

/// The place of a [`Mark`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// At this value of the horizontal axis.
    X(f64),
    /// At this value of the vertical axis.
    Y(f64),
    /// At this point.
    Point(f64, f64),
}

impl Axis {
    /// Returns an axis.
    pub(super) fn new(title: impl Into<String>, scale: Scale) -> Self {
        Self { title: title.into(), scale }
    }
}

impl Line {
    /// Returns a line without markers.
    pub(super) fn plain(label: impl Into<String>, look: Look, points: Vec<(f64, f64)>) -> Self {
        Self {
            label: label.into(),
            look,
            points,
            markers: Vec::new(),
            doubtful: Vec::new(),
            intervals: Vec::new(),
        }
    }

    /// Returns a line with a marker at each point.
    pub(super) fn marked(label: impl Into<String>, look: Look, points: Vec<(f64, f64)>) -> Self {
        Self { markers: points.clone(), ..Self::plain(label, look, points) }
    }

    /// Returns markers without a line.
    pub(super) fn dots(label: impl Into<String>, look: Look, points: Vec<(f64, f64)>) -> Self {
        Self { markers: points, ..Self::plain(label, look, Vec::new()) }
    }
}

impl Chart {
    /// Returns an empty chart.
    pub(super) fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            x,
            y,
            lines: Vec::new(),
            bars: Vec::new(),
            is_stacked: false,
            marks: Vec::new(),
        }
    }

    /// Adds a line, if it has points. Points at or below zero on a logarithmic axis are removed.
    pub(super) fn line(&mut self, mut line: Line) {
        let (x, y) = (self.x.scale, self.y.scale);
        let has_place = |point: &(f64, f64)| x.has_place(point.0) && y.has_place(point.1);
        line.points.retain(has_place);
        line.markers.retain(has_place);
        line.doubtful.retain(has_place);
        line.intervals.retain(|&(at, low, high)| has_place(&(at, low)) && has_place(&(at, high)));
        if ![&line.points, &line.markers, &line.doubtful].iter().all(|points| points.is_empty()) {
            self.lines.push(line);
        }
    }

    /// Adds a group of bars, if there are any.
    pub(super) fn group(&mut self, name: impl Into<String>, mut bars: Vec<Bar>) {
        bars.retain(|bar| bar.value.is_finite());
        if !bars.is_empty() {
            self.bars.push((name.into(), bars));
        }
    }

    /// Highlights a value.
    pub(super) fn mark(&mut self, place: Place, label: impl Into<String>) {
        self.marks.push(Mark { place, label: label.into() });
    }

    /// Returns true if the chart is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.bars.is_empty()
    }

    /// Returns true if the chart shows no more than a table: nothing, or a single point per line.
    pub(super) fn is_trivial(&self) -> bool {
        let is_point = |line: &Line| {
            let all = || line.points.iter().chain(&line.markers).chain(&line.doubtful);
            let first = all().next();
            all().all(|point| Some(point) == first)
        };
        self.bars.is_empty() && self.lines.iter().all(is_point)
    }

    /// Returns the legend: a label for each look, and true if invalid results are drawn.
    pub(super) fn legend(&self) -> (Vec<(&str, Look)>, bool) {
        let lines = self.lines.iter().map(|line| (line.label.as_str(), line.look));
        let bars = self.bars.iter().flat_map(|(_, bars)| bars);
        let bars = bars.map(|bar| (bar.label.as_str(), bar.look));
        let mut legend: Vec<(&str, Look)> = Vec::new();
        for entry in lines.chain(bars).filter(|(label, _)| !label.is_empty()) {
            if !legend.contains(&entry) {
                legend.push(entry);
            }
        }
        let doubtful = self.lines.iter().any(|line| !line.doubtful.is_empty())
            || self.bars.iter().any(|(_, bars)| bars.iter().any(|bar| bar.doubtful));
        (legend, doubtful)
    }

    /// Returns the rulers of both axes, with room for all values.
    pub(super) fn rulers(&self) -> (Ruler, Ruler) {
        let (mut xs, mut ys) = (Vec::new(), Vec::new());
        for line in &self.lines {
            for &(x, y) in line.points.iter().chain(&line.markers).chain(&line.doubtful) {
                xs.push(x);
                ys.push(y);
            }
            for &(x, low, high) in &line.intervals {
                xs.push(x);
                ys.extend([low, high]);
            }
        }
        if self.is_stacked {
            let whole = |bars: &[Bar]| bars.iter().map(|bar| bar.value).sum();
            xs.extend(self.bars.iter().map(|(_, bars)| -> f64 { whole(bars) }));
        }
        for bar in self.bars.iter().flat_map(|(_, bars)| bars) {
            xs.push(bar.value);
            xs.extend(bar.interval.map(|(_, high)| high));
        }
        if !self.bars.is_empty() {
            ys.extend([0.0, self.bars.len() as f64]);
        }
        for mark in &self.marks {
            match mark.place {
                Place::X(x) => xs.push(x),
                Place::Y(y) => ys.push(y),
                Place::Point(x, y) => {
                    xs.push(x);
                    ys.push(y);
                }
            }
        }
        let y = if self.bars.is_empty() {
            Ruler::over(self.y.scale, &ys)
        } else {
            // The first group is at the top; the names are in place of ticks.
            Ruler { scale: Scale::Span, low: self.bars.len() as f64, high: 0.0, ticks: Vec::new() }
        };
        (Ruler::over(self.x.scale, &xs), y)
    }
}

impl Scale {
    /// Returns true if the scale can represent `value`.
    fn has_place(self, value: f64) -> bool {
        value.is_finite() && (self != Self::Log || value > 0.0)
    }

    /// Returns the position of `value` on an unbounded axis.
    fn position(self, value: f64) -> f64 {
        match self {
            Self::Linear | Self::Span => value,
            Self::Log => value.max(f64::MIN_POSITIVE).log10(),
            Self::Percentile => -(1.0 - value.min(PERCENTILE_MAX) / 100.0).log10(),
        }
    }
}

/// The end of a percentile axis.
const PERCENTILE_MAX: f64 = 99.9999;

/// The approximate number of ticks of a ruler.
const TICKS: f64 = 6.0;

/// An axis of a chart with its ends and ticks, for plotters.
#[derive(Clone, Debug)]
pub(super) struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    /// The values of the ticks.
    pub(super) ticks: Vec<f64>,
}

impl Ruler {
    /// Returns a ruler with room for all `values`.
    fn over(scale: Scale, values: &[f64]) -> Self {
        let values = values.iter().copied().filter(|&value| scale.has_place(value));
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let (low, high) = if low > high { (1.0, 1.0) } else { (low, high) };
        match scale {
            Scale::Linear => {
                let (low, high) = (low.min(0.0), if high > 0.0 { high } else { 1.0 });
                let step = step(high - low);
                let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
                Self { scale, low, high, ticks: ticks(low, high, step) }
            }
            Scale::Span => {
                let high = if high > low { high } else { low + 1.0 };
                Self { scale, low, high, ticks: ticks(low, high, step(high - low)) }
            }
            Scale::Log => Self::log(low, high),
            Scale::Percentile => {
                let ticks = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, PERCENTILE_MAX];
                let high = high.clamp(90.0, PERCENTILE_MAX);
                let ticks = ticks.into_iter().filter(|&tick| tick <= high + 1e-9).collect();
                Self { scale, low: 0.0, high, ticks }
            }
        }
    }

    /// Returns a logarithmic ruler whose ends are 1, 2 or 5 times a power of ten.
    fn log(low: f64, high: f64) -> Self {
        let first = low.log10().floor() as i32;
        let last = high.log10().ceil() as i32;
        let marks: Vec<f64> = (first..=last)
            .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)))
            .collect();
        // The tolerance keeps a value on a mark despite rounding.
        let begin = marks.iter().rposition(|&mark| mark <= low * 1.000_001).unwrap_or(0);
        let end = marks.iter().position(|&mark| mark >= high * 0.999_999);
        let end = end.unwrap_or(marks.len() - 1).max(begin + 1).min(marks.len() - 1);
        let begin = begin.min(end - 1);
        let (low, high) = (marks[begin], marks[end]);
        let mut ticks = marks[begin..=end].to_vec();
        if ticks.len() > 8 {
            let exact = |tick: &f64| (tick.log10() - tick.log10().round()).abs() < 1e-9;
            ticks.retain(exact);
            let every = ticks.len().div_ceil(8).max(1);
            ticks = ticks.into_iter().step_by(every).collect();
        }
        Self { scale: Scale::Log, low, high, ticks }
    }

    /// Returns the position of a value along the ruler, from 0 to 1.
    pub(super) fn share(&self, value: f64) -> f64 {
        let [low, high, at] = [self.low, self.high, value].map(|v| self.scale.position(v));
        ((at - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// Returns the label of a tick.
    pub(super) fn label(&self, value: f64) -> String {
        format::tick(value)
    }
}

/// Returns a step of 1, 2 or 5 times a power of ten that divides `width` into about [`TICKS`]
/// parts.
fn step(width: f64) -> f64 {
    let rough = (width / TICKS).max(1e-9);
    let power = 10f64.powf(rough.log10().floor());
    let digit = match rough / power {
        digit if digit <= 1.0 => 1.0,
        digit if digit <= 2.0 => 2.0,
        digit if digit <= 5.0 => 5.0,
        _ => 10.0,
    };
    digit * power
}

/// Returns the multiples of `step` from `low` to `high`.
fn ticks(low: f64, high: f64, step: f64) -> Vec<f64> {
    let first = (low / step - 1e-9).ceil();
    let count = ((high / step + 1e-9).floor() - first).clamp(0.0, 100.0) as u32;
    (0..=count).map(|index| (first + f64::from(index)) * step).collect()
}

impl Ranged for Ruler {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let (from, to) = (f64::from(limit.0), f64::from(limit.1));
        (from + self.share(*value) * (to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Ruler {
    fn format_ext(&self, value: &f64) -> String {
        self.label(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rulers_begin_and_end_at_round_values() {
        let ruler = Ruler::over(Scale::Linear, &[3.0, 17.3]);
        assert_eq!((ruler.low, ruler.high), (0.0, 20.0));
        assert_eq!(ruler.ticks, [0.0, 5.0, 10.0, 15.0, 20.0]);
        let ruler = Ruler::over(Scale::Log, &[0.3, 40.0]);
        assert_eq!((ruler.low, ruler.high), (0.2, 50.0));
        assert_eq!(ruler.ticks, [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        let ruler = Ruler::over(Scale::Log, &[0.001, 40_000.0]);
        assert_eq!(ruler.ticks, [0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        let ruler = Ruler::over(Scale::Percentile, &[0.0, 99.93]);
        assert_eq!(ruler.ticks, [0.0, 50.0, 90.0, 99.0, 99.9]);
    }

    #[test]
    fn rulers_stand_values_of_every_kind() {
        for scale in [Scale::Linear, Scale::Span, Scale::Log, Scale::Percentile] {
            for values in [&[][..], &[0.0], &[1.0], &[-5.0, 1e-300, 1e300], &[f64::NAN], &[7.0; 3]]
            {
                let ruler = Ruler::over(scale, values);
                for value in values {
                    let at = ruler.map(value, (0, 1000));
                    assert!((0..=1000).contains(&at), "{scale:?} {values:?}");
                }
                assert!(ruler.ticks.len() <= 101, "{scale:?} {values:?}");
            }
        }
    }

    #[test]
    fn percentiles_have_as_much_room_from_nine_to_nine() {
        let ruler = Ruler::over(Scale::Percentile, &[99.99]);
        let at = |percent| ruler.map(&percent, (0, 4000));
        assert_eq!([at(0.0), at(90.0), at(99.0), at(99.9), at(99.99)], [0, 1000, 2000, 3000, 4000]);
    }
}
