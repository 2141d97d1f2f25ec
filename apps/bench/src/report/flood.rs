//! The report of a flood of forged packets.

use super::chart::{Axis, Chart, Line, Look, Scale};
use super::document::{Block, Document, Section, Table, Verdict};
use super::{ReportError, markdown};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The results of floods against one protection of packets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FloodLine {
    /// The protection.
    pub(crate) name: String,
    /// The points by rising rate.
    pub(crate) points: Vec<FloodPoint>,
}

/// The result of a flood.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FloodPoint {
    /// Forged packets per second.
    pub(crate) forged_rate: f64,
    /// The share of legitimate packets that were lost.
    pub(crate) lost: f64,
    /// The receiver's share of a processor.
    pub(crate) busy: f64,
    /// Its CPU time per received packet, in nanoseconds.
    pub(crate) nanos: f64,
    /// The reason why the figures may show the sender and not the receiver, if there is one.
    pub(crate) doubt: Option<String>,
}

/// The share of lost legitimate packets above which losses are no coincidence.
const LOSS: f64 = 0.001;

fn document(about: &str, lines: &[FloodLine]) -> Document {
    let title = "A flood of forged SRTP packets".to_owned();
    let mut losses = Section::new(
        "losses",
        "Legitimate packets lost",
        "Where a line leaves the bottom, the receiver has no time left for packets that are not forged.",
    );
    losses.text(about);
    losses.blocks.extend(doubts(lines).map(Block::Verdict));
    let axis = || Axis::new("forged packets a second", Scale::Linear);
    let mut lost = Chart::new("Legitimate packets lost", axis(), Axis::new("%", Scale::Linear));
    let mut busy =
        Chart::new("CPU of the receiver", axis(), Axis::new("% of a processor", Scale::Linear));
    for (number, line) in lines.iter().enumerate() {
        let look = if number == 0 { Look::Reference } else { Look::Number(number - 1) };
        let points = |figure: fn(&FloodPoint) -> f64| {
            line.points.iter().map(|point| (point.forged_rate, 100.0 * figure(point))).collect()
        };
        lost.line(Line::marked(&*line.name, look, points(|point| point.lost)));
        busy.line(Line::marked(&*line.name, look, points(|point| point.busy)));
    }
    losses.chart(lost);
    losses.chart(busy);
    losses.table(first_losses(lines));

    let mut figures = Section::new("figures", "All figures", "Rates are sending rates.");
    for line in lines {
        let columns =
            ["#forged a second", "#lost, %", "#CPU of the receiver, %", "#CPU for a packet, ns"];
        let mut table = Table::new(&*line.name, &columns);
        for point in &line.points {
            table.row_doubtful(
                point.doubt.is_some(),
                vec![
                    format!("{:.0}", point.forged_rate),
                    format!("{:.2}", 100.0 * point.lost),
                    format!("{:.0}", 100.0 * point.busy),
                    format!("{:.0}", point.nanos),
                ],
            );
        }
        figures.table(table);
    }
    Document { title, sections: vec![losses, figures] }
}

/// Returns the verdict about floods that were limited by the sender.
fn doubts(lines: &[FloodLine]) -> Option<Verdict> {
    let of_line = |line: &FloodLine| {
        let doubtful = line.points.iter().filter_map(|point| Some((point, point.doubt.as_ref()?)));
        let name = &line.name;
        doubtful
            .map(|(point, doubt)| {
                format!("{name}, {:.0} forged a second: {doubt}", point.forged_rate)
            })
            .collect::<Vec<_>>()
    };
    let reasons: Vec<String> = lines.iter().flat_map(of_line).collect();
    (!reasons.is_empty()).then(|| Verdict {
        good: false,
        title: "NOT VALID IN PART: some floods show the sender, not the receiver".to_owned(),
        text: "They are marked in the tables, and where losses begin is taken from the others."
            .to_owned(),
        reasons,
    })
}

