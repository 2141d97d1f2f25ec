//! Reports of records, for readers and for programs.
//!
//! [`content`] assembles a report from any number of records. It is written as an HTML page or as
//! Markdown with the same content. CSV and JUnit XML are for other programs. JSON is the records
//! themselves, from which every other form can be made later.

mod capture;
mod chart;
mod content;
mod csv;
mod document;
mod draw;
mod flood;
mod format;
mod groups;
mod html;
mod junit;
mod ladder;
mod live;
mod markdown;
mod scenario;
mod seeds;
#[cfg(test)]
mod tests;

pub(crate) use self::capture::write_capture;
pub(crate) use self::csv::csv;
pub(crate) use self::flood::{FloodLine, FloodPoint, check_flood, flood_markdown, write_flood};
pub(crate) use self::junit::junit;
pub(crate) use self::live::{live_content, live_page};
pub(crate) use self::scenario::{check_scenario, scenario_json, write_scenario};
pub(crate) use self::seeds::{Plate, write_seeds};

use crate::record::{FORMAT, Record};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// An error of reading or writing a report or a record.
#[derive(Debug)]
pub(crate) enum ReportError {
    /// The file cannot be read.
    Read(PathBuf, io::Error),
    /// The file cannot be written.
    Write(PathBuf, io::Error),
    /// The file is not a record.
    Json(PathBuf, serde_json::Error),
    /// The file has no records.
    Empty(PathBuf),
    /// The file has this format, which a later version of the program wrote.
    TooNew(PathBuf, u64),
    /// The suffix of the file is unknown.
    Form(PathBuf),
    /// The suffix is neither that of a page nor that of Markdown, and the report has no other form.
    PageForm(PathBuf),
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "{} cannot be read: {error}", path.display()),
            Self::Write(path, error) => write!(f, "{} cannot be written: {error}", path.display()),
            Self::Json(path, error) => write!(
                f,
                "{}: expected a record as barebell-bench writes it to a .json file: {error}",
                path.display()
            ),
            Self::Empty(path) => {
                write!(f, "{}: expected a record, and there is none", path.display())
            }
            Self::TooNew(path, format) => write!(
                f,
                "{} is of format {format}, and this program knows formats up to {FORMAT}: use the \
                 barebell-bench that wrote it, or a later one",
                path.display()
            ),
            Self::Form(path) => write!(
                f,
                "{}: expected a name that ends with .html, .md, .csv, .json or .xml, which tells the form",
                path.display()
            ),
            Self::PageForm(path) => write!(
                f,
                "{}: expected a name that ends with .html or .md, which tells the form",
                path.display()
            ),
        }
    }
}

impl std::error::Error for ReportError {}

/// The format number, which is checked first: the rest of a later format may differ.
#[derive(Deserialize)]
struct Header {
    format: u64,
}

/// Reads the records in a JSON file: one, or an array as [`write()`] makes it of several.
///
/// # Errors
/// The file cannot be read, is not a record, or has a later format.
pub(crate) fn read(path: &Path) -> Result<Vec<Record>, ReportError> {
    let text = fs::read(path).map_err(|error| ReportError::Read(path.to_owned(), error))?;
    let is_array = text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let headers: Vec<Header> = parse(&text, is_array).map_err(|error| json_error(path, error))?;
    if let Some(header) = headers.iter().find(|header| header.format > u64::from(FORMAT)) {
        return Err(ReportError::TooNew(path.to_owned(), header.format));
    }
    if headers.is_empty() {
        return Err(ReportError::Empty(path.to_owned()));
    }
    parse(&text, is_array).map_err(|error| json_error(path, error))
}

fn parse<T: DeserializeOwned>(text: &[u8], is_array: bool) -> serde_json::Result<Vec<T>> {
    if is_array { serde_json::from_slice(text) } else { Ok(vec![serde_json::from_slice(text)?]) }
}

fn json_error(path: &Path, error: serde_json::Error) -> ReportError {
    ReportError::Json(path.to_owned(), error)
}

/// Writes records to a file in the form of its suffix: `.html`, `.md`, `.csv`, `.json` (an array
/// for several records) or `.xml` (JUnit).
///
/// # Errors
/// The suffix is unknown, or the file cannot be written.
pub(crate) fn write(records: &[Record], path: &Path) -> Result<(), ReportError> {
    let text = form(path)?(records);
    fs::write(path, text).map_err(|error| ReportError::Write(path.to_owned(), error))
}

/// Checks that a report without a form for programs can be written to this file, before a long
/// measurement.
///
/// # Errors
/// The suffix is unsupported, or the file cannot be created.
pub(crate) fn check_page(path: &Path) -> Result<(), ReportError> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html" | "md") => check_writable(path),
        _ => Err(ReportError::PageForm(path.to_owned())),
    }
}

/// Writes a report without a form for programs in the form of the file's suffix, `.html` or `.md`.
///
/// # Errors
/// The suffix is another one, or the file cannot be written.
fn write_page(document: &document::Document, path: &Path) -> Result<(), ReportError> {
    check_page(path)?;
    let is_page = path.extension().is_some_and(|extension| extension == "html");
    let text = if is_page { html::page(document) } else { markdown::text(document) };
    fs::write(path, text).map_err(|error| ReportError::Write(path.to_owned(), error))
}

/// Returns the function for the form of the suffix of `path`.
fn form(path: &Path) -> Result<fn(&[Record]) -> String, ReportError> {
    let form = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    Ok(match form.to_ascii_lowercase().as_str() {
        "html" | "htm" => html,
        "md" => markdown,
        "csv" => csv,
        "xml" => junit,
        "json" => json,
        _ => return Err(ReportError::Form(path.to_owned())),
    })
}

/// Checks that a report can be written to `path`, and leaves the file unchanged.
///
/// # Errors
/// As of [`write()`].
pub(crate) fn check(path: &Path) -> Result<(), ReportError> {
    form(path)?;
    check_writable(path)
}

/// Checks that a file can be written at `path`, and leaves it unchanged.
fn check_writable(path: &Path) -> Result<(), ReportError> {
    // A dangling symbolic link is kept.
    let is_new = path.symlink_metadata().is_err();
    let opened = fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|error| ReportError::Write(path.to_owned(), error))?;
    if is_new {
        // The file was created only for the check. If it cannot be removed, the report overwrites
        // it.
        let _ = fs::remove_file(path);
    }
    Ok(())
}

/// Returns the records in their own form.
pub(crate) fn json(records: &[Record]) -> String {
    let text = match records {
        [record] => serde_json::to_string_pretty(record),
        records => serde_json::to_string_pretty(records),
    };
    // The keys are strings or serialise as strings, and histograms are written to memory.
    text.expect("a record has a JSON form") + "\n"
}

/// Returns one page with everything, for a browser.
pub(crate) fn html(records: &[Record]) -> String {
    html::page(&content::document(records))
}

/// Returns the content of [`html()`] as Markdown text.
pub(crate) fn markdown(records: &[Record]) -> String {
    markdown::text(&content::document(records))
}
