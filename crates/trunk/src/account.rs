//! The registration of an account of a trunk.

use crate::config::AccountConfig;
use crate::report::{AccountReport, State};
use alloc::string::String;
use sip::Instant;
use sip_ua::AccountId;

/// An account of a trunk.
#[derive(Debug)]
pub(crate) struct Account {
    /// The account of the agent.
    pub(crate) id: AccountId,
    pub(crate) uri: String,
    pub(crate) user: String,
    /// The user part of its contact.
    pub(crate) contact: String,
    pub(crate) state: State,
    /// The reason of a failure, or empty.
    pub(crate) reason: String,
    since: Instant,
    /// The end of the registration, if it is not renewed.
    pub(crate) until: Option<Instant>,
    /// The time of the next attempt after a failure.
    retry: Option<Instant>,
    /// The time of an attempt that the agent does not make itself.
    pub(crate) own_retry: Option<Instant>,
}

impl Account {
    pub(crate) fn new(
        id: AccountId,
        config: &AccountConfig,
        contact: String,
        registers: bool,
        now: Instant,
    ) -> Self {
        Self {
            id,
            uri: config.uri.clone(),
            user: config.user.clone(),
            contact,
            state: if registers { State::Unknown } else { State::Off },
            reason: String::new(),
            since: now,
            until: None,
            retry: None,
            own_retry: None,
        }
    }

    fn set(&mut self, state: State, reason: String, now: Instant) -> bool {
        let is_new = (self.state, &self.reason) != (state, &reason);
        if self.state != state {
            self.since = now;
        }
        (self.state, self.reason) = (state, reason);
        is_new
    }

    /// Notes that the account is registered until `until`. Returns true if it was not before.
    pub(crate) fn note_registered(&mut self, until: Instant, now: Instant) -> bool {
        (self.until, self.retry, self.own_retry) = (Some(until), None, None);
        self.set(State::Works, String::new(), now)
    }

    /// Notes that the account is not registered, and the time of the next attempt. Returns true if
    /// that, or the reason, is new.
    pub(crate) fn note_failure(
        &mut self,
        reason: String,
        retry: Option<Instant>,
        now: Instant,
    ) -> bool {
        (self.until, self.retry) = (None, retry);
        self.set(State::Failed, reason, now)
    }

    pub(crate) fn report(&self) -> AccountReport {
        AccountReport {
            uri: self.uri.clone(),
            state: self.state,
            reason: self.reason.clone(),
            since: self.since,
            until: self.until,
            retry: self.retry,
        }
    }
}
