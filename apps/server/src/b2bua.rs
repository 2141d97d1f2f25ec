//! The settings of the B2BUA.

/// The limits of the B2BUA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct B2buaSettings {
    /// The maximum number of calls.
    pub(crate) calls: usize,
    /// The maximum number of calls of one source.
    pub(crate) calls_of_source: usize,
}

impl Default for B2buaSettings {
    fn default() -> Self {
        let b2bua::Config { calls, calls_of_source, .. } = b2bua::Config::default();
        Self { calls, calls_of_source }
    }
}
