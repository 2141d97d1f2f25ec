//! What is known of each address and port that receives RTP, while offers and answers change it
//! (RFC 3264).

use super::sdp::{self, Described, Format};
use ::sdp::Crypto;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;

/// What is received at an address and port.
#[derive(Clone, Debug)]
pub(super) struct Media {
    pub(super) formats: Rc<[Format]>,
    /// The Call-ID of the message with the description.
    pub(super) call_id: Rc<str>,
    /// Whether it is RTP for certain, and not SRTP.
    pub(super) is_plain: bool,
    /// The keys of what is sent from here.
    sends: Rc<[Crypto]>,
    /// The keys of what is sent to here: those of the other end.
    receives: Rc<[Crypto]>,
}

/// The most addresses and ports that are kept.
const ENDPOINTS: usize = 100_000;
/// The most media that offers hold which are kept; of later ones it is not waited for the answer.
const OFFERED: usize = 100_000;

/// In which message a description came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange<'a> {
    /// The transaction on its hop, as request, response and ACK share it.
    pub(super) key: u128,
    pub(super) is_request: bool,
    pub(super) call_id: &'a str,
}

/// An offer, and whether its answer came.
struct Offer {
    in_request: bool,
    is_answered: bool,
    media: Vec<Described>,
}

/// Everything that was described.
#[derive(Default)]
pub(super) struct Endpoints {
    endpoints: HashMap<SocketAddr, Media>,
    offers: HashMap<u128, Offer>,
    /// How many media they hold, each counted as one more.
    offered: usize,
    /// Media descriptions beyond the limit.
    pub(super) left_out: u64,
    state: u64,
}

impl Endpoints {
    /// A number that is another one whenever [`Endpoints::find`] may find something else.
    pub(super) fn state(&self) -> u64 {
        self.state
    }

    /// Takes a session description. The first for an address and port holds at once, for media may
    /// come before the answer; another one holds when the offer is answered.
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
            // A copy.
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

    /// An offer was refused: what held before it holds on.
    pub(super) fn refuse(&mut self, key: u128) {
        if let Some(offer) = self.offers.remove(&key) {
            self.offered -= offer.media.len() + 1;
        }
    }

    /// An offer was accepted in a message without an answer, or the answer is not in the capture.
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

    /// What is sent to, or, since RTP is mostly sent from where it is received, from these; and the
    /// keys of it.
    pub(super) fn find(
        &self,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> Option<(&Media, &Rc<[Crypto]>)> {
        let sender = self.endpoints.get(&source);
        let Some(receiver) = self.endpoints.get(&destination) else {
            return sender.map(|sender| (sender, &sender.sends));
        };
        // Without an answer yet, the sender itself may have told its keys.
        let keys = match sender {
            Some(sender) if receiver.receives.is_empty() => &sender.sends,
            _ => &receiver.receives,
        };
        Some((receiver, keys))
    }

    fn insert(&mut self, described: &Described, receives: Rc<[Crypto]>, call_id: &Rc<str>) {
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

/// Those of the offered keys that the answer's tags name (RFC 4568 section 5.1.2); all, if it names
/// none.
fn chosen(offered: &Rc<[Crypto]>, answered: &[Crypto]) -> Rc<[Crypto]> {
    let is_named = |key: &&Crypto| answered.iter().any(|answer| answer.tag == key.tag);
    let named: Vec<_> = offered.iter().filter(is_named).cloned().collect();
    if named.is_empty() { offered.clone() } else { named.into() }
}
