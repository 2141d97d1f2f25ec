//! Microphone and speaker. They are open only while needed, and a call proceeds without them if
//! they fail.

#[cfg(feature = "audio")]
mod cards;
#[cfg(not(feature = "audio"))]
#[path = "none.rs"]
mod cards;
#[cfg(any(feature = "audio", test))]
mod drift;
#[cfg(feature = "audio")]
mod echo;
mod frame;
mod listed;

#[cfg(not(feature = "audio"))]
use cards::Canceller;
use cards::{Microphone, Speaker};
#[cfg(feature = "audio")]
use echo::Canceller;
use std::time::{Duration, Instant};

pub(crate) use cards::list;
pub(crate) use frame::{FRAME, RATE};
pub(crate) use listed::Listed;

/// Time before a failed device is opened again.
const AGAIN: Duration = Duration::from_secs(2);

/// The devices wanted: a name, or the default one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) microphone: Option<String>,
    pub(crate) speaker: Option<String>,
    /// True if the speaker's sound is removed from the microphone's.
    pub(crate) cancels_echo: bool,
}

/// The devices, as far as they are open.
pub(crate) struct Devices {
    wanted: Wanted,
    microphone: Option<Microphone>,
    speaker: Option<Speaker>,
    canceller: Option<Canceller>,
    /// The time of the next attempt.
    again: Option<Instant>,
}

impl Devices {
    pub(crate) fn new(wanted: Wanted) -> Self {
        let canceller = wanted.cancels_echo.then(Canceller::new);
        Self { wanted, microphone: None, speaker: None, canceller, again: None }
    }

    /// Opens closed devices. Returns descriptions of the first failures only.
    pub(crate) fn open(&mut self, now: Instant) -> Vec<String> {
        self.microphone.take_if(|microphone| microphone.is_broken());
        self.speaker.take_if(|speaker| speaker.is_broken());
        let is_open = self.microphone.is_some() && self.speaker.is_some();
        if is_open || self.again.is_some_and(|again| now < again) {
            return Vec::new();
        }
        let mut problems = Vec::new();
        if self.microphone.is_none() {
            match Microphone::open(self.wanted.microphone.as_deref(), RATE) {
                Ok(microphone) => self.microphone = Some(microphone),
                Err(problem) => problems.push(problem),
            }
        }
        if self.speaker.is_none() {
            match Speaker::open(self.wanted.speaker.as_deref(), RATE) {
                Ok(speaker) => self.speaker = Some(speaker),
                Err(problem) => problems.push(problem),
            }
        }
        let first = self.again.is_none();
        self.again = (!problems.is_empty()).then_some(now + AGAIN);
        // Further failures are not reported again.
        if first { problems } else { Vec::new() }
    }

    /// Closes both devices.
    pub(crate) fn close(&mut self) {
        (self.microphone, self.speaker, self.again) = (None, None, None);
    }

    /// The next 20 ms of the microphone: silence if it is not open.
    pub(crate) fn capture(&mut self) -> Vec<i16> {
        let mut heard = Vec::with_capacity(FRAME);
        if let Some(microphone) = &mut self.microphone {
            microphone.capture(FRAME, &mut heard);
        }
        heard.resize(FRAME, 0);
        if let Some(canceller) = &mut self.canceller {
            canceller.clean(&mut heard);
        }
        heard
    }

    /// Plays the next 20 ms: a sum of sounds, clipped to 16 bits.
    pub(crate) fn play(&mut self, mix: &[i32]) {
        let Some(speaker) = &mut self.speaker else { return };
        let most = (i32::from(i16::MIN), i32::from(i16::MAX));
        let samples = mix.iter().map(|sum| (*sum).clamp(most.0, most.1) as i16);
        let samples: Vec<i16> = samples.collect();
        if let Some(canceller) = &mut self.canceller {
            canceller.plays(&samples);
        }
        speaker.play(&samples);
    }
}
