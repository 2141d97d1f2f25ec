//! The settings of the B2BUA.

use sip::Duration;

/// The limits of the B2BUA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct B2buaSettings {
    /// The maximum number of calls.
    pub(crate) calls: usize,
    /// The maximum number of calls of one source.
    pub(crate) calls_of_source: usize,
    /// The session interval of each leg (RFC 4028).
    pub(crate) session_expires: Duration,
    /// The interval between checks of a leg.
    pub(crate) probe: Option<Duration>,
}

impl Default for B2buaSettings {
    fn default() -> Self {
        let b2bua::Config { calls, calls_of_source, session_expires, probe, .. } =
            b2bua::Config::default();
        Self { calls, calls_of_source, session_expires, probe }
    }
}
