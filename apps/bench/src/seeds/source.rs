//! The numbers of the source documents. `source.toml` is the only place that has them.

use crate::series::{Key, Series, Value};
use serde::Deserialize;
use std::fmt::Write as _;

/// The data file.
const TEXT: &str = include_str!("source.toml");

/// The beginnings of the names of our series.
const OURS: [&str; 2] = ["barebell", "here"];
/// The beginnings of the names of our values that are compared whatever their names.
const THIS: [&str; 2] = ["barebell", "this machine"];

/// The source documents with their figures.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Source {
    #[serde(rename = "document")]
    pub(crate) documents: Vec<Document>,
    #[serde(rename = "figure")]
    pub(crate) figures: Vec<Figure>,
    /// The content of docs/sources.md.
    pub(super) sources: Head,
    #[serde(rename = "section")]
    pub(super) sections: Vec<Section>,
    #[serde(rename = "row")]
    pub(super) rows: Vec<Row>,
    #[serde(rename = "error")]
    pub(super) errors: Vec<SourceError>,
}

/// The beginning of docs/sources.md.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    pub(super) head: String,
}

/// A section of docs/sources.md.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    /// The letter of its rows.
    pub(super) row: String,
    pub(super) title: String,
    #[serde(default)]
    pub(super) text: String,
}

/// A row of docs/sources.md.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) id: String,
    /// The subject in the document.
    pub(super) text: String,
    /// Its place here.
    pub(super) place: String,
}

/// An error of a document.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SourceError {
    pub(super) place: String,
    pub(super) text: String,
    /// The value used here.
    pub(super) value: String,
}

/// A source document.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Document {
    pub(crate) id: String,
    /// The letter of its rows in docs/sources.md.
    pub(crate) row: String,
    pub(crate) title: String,
}

/// A figure or table with results.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Figure {
    pub(crate) id: String,
    /// The document that has it.
    pub(crate) document: String,
    /// Its name in the document, and its page or section.
    pub(crate) name: String,
    pub(crate) place: String,
    pub(crate) title: String,
    /// The figure of another document that has the same results.
    pub(crate) same: Option<String>,
    /// The part that measures it, the name of its derivation from records, and the records.
    pub(crate) part: Option<String>,
    pub(crate) measure: Option<String>,
    #[serde(default)]
    pub(crate) records: Vec<String>,
    /// The reason why no part measures it.
    pub(crate) missing: Option<String>,
    /// The better direction of the value, if there is one.
    pub(crate) better: Option<Better>,
    /// True if ours are compared with the best of the source, whatever their names.
    #[serde(default)]
    pub(crate) across: bool,
    /// The value of the source that is better than ours, with its cause as far as that is known.
    pub(super) defeat: Option<String>,
    /// The axes with their units: `x` is that of values if the series have bars.
    #[serde(default)]
    pub(crate) x: String,
    #[serde(default)]
    pub(crate) y: String,
    #[serde(default)]
    pub(crate) log_x: bool,
    #[serde(default)]
    pub(crate) log_y: bool,
    /// The content of the text about the figure, and differences in the definition of ours.
    #[serde(default)]
    pub(crate) reading: String,
    /// Highlighted values of the horizontal and of the vertical axis.
    #[serde(default)]
    pub(crate) marks: Vec<(f64, String)>,
    #[serde(default)]
    pub(crate) levels: Vec<(f64, String)>,
    #[serde(default)]
    pub(crate) series: Vec<Numbers>,
}

/// The better direction of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    Less,
    More,
}

/// The numbers of one series.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Numbers {
    pub(crate) name: String,
    /// `[x, y]`, or `[x, mean, minimum, maximum]`.
    #[serde(default)]
    pub(crate) points: Vec<Vec<f64>>,
    #[serde(default)]
    pub(crate) bars: Vec<(String, f64)>,
}

impl Source {
    /// Returns the content of the data file.
    pub(crate) fn read() -> Self {
        toml::from_str(TEXT).expect("a test reads the data file")
    }

    /// Returns all numbers as the page docs/benchmarks/seeds.md.
    pub(crate) fn page(&self) -> String {
        let mut text = String::from(
            "# Numbers of the source documents\n\n\
             Each figure and table with results of the [source documents](../sources.md), with the numbers that their texts give, \
             and the part of\n`barebell-bench seeds` that makes it anew (`barebell-bench seeds --numbers` prints this page). \
             Most charts of the sources have no numbers.\n",
        );
        for document in &self.documents {
            let figures = self.figures.iter().filter(|figure| figure.document == document.id);
            let _ = write!(
                text,
                "\n## {}: {}\n\n| figure | place | subject | part | numbers of the source |\n| --- | --- | --- | --- | --- |\n",
                document.row, document.title
            );
            for figure in figures {
                let same = figure.same.as_ref().map_or_else(String::new, |same| {
                    format!(" ({})", same.replace("001 ", "in the article "))
                });
                let _ = writeln!(
                    text,
                    "| {}{same} | {} | {} | {} | {} |",
                    figure.name,
                    figure.place,
                    figure.title,
                    figure.part.as_deref().unwrap_or("-"),
                    figure.numbers(),
                );
            }
        }
        text
    }
}

