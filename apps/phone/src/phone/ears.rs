//! The start of outgoing sound and of the analysis of received sound.

use super::Phone;
use crate::call::Call;
use media::audio_meter::AudioMeter;

impl Phone {
    /// Starts the sound of an answered call. Without early media the analysis of received sound
    /// starts again.
    pub(super) fn open(&mut self, number: u64) {
        let leg = self.calls.get_mut(&number).and_then(|call| call.leg.as_mut());
        if let Some(leg) = leg {
            leg.ports.rest();
            if !self.early {
                leg.ear.forget();
            }
        }
    }

    /// Returns true if a call can be held, resumed or transferred now: it is established and no
    /// answer is pending.
    pub(crate) fn may_change(&self, number: u64) -> bool {
        let id = self.calls.get(&number).and_then(Call::id);
        id.is_some_and(|id| self.agent.may_offer(id))
    }

    /// The detector on received sound of a call; `None` without media.
    pub(crate) fn ear(&mut self, number: u64) -> Option<&mut AudioMeter> {
        let leg = self.calls.get_mut(&number).and_then(|call| call.leg.as_mut());
        leg.map(|leg| &mut leg.ear)
    }
}
