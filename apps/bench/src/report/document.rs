//! The content of a report, independent of its output form.
//!
//! The content is assembled once, by [`super::content`]; [`super::html()`] and
//! [`super::markdown()`] write it, so that both have the same content.

use super::chart::Chart;
use super::ladder::Ladder;

/// A complete report.
#[derive(Debug)]
pub(super) struct Document {
    /// The title.
    pub(super) title: String,
    /// The sections.
    pub(super) sections: Vec<Section>,
}

/// A section of a report with a heading.
#[derive(Debug)]
pub(super) struct Section {
    /// The identifier in links.
    pub(super) id: &'static str,
    /// The heading.
    pub(super) title: String,
    /// A sentence that explains how to read the section.
    pub(super) reads: String,
    /// The content.
    pub(super) blocks: Vec<Block>,
}

/// A block of a section.
#[derive(Debug)]
pub(super) enum Block {
    /// A subheading.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A verdict, which is highlighted.
    Verdict(Verdict),
    /// A list of short statements.
    List(Vec<String>),
    /// A command line.
    Code(String),
    /// A table of figures.
    Table(Table),
    /// A chart of figures.
    Chart(Chart),
    /// A ladder diagram of messages between parties.
    Ladder(Ladder),
}

/// A verdict.
#[derive(Debug)]
pub(super) struct Verdict {
    /// True for a positive verdict.
    pub(super) good: bool,
    /// The result in a few words.
    pub(super) title: String,
    /// The explanation.
    pub(super) text: String,
    /// The reasons.
    pub(super) reasons: Vec<String>,
}

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    /// The caption.
    pub(super) caption: String,
    /// The columns, with their headings.
    pub(super) columns: Vec<Column>,
    /// The rows.
    pub(super) rows: Vec<Row>,
}

/// A column of a [`Table`].
#[derive(Debug)]
pub(super) struct Column {
    /// The heading with the unit.
    pub(super) title: String,
    /// True if the cells are figures.
    pub(super) figures: bool,
}

/// A row of a [`Table`].
#[derive(Debug)]
pub(super) struct Row {
    /// The cells.
    pub(super) cells: Vec<String>,
    /// True if the result is invalid.
    pub(super) doubtful: bool,
}

impl Table {
    /// Returns a table without rows. A title that begins with `#` makes a column of figures.
    pub(super) fn new(caption: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|title| match title.strip_prefix('#') {
            Some(title) => Column { title: title.to_owned(), figures: true },
            None => Column { title: (*title).to_owned(), figures: false },
        });
        Self { caption: caption.into(), columns: columns.collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(Row { cells, doubtful: false });
    }

    /// Adds a row, with true for an invalid result.
    pub(super) fn row_doubtful(&mut self, doubtful: bool, cells: Vec<String>) {
        self.rows.push(Row { cells, doubtful });
    }
}

impl Section {
    /// Returns a section without content.
    pub(super) fn new(
        id: &'static str,
        title: impl Into<String>,
        reads: impl Into<String>,
    ) -> Self {
        Self { id, title: title.into(), reads: reads.into(), blocks: Vec::new() }
    }

    /// Adds a table, unless it is empty.
    pub(super) fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.blocks.push(Block::Table(table));
        }
    }

    /// Adds a chart, unless it is trivial.
    pub(super) fn chart(&mut self, chart: Chart) {
        if !chart.is_trivial() {
            self.blocks.push(Block::Chart(chart));
        }
    }

    /// Adds a paragraph.
    pub(super) fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text(text.into()));
    }

    /// Adds a subheading.
    pub(super) fn heading(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Heading(text.into()));
    }
}
