//! The state of the check that the other end of an established call is still there.

use crate::client_transaction::ClientId;
use crate::config::Config;
use sip::Instant;

/// The check of an established call.
pub(super) struct Probe {
    /// The time of the next one. [`Instant::MAX`] while one is pending.
    pub(super) at: Instant,
    pub(super) request: Option<ClientId>,
    /// The number of checks since the last sign of the other end.
    pub(super) absent: u32,
}

impl Probe {
    /// Returns the check of a call that is established at `now`, if calls are checked.
    pub(super) fn start(config: &Config, now: Instant) -> Option<Self> {
        config.probe.map(|interval| Self { at: now + interval, request: None, absent: 0 })
    }

    /// Records a sign of the other end.
    pub(super) fn note(&mut self, config: &Config, now: Instant) {
        self.absent = 0;
        if let (Some(interval), None) = (config.probe, self.request) {
            self.at = now + interval;
        }
    }
}
