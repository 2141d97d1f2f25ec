//! The state of one screen: a page, and the position in it.

use super::list::List;
use crate::options::server::Page;
use sip::Instant;

/// A cover over a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// The keys and their actions.
    Keys,
    /// The question for a reboot.
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

/// The state of one screen.
#[derive(Debug)]
pub struct View {
    pub(super) page: Page,
    pub(super) cover: Option<Cover>,
    /// Number of log lines behind those shown.
    pub(super) newer: usize,
    /// Number of counters before those shown.
    pub(super) skipped: usize,
    pub(super) list: List,
    /// True if the list is updated at each change.
    pub(super) is_live: bool,
    /// The requested move in the list.
    pub(super) wanted: Option<Move>,
    pub(super) is_stale: bool,
    pub(super) drawn: Instant,
    /// Number of log lines at the last drawing.
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