/// Returns the lowest rate with losses for each protection.
fn first_losses(lines: &[FloodLine]) -> Table {
    let columns = [
        "protection",
        "#without loss, forged a second",
        "#lost from, forged a second",
        "#CPU for a packet there, ns",
    ];
    let mut table =
        Table::new("Where a thousandth of the legitimate packets begins to be lost", &columns);
    for line in lines {
        // Floods that were limited by the sender tell nothing about the receiver.
        let valid = line.points.iter().filter(|point| point.doubt.is_none());
        let valid: Vec<&FloodPoint> = valid.collect();
        let first = valid.iter().position(|point| point.lost > LOSS);
        let without = valid[..first.unwrap_or(valid.len())].last().copied();
        let at = first.map(|first| valid[first]);
        let figure = |point: Option<&FloodPoint>, figure: fn(&FloodPoint) -> f64| {
            point.map_or_else(|| "-".to_owned(), |point| format!("{:.0}", figure(point)))
        };
        table.row(vec![
            line.name.clone(),
            figure(without, |point| point.forged_rate),
            figure(at, |point| point.forged_rate),
            figure(at.or(without), |point| point.nanos),
        ]);
    }
    table
}

/// Returns the report as Markdown.
pub(crate) fn flood_markdown(about: &str, lines: &[FloodLine]) -> String {
    markdown::text(&document(about, lines))
}

/// Checks that a report of floods can be written to this file.
///
/// # Errors
/// As of [`write_flood`].
pub(crate) fn check_flood(path: &Path) -> Result<(), ReportError> {
    if is_record(path) { super::check_writable(path) } else { super::check_page(path) }
}

/// Writes the report in the form of the file's suffix: `.html` or `.md`, or `.json` for the figures
/// alone.
///
/// # Errors
/// The suffix is another one, or the file cannot be written.
pub(crate) fn write_flood(
    about: &str,
    lines: &[FloodLine],
    path: &Path,
) -> Result<(), ReportError> {
    if !is_record(path) {
        return super::write_page(&document(about, lines), path);
    }
    let text = serde_json::to_string_pretty(lines).expect("the figures have a JSON form") + "\n";
    fs::write(path, text).map_err(|error| ReportError::Write(path.to_owned(), error))
}

fn is_record(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_loss_is_pointed_out() {
        let point = |forged_rate, lost| FloodPoint {
            forged_rate,
            lost,
            busy: 0.5,
            nanos: 250.0,
            doubt: None,
        };
        let late =
            FloodPoint { doubt: Some("the sender was late".to_owned()), ..point(500.0, 0.9) };
        let points = vec![late, point(1000.0, 0.0), point(2000.0, 0.0005), point(3000.0, 0.2)];
        let lines = [
            FloodLine { name: "loses".to_owned(), points },
            FloodLine { name: "loses nothing".to_owned(), points: vec![point(1000.0, 0.0)] },
        ];
        let text = flood_markdown("a suite", &lines);
        assert!(text.contains("loses, 500 forged a second: the sender was late"), "{text}");
        let (_, text) = text.split_once("begins to be lost").unwrap();
        let row = |name: &str| {
            let row = text.lines().find(|line| line.contains(&format!("| {name} |"))).unwrap();
            row.split('|').map(str::trim).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("loses")[2..5], ["2000", "3000", "250"]);
        assert_eq!(row("loses nothing")[2..5], ["1000", "-", "250"]);

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flood.html");
        write_flood("a suite", &lines, &path).unwrap();
        assert!(fs::read_to_string(&path).unwrap().matches("<svg").count() >= 2);
        let path = folder.path().join("flood.json");
        write_flood("a suite", &lines, &path).unwrap();
        let read: Vec<FloodLine> = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(read[0].points[3].forged_rate, 3000.0);
        let error = write_flood("a suite", &lines, &folder.path().join("flood.csv")).unwrap_err();
        assert!(error.to_string().contains(".html or .md"), "{error}");
    }
}
