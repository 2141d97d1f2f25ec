//! The page of the figures of the source documents, with ours beside theirs.

use super::chart::{Axis, Bar, Chart, Line, Look, Place, Scale};
use super::document::{Block, Document, Section, Table};
use super::{ReportError, format};
use crate::series::{Key, Series, Value};
use std::path::Path;

/// A figure with all its series.
#[derive(Clone, Debug)]
pub(crate) struct Plate {
    pub(crate) heading: String,
    /// Paragraphs before the chart.
    pub(crate) texts: Vec<String>,
    /// The axes; that of values is `x` if the values have names.
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) log_x: bool,
    pub(crate) log_y: bool,
    /// Ours first, then those of the source.
    pub(crate) series: Vec<Series>,
    /// Highlighted values of the axes.
    pub(crate) marks: Vec<(f64, String)>,
    pub(crate) levels: Vec<(f64, String)>,
    /// True if the series of a name add up to a whole.
    pub(crate) is_stacked: bool,
}

/// The identifiers of the sections of documents, in links.
const IDS: [&str; 6] = ["a", "article", "b", "c", "d", "others"];

/// Writes the page of the sections, each with its title, as HTML or Markdown.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_seeds(
    about: &[String],
    defeats: &[String],
    sections: &[(String, Vec<Plate>)],
    path: &Path,
) -> Result<(), ReportError> {
    super::write_page(&document(about, defeats, sections), path)
}

fn document(about: &[String], defeats: &[String], plates: &[(String, Vec<Plate>)]) -> Document {
    let mut overview = Section::new(
        "overview",
        "Overview",
        "Each figure and table with results of the source documents, with our results beside theirs.",
    );
    about.iter().for_each(|text| overview.text(text));
    overview.heading("Figures of the sources that are better than ours");
    match defeats {
        [] => overview.text("None of those that have comparable numbers."),
        _ => overview.blocks.push(Block::List(defeats.to_vec())),
    }
    let mut sections = vec![overview];
    for ((title, plates), id) in plates.iter().zip(IDS) {
        let mut section = Section::new(id, title, "");
        for plate in plates {
            section.heading(&plate.heading);
            plate.texts.iter().for_each(|text| section.text(text));
            section.chart(chart(plate));
            section.table(table(plate));
        }
        sections.push(section);
    }
    Document { title: "The experiments of the source documents".to_owned(), sections }
}

fn is_named(plate: &Plate) -> bool {
    let mut keys = plate.series.iter().flat_map(|series| &series.values).map(|value| &value.key);
    keys.any(|key| matches!(key, Key::Name(_)))
}

const fn scale(is_log: bool) -> Scale {
    if is_log { Scale::Log } else { Scale::Linear }
}

fn chart(plate: &Plate) -> Chart {
    let axis = |title: &str, is_log| Axis::new(title, scale(is_log));
    let mut chart =
        Chart::new(&*plate.heading, axis(&plate.x, plate.log_x), axis(&plate.y, plate.log_y));
    if is_named(plate) {
        chart.is_stacked = plate.is_stacked;
        for name in keys(plate) {
            let Key::Name(text) = &name else { continue };
            let bar = |(number, series): (usize, &Series)| {
                let value = series.values.iter().find(|value| value.key == name)?;
                // A logarithmic axis has no place for zero.
                (!plate.log_x || value.value > 0.0).then(|| Bar {
                    label: series.name.clone(),
                    look: Look::Number(number),
                    value: value.value,
                    interval: value.range,
                    doubtful: value.is_doubtful,
                })
            };
            chart.group(text, plate.series.iter().enumerate().filter_map(bar).collect());
        }
        return chart;
    }
    for (number, series) in plate.series.iter().enumerate() {
        let point = |value: &Value| match value.key {
            Key::At(x) => Some((x, value.value)),
            Key::Name(_) => None,
        };
        let points: Vec<(f64, f64)> = series.values.iter().filter_map(point).collect();
        let mut line = Line::marked(&*series.name, Look::Number(number), points);
        let doubtful = series.values.iter().filter(|value| value.is_doubtful);
        line.doubtful = doubtful.filter_map(point).collect();
        line.intervals = series
            .values
            .iter()
            .filter_map(|value| Some((point(value)?.0, value.range?.0, value.range?.1)))
            .collect();
        chart.line(line);
    }
    if !chart.is_empty() {
        for (x, label) in &plate.marks {
            chart.mark(Place::X(*x), label);
        }
        for (y, label) in &plate.levels {
            chart.mark(Place::Y(*y), label);
        }
    }
    chart
}

