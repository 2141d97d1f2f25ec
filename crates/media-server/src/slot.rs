//! Slots: a call waits with music until another one joins it, and both talk until one of them
//! ends. A parked call waits in a slot with a number, a call that is picked up in one without.

use crate::player::Player;
use crate::room::{self, Room};
use crate::sounds::{MUSIC, RATE, Sounds};
use crate::step::Step;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use media::Resampler;
use sip::Instant;
use sip_ua::CallId;

/// The digits after a prefix that name a slot. The digit 0 selects the first free slot.
const DIGITS: core::ops::RangeInclusive<char> = '1'..='9';

/// A slot.
pub(crate) struct Slot {
    pub(crate) room: Room,
    /// The call that waits, or the two that talk.
    calls: Vec<CallId>,
}

/// A transfer that passes from one party of a slot to the other one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassedTransfer {
    /// The call of the party that has requested it.
    pub(crate) referrer: CallId,
    /// The time of its end without a result.
    pub(crate) until: Instant,
}

/// The slots with a call.
#[derive(Default)]
pub(crate) struct Slots(BTreeMap<String, Slot>);

impl Slots {
    /// The number of calls in the slot `name`.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.0.get(name).map_or(0, |slot| slot.calls.len())
    }

    /// The number of slots with a call.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The slot that `call` is in.
    pub(crate) fn slot_of(&self, call: CallId) -> Option<&str> {
        let found = self.0.iter().find(|(_, slot)| slot.calls.contains(&call));
        found.map(|(name, _)| name.as_str())
    }

    /// Adds `call` to the slot `name`, in the place of the call `replaced` if that is there.
    /// Returns the other call of the slot.
    pub(crate) fn join(
        &mut self,
        name: &str,
        call: CallId,
        replaced: Option<CallId>,
    ) -> Option<CallId> {
        let slot = self
            .0
            .entry(name.into())
            .or_insert_with(|| Slot { room: Room::new(), calls: Vec::new() });
        slot.calls.retain(|known| Some(*known) != replaced);
        slot.calls.push(call);
        self.partner(name, call)
    }

    /// The other call of the slot `name`, beside `call`.
    pub(crate) fn partner(&self, name: &str, call: CallId) -> Option<CallId> {
        let calls = &self.0.get(name)?.calls;
        calls.iter().copied().find(|known| *known != call).filter(|_| calls.contains(&call))
    }

    /// Removes `call` from the slot `name`. Returns the call that it has left alone.
    pub(crate) fn leave(&mut self, name: &str, call: CallId) -> Option<CallId> {
        let slot = self.0.get_mut(name)?;
        let is_there = slot.calls.contains(&call);
        slot.calls.retain(|known| *known != call);
        let other = slot.calls.first().copied().filter(|_| is_there);
        if slot.calls.is_empty() {
            self.0.remove(name);
        }
        other
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Slot> {
        self.0.get(name)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut Slot> {
        self.0.get_mut(name)
    }

    /// Begins the next 20 ms.
    pub(crate) fn begin(&mut self) {
        self.0.values_mut().for_each(|slot| slot.room.begin());
    }
}

/// The slots that `name`, a `user@domain`, stands for: a name with the digit 0 at the end of its
/// user stands for those with the digits 1 to 9.
pub(crate) fn candidates(name: &str) -> Vec<String> {
    let (user, domain) = name.split_once('@').unwrap_or((name, ""));
    match user.strip_suffix('0') {
        Some(prefix) => DIGITS.map(|digit| format!("{prefix}{digit}@{domain}")).collect(),
        None => [name.to_string()].into(),
    }
}

/// The call in a slot.
pub(crate) struct Waiting {
    /// The name of the slot.
    pub(crate) slot: String,
    /// True until another call joins.
    pub(crate) is_alone: bool,
    /// The user that calls, `name@domain`.
    pub(crate) caller: Option<String>,
    /// The party that gets the call back, a SIP URI.
    pub(crate) owner: Option<String>,
    /// The time at which the call returns to it.
    pub(crate) returns_at: Option<Instant>,
    player: Player,
    upward: Resampler,
    music: Vec<i16>,
}

impl Waiting {
    /// A call that begins to wait in `slot`.
    pub(crate) fn new(slot: String, owner: Option<String>) -> Self {
        Self {
            slot,
            is_alone: true,
            owner,
            caller: None,
            returns_at: None,
            player: Player::new(RATE),
            upward: Resampler::new(RATE, room::RATE),
            music: Vec::new(),
        }
    }

    /// Tells the caller the number of the slot: by the sound `parked-USER`, or by as many tones as
    /// its last digit.
    pub(crate) fn announce(&mut self, sounds: &Sounds) {
        let user = self.slot.split('@').next().unwrap_or_default();
        self.player.pause(500);
        if !sounds.play(&format!("parked-{user}"), &mut self.player) {
            let digit = user.chars().next_back().and_then(|last| last.to_digit(10));
            for _ in 0..digit.unwrap_or_default() {
                self.player.tone(880.0, 150).pause(250);
            }
        }
        self.player.pause(1000);
    }

    /// Appends the music, or the sound of the other call, to the output.
    pub(crate) fn step(&mut self, step: Step<'_>) {
        let Step { heard, mix, sounds, out, .. } = step;
        if !self.is_alone {
            let sum = mix.map_or(&[][..], |mix| &mix.0);
            out.extend(heard.iter().enumerate().map(|(at, own)| {
                let other = sum.get(at).copied().unwrap_or_default() - i32::from(*own);
                other.clamp(i16::MIN.into(), i16::MAX.into()) as i16
            }));
            return;
        }
        if self.player.is_done() {
            sounds.play_or_tones(MUSIC, &mut self.player);
        }
        self.music.clear();
        self.player.fill(heard.len() / 2, &mut self.music);
        let start = out.len();
        self.upward.resample(&self.music, out);
        out.resize(start + heard.len(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_zero_stands_for_nine_slots() {
        assert_eq!(candidates("701@a.com"), ["701@a.com"]);
        let nine = candidates("700@a.com");
        assert_eq!((nine.len(), nine[0].as_str(), nine[8].as_str()), (9, "701@a.com", "709@a.com"));
    }
}
