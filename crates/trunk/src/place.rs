//! The servers of a trunk in their order of preference, and the state of each.

use crate::random::Random;
use crate::report::State;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;
use sip::{Duration, Flow, Instant, Transport};

/// The base and the maximum of the time before a failed server is asked again (RFC 5626 section
/// 4.5).
const BASE_WAIT: Duration = Duration::from_secs(30);
const LONGEST_WAIT: Duration = Duration::from_secs(1800);

/// The transport and the address of a server: its identity.
pub(crate) type Key = (Transport, SocketAddr);

/// A server of a trunk.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The flow to it.
    pub(crate) flow: Flow,
    pub(crate) state: State,
    /// The reason of the state, if it is a failure.
    pub(crate) reason: String,
    /// The time since which it has the state.
    pub(crate) since: Instant,
    /// The number of failures since the server was last of use.
    failures: u32,
    /// The time at which a failed server is asked again.
    pub(crate) retry: Option<Instant>,
}

impl Place {
    fn new(flow: Flow, now: Instant) -> Self {
        Self {
            flow,
            state: State::Unknown,
            reason: String::new(),
            since: now,
            failures: 0,
            retry: None,
        }
    }

    pub(crate) const fn key(&self) -> Key {
        (self.flow.transport, self.flow.remote)
    }

    fn set(&mut self, state: State, now: Instant) {
        if self.state != state {
            (self.state, self.since) = (state, now);
        }
    }
}

/// The servers of a trunk, the best first.
#[derive(Debug, Default)]
pub(crate) struct Places(pub(crate) Vec<Place>);

impl Places {
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Place> {
        self.0.iter_mut().find(|place| place.key() == key)
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Place> {
        self.0.iter().find(|place| place.key() == key)
    }

    /// Takes over the located servers. The order of the same servers is kept: the DNS distributes
    /// equal ones at random, and the trunk would move with each look-up. Returns true if anything
    /// changed.
    pub(crate) fn replace(&mut self, flows: &[Flow], now: Instant) -> bool {
        let key = |flow: &Flow| (flow.transport, flow.remote);
        let is_same =
            flows.len() == self.0.len() && flows.iter().all(|flow| self.get(key(flow)).is_some());
        if is_same {
            let mut has_changed = false;
            for flow in flows {
                if let Some(place) = self.get_mut(key(flow)) {
                    has_changed |= place.flow != *flow;
                    place.flow = *flow;
                }
            }
            return has_changed;
        }
        let place = |flow: &Flow| match self.get(key(flow)) {
            Some(known) => Place { flow: *flow, ..known.clone() },
            None => Place::new(*flow, now),
        };
        self.0 = flows.iter().map(place).collect();
        true
    }

    /// The server that is used: the first one that has not failed.
    pub(crate) fn best(&self) -> Option<&Place> {
        self.0.iter().find(|place| place.state != State::Failed)
    }

    /// Notes that a server has failed. Returns true if it had not before.
    pub(crate) fn note_failure(
        &mut self,
        key: Key,
        reason: String,
        random: &mut Random,
        now: Instant,
    ) -> bool {
        let Some(place) = self.get_mut(key) else { return false };
        let is_new = place.state != State::Failed;
        let longest = BASE_WAIT.times(2 << place.failures.min(16)).min(LONGEST_WAIT);
        place.failures += 1;
        place.retry = Some(now + random.upper_half(longest));
        place.reason = reason;
        place.set(State::Failed, now);
        is_new
    }

    /// Notes that a server answers. With `is_of_use` its failures are forgotten. Returns true if it
    /// had failed before.
    pub(crate) fn note_answer(&mut self, key: Key, is_of_use: bool, now: Instant) -> bool {
        let Some(place) = self.get_mut(key) else { return false };
        let had_failed = place.state == State::Failed;
        if is_of_use {
            place.failures = 0;
        }
        place.retry = None;
        place.reason.clear();
        place.set(State::Works, now);
        had_failed
    }

    /// Takes the failed servers that are to be asked again at `now`.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<Flow> {
        let is_due = |retry: &mut Instant| *retry <= now;
        let due = self.0.iter_mut().filter_map(|place| {
            place.retry.take_if(is_due)?;
            Some(place.flow)
        });
        due.collect()
    }

    /// Allows the use of a failed server again, without a proof that it works.
    pub(crate) fn pardon(&mut self, key: Key, now: Instant) {
        if let Some(place) = self.get_mut(key) {
            place.set(State::Unknown, now);
        }
    }

    pub(crate) fn next_retry(&self) -> Option<Instant> {
        self.0.iter().filter_map(|place| place.retry).min()
    }
}
