//! Reports: what records say, for people and for programs.
//!
//! A report is put together by [`content`] from any number of records, and written as one HTML page
//! or as Markdown, which say the same. CSV and JUnit XML are for other programs; JSON is the
//! records themselves, from which every other form can be made later.

mod capture;
mod chart;
mod content;
mod csv;
mod document;
mod draw;
mod flood;
mod groups;
mod html;
mod junit;
mod ladder;
mod markdown;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use self::capture::write_capture;
pub(crate) use self::csv::csv;
pub(crate) use self::flood::{FloodLine, FloodPoint, flood_markdown, write_flood};
pub(crate) use self::junit::junit;

use crate::record::{FORMAT, Record};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Why a report or a record cannot be read or written.
#[derive(Debug)]
pub(crate) enum ReportError {
    /// The file cannot be read.
    Read(PathBuf, io::Error),
    /// The file cannot be written.
    Write(PathBuf, io::Error),
    /// The file holds no record.
    Json(PathBuf, serde_json::Error),
    /// The file holds no record at all.
    Empty(PathBuf),
    /// The file is of this format, which a later version of the program wrote.
    TooNew(PathBuf, u64),
    /// The name of the file does not tell the form.
    Form(PathBuf),
    /// The name of the file tells neither a page nor Markdown, and the report has no other form.
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

/// What is looked at first, for a later format may have anything else.
#[derive(Deserialize)]
struct Header {
    format: u64,
}

/// Reads the records in a JSON file: one, or an array as [`write()`] makes it of several.
///
/// # Errors
/// The file cannot be read, holds no record, or one of a later format.
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

/// Writes records to a file in the form that its name tells: `.html`, `.md`, `.csv`, `.json` (of
/// several records, an array) or `.xml` (JUnit).
///
/// # Errors
/// The name tells no form, or the file cannot be written.
pub(crate) fn write(records: &[Record], path: &Path) -> Result<(), ReportError> {
    let text = form(path)?(records);
    fs::write(path, text).map_err(|error| ReportError::Write(path.to_owned(), error))
}

/// Whether a report that is for people only can be written to a file of this name: before hours are
/// spent on it.
///
/// # Errors
/// The name tells no form that the report has, or no file of that name can be written.
pub(crate) fn check_page(path: &Path) -> Result<(), ReportError> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html" | "md") => check_writable(path),
        _ => Err(ReportError::PageForm(path.to_owned())),
    }
}

/// Writes a report that is for people only in the form that the file's name tells, `.html` or
/// `.md`.
///
/// # Errors
/// The name tells another form, or the file cannot be written.
fn write_page(document: &document::Document, path: &Path) -> Result<(), ReportError> {
    check_page(path)?;
    let is_page = path.extension().is_some_and(|extension| extension == "html");
    let text = if is_page { html::page(document) } else { markdown::text(document) };
    fs::write(path, text).map_err(|error| ReportError::Write(path.to_owned(), error))
}

/// What makes the form that the name of `path` tells.
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

/// Whether a report can be written to `path`, which is left as it is.
///
/// # Errors
/// As of [`write()`].
pub(crate) fn check(path: &Path) -> Result<(), ReportError> {
    form(path)?;
    check_writable(path)
}

/// Whether a file can be written at `path`, which is left as it is.
fn check_writable(path: &Path) -> Result<(), ReportError> {
    // Of a link that leads nowhere, the link is to stay.
    let is_new = path.symlink_metadata().is_err();
    let opened = fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|error| ReportError::Write(path.to_owned(), error))?;
    if is_new {
        // Only to see whether it can be made; where it cannot be removed, it is written over.
        let _ = fs::remove_file(path);
    }
    Ok(())
}

/// The records in their own form.
pub(crate) fn json(records: &[Record]) -> String {
    let text = match records {
        [record] => serde_json::to_string_pretty(record),
        records => serde_json::to_string_pretty(records),
    };
    // Keys are texts or become such, and histograms are written to memory.
    text.expect("a record has a JSON form") + "\n"
}

/// One page with everything, for a browser.
pub(crate) fn html(records: &[Record]) -> String {
    html::page(&content::document(records))
}

/// The same as [`html`], for where text is read.
pub(crate) fn markdown(records: &[Record]) -> String {
    markdown::text(&content::document(records))
}