/// Returns the places of all values, in order.
fn keys(plate: &Plate) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for value in plate.series.iter().flat_map(|series| &series.values) {
        if !keys.contains(&value.key) {
            keys.push(value.key.clone());
        }
    }
    if !is_named(plate) {
        let at = |key: &Key| if let Key::At(x) = key { *x } else { f64::NAN };
        keys.sort_by(|one, other| at(one).total_cmp(&at(other)));
    }
    keys
}

fn table(plate: &Plate) -> Table {
    let (first, unit) = if is_named(plate) { ("", &plate.x) } else { (&*plate.x, &plate.y) };
    let names = plate.series.iter().map(|series| format!("#{}", series.name));
    let columns: Vec<String> = std::iter::once(first.to_owned()).chain(names).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let caption = match unit.is_empty() {
        true => plate.heading.clone(),
        false => format!("{}, in {unit}", plate.heading),
    };
    let mut table = Table::new(caption, &columns);
    for key in keys(plate) {
        let name = match &key {
            Key::At(x) => format::tick(*x),
            Key::Name(name) => name.clone(),
        };
        let value = |series: &Series| series.values.iter().find(|value| value.key == key).cloned();
        let values: Vec<Option<Value>> = plate.series.iter().map(value).collect();
        let cell = |value: &Option<Value>| {
            let Some(Value { value, range, is_doubtful, is_open, .. }) = value else {
                return format::NONE.to_owned();
            };
            let range = range.map_or_else(String::new, |(low, high)| {
                format!(" ({} to {})", figure(low), figure(high))
            });
            let doubt = if *is_doubtful { ", not valid" } else { "" };
            let open = if *is_open { " or more" } else { "" };
            format!("{}{open}{range}{doubt}", figure(*value))
        };
        table.row(std::iter::once(name).chain(values.iter().map(cell)).collect());
    }
    table
}

/// Formats a value with three significant digits, also if it is small.
fn figure(value: f64) -> String {
    if value == 0.0 || value.abs() >= 0.0095 || !value.is_finite() {
        return format::figure(value);
    }
    let digits = (2.0 - value.abs().log10().floor()).clamp(0.0, 12.0) as usize;
    format!("{value:.digits$}").replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::named;

    #[test]
    fn a_figure_has_all_series_in_its_chart_and_its_table() {
        let at = |x, value| Value { is_doubtful: x > 1.0, ..Value::at(x, value) };
        let line = |name: &str, values| Series { name: name.to_owned(), values };
        let plate = Plate {
            heading: "Figure 1: delays".to_owned(),
            texts: Vec::new(),
            x: "users".to_owned(),
            y: "s".to_owned(),
            log_x: false,
            log_y: true,
            series: vec![
                line("ours", vec![at(1.0, 0.000_123), at(2.0, 0.5)]),
                line("theirs", vec![at(1.0, 7.0), at(3.0, 9.0)]),
            ],
            marks: vec![(2.5, "limit".to_owned())],
            levels: Vec::new(),
            is_stacked: false,
        };
        let chart = chart(&plate);
        assert_eq!((chart.lines.len(), chart.marks.len()), (2, 1));
        assert_eq!(chart.lines[0].doubtful, [(2.0, 0.5)]);
        let rows: Vec<Vec<String>> = table(&plate).rows.into_iter().map(|row| row.cells).collect();
        assert_eq!(
            rows,
            [
                ["1", "0.000123", "7.00"],
                ["2", "0.500, not valid", format::NONE],
                ["3", format::NONE, "9.00, not valid"],
            ]
        );
        let bars = |name, values: [(&str, f64); 2]| named(name, values);
        let series = vec![
            bars("0 to 30 ms", [("barebell", 75.0), ("kamailio", 50.0)]),
            bars("more", [("barebell", 25.0), ("kamailio", 50.0)]),
        ];
        let plate = Plate { series, is_stacked: true, log_y: false, ..plate };
        let chart = self::chart(&plate);
        assert_eq!(chart.bars.len(), 2);
        assert!(chart.is_stacked && chart.rulers().0.ticks.contains(&100.0));
    }
}
