//! A call as the phone sees it.

use crate::leg::Leg;
use std::time::Instant;

/// A call as the phone sees it.
pub(crate) struct Call {
    pub(crate) leg: Leg,
    pub(crate) party: String,
    pub(crate) answered: Option<Instant>,
    pub(crate) is_held: bool,
    /// What it is answered with, while it rings here.
    pub(crate) answer: Vec<u8>,
}

impl Call {
    /// A call with `party`, which is not answered.
    pub(crate) fn new(leg: Leg, party: String) -> Self {
        Self { leg, party, answered: None, is_held: false, answer: Vec::new() }
    }
}
