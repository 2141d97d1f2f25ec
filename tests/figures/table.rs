//! Markdown tables.

use std::path::Path;

/// A table under construction.
pub(crate) struct Table {
    text: String,
}

impl Table {
    /// Creates a table with these columns. A `#` marks a column of numbers.
    pub(crate) fn new(columns: &[&str]) -> Self {
        let mut table = Self { text: String::new() };
        table.row(columns.iter().map(|column| column.trim_start_matches('#').to_owned()));
        let rule = |column: &&str| if column.starts_with('#') { "--:" } else { "---" }.to_owned();
        table.row(columns.iter().map(rule));
        table
    }

    /// Appends a row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        self.text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }

    /// The table in Markdown.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// Writes `text` to the file `name` in `folder`, and prints it.
///
/// # Panics
/// The file cannot be written.
pub(crate) fn write(folder: &Path, name: &str, text: &str) {
    print!("{name}\n\n{text}\n");
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(folder.join(name), text))
        .unwrap_or_else(|error| panic!("cannot write {name}: {error}"));
}

pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        1 => Some(values[middle]),
        _ => Some((values.get(middle.checked_sub(1)?)? + values[middle]) / 2.0),
    }
}

/// Formats a number with this number of decimals, or `-`.
pub(crate) fn figure(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}
