//! The page of `seeds`, and its figures for other programs.

use super::super::error::CommandError;
use crate::record::Record;
use crate::report::{self, Plate};
use crate::seeds::ours::{self, Found, Results};
use crate::seeds::source::{Figure, Numbers, Source};
use crate::series::{Series, Value};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// The difference of the short form to the measurements of the sources.
const SHORT_FORM: &str = "This page is of the short form: fewer steps and shorter times than those of the sources, \
    and one run where they have the mean of several. --full has their loads and times.";

/// A figure for other programs.
#[derive(Debug, Serialize)]
struct Entry<'a> {
    id: &'a str,
    title: &'a str,
    x: &'a str,
    y: &'a str,
    records: &'a [String],
    ours: &'a [Series],
    source: &'a [Series],
}

/// Writes the page as HTML and as Markdown, and the figures as JSON. Returns the paths.
///
/// # Errors
/// [`CommandError`] if a file cannot be written.
pub(super) fn write(
    source: &Source,
    results: &Results,
    absent: &[String],
    is_full: bool,
    folder: &Path,
) -> Result<Vec<PathBuf>, CommandError> {
    let mut sections = Vec::new();
    let mut entries = Vec::new();
    let mut defeats = Vec::new();
    for document in &source.documents {
        let mut plates = Vec::new();
        for figure in source.figures.iter().filter(|figure| figure.document == document.id) {
            let own = ours::series(figure, results);
            let theirs: Vec<Series> = figure.series.iter().map(of_source).collect();
            defeats.extend(figure.defeats(&own, &theirs));
            plates.push(plate(figure, &own, &theirs, results));
            entries.push((figure, own, theirs));
        }
        sections.push((format!("{}: {}", document.row, document.title), plates));
    }
    let mut about = about(source, results);
    if !is_full {
        about.push(SHORT_FORM.to_owned());
    }
    if !absent.is_empty() {
        about.push(format!("Missing: {}.", absent.join("; ")));
    }
    let paths: Vec<PathBuf> =
        ["seeds.html", "seeds.md", "seeds.json"].iter().map(|name| folder.join(name)).collect();
    for path in &paths[..2] {
        report::write_seeds(&about, &defeats, &sections, path)?;
    }
    let entries: Vec<Entry<'_>> = entries
        .iter()
        .map(|(figure, ours, source)| Entry {
            id: &figure.id,
            title: &figure.title,
            x: &figure.x,
            y: &figure.y,
            records: &figure.records,
            ours,
            source,
        })
        .collect();
    let text = serde_json::to_string_pretty(&entries).expect("figures have a JSON form") + "\n";
    fs::write(&paths[2], text).map_err(|error| CommandError::Seeds(paths[2].clone(), error))?;
    Ok(paths)
}

/// Returns the paragraphs about the systems, the machine and the extent.
fn about(source: &Source, results: &Results) -> Vec<String> {
    let records: Vec<&Record> = results
        .values()
        .filter_map(|found| match found {
            Found::Record(record) => Some(&**record),
            _ => None,
        })
        .collect();
    let mut about = Vec::new();
    let is_ours = |figure: &&Figure| !ours::series(figure, results).is_empty();
    about.push(format!(
        "{} of {} figures and tables have results of ours. Each names its record in this folder; the record of a command \
         has its command line. Numbers of the sources are those that their texts give; most of their charts have none.",
        source.figures.iter().filter(is_ours).count(),
        source.figures.len()
    ));
    let troubles = results.iter().filter_map(|(name, found)| match found {
        Found::Record(record) if !record.trouble.is_empty() => {
            Some(format!("{name}.json ({})", record.trouble))
        }
        _ => None,
    });
    let troubles: Vec<String> = troubles.collect();
    if !troubles.is_empty() {
        about.push(format!("Not complete: {}.", troubles.join("; ")));
    }
    let documents = source.documents.iter();
    let documents = documents.map(|it| format!("{} is {}: {}", it.id, it.row, it.title));
    about.push(format!("In the list below {}.", documents.collect::<Vec<_>>().join("; ")));
    if let Some(record) = records.first() {
        let machine = &record.machine;
        about.push(format!(
            "Machine: {}, {} processors, {}. The load generator shares them with the servers.",
            machine.cpu, machine.cores, machine.system
        ));
    }
    let mut systems: Vec<String> = Vec::new();
    for system in records.iter().flat_map(|record| &record.systems) {
        let version = system.version.as_deref().unwrap_or("unknown version");
        let text = format!("{} ({version})", system.name);
        if !systems.contains(&text) {
            systems.push(text);
        }
    }
    if !systems.is_empty() {
        about.push(format!("Systems: {}.", systems.join(", ")));
    }
    about
}

fn of_source(numbers: &Numbers) -> Series {
    let point = |point: &Vec<f64>| Value {
        range: (point.len() == 4).then(|| (point[2], point[3])),
        ..Value::at(point[0], point[1])
    };
    let bar = |(name, value): &(String, f64)| Value::of(name, *value);
    let points = numbers.points.iter().map(point);
    let name = match &numbers.name[..] {
        "source" => "source".to_owned(),
        name => format!("{name} (source)"),
    };
    Series { name, values: points.chain(numbers.bars.iter().map(bar)).collect() }
}

fn plate(figure: &Figure, own: &[Series], theirs: &[Series], results: &Results) -> Plate {
    let mut texts = vec![format!(
        "{}{}.{}{}",
        figure.place,
        figure.same.as_ref().map_or_else(String::new, |same| format!("; the same as {same}")),
        if figure.reading.is_empty() { "" } else { " " },
        figure.reading
    )];
    let marks = figure.marks.iter().map(|(x, label)| format!("{label}: {x} {}", figure.x));
    let levels = figure.levels.iter().map(|(y, label)| format!("{label}: {y}"));
    let single: Vec<String> = marks.chain(levels).collect();
    if !single.is_empty() {
        texts.push(format!("Of the source: {}.", single.join("; ")));
    }
    let there = figure.records.iter().filter(|record| results.contains_key(*record));
    let there: Vec<String> = there.map(|record| format!("{record}.json")).collect();
    texts.push(match (&figure.missing, own.is_empty()) {
        (Some(reason), _) => format!("Not measured: {reason}."),
        (None, true) => format!(
            "Not measured: no {}.json with this figure here.",
            figure.records.join(".json or ")
        ),
        (None, false) => format!("Ours: {}.", there.join(", ")),
    });
    let doubts = own.iter().flat_map(|series| &series.values).filter(|value| value.is_doubtful);
    if doubts.count() > 0 {
        texts.push(
            "Values that are not valid are marked; the report of the record has the reasons."
                .to_owned(),
        );
    }
    Plate {
        heading: format!("{}: {}", figure.name, figure.title),
        texts,
        x: figure.x.clone(),
        y: figure.y.clone(),
        log_x: figure.log_x,
        log_y: figure.log_y,
        series: own.iter().chain(theirs).cloned().collect(),
        marks: figure.marks.clone(),
        levels: figure.levels.clone(),
        is_stacked: figure.measure.as_deref() == Some("bands"),
    }
}