impl Figure {
    /// Returns the values of the source that are better than ours at the same place, in words. Of
    /// several systems or machines of a source the best counts; other systems than Barebell are not
    /// ours.
    pub(crate) fn defeats(&self, ours: &[Series], theirs: &[Series]) -> Vec<String> {
        let Some(better) = self.better else { return Vec::new() };
        let is_better = |one: f64, other: f64| match better {
            Better::Less => one < other,
            Better::More => one > other,
        };
        let is_ours = |series: &&Series| OURS.iter().any(|name| series.name.starts_with(name));
        let mut defeats = Vec::new();
        for series in ours.iter().filter(is_ours) {
            // A limit that was not reached is not beaten by a higher one.
            let reached = |value: &&Value| !(value.is_open && better == Better::More);
            for value in series.values.iter().filter(reached) {
                let same = theirs.iter().flat_map(|series| &series.values);
                let is_same = |theirs: &&Value| match &value.key {
                    Key::Name(name) if self.across => {
                        THIS.iter().any(|this| name.starts_with(this))
                    }
                    key => theirs.key == *key,
                };
                let same = same.filter(is_same).map(|it| it.value);
                let best =
                    same.reduce(|one, other| if is_better(other, one) { other } else { one });
                let Some(best) = best.filter(|&best| is_better(best, value.value)) else {
                    continue;
                };
                let place = match &value.key {
                    Key::At(x) => format!("{x} {}", self.x),
                    Key::Name(name) => name.clone(),
                };
                let (document, name, unit) = (&self.document, &self.name, self.unit());
                let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
                let doubt = if value.is_doubtful { ", not valid" } else { "" };
                let (best, own) = (short(best), short(value.value));
                defeats.push(format!(
                    "{document} {name}, {place}: {best} against {own}{unit} ({}{doubt})",
                    series.name
                ));
            }
        }
        defeats
    }

    /// Returns the unit of the values.
    fn unit(&self) -> &str {
        let has_bars = self.series.iter().any(|series| !series.bars.is_empty());
        if has_bars || self.y.is_empty() { &self.x } else { &self.y }
    }

    /// Returns the numbers in words.
    fn numbers(&self) -> String {
        let unit = self.unit();
        let series = self.series.iter().map(|series| {
            let points = series.points.iter().map(|point| match point[..] {
                [x, mean, low, high] => format!("{x}: {mean} ({low} to {high})"),
                _ => format!("{}: {}", point[0], point[1]),
            });
            let bars = series.bars.iter().map(|(name, value)| format!("{name} {value}"));
            let numbers: Vec<String> = points.chain(bars).collect();
            format!("{}: {}", series.name, numbers.join("; "))
        });
        let marks = self.marks.iter().map(|(x, label)| format!("{label}: {x} {}", self.x));
        let levels = self.levels.iter().map(|(y, label)| format!("{label}: {y}"));
        let mut all: Vec<String> = series.chain(levels).chain(marks).collect();
        if !self.series.is_empty() && !unit.is_empty() {
            all[0].insert_str(0, &format!("({unit}) "));
        }
        let text = all.join(". ");
        match (text.is_empty(), self.reading.is_empty()) {
            (true, _) => self.reading.clone(),
            (false, true) => text,
            (false, false) => format!("{text}. {}", self.reading),
        }
    }
}

