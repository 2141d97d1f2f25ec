//! What work on one event needs: a message, a timer, an answer of the DNS.

use crate::counters::Counters;
use crate::flow::Flow;
use crate::keys::Keys;
use crate::output::{Location, Output};
use crate::overload::Share;
use crate::reach::{Answered, Scope};
use crate::settings::Settings;
use crate::timings::Stopwatch;
use alloc::vec::Vec;
use core::ops::Range;
use sip::header::Via;
use sip::{Duration, HeaderName, Instant, Message};

/// The environment of one event: what work on it needs.
pub(crate) struct Env<'e> {
    pub(crate) now: Instant,
    /// Microseconds from `now` to the time of day.
    pub(crate) clock_offset: i64,
    pub(crate) settings: &'e Settings,
    pub(crate) keys: &'e Keys,
    pub(crate) answered: &'e Answered,
    pub(crate) counters: &'e Counters,
    /// Where this message is one that is looked at.
    pub(crate) stopwatch: Option<&'e Stopwatch>,
    /// How long the message has waited to be read.
    pub(crate) waited: Duration,
    /// What is served of the new requests.
    pub(crate) served: Share,
    pub(crate) out: &'e mut Output,
}

impl Env<'_> {
    /// The time of day.
    pub(crate) fn time_of_day(&self) -> Instant {
        Instant::from_micros(self.now.as_micros().saturating_add_signed(self.clock_offset))
    }

    /// [`Settings::may_reach`], counted where not.
    pub(crate) fn may_reach(&self, origin: Scope, place: &Location) -> bool {
        let may = self.settings.may_reach(origin, place.transport, place.remote);
        if !may {
            self.counters.unreachable.add();
        }
        may
    }

    /// Sends what `write` appends, as [`Output::send`] does, when what it takes is here.
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

    /// Whether who is at the other end of `flow` is known to want what comes on it: on a
    /// connection, after an answer, or where the operator says so.
    pub(crate) fn is_asked(&self, flow: &Flow) -> bool {
        let host = flow.remote.ip();
        flow.transport.is_stream() || self.answered.has(host) || self.settings.is_trusted(flow)
    }

    /// The To tag of the responses that this server makes to `request`. It is the same for each
    /// repetition, so that nothing need be remembered (RFC 3261 section 8.2.7), and it is known
    /// again in the ACK.
    pub(crate) fn to_tag(&self, request: &Message<'_>) -> [u8; 16] {
        let via = request.top_via().ok();
        self.to_tag_for(via.and_then(|via| via.branch()), request)
    }

    /// The same for a request that has a Via of ours on top by now.
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
