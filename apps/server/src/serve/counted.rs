//! A counter with its name and description.

/// A counter of events since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) name: &'static str,
    /// The events in one sentence.
    pub(crate) help: &'static str,
    pub(crate) count: u64,
}

/// A counter with its name, its description and its value.
pub(super) type Named = (&'static str, &'static str, u64);

impl From<Named> for Counted {
    fn from((name, help, count): Named) -> Self {
        Self { name, help: help.trim(), count }
    }
}
