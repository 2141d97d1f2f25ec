//! The state of each RTP receiving address and port, as offers and answers change it (RFC 3264).

use super::sdp::{self, Described, Format};
use ::sdp::CryptoAttribute;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;

/// The media that an address and port receives.
#[derive(Clone, Debug)]
pub(super) struct Media {
    pub(super) formats: Rc<[Format]>,
    /// The Call-ID of the message with the description.
    pub(super) call_id: Rc<str>,
    /// True if the media is certainly RTP and not SRTP.
    pub(super) is_plain: bool,
    /// The keys for media sent from this address.
    sends: Rc<[CryptoAttribute]>,
    /// The keys for media sent to this address: those of the other end.
    receives: Rc<[CryptoAttribute]>,
}

/// The limit of addresses and ports.
const ENDPOINTS: usize = 100_000;
/// The limit of media in pending offers; answers to later offers are ignored.
const OFFERED: usize = 100_000;

/// The message of a session description.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange<'a> {
    /// The key of the transaction on its hop, shared by request, response and ACK.
    pub(super) key: u128,
    pub(super) is_request: bool,
    pub(super) call_id: &'a str,
}

/// An offer, and true if its answer came.
struct Offer {
    in_request: bool,
    is_answered: bool,
    media: Vec<Described>,
}

/// All described endpoints.
#[derive(Default)]
pub(super) struct Endpoints {
    endpoints: HashMap<SocketAddr, Media>,
    offers: HashMap<u128, Offer>,
    /// The number of media in pending offers, plus one per offer.
    offered: usize,
    /// Media descriptions beyond the limit.
    pub(super) left_out: u64,
    state: u64,
}

impl Endpoints {
    /// Returns a number that changes whenever the result of [`Endpoints::find`] may change.
    pub(super) fn state(&self) -> u64 {
        self.state
    }

    /// Adds a session description. The first one for an address and port applies at once, since
    /// media may precede the answer. A later one applies when the offer is answered.
    pub(super) fn learn(&mut self, body: &[u8], exchange: Exchange<'_>) {
        let media = sdp::media(body);
        let call_id: Rc<str> = exchange.call_id.into();
        match self.offers.get_mut(&exchange.key) {
            Some(offer) if offer.in_request != exchange.is_request => {
                offer.is_answered = true;
                let offered = std::mem::take(&mut offer.media);
                for (index, offered) in offered.iter().enumerate() {
                    let answered = media.get(index).map(|answer| answer.keys.clone());
                    self.insert(offered, answered.unwrap_or_default(), &call_id);
                }
                for (index, answer) in media.iter().enumerate() {
                    let offered = offered.get(index).map(|offer| chosen(&offer.keys, &answer.keys));
                    self.insert(answer, offered.unwrap_or_default(), &call_id);
                }
                if let Some(offer) = self.offers.get_mut(&exchange.key) {
                    offer.media = offered;
                }
            }
            // A retransmission.
            Some(offer) if offer.is_answered => {}
            known => {
                let before = known.map_or(0, |offer| offer.media.len() + 1);
                let held = self.offered - before + media.len() + 1;
                let is_kept = held <= OFFERED;
                for offered in &media {
                    let is_new =
                        offered.endpoint.is_some_and(|at| !self.endpoints.contains_key(&at));
                    if is_new || !is_kept {
                        self.insert(offered, Rc::default(), &call_id);
                    }
                }
                if is_kept {
                    self.offered = held;
                    let offer =
                        Offer { in_request: exchange.is_request, is_answered: false, media };
                    self.offers.insert(exchange.key, offer);
                }
            }
        }
    }

    /// Handles a rejected offer: the previous state continues to apply.
    pub(super) fn refuse(&mut self, key: u128) {
        if let Some(offer) = self.offers.remove(&key) {
            self.offered -= offer.media.len() + 1;
        }
    }

    /// Handles an accepted offer without an answer in the capture.
    pub(super) fn accept(&mut self, key: u128, call_id: &str) {
        let Some(offer) = self.offers.get_mut(&key).filter(|offer| !offer.is_answered) else {
            return;
        };
        offer.is_answered = true;
        let media = std::mem::take(&mut offer.media);
        self.offered -= media.len();
        let call_id: Rc<str> = call_id.into();
        media.iter().for_each(|offered| self.insert(offered, Rc::default(), &call_id));
    }

    /// Returns the media between two addresses, and their keys. The destination decides; without a
    /// description of it, the source does, since RTP is mostly sent from the receiving port.
    pub(super) fn find(
        &self,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> Option<(&Media, &Rc<[CryptoAttribute]>)> {
        let sender = self.endpoints.get(&source);
        let Some(receiver) = self.endpoints.get(&destination) else {
            return sender.map(|sender| (sender, &sender.sends));
        };
        // Before the answer, only the keys of the sender itself may be known.
        let keys = match sender {
            Some(sender) if receiver.receives.is_empty() => &sender.sends,
            _ => &receiver.receives,
        };
        Some((receiver, keys))
    }

    fn insert(
        &mut self,
        described: &Described,
        receives: Rc<[CryptoAttribute]>,
        call_id: &Rc<str>,
    ) {
        let Some(endpoint) = described.endpoint else { return };
        let is_new = !self.endpoints.contains_key(&endpoint);
        if is_new && self.endpoints.len() >= ENDPOINTS {
            self.left_out += 1;
            return;
        }
        self.state += 1;
        let media = Media {
            formats: described.formats.clone(),
            call_id: call_id.clone(),
            is_plain: described.is_plain && receives.is_empty(),
            sends: described.keys.clone(),
            receives,
        };
        self.endpoints.insert(endpoint, media);
    }
}

/// Returns the offered keys with the tags of the answer (RFC 4568 section 5.1.2), or all if it has
/// no tags.
fn chosen(offered: &Rc<[CryptoAttribute]>, answered: &[CryptoAttribute]) -> Rc<[CryptoAttribute]> {
    let is_named = |key: &&CryptoAttribute| answered.iter().any(|answer| answer.tag == key.tag);
    let named: Vec<_> = offered.iter().filter(is_named).cloned().collect();
    if named.is_empty() { offered.clone() } else { named.into() }
}
