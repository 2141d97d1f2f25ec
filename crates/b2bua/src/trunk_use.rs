//! The limits of the use of trunks: calls at once and minutes a day, of each user, trunk and class.

use crate::b2bua::{B2bua, BridgeId};
use crate::event::Event;
use crate::fields::{NO_MINUTES_REASON, TOO_LONG_REASON};
use crate::trunk::Attempt;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use numbers::usage::{BadSnapshot, Call, Exceeded, Permit, UsageLimits, Use};
use sip::{Duration, Instant};

/// The interval of the look at the use: minutes are counted and stored, and calls over a limit end.
const INTERVAL: Duration = Duration::from_secs(1);

impl B2bua {
    /// Changes the limits of the use of trunks. Use and calls remain.
    pub fn set_use_limits(&mut self, limits: UsageLimits) {
        self.usage.set_limits(limits);
    }

    /// Adds the minutes of [`Event::Use`], if they are of the day of `now`, which counts from the
    /// Unix epoch (UTC). To be called before the first call.
    ///
    /// # Errors
    /// [`BadSnapshot`] if lines are damaged. The other ones are added.
    pub fn restore_use(&mut self, now: Instant, minutes: &str) -> Result<(), BadSnapshot> {
        self.usage.at(now.as_secs());
        self.usage.restore(minutes)
    }

    /// Returns the use of each account with calls or minutes, of the day of `now`.
    pub fn uses(&mut self, now: Instant) -> impl Iterator<Item = Use> + '_ {
        self.usage.at(now.as_secs());
        self.usage.uses()
    }

    /// Permits and counts a call to a trunk.
    pub(crate) fn permit(&mut self, attempt: &Attempt, now: Instant) -> Result<Permit, Exceeded> {
        let trunk = self.config.trunks.get(attempt.trunk).map_or("", |trunk| trunk.name.as_str());
        let call = Call {
            user: attempt.payer.as_deref(),
            trunk,
            class: attempt.class.as_deref(),
            stranger: attempt.stranger.as_deref(),
            is_emergency: attempt.is_emergency,
        };
        let permit = self.usage.begin(now.as_secs(), &call);
        self.tell_alarms();
        permit
    }

    /// Permits and counts a call from a trunk.
    pub(crate) fn permit_from(&mut self, trunk: usize, now: Instant) -> Result<Permit, Exceeded> {
        let trunk = self.config.trunks.get(trunk).map_or("", |trunk| trunk.name.as_str());
        let call = Call { user: None, trunk, class: None, stranger: None, is_emergency: false };
        let permit = self.usage.begin(now.as_secs(), &call);
        self.tell_alarms();
        permit
    }

    /// Counts the minutes that have begun, ends the calls that have no more, and has the minutes
    /// stored.
    pub(crate) fn watch_use(&mut self, now: Instant) {
        if self.watch_at.is_none_or(|at| at > now) {
            return;
        }
        self.usage.tick(now.as_secs());
        self.tell_alarms();
        if let Some(minutes) = self.usage.snapshot() {
            self.events.push_back(Event::Use { minutes: minutes.into() });
        }
        let reason = |permit: &Permit| match permit {
            permit if permit.is_overdrawn() => Some(NO_MINUTES_REASON),
            permit if permit.is_too_long() => Some(TOO_LONG_REASON),
            _ => None,
        };
        let counted = self
            .bridges
            .iter()
            .filter_map(|(id, bridge)| Some((*id, reason(bridge.permit.as_ref()?))));
        let counted: Vec<(BridgeId, Option<&str>)> = counted.collect();
        // Once more after the last call, which may have begun a minute.
        self.watch_at = (!counted.is_empty()).then_some(now + INTERVAL);
        let mut over: Vec<(BridgeId, &str)> =
            counted.into_iter().filter_map(|(id, reason)| Some((id, reason?))).collect();
        over.sort_unstable();
        for (call, reason) in over {
            self.tell_of_end(call, reason);
            // The call stands: it was counted above.
            let _ = self.hang_up(now, call, reason);
        }
    }

    /// Tells the owner that a limit ends the call.
    fn tell_of_end(&mut self, call: BridgeId, reason: &str) {
        let Some(bridge) = self.bridges.get(&call) else { return };
        let [from, to] = bridge.report.parties.each_ref().map(|uri| String::from_utf8_lossy(uri));
        let on_trunk = bridge.on_trunk.and_then(|on| self.config.trunks.get(on.trunk));
        let trunk = on_trunk.map_or("", |trunk| trunk.name.as_str());
        let cause = match reason {
            NO_MINUTES_REASON => "no minutes are left today",
            _ => "it has reached the maximum duration",
        };
        let words = format!("the call of {from} to {to} through trunk {trunk} ends: {cause}");
        self.events.push_back(Event::Alarm { words: words.into() });
    }

    fn tell_alarms(&mut self) {
        let alarms = self.usage.take_alarms();
        let events =
            alarms.into_iter().map(|alarm| Event::Alarm { words: alarm.to_string().into() });
        self.events.extend(events);
    }
}
