//! What the two ends of one dialog, early or not, have agreed on, and what is under way between
//! them (RFC 3264): one offer and its answer after another.

pub(super) use crate::body::session_of;
use crate::client_transaction::ClientId;
use crate::core::Core;
use crate::event::Failure;
use crate::server_transaction::Asked;
use alloc::vec::Vec;
use sip::header::CSeq;
use sip::{Flow, HeaderName, Instant, Message, Method};

/// A change of the session that is under way (RFC 3264).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// None.
    None,
    /// This end has offered.
    Ours,
    /// The other end has.
    Theirs,
}

/// The session of one dialog, as far as its two ends have agreed on it.
pub(super) struct Exchange {
    pub(super) offer: Offer,
    /// What waits for the owner's word.
    pub(super) turn: Option<Turn>,
    /// The offer of ours that is under way, but for that of the INVITE which makes the dialog.
    pub(super) sent: Option<Sent>,
    /// The offer of ours that is made later.
    pub(super) waiting: Option<Waiting>,
    /// Our session description, as it was offered or answered last.
    pub(super) local: Vec<u8>,
    /// That of the other end; empty for none.
    pub(super) remote: Vec<u8>,
    /// Whether the offer that the INVITE began has its answer.
    pub(super) is_settled: bool,
    /// Whether the other end takes UPDATE.
    pub(super) takes_update: bool,
}

/// Where our answer goes, or the offer that we are asked for.
pub(super) enum Turn {
    /// Into the response to a request.
    Response(Asked),
    /// Into the PRACK of a provisional response: the CSeq of its INVITE, and its RSeq.
    Prack(u32, u32),
    /// Into the ACK of the 2xx to the INVITE with this CSeq.
    Ack(u32, Option<Flow>),
}

/// An offer under way.
pub(super) struct Sent {
    pub(super) id: ClientId,
    pub(super) session: Vec<u8>,
    pub(super) tries: u32,
    /// Whether it only refreshes the session.
    pub(super) is_refresh: bool,
}

/// An offer that is made later.
pub(super) struct Waiting {
    pub(super) at: Instant,
    pub(super) session: Vec<u8>,
    pub(super) tries: u32,
    /// Why it was not taken.
    pub(super) failure: Failure,
}

impl Exchange {
    /// That of a dialog which an INVITE begins, with the offer `local` or `remote`.
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

    /// Whether there is an offer without an answer that did not come with the INVITE.
    pub(super) const fn is_open(&self) -> bool {
        self.turn.is_some() || self.sent.is_some()
    }

    /// The answer to our offer, or to one of theirs, is there.
    pub(super) fn settle(&mut self) {
        self.offer = Offer::None;
        self.is_settled = true;
    }

    /// Takes note of what the other end says that it takes.
    pub(super) fn note_allow(&mut self, message: &Message<'_>) {
        if message.has(HeaderName::Allow) {
            let mut methods = message.values(HeaderName::Allow).flat_map(sip::header::tokens);
            self.takes_update = methods.any(|method| method == Method::Update.as_bytes());
        }
    }

    /// Refuses what waits for the owner's word, since the dialog is over (RFC 3261 section 15.1.2).
    pub(super) fn abandon(self, core: &mut Core, tag: &[u8], now: Instant) {
        if let Some(Turn::Response(asked)) = self.turn {
            core.refuse(&asked, 487, tag, now);
        }
    }
}

/// The number in CSeq, 0 where there is none.
pub(super) fn cseq_of(message: &Message<'_>) -> u32 {
    let cseq = message.value(HeaderName::CSeq).and_then(|value| CSeq::parse(value).ok());
    cseq.map_or(0, |cseq| cseq.number)
}
