//! What is remembered of one screen: a page, and where in it.

use super::list::List;
use crate::options::server::Page;
use sip::Instant;

/// What a page is hidden by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// The keys, and what they do.
    Keys,
    /// The question whether to boot again.
    Question,
}

/// A move within a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    On,
    Back,
    First,
    Last,
}

/// What one screen shows.
#[derive(Debug)]
pub struct View {
    pub(super) page: Page,
    pub(super) cover: Option<Cover>,
    /// Lines of the log that are behind those that are shown.
    pub(super) newer: usize,
    /// Counters that are before those that are shown.
    pub(super) skipped: usize,
    pub(super) list: List,
    /// Whether the list is shown anew at every change.
    pub(super) is_live: bool,
    /// What is to be done with the list.
    pub(super) wanted: Option<Move>,
    pub(super) is_stale: bool,
    pub(super) drawn: Instant,
    /// Lines there were in the log then.
    pub(super) seen: u64,
}

impl Default for View {
    fn default() -> Self {
        Self {
            page: Page::Log,
            cover: None,
            newer: 0,
            skipped: 0,
            list: List::default(),
            is_live: true,
            wanted: None,
            is_stale: true,
            drawn: Instant::ZERO,
            seen: 0,
        }
    }
}
