//! What a report says, apart from the form that it is written in.
//!
//! The contents are put together once, by [`super::content`]; [`super::html`] and
//! [`super::markdown`] write them, so that both say the same.

use super::chart::Chart;
use super::ladder::Ladder;

/// A whole report.
#[derive(Debug)]
pub(super) struct Document {
    /// What it is called.
    pub(super) title: String,
    /// Its sections.
    pub(super) sections: Vec<Section>,
}

/// A part of a report with a heading.
#[derive(Debug)]
pub(super) struct Section {
    /// Its name in links.
    pub(super) id: &'static str,
    /// Its heading.
    pub(super) title: String,
    /// One plain sentence that says how to read it.
    pub(super) reads: String,
    /// What is in it.
    pub(super) blocks: Vec<Block>,
}

/// A piece of a section.
#[derive(Debug)]
pub(super) enum Block {
    /// A smaller heading.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A judgement that nobody may overlook.
    Verdict(Verdict),
    /// Short statements.
    List(Vec<String>),
    /// What was typed.
    Code(String),
    /// Figures.
    Table(Table),
    /// A picture of figures.
    Chart(Chart),
    /// Messages between parties.
    Ladder(Ladder),
}

/// A judgement.
#[derive(Debug)]
pub(super) struct Verdict {
    /// Whether all is well.
    pub(super) good: bool,
    /// What it comes to, in a few words.
    pub(super) title: String,
    /// What it means.
    pub(super) text: String,
    /// The reasons.
    pub(super) reasons: Vec<String>,
}

/// Rows and columns.
#[derive(Debug)]
pub(super) struct Table {
    /// What it shows.
    pub(super) caption: String,
    /// The headings of the columns, with units.
    pub(super) columns: Vec<Column>,
    /// The rows.
    pub(super) rows: Vec<Row>,
}

/// A column of a [`Table`].
#[derive(Debug)]
pub(super) struct Column {
    /// Its heading, with the unit.
    pub(super) title: String,
    /// Whether figures stand in it.
    pub(super) figures: bool,
}

/// A row of a [`Table`].
#[derive(Debug)]
pub(super) struct Row {
    /// What stands in it.
    pub(super) cells: Vec<String>,
    /// Whether it must not be taken for a good result.
    pub(super) doubtful: bool,
}

impl Table {
    /// A table without rows. Titles that begin with `#` head columns of figures.
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

    /// Adds a row and says whether it is to be doubted.
    pub(super) fn row_doubtful(&mut self, doubtful: bool, cells: Vec<String>) {
        self.rows.push(Row { cells, doubtful });
    }
}

impl Section {
    /// A section without contents.
    pub(super) fn new(
        id: &'static str,
        title: impl Into<String>,
        reads: impl Into<String>,
    ) -> Self {
        Self { id, title: title.into(), reads: reads.into(), blocks: Vec::new() }
    }

    /// Adds a table, if there is anything in it.
    pub(super) fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.blocks.push(Block::Table(table));
        }
    }

    /// Adds a chart, if there is anything in it.
    pub(super) fn chart(&mut self, chart: Chart) {
        if !chart.is_trivial() {
            self.blocks.push(Block::Chart(chart));
        }
    }

    /// Adds a paragraph.
    pub(super) fn text(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Text(text.into()));
    }

    /// Adds a smaller heading.
    pub(super) fn heading(&mut self, text: impl Into<String>) {
        self.blocks.push(Block::Heading(text.into()));
    }
}
