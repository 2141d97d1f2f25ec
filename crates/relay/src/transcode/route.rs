//! The conversion of the packets from one leg.

use super::format::Formats;
use ::codec::Codec;

/// The packet time of an end that names none, in milliseconds.
const PACKET_TIME: u8 = 20;

/// The conversion of the packets from one leg.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The payload types of the received packets.
    pub(crate) accepts: Formats,
    /// The payload type and the codec of the sound that is sent.
    pub(crate) sound: (u8, Codec),
    /// The payload type and the clock rate of sent events. Without one they are dropped.
    pub(crate) event: Option<(u8, u32)>,
    /// The payload type of sent comfort noise. Without one it is converted to sound.
    pub(crate) noise: Option<u8>,
    /// The sound in a sent packet, in milliseconds: a multiple of 10.
    pub(crate) packet_time: u8,
}

impl Route {
    /// The payload types of the received packets, one bit each.
    pub(crate) fn accepted(&self) -> u128 {
        self.accepts.bits()
    }

    /// The codec of the sound that is sent.
    pub(crate) const fn codec(&self) -> Codec {
        self.sound.1
    }

    /// The route to an end that takes the payload types of `to`, one of them the codec `sound`.
    pub(super) fn new(
        accepts: Formats,
        to: &Formats,
        sound: (u8, Codec),
        has_events: bool,
    ) -> Self {
        let event = to.event_at(sound.1.clock_rate()).filter(|_| has_events);
        let noise = to.noise().filter(|_| sound.1.clock_rate() == 8000);
        let time = to.packet_time.unwrap_or(PACKET_TIME);
        let packet_time = match sound.1 {
            // Opus.
            codec if codec.clock_rate() == 48_000 && !matches!(time, 10 | 20 | 40 | 60) => {
                PACKET_TIME
            }
            Codec::Gsm => (time / 20).max(1) * 20,
            _ => time / 10 * 10,
        };
        Self { accepts, sound, event, noise, packet_time }
    }
}