/// Returns a number with three decimal places at most.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    // A smaller one stays as it is.
    match value != 0.0 && text.trim_matches(['0', '.']).is_empty() {
        true => value.to_string(),
        false => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::ours;
    use crate::seeds::part::Part;
    use std::collections::BTreeSet;
    use std::fs;

    /// The figures and tables with results of the documents (docs/sources.md): the first and the
    /// last number of each range.
    const RESULTS: [(&str, &str, u32, u32); 9] = [
        ("000", "Figure", 11, 29),
        ("000", "Figure", 31, 46),
        ("002", "Table", 2, 3),
        ("002", "Figure", 8, 8),
        ("003", "Table", 3, 6),
        ("003", "Table", 8, 12),
        ("004", "Figure", 7, 18),
        ("004", "Figure", 20, 21),
        ("004", "Table", 1, 1),
    ];

    #[test]
    fn each_result_of_the_sources_is_measured_or_has_a_reason() {
        let source = Source::read();
        for (document, kind, first, last) in RESULTS {
            for number in first..=last {
                let name = format!("{kind} {number}");
                let is_it = |figure: &&Figure| {
                    let rest = figure.name.strip_prefix(&name);
                    figure.document == document
                        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
                };
                assert!(source.figures.iter().any(|figure| is_it(&figure)), "{document} {name}");
            }
        }
        for figure in ["Figure 12a", "Figure 12b"] {
            assert!(source.figures.iter().any(|it| it.document == "001" && it.name == figure));
        }
        let mut ids = BTreeSet::new();
        for figure in &source.figures {
            let id = &figure.id;
            assert!(ids.insert(id), "{id} twice");
            assert!(source.documents.iter().any(|document| document.id == figure.document), "{id}");
            assert!(
                figure.reading.len() + figure.series.len() > 0,
                "{id}: neither text nor numbers"
            );
            match (&figure.part, &figure.missing) {
                (Some(part), None) => {
                    let part = Part::ALL.into_iter().find(|known| known.name() == part);
                    let part = part.unwrap_or_else(|| panic!("{id}: no such part"));
                    let records = part.records();
                    for record in &figure.records {
                        assert!(records.contains(record), "{id}: no record {record}");
                    }
                    assert!(ours::knows(figure.measure.as_deref().unwrap()), "{id}");
                }
                (None, Some(reason)) => assert!(!reason.is_empty(), "{id}"),
                _ => panic!("{id}: expected a part or a reason"),
            }
            for point in figure.series.iter().flat_map(|series| &series.points) {
                assert!(matches!(point.len(), 2 | 4), "{id}: {point:?}");
            }
        }
        for part in Part::ALL {
            let has_figure =
                source.figures.iter().any(|figure| figure.part.as_deref() == Some(part.name()));
            assert!(has_figure, "{}", part.name());
        }
    }

    #[test]
    fn sums_of_table_12_are_those_of_the_tables_of_losses() {
        let source = Source::read();
        let sum = |id: &str| {
            let figure = source.figures.iter().find(|figure| figure.id == id).unwrap();
            figure.series[0].points.iter().map(|point| point[1]).sum::<f64>()
        };
        let totals = source.figures.iter().find(|figure| figure.id == "003-T12").unwrap();
        let tables = ["003-T6", "003-T11"];
        let columns = ["registrations", "invites", "calls"];
        let ids = tables.iter().flat_map(|table| columns.map(|column| format!("{table}-{column}")));
        for ((name, total), id) in totals.series[0].bars.iter().zip(ids) {
            // The source rounds up, or down, or reads otherwise by one.
            assert!((total - sum(&id)).abs() < 1.2, "{name}: {total}, {id}: {}", sum(&id));
        }
    }

    #[test]
    fn figures_of_the_sources_that_are_better_are_named() {
        let source = Source::read();
        let figure = |id: &str| source.figures.iter().find(|figure| figure.id == id).unwrap();
        let value = |key, value| Value { key, ..Value::at(0.0, value) };
        let series = |name: &str, values| vec![Series { name: name.to_owned(), values }];
        let at = |x, y| value(Key::At(x), y);
        let named = |name: &str, it| value(Key::Name(name.to_owned()), it);

        // Less is better, at the same place.
        let theirs = series("OpenSIPS", vec![at(1.0, 0.1), at(10.0, 0.2)]);
        let ours = series("barebell", vec![at(1.0, 0.05), at(10.0, 0.3), at(50.0, 9.0)]);
        let defeats = figure("003-T3").defeats(&ours, &theirs);
        assert_eq!(defeats, ["003 Table 3, Figure 12, 10 users: 0.2 against 0.3 s (barebell)",]);
        let rival = series("kamailio", vec![at(10.0, 0.3)]);
        assert!(figure("003-T3").defeats(&rival, &theirs).is_empty());

        // More is better, against the best of all names.
        let theirs = series("source", vec![named("bare PC", 0.496), named("Brekeke", -0.7)]);
        let ours = |it| series("here", vec![named("barebell", it), named("kamailio", -1.0)]);
        assert!(figure("000-IV.F-coefficient").defeats(&ours(0.55), &theirs).is_empty());
        assert_eq!(figure("000-IV.F-coefficient").defeats(&ours(0.4), &theirs).len(), 1);

        // Of a limit that was not reached the highest step is no defeat.
        let theirs = series("OpenSIPS", vec![named("CPU", 1600.0)]);
        let mut ours = series("barebell", vec![named("CPU", 1000.0)]);
        assert_eq!(figure("004-T1-proxy").defeats(&ours, &theirs).len(), 1);
        ours[0].values[0].is_open = true;
        assert!(figure("004-T1-proxy").defeats(&ours, &theirs).is_empty());
    }

    #[test]
    fn the_page_of_the_numbers_is_made_from_the_data_file() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/benchmarks/seeds.md");
        let page = Source::read().page();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(path, &page).unwrap();
        }
        let told = fs::read_to_string(path).unwrap();
        assert!(told == page, "run this test with UPDATE_DOCS=1");
    }

    #[test]
    fn the_page_of_the_rows_is_made_from_the_data_file() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sources.md");
        let page = Source::read().sources_page();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(path, &page).unwrap();
        }
        let told = fs::read_to_string(path).unwrap();
        assert!(told == page, "change source.toml, then run this test with UPDATE_DOCS=1");
    }

    #[test]
    fn each_row_has_a_section_and_defeats_are_of_figures_with_a_better_direction() {
        let source = Source::read();
        for row in &source.rows {
            assert!(source.sections.iter().any(|part| row.id.starts_with(&part.row)), "{row:?}");
        }
        let mut ids: Vec<&str> = source.rows.iter().map(|row| &row.id[..]).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), source.rows.len());
        for figure in source.figures.iter().filter(|figure| figure.defeat.is_some()) {
            assert!(figure.better.is_some(), "{}", figure.id);
        }
    }
}
