//! The names in a scenario: variables, timers, counters, transactions, keys, files.

use super::fault::ScenarioError;
use super::fields::Fields;
use super::recording::Recording;
use super::value::{Scope, Variable};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The names that a scenario uses, and the files and keys that its keywords may name.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// The variables with their scope, by number.
    pub(super) variables: Vec<(String, Scope)>,
    /// The response times.
    pub(super) timers: Vec<String>,
    pub(super) counters: Vec<String>,
    pub(super) transactions: Vec<String>,
    /// The keywords of `--key`, with their text.
    pub(super) keys: Vec<(String, String)>,
    /// The files of `--inf`.
    pub(super) files: Vec<Fields>,
    /// The folder of the scenario file.
    pub(super) folder: PathBuf,
    /// The media files that were read, with the payload type of a stream.
    pub(super) recordings: Vec<(PathBuf, Option<u8>, Arc<Recording>)>,
}

impl Names {
    /// Returns the number of a variable; a new name is one of a call.
    pub(super) fn variable(&mut self, name: &str) -> Variable {
        let name = name.strip_prefix('$').unwrap_or(name);
        Variable(number(
            &mut self.variables,
            |(known, _)| known == name,
            || (name.to_owned(), Scope::Call),
        ))
    }

    /// Sets the scope of a variable.
    pub(super) fn declare(&mut self, name: &str, scope: Scope) {
        let Variable(variable) = self.variable(name);
        self.variables[variable].1 = scope;
    }

    /// Returns the scopes of all variables.
    pub(super) fn scopes(&self) -> impl ExactSizeIterator<Item = Scope> {
        self.variables.iter().map(|&(_, scope)| scope)
    }

    /// Returns the number of a known variable.
    pub(super) fn known_variable(&self, name: &str) -> Option<Variable> {
        self.variables.iter().position(|(known, _)| known == name).map(Variable)
    }

    /// Returns the number of a response time.
    pub(super) fn timer(&mut self, name: &str) -> usize {
        number(&mut self.timers, |known| known == name, || name.to_owned())
    }

    /// Returns the number of a counter.
    pub(super) fn counter(&mut self, name: &str) -> usize {
        number(&mut self.counters, |known| known == name, || name.to_owned())
    }

    /// Returns the number of a transaction.
    pub(super) fn transaction(&mut self, name: &str) -> usize {
        number(&mut self.transactions, |known| known == name, || name.to_owned())
    }

    /// Returns a media file: a capture, or a stream with this payload type.
    ///
    /// # Errors
    /// [`ScenarioError`] if it cannot be read.
    pub(super) fn recording(
        &mut self,
        name: &str,
        payload_type: Option<u8>,
    ) -> Result<Arc<Recording>, ScenarioError> {
        let path = self.path(name);
        let mut known = self.recordings.iter();
        if let Some((_, _, known)) =
            known.find(|(old, form, _)| *old == path && *form == payload_type)
        {
            return Ok(Arc::clone(known));
        }
        let recording = Arc::new(match payload_type {
            Some(payload_type) => Recording::stream(&path, payload_type)?,
            None => Recording::capture(&path)?,
        });
        self.recordings.push((path, payload_type, Arc::clone(&recording)));
        Ok(recording)
    }

    /// Returns the path of a file that the scenario names: relative to the working folder, or else
    /// to the folder of the scenario.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        let beside = self.folder.join(name);
        match Path::new(name).exists() || !beside.exists() {
            true => PathBuf::from(name),
            false => beside,
        }
    }
}

fn number<T>(list: &mut Vec<T>, is_it: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> usize {
    list.iter().position(is_it).unwrap_or_else(|| {
        list.push(new());
        list.len() - 1
    })
}
