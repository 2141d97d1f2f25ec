//! The settings of the media relay.

use crate::ng::NgSettings;
use relay::{Limits, PORTS_PER_STREAM, PortRange};
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::Keep;

/// The ports and the limits of the media relay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MediaSettings {
    /// The UDP ports of the relay.
    pub(crate) ports: PortRange,
    /// The maximum number of relayed calls, unless it is one for every four ports.
    pub(crate) max_calls: Option<usize>,
    /// The maximum number of calls of NG clients, unless it is that of relayed calls.
    pub(crate) ng_max_calls: Option<usize>,
    /// The other limits.
    pub(crate) limits: Limits,
    /// The NG protocol.
    pub(crate) ng: NgSettings,
    /// The place of the call records.
    pub(crate) records: RecordsPlace,
    /// The maximum size of the file of call records in bytes.
    pub(crate) records_size: RecordsSize,
    /// The records in the database.
    pub(crate) history: History,
}

/// The limits of the records of calls in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct History {
    /// The time that records are kept for. `None` keeps no records.
    pub(crate) age: Option<Duration>,
    /// The maximum number of records.
    pub(crate) calls: usize,
}

impl Default for History {
    fn default() -> Self {
        Self { age: Some(Duration::from_secs(90 * 24 * 3600)), calls: 500_000 }
    }
}

/// The place of the call records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum RecordsPlace {
    /// Calls are not recorded.
    Off,
    /// A file in the data directory.
    #[default]
    Data,
    /// This file.
    File(PathBuf),
}

impl RecordsPlace {
    /// The path of the file, for the data directory `data`.
    pub(crate) fn path(&self, data: &Path) -> Option<PathBuf> {
        match self {
            Self::Off => None,
            Self::Data => Some(data.join("calls.jsonl")),
            Self::File(path) => Some(path.clone()),
        }
    }
}

/// A size of the file of call records, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordsSize(pub(crate) usize);

impl Default for RecordsSize {
    fn default() -> Self {
        Self(64 << 20)
    }
}

impl MediaSettings {
    /// The limits of the records in the database. `None` keeps no records.
    pub(crate) fn history(&self) -> Option<Keep> {
        let age = self.history.age.filter(|_| self.records != RecordsPlace::Off)?;
        Some(Keep { age, calls: self.history.calls as u64 })
    }

    /// The limits of the relay, with `pairs` pairs of ports.
    pub(crate) fn limits(&self, pairs: usize) -> Limits {
        let most = pairs * 2 / PORTS_PER_STREAM;
        Limits { calls: self.max_calls.map_or(most, |calls| calls.min(most)), ..self.limits }
    }

    /// The limits of the calls of NG clients, with `pairs` pairs of ports.
    pub(crate) fn ng_limits(&self, pairs: usize) -> Limits {
        let max_calls = self.ng_max_calls.or(self.max_calls);
        Self { max_calls, ..self.clone() }.limits(pairs)
    }

    /// The maximum number of calls, if the system sets no other limit.
    pub(crate) fn max_calls(&self) -> usize {
        self.limits(self.ports.pairs()).calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ports_bound_the_calls() {
        let settings = MediaSettings::default();
        assert_eq!((settings.max_calls(), settings.limits(100).calls), (2_500, 50));
        let settings = MediaSettings { max_calls: Some(20), ..settings };
        assert_eq!((settings.max_calls(), settings.limits(30).calls), (20, 15));
        assert_eq!(settings.ng_limits(100).calls, 20);
        let settings = MediaSettings { ng_max_calls: Some(40), ..settings };
        assert_eq!((settings.limits(100).calls, settings.ng_limits(100).calls), (20, 40));
        assert_eq!(settings.ng_limits(30).calls, 15);
    }
}
