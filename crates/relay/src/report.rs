//! The report about a call.

use crate::call::{Attachment, Branch, MAX_PARTY};
use crate::end::EndReport;
use crate::host::Ports;
use crate::statistics::Direction;
use crate::web::WebFault;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use lock_api::RawMutex;

/// A call that is relayed, or was.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallReport {
    /// The Call-ID.
    pub call_id: Box<[u8]>,
    /// The identifier of the branch.
    pub branch: Box<[u8]>,
    /// The tag of the caller.
    pub caller_tag: Box<[u8]>,
    /// The last tag of a callee.
    pub callee_tag: Box<[u8]>,
    /// The names of the caller and of the callee, as the owner gave them.
    pub parties: [Box<[u8]>; 2],
    /// The ends, the caller first.
    pub ends: [EndReport; 2],
    /// The time of the first description.
    pub created: Duration,
    /// The time of the last description.
    pub described: Duration,
    /// The time at which the callee began to ring.
    pub ringing: Option<Duration>,
    /// The time of the final answer.
    pub answered: Option<Duration>,
    /// The time of the last RTP packet of either end.
    pub last_packet: Option<Duration>,
    /// True if no packet came within 5 seconds after the answer. `None` if it is not known: the
    /// call is not answered, or ended before.
    pub no_media: Option<bool>,
    /// True for each end that has left the media: it has sent an RTCP BYE, and no packet since.
    pub has_left: [bool; 2],
    /// The reason why the leg of a browser is over, if that has ended the call.
    pub web_fault: Option<WebFault>,
    /// False if another branch of the same call goes on: for a branch that is not answered any
    /// other one, else one that is answered.
    pub is_last: bool,
    /// The packets of each stream: those of the caller, and those of the callee.
    pub streams: Vec<[Direction; 2]>,
    /// The value that the owner has kept with the call.
    pub attachment: Option<Attachment>,
}

impl CallReport {
    /// The report about `branch`, beside the `others` of the same Call-ID.
    pub(crate) fn new<R: RawMutex, P: Ports>(
        call_id: &[u8],
        branch: &Branch<R, P>,
        others: &[Branch<R, P>],
    ) -> Self {
        let goes_on = |other: &Branch<R, P>| {
            let is_another = *other.id != *branch.id && other.caller_tag == branch.caller_tag;
            is_another && (branch.answered.is_none() || other.answered.is_some())
        };
        Self {
            call_id: call_id.into(),
            caller_tag: branch.caller_tag.clone(),
            callee_tag: branch.callee_tags.last().cloned().unwrap_or_default(),
            parties: branch.parties.clone(),
            branch: branch.id.clone(),
            ends: branch.ends.clone(),
            created: branch.created,
            described: branch.described,
            ringing: branch.ringing,
            answered: branch.answered,
            last_packet: branch.streams().filter_map(|stream| stream.activity().last).max(),
            no_media: branch.no_media,
            has_left: branch.has_left(),
            web_fault: None,
            is_last: !others.iter().any(goes_on),
            streams: branch.summaries().collect(),
            attachment: branch.attachment.clone(),
        }
    }

    /// The report about a call that was refused before it reached the relay. Its callee has no
    /// address. Texts are cut as those of a relayed party are.
    #[must_use]
    pub fn of_unrelayed(
        call_id: &[u8],
        caller_tag: &[u8],
        parties: [&[u8]; 2],
        caller: SocketAddr,
        created: Duration,
    ) -> Self {
        Self {
            call_id: cut(call_id),
            branch: Box::default(),
            caller_tag: cut(caller_tag),
            callee_tag: Box::default(),
            parties: parties.map(cut),
            ends: [EndReport::at(caller), EndReport::UNKNOWN],
            created,
            described: created,
            ringing: None,
            answered: None,
            last_packet: None,
            no_media: None,
            has_left: [false; 2],
            web_fault: None,
            is_last: true,
            streams: Vec::new(),
            attachment: None,
        }
    }

    /// The reason why a call is over by the limits of the relay, for a log: the words behind "it".
    #[must_use]
    pub fn fault(&self) -> &'static str {
        match (self.answered, self.has_left) {
            (Some(_), _) if self.web_fault == Some(WebFault::Consent) => {
                "has no checks of the browser"
            }
            (Some(_), _) if self.web_fault == Some(WebFault::Keys) => "has no keys by DTLS",
            (None, _) => "is not answered",
            (Some(_), [false, false]) => "has no packets",
            (Some(_), _) => "has no packets after an RTCP BYE",
        }
    }

    /// Adds the report `other` about another branch of the same call, which ended before. The
    /// result has the first times of both, and the streams with most packets.
    #[must_use]
    pub fn merged(mut self, other: Self) -> Self {
        let packets = |streams: &[[Direction; 2]]| -> u64 {
            streams.iter().flatten().map(|direction| direction.packets).sum()
        };
        self.created = self.created.min(other.created);
        self.ringing = self.ringing.into_iter().chain(other.ringing).min();
        if packets(&other.streams) > packets(&self.streams) {
            self.streams = other.streams;
        }
        self
    }
}

/// The beginning of `text` that a report keeps.
fn cut(text: &[u8]) -> Box<[u8]> {
    text[..text.len().min(MAX_PARTY)].into()
}
