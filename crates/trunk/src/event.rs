//! The events and queries of the registry.

use alloc::string::String;
use core::fmt;
use sip::locate::Destination;

/// The identifier of a query. It is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);

/// An event, or a query of the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Query for the servers of a trunk. The owner answers with
    /// [`Registry::located`](crate::Registry::located).
    Locate {
        /// The identifier of the query.
        ticket: Ticket,
        /// The destination to locate. Its host may be an address.
        destination: Destination,
    },
    /// The state of a trunk has changed.
    Changed(Notice),
}

/// A change of state, in words: one line without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The name of the trunk.
    pub trunk: String,
    /// The change and its reason.
    pub text: String,
    /// True if the trunk, or a part of it, does not work.
    pub is_trouble: bool,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trunk {}: {}", self.trunk, self.text)
    }
}
