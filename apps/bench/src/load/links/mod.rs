//! The sockets and connections of a worker.

mod plan;
mod streams;
mod system;
mod traffic;
mod udp;

pub(crate) use plan::{LinkError, LinkPlan, Sharing, Tls};
pub(crate) use system::sleep;
pub(crate) use traffic::{Incoming, LinkCounts};

use super::engine::{Output, Place};
use net::Clock;
use sip::{Duration, Transport};
use streams::StreamLinks;
use system::wait_readable;

use udp::UdpLinks;

/// All sockets of a worker.
pub(crate) enum Links {
    Udp(UdpLinks),
    Streams(StreamLinks),
}

impl Links {
    /// Opens them.
    ///
    /// # Errors
    /// [`LinkError`] where one cannot be had.
    pub(crate) fn open(plan: &LinkPlan, clock: Clock) -> Result<Self, LinkError> {
        match plan.transport {
            Transport::Udp => UdpLinks::open(plan, clock).map(Self::Udp),
            _ => StreamLinks::open(plan, clock).map(Self::Streams),
        }
    }

    /// What each link is called in messages, by number.
    pub(crate) fn places(&self) -> Vec<Place> {
        match self {
            Self::Udp(links) => links.places(),
            Self::Streams(links) => links.places(),
        }
    }

    /// The link by which the requests of the user at `index` leave.
    pub(crate) fn way_of(&self, index: usize) -> u32 {
        match self {
            Self::Udp(links) => links.way_of(index),
            Self::Streams(links) => links.link_of(index),
        }
    }

    /// The link where the user at `index` is to be called.
    pub(crate) fn link_of(&self, index: usize) -> u32 {
        match self {
            Self::Udp(links) => links.link_of(index),
            Self::Streams(links) => links.link_of(index),
        }
    }

    /// A link for one operation alone, where each has its own.
    pub(crate) fn link_for_operation(&mut self) -> Option<u32> {
        match self {
            Self::Udp(_) => None,
            Self::Streams(links) => links.link_for_operation(),
        }
    }

    /// Sends what is in `out`, which it may bring into another order, and closes the links of
    /// operations that are over.
    pub(crate) fn send(&mut self, out: &mut Output) {
        match self {
            Self::Udp(links) => links.send(out),
            Self::Streams(links) => links.send(out),
        }
    }

    /// Takes a batch of what has come, and hands each message to `each`. Whether there may be more.
    pub(crate) fn receive(&mut self, each: &mut dyn FnMut(Incoming<'_>)) -> bool {
        match self {
            Self::Udp(links) => links.receive(each),
            Self::Streams(links) => links.receive(each),
        }
    }

    /// Whether each message has a time of receipt of its own, however late it is read.
    pub(crate) const fn are_timed(&self) -> bool {
        match self {
            Self::Udp(_) => true,
            Self::Streams(_) => false,
        }
    }

    /// Waits until something comes, at most for `longest`.
    pub(crate) fn wait_for_messages(&mut self, longest: Duration) {
        let fd = match self {
            Self::Udp(links) => links.poll_fd(),
            Self::Streams(links) => links.poll_fd(),
        };
        wait_readable(fd, longest);
    }

    /// The counts so far.
    pub(crate) fn counts(&self) -> LinkCounts {
        match self {
            Self::Udp(links) => links.counts(),
            Self::Streams(links) => links.counts(),
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Udp(links) => links.len(),
            Self::Streams(links) => links.len(),
        }
    }
}
