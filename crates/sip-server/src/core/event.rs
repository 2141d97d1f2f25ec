//! The environment of one event: a message, a timer or a DNS result.

use crate::core::counters::Counters;
use crate::core::declined::Declined;
use crate::core::flow::Flow;
use crate::core::joined_calls::JoinedCalls;
use crate::core::keys::Keys;
use crate::core::numbers::Numbers;
use crate::core::output::Output;
use crate::core::overload::Share;
use crate::core::reach::{Answered, Scope};
use crate::core::settings::Settings;
use crate::core::source::Source;
use crate::core::timings::Stopwatch;
use crate::core::trunks::Trunks;
use crate::core::watching::WatchedCalls;
use alloc::vec::Vec;
use core::ops::Range;
use relay::Calls;
use sip::header::Via;
use sip::{Duration, HeaderName, Instant, Location, Message};

/// Limit of amplification: the number of bytes sent to a host that has never answered, as a
/// multiple of the bytes received.
pub(crate) const MOST_UNASKED: usize = 3;

/// The environment of one event.
pub(crate) struct Env<'e> {
    pub(crate) now: Instant,
    /// Offset of the time of day from `now`, in microseconds.
    pub(crate) clock_offset: i64,
    pub(crate) settings: &'e Settings,
    pub(crate) keys: &'e Keys,
    pub(crate) answered: &'e Answered,
    pub(crate) declined: &'e Declined,
    pub(crate) counters: &'e Counters,
    /// The relay of media, if there is one.
    pub(crate) relay: Option<&'e dyn Calls>,
    /// The calls of the owner's B2BUA, if there is one.
    pub(crate) joined_calls: Option<&'e dyn JoinedCalls>,
    /// The owner's numbering plan, if there is one.
    pub(crate) numbers: Option<&'e dyn Numbers>,
    /// The trunks of the owner, if there are any.
    pub(crate) trunks: Option<&'e dyn Trunks>,
    /// The calls of users, if the owner has them.
    pub(crate) watched_calls: Option<&'e dyn WatchedCalls>,
    /// Set if this message is measured.
    pub(crate) stopwatch: Option<&'e Stopwatch>,
    /// The time that the message has spent in the receive queue.
    pub(crate) waited: Duration,
    /// The share of new requests that is served.
    pub(crate) served: Share,
    pub(crate) out: &'e mut Output,
}

impl<'e> Env<'e> {
    /// The numbers of the owner, if there are any.
    pub(crate) fn numbers(&self) -> Option<&'e dyn Numbers> {
        self.numbers.filter(|_| cfg!(feature = "office"))
    }

    /// The trunks of the owner, if there are any.
    pub(crate) fn trunks(&self) -> Option<&'e dyn Trunks> {
        self.trunks.filter(|_| cfg!(feature = "office"))
    }
}

impl Env<'_> {
    /// The time of day.
    pub(crate) fn time_of_day(&self) -> Instant {
        Instant::from_micros(self.now.as_micros().saturating_add_signed(self.clock_offset))
    }

    /// Returns [`Settings::may_reach`], and counts a refusal.
    pub(crate) fn may_reach(&self, origin: Scope, place: &Location) -> bool {
        let may = self.settings.may_reach(origin, place.transport, place.remote);
        if !may {
            self.counters.unreachable.add();
        }
        may
    }

    /// True if a request that came on `arrived_on` may be sent to `place`, which a party in the
    /// scope `origin` has named. A refusal is counted. Only the B2BUA sends to trunks: a trunk
    /// accepts calls by the address of this server.
    pub(crate) fn may_send(&self, arrived_on: &Flow, origin: Scope, place: &Location) -> bool {
        if !self.may_reach(origin, place) {
            return false;
        }
        let Location { transport, remote, .. } = *place;
        let from_there = Flow { transport, local: arrived_on.local, remote, connection: None };
        let is_trunk = |trunks: &dyn Trunks| trunks.of_request(&from_there, b"").is_some();
        let may = arrived_on.is_internal() || !self.trunks().is_some_and(is_trunk);
        if !may {
            self.counters.unreachable.add();
        }
        may
    }

    /// Sends the bytes that `write` appends, like [`Output::send`], for a `write` that needs the
    /// environment.
    pub(crate) fn send(
        &mut self,
        flow: Flow,
        write: impl FnOnce(&Self, &mut Vec<u8>),
    ) -> Option<Range<usize>> {
        let mut bytes = core::mem::take(&mut self.out.bytes);
        let start = bytes.len();
        write(self, &mut bytes);
        self.out.bytes = bytes;
        self.out.push(flow, start)
    }

    /// True if the other end of `flow` is known to accept messages: on a connection, after a
    /// response, or if the operator trusts it.
    pub(crate) fn is_asked(&self, flow: &Flow) -> bool {
        let source = Source::of(flow.remote.ip());
        flow.transport.is_stream() || self.answered.has(source) || self.settings.is_trusted(flow)
    }

    /// True if a response of `length` bytes to `request`, which came on `flow`, would be longer
    /// than [`MOST_UNASKED`] times the request. The request may be a forged datagram.
    pub(crate) fn is_amplified(&self, request: &Message<'_>, flow: &Flow, length: usize) -> bool {
        length > MOST_UNASKED * request.as_bytes().len() && !self.is_asked(flow)
    }

    /// Takes back the last message sent, which has this `range`.
    pub(crate) fn take_back(&mut self, range: Range<usize>) {
        self.out.bytes.truncate(range.start);
        self.out.transmits.pop_if(|transmit| transmit.range == range);
    }

    /// The To tag of the responses of this server to `request`. It is derived from the request, so
    /// that retransmissions get the same tag without any state (RFC 3261 section 8.2.7), and it is
    /// recognized in the ACK.
    pub(crate) fn to_tag(&self, request: &Message<'_>) -> [u8; 16] {
        let via = request.top_via().ok();
        self.to_tag_for(via.and_then(|via| via.branch()), request)
    }

    /// Like [`Env::to_tag`], for a request that has the Via of this server on top.
    pub(crate) fn to_tag_of_forwarded(&self, request: &Message<'_>) -> [u8; 16] {
        let via = request.elements(HeaderName::Via).nth(1).and_then(|via| Via::parse(via).ok());
        self.to_tag_for(via.and_then(|via| via.branch()), request)
    }

    fn to_tag_for(&self, branch: Option<&[u8]>, request: &Message<'_>) -> [u8; 16] {
        let branch = branch.unwrap_or_default();
        let call_id = request.value(HeaderName::CallId).unwrap_or_default();
        let hash = self.keys.tag.proof(&[branch, call_id]);
        let mut tag = [0; 16];
        for (at, digit) in tag.iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(hash >> (4 * at)) as usize & 15];
        }
        tag
    }
}
