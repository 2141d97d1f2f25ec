//! Checks and decrypts SRTP with the keys that session descriptions in the capture tell (RFC 4568).

use sdp::Crypto;
use serde::Serialize;
use srtp::{Receiver, UnprotectError};
use std::rc::Rc;

/// What came of the packets of a stream whose keys the capture has (RFC 4568).
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Srtp {
    /// The name of the crypto suite.
    pub(crate) suite: String,
    /// Packets whose tag is right.
    pub(crate) authentic: u64,
    /// Packets whose tag is wrong under every key. Once a packet has been authentic, they are in no
    /// other figure of the stream: whoever receives them drops them.
    pub(crate) not_authentic: u64,
    /// Packets that carry no tag, copies, and packets too late for a receiver to check.
    pub(crate) unchecked: u64,
}

/// What a packet was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// Its tag is wrong. It is passed over if others were authentic.
    NotAuthentic { passed_over: bool },
    /// It is authentic or cannot be checked; how many bytes of padding it has, as far as that is
    /// known.
    Taken(Option<usize>),
}

/// The most keys that are tried of those that have been in use: packets may be under way when keys
/// change.
const PROVEN: usize = 3;

/// A key of the stream's sender.
struct Key {
    receiver: Receiver,
    suite: &'static str,
    /// Whether its packets carry a tag.
    has_tag: bool,
}

/// The keys of a stream.
pub(super) struct Decryptor {
    /// What was described last.
    described: Rc<[Crypto]>,
    /// Those under which a packet was authentic, the newest first.
    proven: Vec<Key>,
    /// Those under which none was yet.
    candidates: Vec<Key>,
    /// The last sequence number, and how often they began at 0 again.
    last: Option<(u16, u32)>,
    counts: Srtp,
    /// A copy of the packet.
    buffer: Vec<u8>,
}

impl Decryptor {
    pub(super) fn new(described: &Rc<[Crypto]>) -> Self {
        let mut new = Self {
            described: Rc::new([]),
            proven: Vec::new(),
            candidates: Vec::new(),
            last: None,
            counts: Srtp::default(),
            buffer: Vec::new(),
        };
        new.use_keys(described);
        new
    }

    /// Takes the keys that are in force now. Those that were in use stay for packets that are under
    /// way.
    pub(super) fn use_keys(&mut self, described: &Rc<[Crypto]>) {
        if are_same(&self.described, described) {
            return;
        }
        self.described = described.clone();
        self.candidates = described.iter().filter_map(Key::new).collect();
    }

    pub(super) fn check(&mut self, packet: &[u8]) -> Check {
        // What is not authentic stays as it was.
        self.buffer.clear();
        self.buffer.extend_from_slice(packet);
        let rollover = self.rollover(packet);
        let mut is_copy = false;
        for key in &mut self.proven {
            match key.receiver.unprotect(&mut self.buffer) {
                Ok(plain) => {
                    let padding = padding(plain);
                    *key.count(&mut self.counts) += 1;
                    return Check::Taken(padding);
                }
                Err(UnprotectError::Replayed | UnprotectError::TooOld) => is_copy = true,
                Err(_) => {}
            }
        }
        for index in 0..self.candidates.len() {
            let found = self.candidates[index].find(&mut self.buffer, rollover);
            let Some(padding) = found else { continue };
            let key = self.candidates.swap_remove(index);
            self.counts.suite = key.suite.to_owned();
            *key.count(&mut self.counts) += 1;
            // The sender uses one key of those that it describes.
            self.candidates.clear();
            self.proven.insert(0, key);
            self.proven.truncate(PROVEN);
            return Check::Taken(padding);
        }
        if is_copy {
            self.counts.unchecked += 1;
            return Check::Taken(None);
        }
        self.counts.not_authentic += 1;
        Check::NotAuthentic { passed_over: !self.proven.is_empty() }
    }

    /// How often the sequence numbers have begun at 0 again.
    fn rollover(&mut self, packet: &[u8]) -> u32 {
        let Ok(header) = rtp::Header::parse(packet) else { return 0 };
        let number = header.sequence_number();
        let (last, rollover) = self.last.unwrap_or((number, 0));
        let half = 1 << 15;
        if number > last && number - last > half {
            // It was sent before they began again, and overtaken.
            return rollover;
        }
        let rollover = rollover.saturating_add(u32::from(last > number && last - number > half));
        self.last = Some((number, rollover));
        rollover
    }

    pub(super) fn report(mut self) -> Srtp {
        if self.counts.suite.is_empty() {
            let names: Vec<_> = self.candidates.iter().map(|key| key.suite).collect();
            self.counts.suite = names.join(",");
        }
        self.counts
    }
}

impl Key {
    fn new(crypto: &Crypto) -> Option<Self> {
        let receiver = Receiver::new(&crypto.policy, crypto.master_keys().ok()?).ok()?;
        let has_tag = crypto.policy.rtp_tag_length() > 0;
        Some(Self { receiver, suite: crypto.policy.suite.name(), has_tag })
    }

    /// Whether the packet is authentic, with this rollover counter or with 0; how many bytes of
    /// padding it has, as far as that is known.
    fn find(&mut self, packet: &mut [u8], rollover: u32) -> Option<Option<usize>> {
        let ssrc = rtp::Header::parse(packet).ok()?.ssrc();
        let counters = [0, rollover];
        for &counter in &counters[..if rollover > 0 { 2 } else { 1 }] {
            self.receiver.add_source(ssrc, counter).ok()?;
            if let Ok(plain) = self.receiver.unprotect(packet) {
                return Some(padding(plain));
            }
        }
        None
    }

    fn count<'a>(&self, counts: &'a mut Srtp) -> &'a mut u64 {
        if self.has_tag { &mut counts.authentic } else { &mut counts.unchecked }
    }
}

/// How many bytes of padding a packet has that is not encrypted.
pub(super) fn padding(packet: &[u8]) -> Option<usize> {
    let parsed = rtp::Packet::parse(packet).ok()?;
    Some(packet.len() - parsed.header.len() - parsed.payload.len())
}

fn are_same(one: &[Crypto], other: &[Crypto]) -> bool {
    let is_same = |(one, other): (&Crypto, &Crypto)| {
        let keys = one.keys.iter().zip(&other.keys);
        one.policy == other.policy
            && one.keys.len() == other.keys.len()
            && keys.into_iter().all(|(one, other)| one.bytes == other.bytes && one.mki == other.mki)
    };
    one.len() == other.len() && one.iter().zip(other).all(is_same)
}
