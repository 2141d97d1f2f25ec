//! The offers and answers of one dialog, early or not (RFC 3264): the agreed session, and the
//! pending offer.

use crate::client_transaction::{ClientId, RequestResult};
use crate::core::Core;
use crate::envelope::Envelope;
use crate::server_transaction::{Answer, Asked};
use alloc::vec::Vec;
use sip::header::CSeq;
use sip::{Flow, HeaderName, Instant, Message, Method};

/// Returns the session description in the body of a message, if any.
pub(super) fn session_of(message: &Message<'_>) -> Option<Vec<u8>> {
    message.session_description().map(<[u8]>::to_vec)
}

/// A pending change of the session (RFC 3264).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// No change is pending.
    None,
    /// The local end has offered.
    Ours,
    /// The other end has offered.
    Theirs,
}

/// The session of a dialog, as far as both ends have agreed on it.
pub(super) struct Exchange {
    pub(super) offer: Offer,
    /// The decision that the owner has to make.
    pub(super) turn: Option<Turn>,
    /// The pending local offer, except that of the INVITE which creates the dialog.
    pub(super) sent: Option<Sent>,
    /// The local offer to make later.
    pub(super) waiting: Option<Waiting>,
    /// The local session description, as last offered or answered.
    pub(super) local: Vec<u8>,
    /// The session description of the other end, or empty.
    pub(super) remote: Vec<u8>,
    /// True if the offer of the first INVITE is answered.
    pub(super) is_settled: bool,
    /// True if the other end supports UPDATE.
    pub(super) takes_update: bool,
}

/// The message for the local answer, or for the requested offer.
pub(super) enum Turn {
    /// The response to a request, and the time of its 100, if one is due.
    Response(Asked, Option<Instant>),
    /// The PRACK of a provisional response: the CSeq of its INVITE, and its RSeq.
    Prack(u32, u32),
    /// The ACK of a 2xx.
    Ack(Accepted),
}

/// A local INVITE with a 2xx.
#[derive(Clone, Copy)]
pub(super) struct Accepted {
    pub(super) id: ClientId,
    pub(super) cseq: u32,
    /// Its flow.
    pub(super) flow: Option<Flow>,
}

impl Accepted {
    /// Returns the INVITE that the 2xx `response` in `result` accepts.
    pub(super) fn of(result: &RequestResult<'_>, response: &Message<'_>) -> Self {
        Self { id: result.id, cseq: cseq_of(response), flow: result.flow }
    }
}

/// A pending offer.
pub(super) struct Sent {
    pub(super) id: ClientId,
    pub(super) session: Vec<u8>,
    /// The body around it.
    pub(super) envelope: Option<Envelope>,
    pub(super) tries: u32,
    /// True if it only refreshes the session.
    pub(super) is_refresh: bool,
}

/// An offer to make later.
pub(super) struct Waiting {
    pub(super) at: Instant,
    pub(super) session: Vec<u8>,
    pub(super) tries: u32,
    /// True if the other end has made an offer since, whose answer is newer than this one.
    pub(super) is_outdated: bool,
}

impl Exchange {
    /// Returns the exchange of a dialog which an INVITE creates, with the offer `local` or
    /// `remote`.
    pub(super) fn new(offer: Offer, local: &[u8], remote: &[u8]) -> Self {
        Self {
            offer,
            turn: None,
            sent: None,
            waiting: None,
            local: local.to_vec(),
            remote: remote.to_vec(),
            is_settled: false,
            takes_update: false,
        }
    }

    /// Returns the time at which a request that waits for the owner's decision gets a 100.
    pub(super) const fn trying(&self) -> Option<Instant> {
        match &self.turn {
            Some(Turn::Response(_, trying)) => *trying,
            _ => None,
        }
    }

    /// Returns true if an offer other than that of the INVITE waits for its answer.
    pub(super) const fn is_open(&self) -> bool {
        self.turn.is_some() || self.sent.is_some()
    }

    /// Records the answer to the pending offer.
    pub(super) fn settle(&mut self) {
        self.offer = Offer::None;
        self.is_settled = true;
    }

    /// Records the methods that the other end allows.
    pub(super) fn note_allow(&mut self, message: &Message<'_>) {
        if message.has(HeaderName::Allow) {
            let mut methods = message.values(HeaderName::Allow).flat_map(sip::header::tokens);
            self.takes_update = methods.any(|method| method == Method::Update.as_bytes());
        }
    }

    /// Rejects the request that waits for the owner's decision, since the dialog is over (RFC 3261
    /// section 15.1.2).
    pub(super) fn abandon(self, core: &mut Core, tag: &[u8], now: Instant) {
        if let Some(Turn::Response(asked, _)) = self.turn {
            core.respond_to(&asked, &Answer::status(487, tag), now);
        }
    }
}

/// Returns the sequence number in CSeq, 0 if it is absent.
pub(super) fn cseq_of(message: &Message<'_>) -> u32 {
    let cseq = message.value(HeaderName::CSeq).and_then(|value| CSeq::parse(value).ok());
    cseq.map_or(0, |cseq| cseq.number)
}

/// Returns true if `notify` is the last notification.
pub(super) fn is_last(notify: &Message<'_>) -> bool {
    let state = notify.value(HeaderName::SubscriptionState).unwrap_or_default();
    state.trim_ascii().to_ascii_lowercase().starts_with(b"terminated")
}
