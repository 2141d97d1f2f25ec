//! Digits of joined calls, between the relay and the B2BUA: an INFO of one party becomes a
//! telephone event for the other one, and the other way round.

use super::b2bua::AskedDigit;
use super::hub::Hub;
use super::local::{CarryOut, Local};
use super::media::since_epoch;
use b2bua::InfoDigit;
use relay::{Calls, Digit, Pressed, Side};
use sip::Instant;

/// The room for a packet of a telephone event, and what SRTP adds to it.
const BUFFER: usize = 256;

impl Hub {
    /// Plays a digit to the other party, if that has telephone events and the first one has none.
    pub(super) fn plays(&self, asked: &AskedDigit, now: Instant) -> bool {
        let AskedDigit { call_id, caller_tag, is_of_caller, digit, .. } = asked;
        let side = if *is_of_caller { Side::Caller } else { Side::Callee };
        let digit = Digit { key: digit.key, duration: digit.duration.into() };
        let press =
            |relay: &_| Calls::press(relay, call_id, caller_tag, side, digit, since_epoch(now));
        self.relay.as_deref().is_some_and(press)
    }

    /// The time of the next call of [`Hub::play_digits`].
    pub(super) fn next_digit(&self) -> Option<Instant> {
        let next = self.relay.as_ref()?.next_digit()?;
        Some(Instant::from_micros(next.as_micros() as u64))
    }

    /// Sends the packets of digits that are due at `now`.
    pub(super) fn play_digits(&self, now: Instant) {
        if let (Some(relay), Some(media)) = (&self.relay, &self.media) {
            let send = |port, packet: &[u8], to| media.send(port, packet, to);
            relay.play(since_epoch(now), &mut [0; BUFFER], send);
        }
    }

    /// Sends the digits by INFO that parties have sent as telephone events, to those that do not
    /// have such events.
    pub(super) fn pass_digits(&self, local: &mut Local) {
        let Some(relay) = &self.relay else { return };
        for Pressed { call_id, caller_tag, side, digit } in relay.take_pressed() {
            let digit = InfoDigit { key: digit.key, duration: digit.duration.into() };
            let is_of_caller = side == Side::Caller;
            let now = self.clock.now();
            self.b2bua.press(now, local, &call_id, &caller_tag, is_of_caller, digit);
            self.carry_out(local);
        }
    }
}
