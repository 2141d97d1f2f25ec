//! An upload that waits for its confirmation.

use crate::server::Question;
use std::time::Duration;

/// Content that waits for its confirmation.
#[derive(Debug)]
pub(crate) struct Pending {
    /// The identifier of the session that has uploaded it.
    pub(crate) session: String,
    /// The question that applies it.
    pub(crate) question: Question,
    /// The time of the upload since 1970.
    pub(crate) at: Duration,
}
