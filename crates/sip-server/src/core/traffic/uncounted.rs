//! The interface of the counts, without counts.

use crate::core::flow::Flow;
use sip::{Instant, Message};

/// A request with a transaction.
pub(crate) struct Attempt;

/// The counts of one worker.
#[derive(Debug, Default)]
pub(crate) struct Traffic;

impl Attempt {
    pub(crate) const fn new(_: &Message<'_>, _: &Flow, _: bool, _: Instant) -> Self {
        Self
    }
}

impl Traffic {
    pub(crate) const fn request(&self, _: &Message<'_>, _: &Flow) {}

    pub(crate) const fn reply(&self, _: &Message<'_>, _: &Flow, _: u16) {}

    pub(crate) const fn response(&self, _: &mut Attempt, _: u16, _: Instant) {}
}
