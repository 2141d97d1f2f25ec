//! A reader of TOML tables, key by key, which collects all problems with their places.

use super::problem::Problem;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// An invalid value, with the message and the place if that is not the whole value.
pub(super) struct BadValue {
    /// A range of bytes in the file. `None` for the whole value.
    pub(super) place: Option<Range<usize>>,
    pub(super) text: String,
}

impl From<String> for BadValue {
    fn from(text: String) -> Self {
        Self { place: None, text }
    }
}

/// A configuration file being read.
pub(super) struct Reader<'i> {
    input: &'i str,
    problems: Vec<Problem>,
}

/// A table being read.
pub(super) struct Section<'r, 'i> {
    reader: &'r mut Reader<'i>,
    /// The name of the table, empty for the top level.
    name: &'static str,
    table: &'r DeTable<'i>,
    /// The range of the table in the file.
    place: Range<usize>,
    known: Vec<&'static str>,
    /// True if all values so far were valid, so that they can be compared.
    good: bool,
}

impl<'i> Reader<'i> {
    pub(super) fn new(input: &'i str) -> Self {
        Self { input, problems: Vec::new() }
    }

    /// Parses the file and passes its table to `each`.
    pub(super) fn read(&mut self, each: impl FnOnce(Section<'_, 'i>)) {
        let (table, errors) = DeTable::parse_recoverable(self.input);
        // Errors after the first one may be consequences of it, for instance of a missing bracket.
        if let Some(error) = errors.iter().min_by_key(|error| error.span().map(|span| span.start)) {
            let place = error.span().unwrap_or(0..0);
            self.problem(place.start, format!("this is not TOML: {}", error.message()));
            return;
        }
        each(Section {
            reader: self,
            name: "",
            table: table.get_ref(),
            place: 0..0,
            known: Vec::new(),
            good: true,
        });
    }

    /// The problems, in the order of the file.
    pub(super) fn into_problems(mut self) -> Vec<Problem> {
        self.problems.sort();
        self.problems.dedup();
        self.problems
    }

    fn problem(&mut self, at: usize, text: String) {
        let (line, column) = line_and_column(self.input, at);
        self.problems.push(Problem { line, column, text });
    }
}

/// The line and column of the byte `at` in `text`, counted from 1, in characters.
pub(super) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The `known` key that is most similar to `name`, if it is similar enough.
fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let distances = known.iter().map(|key| (distance(name, key), *key));
    let (distance, key) = distances.min()?;
    (distance <= 1 + key.len() / 4).then_some(key)
}

/// The Levenshtein distance of `a` and `b`, in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

impl<'r, 'i> Section<'r, 'i> {
    /// Reads the table `name`, if present, and rejects the keys that `each` has not read.
    pub(super) fn section(&mut self, name: &'static str, each: impl FnOnce(&mut Section<'_, 'i>)) {
        self.known.push(name);
        let Some(value) = self.table.get(name) else { return };
        let Some(table) = value.get_ref().as_table() else {
            let found = value.get_ref().type_str();
            let text = format!("`{name}` is of type {found}; expected a section [{name}]");
            self.reader.problem(value.span().start, text);
            return;
        };
        self.inside(name, table, value.span(), each);
    }

    /// Reads each table of the array `key`, if present. `name` is the name of its tables in
    /// messages, such as `[trunks]`.
    pub(super) fn tables(
        &mut self,
        key: &'static str,
        name: &'static str,
        mut each: impl FnMut(&mut Section<'_, 'i>),
    ) {
        self.known.push(key);
        let Some(value) = self.table.get(key) else { return };
        let tables = value.get_ref().as_array();
        let tables = tables.and_then(|array| {
            let table =
                |value: &'r Spanned<DeValue<'i>>| Some((value.get_ref().as_table()?, value.span()));
            array.iter().map(table).collect::<Option<Vec<_>>>()
        });
        let Some(tables) = tables else {
            let text = format!("`{key}` is no array of tables; expected sections [{name}]");
            self.reader.problem(value.span().start, text);
            return;
        };
        for (table, place) in tables {
            self.good &= self.inside(name, table, place, &mut each);
        }
    }

    /// Reads `table` with `each`, and rejects the keys that it has not read. Returns true if all
    /// values were valid.
    fn inside(
        &mut self,
        name: &'static str,
        table: &DeTable<'i>,
        place: Range<usize>,
        each: impl FnOnce(&mut Section<'_, 'i>),
    ) -> bool {
        let mut section =
            Section { reader: self.reader, name, table, place, known: Vec::new(), good: true };
        each(&mut section);
        let good = section.good;
        section.finish();
        good
    }

    /// Sets `target` to the value of `key`, if present and accepted by `parse`.
    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        target: &mut T,
        parse: impl FnOnce(&DeValue<'i>) -> Result<T, String>,
    ) {
        self.read_whole(key, target, |value| Ok(parse(value.get_ref())?));
    }

    /// Like [`Section::read`], for a value without default.
    pub(super) fn read_some<T>(
        &mut self,
        key: &'static str,
        target: &mut Option<T>,
        parse: impl FnOnce(&DeValue<'i>) -> Result<T, String>,
    ) {
        self.read(key, target, |value| parse(value).map(Some));
    }

    /// Like [`Section::read`], for a value with parts, each with a place of its own.
    pub(super) fn read_whole<T>(
        &mut self,
        key: &'static str,
        target: &mut T,
        parse: impl FnOnce(&Spanned<DeValue<'i>>) -> Result<T, BadValue>,
    ) {
        self.known.push(key);
        let Some(value) = self.table.get(key) else { return };
        match parse(value) {
            Ok(parsed) => *target = parsed,
            Err(BadValue { place, text }) => {
                self.good = false;
                let place = place.unwrap_or_else(|| value.span());
                self.reader.problem(place.start, format!("{key}: {text}"));
            }
        }
    }

    /// Adds a problem at the first present key of `keys`, unless `holds`.
    pub(super) fn check(&mut self, holds: bool, keys: &[&str], text: impl FnOnce() -> String) {
        if holds || !self.good {
            return;
        }
        if let Some(value) = keys.iter().find_map(|&key| self.table.get(key)) {
            self.reader.problem(value.span().start, text());
        }
    }

    /// Adds a problem at the beginning of the table, unless `key` is present.
    pub(super) fn require(&mut self, key: &'static str, text: &str) {
        if self.table.get(key).is_none() {
            self.good = false;
            self.reader.problem(self.place.start, text.to_owned());
        }
    }

    /// Rejects the keys that were not read.
    pub(super) fn finish(self) {
        for key in self.table.keys() {
            let name = key.get_ref();
            if !self.known.contains(&name.as_ref()) {
                let place = match self.name {
                    "" => "at the top of the file".to_owned(),
                    section => format!("in [{section}]"),
                };
                let known = self.known.join(", ");
                let nearest = nearest(name, &self.known)
                    .map_or_else(String::new, |key| format!("; did you mean `{key}`?"));
                let text =
                    format!("unknown key `{name}` {place}{nearest}; expected one of: {known}");
                self.reader.problem(key.span().start, text);
            }
        }
    }
}
