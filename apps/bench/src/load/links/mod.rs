//! The sockets and connections of a worker.

mod plan;
mod streams;
mod system;
mod traffic;
mod udp;

pub(crate) use plan::{LinkError, LinkPlan, Sharing, Tls};
pub(crate) use system::{Clocks, sleep, wait_readable};
pub(crate) use traffic::{Incoming, LinkCounts};

use super::engine::{Output, Place};
use net::Clock;
use sip::{Duration, Transport};
pub(crate) use streams::StreamLinks;

use udp::UdpLinks;

/// The links of a worker.
pub(crate) enum Links {
    Udp(UdpLinks),
    Streams(StreamLinks),
}

impl Links {
    /// Opens the links.
    ///
    /// # Errors
    /// [`LinkError`] if a link cannot be opened.
    pub(crate) fn open(plan: &LinkPlan, clock: Clock) -> Result<Self, LinkError> {
        match plan.transport {
            Transport::Udp => UdpLinks::open(plan, clock).map(Self::Udp),
            _ => StreamLinks::open(plan, clock).map(Self::Streams),
        }
    }

    /// Returns the addresses of the links in messages, by number.
    pub(crate) fn places(&self) -> Vec<Place> {
        match self {
            Self::Udp(links) => links.places(),
            Self::Streams(links) => links.places(),
        }
    }

    /// Returns the link of the requests of the user at `index`.
    pub(crate) fn way_of(&self, index: usize) -> u32 {
        match self {
            Self::Udp(links) => links.way_of(index),
            Self::Streams(links) => links.link_of(index),
        }
    }

    /// Returns the link at which the user at `index` receives calls.
    pub(crate) fn link_of(&self, index: usize) -> u32 {
        match self {
            Self::Udp(links) => links.link_of(index),
            Self::Streams(links) => links.link_of(index),
        }
    }

    /// Returns a link for a single operation, if each operation has its own.
    pub(crate) fn link_for_operation(&mut self) -> Option<u32> {
        match self {
            Self::Udp(_) => None,
            Self::Streams(links) => links.link_for_operation(),
        }
    }

    /// Sends the messages of `out`, whose order may change, and closes the links of ended
    /// operations.
    pub(crate) fn send(&mut self, out: &mut Output) {
        match self {
            Self::Udp(links) => links.send(out),
            Self::Streams(links) => links.send(out),
        }
    }

    /// Receives a batch and passes each message to `each`. Returns true if there may be more.
    pub(crate) fn receive(&mut self, each: &mut dyn FnMut(Incoming<'_>)) -> bool {
        match self {
            Self::Udp(links) => links.receive(each),
            Self::Streams(links) => links.receive(each),
        }
    }

    /// Returns true if each message has its own time of receipt, however late it is read.
    pub(crate) const fn are_timed(&self) -> bool {
        match self {
            Self::Udp(_) => true,
            Self::Streams(_) => false,
        }
    }

    /// Waits for messages, at most for `longest`.
    pub(crate) fn wait_for_messages(&mut self, longest: Duration) {
        let fd = match self {
            Self::Udp(links) => links.poll_fd(),
            Self::Streams(links) => links.poll_fd(),
        };
        wait_readable([fd], longest);
    }

    /// Returns the counts so far.
    pub(crate) fn counts(&self) -> LinkCounts {
        match self {
            Self::Udp(links) => links.counts(),
            Self::Streams(links) => links.counts(),
        }
    }

    /// Returns the number of links.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Udp(links) => links.len(),
            Self::Streams(links) => links.len(),
        }
    }
}
