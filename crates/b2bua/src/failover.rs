//! Calls through trunks: each trunk is tried in turn, until one has an answer that is final.

use crate::b2bua::{B2bua, BridgeId};
use crate::bridge::{Keys, Leg, OnTrunk, Side};
use crate::event::Event;
use crate::origin::Origin;
use crate::trunk::{Attempt, Trunk, in_words, is_final};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use sip::Instant;
use sip_ua::{End, Failure};

impl B2bua {
    /// Replaces the trunks. The proxy names a trunk by its place among them. Calls that stand go
    /// on.
    pub fn set_trunks(&mut self, trunks: Vec<Trunk>) {
        self.agent.set_accounts(trunks.iter().map(Trunk::credentials).collect());
        self.config.trunks = trunks;
    }

    /// Returns the number of calls on the trunk at this place of the configuration.
    #[must_use]
    pub fn calls_on_trunk(&self, trunk: usize) -> usize {
        let is_on = |on: OnTrunk| on.trunk == trunk;
        self.bridges.values().filter(|bridge| bridge.on_trunk.is_some_and(is_on)).count()
    }

    /// Returns why the trunk takes no further call. `None` if it takes one.
    pub(crate) fn fullness(&self, trunk: usize) -> Option<String> {
        let Some(settings) = self.config.trunks.get(trunk) else {
            return Some("there is no such trunk".into());
        };
        let is_full = self.calls_on_trunk(trunk) >= settings.calls;
        is_full.then(|| format!("its limit of {} calls is reached", settings.calls))
    }

    /// Tells the owner about a trunk.
    pub(crate) fn tell_of_trunk(&mut self, place: usize, has_failed: bool, words: &str) {
        let name = self.config.trunks.get(place).map(|trunk| trunk.name.clone());
        let trunk = name.unwrap_or_else(|| place.to_string()).into();
        self.events.push_back(Event::Trunk { place, trunk, has_failed, words: words.into() });
    }

    /// Calls through the next trunk that takes the call. Returns false without such a trunk.
    pub(crate) fn call_next_trunk(&mut self, id: BridgeId, now: Instant) -> bool {
        loop {
            let Some(bridge) = self.bridges.get_mut(&id) else { return false };
            (bridge.on_trunk, bridge.permit) = (None, None);
            let Some(attempt) = bridge.attempt().cloned() else { return false };
            let full = match attempt.is_emergency {
                true => None,
                false => self.fullness(attempt.trunk),
            };
            if let Some(full) = full {
                self.skip_trunk(id, &attempt, false, &full);
                continue;
            }
            let permit = match self.permit(&attempt, now) {
                Ok(permit) => permit,
                Err(exceeded) => {
                    if let Some(bridge) = self.bridges.get_mut(&id) {
                        bridge.is_over_limit = true;
                    }
                    self.skip_trunk(id, &attempt, false, &exceeded.to_string());
                    continue;
                }
            };
            let number = self.random_number();
            let Some(bridge) = self.bridges.get_mut(&id) else { return false };
            bridge.permit = Some(permit);
            let local = bridge.flow.local.ip();
            bridge.on_trunk = Some(OnTrunk { trunk: attempt.trunk, side: Side::Callee });
            *bridge.leg(Side::Callee) = Leg::new(None, Origin::new(number, local));
            bridge.early = None;
            bridge.keys = Keys::OfCaller;
            self.call_callee(id, now);
            return true;
        }
    }

    /// Goes on to the attempt after `attempt`, which has failed.
    fn skip_trunk(&mut self, id: BridgeId, attempt: &Attempt, has_failed: bool, cause: &str) {
        let Some(bridge) = self.bridges.get_mut(&id) else { return };
        bridge.attempts_made += 1;
        let next = bridge.attempt().and_then(|next| self.config.trunks.get(next.trunk));
        let rest = match next {
            Some(next) => format!("trunk {} is next", next.name),
            None => "no other trunk is left".into(),
        };
        self.counters.trunk_failures += 1;
        let words = format!("a call to {} failed: {cause}; {rest}", attempt.number);
        self.tell_of_trunk(attempt.trunk, has_failed, &words);
    }

    /// Calls through the next trunk after the current one has ended the call unanswered, if that is
    /// not final. Returns false if the call has failed.
    pub(crate) fn fail_over(&mut self, id: BridgeId, end: &End, now: Instant) -> bool {
        let Some(bridge) = self.bridges.get(&id) else { return false };
        let (End::Failed(failure), Some(attempt)) = (end, bridge.attempt().cloned()) else {
            return false;
        };
        // A response is what the trunk says about the callee. Without one it is silent.
        let is_response = matches!(failure, Failure::Refused { .. });
        if is_response && is_final(failure.status()) {
            return false;
        }
        let has_failed = matches!(failure.status(), 408 | 503);
        self.skip_trunk(id, &attempt, has_failed, &in_words(failure));
        self.call_next_trunk(id, now)
    }
}
