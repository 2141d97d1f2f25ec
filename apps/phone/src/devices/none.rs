//! Replacement of the sound cards in a build without them.

use super::listed::Listed;

/// The reason.
const WHY: &str = "this phone was built without sound devices: build it with `--features audio`, which needs libasound2-dev";

/// # Errors
/// Always.
pub(crate) fn list() -> Result<Vec<Listed>, String> {
    Err(WHY.to_owned())
}

/// An echo canceller that does nothing.
pub(super) struct Canceller;

impl Canceller {
    pub(super) const fn new() -> Self {
        Self
    }

    pub(super) const fn plays(&mut self, _samples: &[i16]) {}

    pub(super) const fn clean(&mut self, _samples: &mut [i16]) {}
}

/// A microphone, which cannot exist here.
pub(super) enum Microphone {}

/// A speaker, which cannot exist here.
pub(super) enum Speaker {}

impl Microphone {
    pub(super) fn open(_name: Option<&str>, _rate: u32) -> Result<Self, String> {
        Err(WHY.to_owned())
    }

    pub(super) fn is_broken(&self) -> bool {
        match *self {}
    }

    pub(super) fn capture(&mut self, _count: usize, _out: &mut Vec<i16>) {
        match *self {}
    }
}

impl Speaker {
    pub(super) fn open(_name: Option<&str>, _rate: u32) -> Result<Self, String> {
        Err(WHY.to_owned())
    }

    pub(super) fn is_broken(&self) -> bool {
        match *self {}
    }

    pub(super) fn play(&mut self, _samples: &[i16]) {
        match *self {}
    }
}
