//! A subscription: its dialog, and the changes that are not told yet.

use alloc::boxed::Box;
use alloc::vec::Vec;
use sip::dialog::Dialog;
use sip::{Flow, Instant, Source};

/// An event package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Package {
    /// Message counts (RFC 3842).
    MessageSummary,
    /// The states of calls (RFC 4235).
    Dialog,
}

impl Package {
    /// Returns the package and the `id` of the value of Event.
    pub(crate) fn parse(event: &[u8]) -> Option<Self> {
        let name = event.split(|byte| *byte == b';').next()?.trim_ascii();
        match name {
            name if name.eq_ignore_ascii_case(b"message-summary") => Some(Self::MessageSummary),
            name if name.eq_ignore_ascii_case(b"dialog") => Some(Self::Dialog),
            _ => None,
        }
    }
}

/// The reason of the end of a subscription (RFC 6665 section 4.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It has expired, or the subscriber has ended it.
    Timeout,
    /// The subscriber should subscribe anew at once.
    Deactivated,
    /// The subscriber should subscribe anew after some seconds.
    Probation,
    /// The subscriber has no longer the right to it.
    Rejected,
    /// The user no longer exists.
    NoResource,
}

impl Reason {
    /// Returns the parameters of Subscription-State.
    pub(crate) const fn params(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Deactivated => "deactivated",
            Self::Probation => "probation;retry-after=5",
            Self::Rejected => "rejected",
            Self::NoResource => "noresource",
        }
    }
}

/// A NOTIFY that is not answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) branch: u64,
    /// The time until which it has to be answered.
    pub(crate) until: Instant,
}

/// A subscription.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) dialog: Dialog,
    pub(crate) flow: Flow,
    pub(crate) package: Package,
    /// The value of Event, which NOTIFYs repeat.
    pub(crate) event: Vec<u8>,
    /// The user that the subscription is about, `name@domain`.
    pub(crate) user: Box<str>,
    /// The user that has subscribed, `name@domain`.
    pub(crate) subscriber: Box<str>,
    /// True if the subscriber may know the parties of calls and their dialogs.
    pub(crate) is_detailed: bool,
    pub(crate) expires: Instant,
    /// The version of the next document.
    pub(crate) version: u32,
    /// The numbers of the calls in the last document.
    pub(crate) told: Vec<u64>,
    /// True if a change is not told.
    pub(crate) is_due: bool,
    /// The earliest time of the next NOTIFY.
    pub(crate) next: Instant,
    pub(crate) sent: Option<Sent>,
    /// The time in the queue of timers.
    pub(crate) queued: Option<Instant>,
}

impl Subscription {
    /// The source that is charged for the subscription.
    pub(crate) const fn source(&self) -> Source {
        Source::of(self.flow.remote.ip())
    }

    /// The time of its next timer.
    pub(crate) fn next_timer(&self) -> Instant {
        let next = match self.sent {
            Some(sent) => sent.until,
            None if self.is_due => self.next,
            None => self.expires,
        };
        next.min(self.expires)
    }
}
