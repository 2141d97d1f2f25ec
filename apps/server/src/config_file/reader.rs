//! Reading TOML tables key by key, with every problem noted and its place found.

use super::problem::Problem;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value that cannot be used: where, if not the whole value, and why.
pub(super) struct BadValue {
    /// Bytes of the file; `None` for the value that was being read.
    pub(super) place: Option<Range<usize>>,
    pub(super) text: String,
}

impl From<String> for BadValue {
    fn from(text: String) -> Self {
        Self { place: None, text }
    }
}

/// A configuration file while it is being read.
pub(super) struct Reader<'i> {
    input: &'i str,
    problems: Vec<Problem>,
}

/// A table while it is being read.
pub(super) struct Section<'r, 'i> {
    reader: &'r mut Reader<'i>,
    /// Name of the table, empty at the top.
    name: &'static str,
    table: &'r DeTable<'i>,
    known: Vec<&'static str>,
    /// Whether all values so far could be used, so that it makes sense to compare them.
    good: bool,
}

impl<'i> Reader<'i> {
    pub(super) fn new(input: &'i str) -> Self {
        Self { input, problems: Vec::new() }
    }

    /// Parses the file and hands its table to `each`.
    pub(super) fn read(&mut self, each: impl FnOnce(Section<'_, 'i>)) {
        let (table, errors) = DeTable::parse_recoverable(self.input);
        // What follows the first of them may be its consequence, as after a missing bracket.
        if let Some(error) = errors.iter().min_by_key(|error| error.span().map(|span| span.start)) {
            let place = error.span().unwrap_or(0..0);
            self.problem(place.start, format!("this is not TOML: {}", error.message()));
            return;
        }
        each(Section {
            reader: self,
            name: "",
            table: table.get_ref(),
            known: Vec::new(),
            good: true,
        });
    }

    /// What was wrong, in the order of the file.
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

/// Line and column, counted from 1 and in characters, of the byte `at` of `text`.
pub(super) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The one of the `known` keys that `name` is most like, if it is like one.
fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let distances = known.iter().map(|key| (distance(name, key), *key));
    let (distance, key) = distances.min()?;
    (distance <= 1 + key.len() / 4).then_some(key)
}

/// How many characters are to be put in, left out or replaced to make `b` of `a`.
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
    /// Reads the table `name`, if it is there, and refuses the keys that `each` did not ask for.
    pub(super) fn section(&mut self, name: &'static str, each: impl FnOnce(&mut Section<'_, 'i>)) {
        self.known.push(name);
        let Some(value) = self.table.get(name) else { return };
        let Some(table) = value.get_ref().as_table() else {
            let found = value.get_ref().type_str();
            let text = format!("`{name}` is of type {found}; expected a section [{name}]");
            self.reader.problem(value.span().start, text);
            return;
        };
        let mut section =
            Section { reader: self.reader, name, table, known: Vec::new(), good: true };
        each(&mut section);
        section.finish();
    }

    /// Sets `target` to the value of `key`, if it is there and `parse` takes it.
    pub(super) fn read<T>(
        &mut self,
        key: &'static str,
        target: &mut T,
        parse: impl FnOnce(&DeValue<'i>) -> Result<T, String>,
    ) {
        self.read_whole(key, target, |value| Ok(parse(value.get_ref())?));
    }

    /// Like [`Section::read`] for a value that has no default.
    pub(super) fn read_some<T>(
        &mut self,
        key: &'static str,
        target: &mut Option<T>,
        parse: impl FnOnce(&DeValue<'i>) -> Result<T, String>,
    ) {
        self.read(key, target, |value| parse(value).map(Some));
    }

    /// Like [`Section::read`] for a value with parts, each of which may have its own problem.
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

    /// Notes a problem at the first of `keys` that is there, unless `holds`.
    pub(super) fn check(&mut self, holds: bool, keys: &[&str], text: impl FnOnce() -> String) {
        if holds || !self.good {
            return;
        }
        if let Some(value) = keys.iter().find_map(|&key| self.table.get(key)) {
            self.reader.problem(value.span().start, text());
        }
    }

    /// Refuses the keys that nobody asked for.
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
