//! The effect of a restore, in rows and in words.

use crate::output::printable;
use serde::{Deserialize, Serialize};
use store::Difference;

/// The maximum number of names that are told of a list.
const MAX_NAMES: usize = 20;

/// The names of a list: all are counted, the first are told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Names {
    pub(crate) count: u64,
    pub(crate) first: Vec<String>,
}

impl From<Vec<String>> for Names {
    fn from(mut names: Vec<String>) -> Self {
        let count = names.len() as u64;
        names.truncate(MAX_NAMES);
        Self { count, first: names }
    }
}

/// The changes of one kind of data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Changes {
    pub(crate) added: Names,
    pub(crate) changed: Names,
    pub(crate) removed: Names,
    pub(crate) unchanged: u64,
}

impl From<Difference> for Changes {
    fn from(found: Difference) -> Self {
        Self {
            added: found.added.into(),
            changed: found.changed.into(),
            removed: found.removed.into(),
            unchanged: found.unchanged,
        }
    }
}

/// The effect of a restore. Parts that the backup does not have are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// True if nothing was changed.
    pub(crate) dry_run: bool,
    /// The time of the backup in seconds since 1970.
    pub(crate) made: u64,
    pub(crate) users: Option<Changes>,
    pub(crate) services: Option<Changes>,
    pub(crate) accounts: Option<Changes>,
    pub(crate) tokens: Option<Changes>,
    /// The number of added records of calls.
    pub(crate) records: Option<u64>,
    /// The number of added messages of mailboxes.
    pub(crate) messages: Option<u64>,
    /// The files of certificates that are replaced.
    pub(crate) certificates: Option<Vec<String>>,
    /// True if the configuration in the backup is that of the server.
    pub(crate) same_configuration: Option<bool>,
    /// Things to know.
    pub(crate) notes: Vec<String>,
}

impl Report {
    /// The report in lines for a terminal.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.dry_run {
            lines.push("dry run: nothing is changed".to_owned());
        }
        for (name, changes) in [
            ("users", &self.users),
            ("call services", &self.services),
            ("accounts of the panel", &self.accounts),
            ("tokens", &self.tokens),
        ] {
            lines.extend(changes.as_ref().map(|changes| format!("{name}: {}", told(changes))));
        }
        lines.extend(self.records.map(|count| format!("records of calls: {count} added")));
        lines.extend(self.messages.map(|count| format!("voice messages: {count} added")));
        if let Some(files) = &self.certificates {
            let files = if files.is_empty() { "unchanged".to_owned() } else { files.join(", ") };
            lines.push(format!("certificates: {files}"));
        }
        lines.extend(self.notes.iter().map(|note| format!("note: {}", printable(note))));
        lines
    }
}

fn told(changes: &Changes) -> String {
    let Changes { added, changed, removed, unchanged } = changes;
    let mut words = Vec::new();
    for (names, word) in [(added, "added"), (changed, "changed"), (removed, "removed")] {
        if names.count > 0 {
            let more = names.count - names.first.len() as u64;
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let first = printable(&names.first.join(", "));
            words.push(format!("{} {word} ({first}{more})", names.count));
        }
    }
    words.push(format!("{unchanged} unchanged"));
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_counted_and_cut() {
        let names = |count| (0..count).map(|it| format!("u{it}")).collect::<Vec<_>>();
        let users = Difference { added: names(25), removed: names(1), ..Difference::default() };
        let report = Report { dry_run: true, users: Some(users.into()), ..Report::default() };
        let lines = report.lines();
        assert_eq!(lines[0], "dry run: nothing is changed");
        assert!(lines[1].starts_with("users: 25 added (u0, u1, "), "{lines:?}");
        assert!(lines[1].ends_with("u19 and 5 more), 1 removed (u0), 0 unchanged"), "{lines:?}");
        assert_eq!(lines.len(), 2);
    }
}
