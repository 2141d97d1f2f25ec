//! One call: its media, its program, and the conversion between their sample rates.

use crate::config::Config;
use crate::program::Program;
use crate::sounds::Sounds;
use crate::step::Mix;
use crate::step::{Asks, Step};
use alloc::vec::Vec;
use call::Call;
use core::net::SocketAddr;
use media::{Channel, Resampler};
use sip::{Instant, Source};
use sip_ua::Agent;

/// A call.
pub(crate) struct Line {
    pub(crate) call: Call,
    pub(crate) source: Source,
    /// True if the caller has authenticated.
    pub(crate) is_proved: bool,
    pub(crate) begun: Instant,
    pub(crate) program: Program,
    converters: Option<Converters>,
    /// The received samples at the rate of the session, and of the program.
    received: Vec<i16>,
    heard: Vec<i16>,
    /// The samples to send at the rate of the program, and of the session.
    spoken: Vec<i16>,
    sound: Vec<i16>,
}

/// The conversions between the sample rates of the session and of the program.
struct Converters {
    session: u32,
    inward: Resampler,
    outward: Resampler,
}

impl Line {
    /// The line of `call` from `source`, which began at `begun`. It is true for a caller that has
    /// authenticated.
    pub(crate) const fn new(
        call: Call,
        (source, is_proved): (Source, bool),
        begun: Instant,
        program: Program,
    ) -> Self {
        Self {
            call,
            source,
            is_proved,
            begun,
            program,
            converters: None,
            received: Vec::new(),
            heard: Vec::new(),
            spoken: Vec::new(),
            sound: Vec::new(),
        }
    }

    /// Takes the next 20 ms of received sound, if the call is answered and acknowledged.
    pub(crate) fn hear(&mut self, now: Instant) {
        self.heard.clear();
        let session = self.call.session().filter(|_| self.call.is_open());
        let Some(session) = session else { return };
        let session = session.stream().codec.sample_rate();
        self.received.clear();
        self.call.play(now, &mut self.received);
        let converters = match &mut self.converters {
            Some(converters) if converters.session == session => converters,
            converters => {
                let program = self.program.rate(session);
                converters.insert(Converters {
                    session,
                    inward: Resampler::new(session, program),
                    outward: Resampler::new(program, session),
                })
            }
        };
        converters.inward.resample(&self.received, &mut self.heard);
    }

    /// The sound that [`Line::hear`] has taken, at the rate of the program.
    pub(crate) fn heard(&self) -> &[i16] {
        &self.heard
    }

    /// True if the call is over by its duration, or since no packets arrive.
    pub(crate) fn is_over_limit(&self, now: Instant, config: &Config) -> bool {
        let silence = self.call.session().and_then(media::Session::silence).unwrap_or_default();
        now.since(self.begun) > config.call_length
            || (!self.call.is_held() && silence > config.inactivity.into())
    }

    /// Processes the sound that [`Line::hear`] has taken, and sends 20 ms of sound. Returns true if
    /// the program is over.
    pub(crate) fn speak(
        &mut self,
        agent: &Agent,
        now: Instant,
        (mix, sounds): (Option<&Mix>, &Sounds),
        asks: &mut Asks,
        transmit: &mut dyn FnMut(Channel, SocketAddr, &[u8]),
    ) -> bool {
        self.spoken.clear();
        self.sound.clear();
        let mut is_over = false;
        if !self.heard.is_empty()
            && let Some(converters) = &mut self.converters
        {
            let (heard, out) = (&*self.heard, &mut self.spoken);
            is_over = self.program.step(Step { heard, mix, sounds, out, asks });
            converters.outward.resample(&self.spoken, &mut self.sound);
        }
        self.call.send(agent, now, &mut self.sound, transmit);
        is_over
    }
}
